/* SPDX-License-Identifier: MIT */
/* mapping.h - memory that others share with the pool */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Memory that others than the pool write in is nothing for the child of a task that forks, which
 * would go on as another pool; nor is that with users' data in it (secret) for a core file.
 * base: of whole pages. Returns 0 or a negative errno.
 */
int layout_withhold(void *base, uint64_t size, bool secret);
