/* SPDX-License-Identifier: MIT */
/* module_memory.h - what tasks may allocate themselves */
#pragma once

#include <stdint.h>

/*
 * Before anything is allocated that tasks could give back. bytes: the option module-memory-max.
 * Returns a descriptor for module_memory_begin(), to be closed, or a negative errno.
 */
int module_memory_prepare(uint64_t bytes);

/*
 * From now on this process may have as many bytes more as the option says. fd: of
 * module_memory_prepare().
 * Returns 0 or a negative errno.
 */
int module_memory_begin(int fd, uint64_t bytes);
