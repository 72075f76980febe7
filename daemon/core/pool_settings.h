/* SPDX-License-Identifier: MIT */
/* pool_settings.h - options that change while workers run */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/options.h"
#include "common/relaxed.h"
#include "daemon/core/pool_state.h"

/* Relaxed, both: pool_set() wakes a worker that sleeps on the old value. */
static inline bool pool_is_lazy(struct pool *pool)
{
	return load_relaxed(&pool->settings.scheduler) == OPTIONS_SCHEDULER_LAZY;
}

static inline uint64_t pool_spin(struct pool *pool)
{
	return load_relaxed(&pool->settings.spin);
}

/* ns, 0: no limit. Relaxed: read periodically. */
static inline uint64_t pool_hang_timeout(struct pool *pool)
{
	return load_relaxed(&pool->settings.hang_timeout);
}

/* Takes the settings from the pool's options, before workers run. */
void pool_init_settings(struct pool *pool);

/* Takes the settings from these options. The channel's thread. */
void pool_take_settings(struct pool *pool, const struct options *options);

/* Returns the settings as options. Other options are empty: they would need allocations, and a task
 * may have used all memory. The channel's thread. */
struct options pool_settings(struct pool *pool);
