/* SPDX-License-Identifier: MIT */
/* module_memory.h - limits the memory that tasks may allocate themselves */
#pragma once

#include <stdint.h>

/* Call before any allocation that tasks could free. bytes: the option module-memory-max. Returns a
 * descriptor for module_memory_begin(), to be closed, or a negative errno. */
int module_memory_prepare(uint64_t bytes);

/* From now on this process may allocate this many bytes more (module-memory-max). fd: from
 * module_memory_prepare(). Returns 0 or a negative errno. */
int module_memory_begin(int fd, uint64_t bytes);
