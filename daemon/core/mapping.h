/* SPDX-License-Identifier: MIT */
/* mapping.h - memory that others share with the pool */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Memory that other processes write is excluded from the child of a task that forks, which would
 * act as another pool. With secret, for user data, it is also excluded from core files. base:
 * page-aligned. Returns 0 or a negative errno. */
int layout_withhold(void *base, uint64_t size, bool secret);
