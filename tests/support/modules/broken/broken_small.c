/* SPDX-License-Identifier: MIT */
/* broken_small.c - its symbol fk_module is not a module */
extern unsigned int fk_module[2];
__attribute__((visibility("default"))) unsigned int fk_module[2] = { 2, 56 };
