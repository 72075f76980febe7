/* SPDX-License-Identifier: MIT */
/* broken_small.c - something is called fk_module, and is no module */
extern unsigned int fk_module[2];
__attribute__((visibility("default"))) unsigned int fk_module[2] = { 2, 56 };
