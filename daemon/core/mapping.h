/* SPDX-License-Identifier: MIT */
/* mapping.h - memory that others share with the pool */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The pool is a part of another program: its memory is that of the process, and is not shared.
 * mapping_be_private(): before any memory is mapped. */
void mapping_be_private(void);
bool mapping_is_private(void);

/* Memory that other processes write is excluded from the child of a task that forks, which would
 * act as another pool. With secret, for user data, it is also excluded from core files. base:
 * page-aligned. Does nothing if the memory is private. Returns 0 or a negative errno. */
int layout_withhold(void *base, uint64_t size, bool secret);

/* Returns how many bytes of address space to reserve: most, or a 16th of RLIMIT_AS or RLIMIT_DATA
 * if that is less. The rest is for others in the process. It is less where address space costs
 * memory or time: after mlockall(), and under valgrind. */
uint64_t mapping_space(uint64_t most);

/* Gives whole pages back: they read as zeros. Returns 0 or a negative errno; then they stay. */
int layout_discard(void *base, uint64_t size);
