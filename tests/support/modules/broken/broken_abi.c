/* SPDX-License-Identifier: MIT */
/* broken_abi.c - a module of a later ABI: forkd must not read any more of it */
#include <forkd/task.h>

extern const struct fk_module fk_module;
__attribute__((visibility("default"))) const struct fk_module fk_module = {
	.abi_version = FK_ABI_VERSION + 1,
	.frame_header_size = sizeof(struct fk_frame),
	.name = (const char *)(uintptr_t)8,
	.help = (const char *)(uintptr_t)8,
	.exports = (const struct fk_export *)(uintptr_t)8,
	.exports_end = (const struct fk_export *)(uintptr_t)4096,
};
