/* SPDX-License-Identifier: MIT */
/* broken_symbol.c - not a module: it has no symbol fk_module */
extern int not_a_module;
__attribute__((visibility("default"))) int not_a_module = 1;
