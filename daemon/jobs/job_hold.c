/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/job_hold.h"

#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/jobs/placed_jobs.h"
#include "daemon/sched/fair_queue.h"

void halt_begin(struct pool *pool)
{
	struct fair *fair = pool->fair;

	fair_lock(fair);
	/* ORDER pool/stop [Q2]: relaxed, the release comes with pool->stop (channel_drain()), and
	 * the dispatcher looks at this word behind its acquire. */
	store_relaxed(&pool->halt.on, ++pool->halt.n);
	fair_hold(fair, true);
	fair_unlock(fair);
}

void halt_end(struct pool *pool)
{
	struct fair *fair = pool->fair;

	fair_lock(fair);
	store_relaxed(&pool->halt.on, 0);
	fair_hold(fair, false);
	fair_unlock(fair);
	intake_wake_places(pool, NULL);
}
