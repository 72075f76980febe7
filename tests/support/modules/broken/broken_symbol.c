/* SPDX-License-Identifier: MIT */
/* broken_symbol.c - no module: nothing is called fk_module */
extern int not_a_module;
__attribute__((visibility("default"))) int not_a_module = 1;
