/* SPDX-License-Identifier: MIT */
/* tests/modules/broken_symbol.c - a shared object that is no module: nothing is called fk_module */
extern int not_a_module;
__attribute__((visibility("default"))) int not_a_module = 1;
