/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/pending.h"

#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/clients.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/jobs/ring_drain.h"
#include "daemon/sched/fair_queue.h"

bool intake_pending(struct pool *pool)
{
	return fair_queued(pool->fair) || drain_rings_pending(pool);
}

bool intake_mine(struct worker *w)
{
	struct fair *fair = w->pool->fair;

	return fair_waits(fair, FAIR_WORKER(w->index)) || fair_waits(fair, FAIR_GROUP(w->group));
}

bool intake_scan_some(struct worker *w)
{
	return fair_queued(w->pool->fair) || intake_mine(w) || drain_scan_some(w);
}

bool intake_is_empty(struct pool *pool)
{
	if (!drain_is_empty(pool))
		return false;
	for (uint32_t i = 0; i < pool->clients_max; i++)
		if (load_relaxed(&pool->clients.entries[i].active))
			return false;
	/* A consumer that has left a ring since then has set its bit before, if it left words. */
	return !drain_rings_pending(pool);
}

bool worker_jobs_pending(struct pool *pool)
{
	return worker_roots_pending(pool) || intake_pending(pool);
}
