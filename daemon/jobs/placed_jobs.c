/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/placed_jobs.h"

#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/host/topology.h"
#include "daemon/sched/fair_queue.h"
#include "daemon/sched/wake.h"
#include "shm/board.h"
#include "shm/wake.h"

/* Wakes a worker of the group for a job. If all are busy, the dispatcher handles it. If all are
 * offline, wakes one that does not run such a job yet. */
static void intake_wake_group(struct pool *pool, uint32_t group, struct worker *waker)
{
	uint32_t found = pool->n_workers, parked = pool->n_workers, n;
	const uint32_t *members = topology_members(pool->topology, group, &n);
	bool busy = false;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t state = wake_state(wake_load(&pool->workers[members[i]].board->wake));

		if (state == WAKE_LOOKING)
			return;
		if (state == WAKE_SLEEPING)
			found = members[i];
		if (state == WAKE_PARKED)
			parked = members[i];
		busy |= state == WAKE_BUSY && !worker_is_parked(&pool->workers[members[i]]);
	}
	if (found == pool->n_workers && !busy)
		found = parked;
	if (found < pool->n_workers)
		worker_wake(pool, found, waker);
}

void intake_wake_places(struct pool *pool, struct worker *waker)
{
	struct fair *fair = pool->fair;

	if (!fair_placed(fair))
		return;
	wake_published();
	for (uint32_t i = 0; i < pool->n_workers; i++)
		if (fair_waits(fair, FAIR_WORKER(i)))
			worker_wake(pool, i, waker);
	for (uint32_t group = 0; group < pool->n_groups; group++)
		if (fair_waits(fair, FAIR_GROUP(group)))
			intake_wake_group(pool, group, waker);
}
