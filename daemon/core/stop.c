/* SPDX-License-Identifier: MIT */
#include "daemon/core/stop.h"

#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/wakeup.h"

void pool_stop_workers(struct pool *pool)
{
	/* Relaxed: pool_wake_all(). */
	store_relaxed(&pool->stop, POOL_ENDING);
	pool_wake_all(pool);
}
