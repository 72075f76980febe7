/* SPDX-License-Identifier: MIT */
/* stop.h - the end of the workers */
#pragma once

#include <stdbool.h>

#include "common/relaxed.h"
#include "daemon/core/pool_state.h"

/* Makes all workers leave as soon as they find nothing to do. */
void pool_stop_workers(struct pool *pool);

/* True if its workers are to leave. Relaxed: those that sleep are woken after it, and so is the
 * channel's thread, whose channel is shut. */
static inline bool pool_ends(struct pool *pool)
{
	return load_relaxed(&pool->stop) == POOL_ENDING;
}
