/* SPDX-License-Identifier: MIT */
/* pool_settings.h - options that change while workers run */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/options.h"
#include "common/relaxed.h"
#include "daemon/core/pool_state.h"

/* Relaxed, both: a worker that sleeps on the old value is woken by pool_set(). */
static inline bool pool_is_lazy(struct pool *pool)
{
	return load_relaxed(&pool->settings.scheduler) == OPTIONS_SCHEDULER_LAZY;
}

static inline uint64_t pool_spin(struct pool *pool)
{
	return load_relaxed(&pool->settings.spin);
}

/* ns, 0: any time. Relaxed: it is looked at again and again. */
static inline uint64_t pool_hang_timeout(struct pool *pool)
{
	return load_relaxed(&pool->settings.hang_timeout);
}

/* Takes the settings as the options have them, before workers run. */
void pool_init_settings(struct pool *pool);

/* Takes those settings from these options. The channel's thread. */
void pool_take_settings(struct pool *pool, const struct options *options);

/* Returns the settings as options. The other options are empty: they would have to be allocated,
 * and a task may have all memory. The channel's thread. */
struct options pool_settings(struct pool *pool);
