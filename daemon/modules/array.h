/* SPDX-License-Identifier: MIT */
/* modules/array.h - buffers that are arrays of 64-bit numbers; for the modules array and sort */
#pragma once

#include <stdbool.h>

#include <forkd/task.h>

/* Returns true for a whole count of numbers at an aligned address. */
static inline bool array_is_whole(struct fk_buf data)
{
	return data.size % 8 == 0 && (uintptr_t)data.data % 8 == 0;
}
