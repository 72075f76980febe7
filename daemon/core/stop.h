/* SPDX-License-Identifier: MIT */
/* stop.h - ends the workers */
#pragma once

#include <stdbool.h>

#include "common/relaxed.h"
#include "daemon/core/pool_state.h"

/* Makes all workers leave as soon as they find no work. */
void pool_stop_workers(struct pool *pool);

/* True if workers must leave. Relaxed: sleeping workers are woken afterwards, and so is the
 * channel's thread, whose channel is shut down. */
static inline bool pool_ends(struct pool *pool)
{
	return load_relaxed(&pool->stop) == POOL_ENDING;
}
