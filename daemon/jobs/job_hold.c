/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/job_hold.h"

#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/jobs/placed_jobs.h"
#include "daemon/sched/fair_queue.h"

void shutdown_begin(struct pool *pool)
{
	struct fair *fair = pool->fair;

	fair_lock(fair);
	/* ORDER pool/stop [Q2]: relaxed, the store of pool->stop releases (channel_drain()), and
	 * the dispatcher reads this word after it has acquired that. */
	store_relaxed(&pool->shutdown.on, ++pool->shutdown.n);
	fair_hold(fair, true);
	fair_unlock(fair);
}

void shutdown_end(struct pool *pool)
{
	struct fair *fair = pool->fair;

	fair_lock(fair);
	store_relaxed(&pool->shutdown.on, 0);
	fair_hold(fair, false);
	fair_unlock(fair);
	intake_wake_places(pool, NULL);
}
