/* SPDX-License-Identifier: MIT */
#include "daemon/core/placement.h"

#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/host/topology.h"
#include "shm/wake.h"

struct worker *pool_worker_at(struct pool *pool, uint32_t index)
{
	return index < pool->n_workers ? &pool->workers[index] : NULL;
}

uint32_t pool_group_on(struct pool *pool, uint32_t node)
{
	uint32_t n;

	for (uint32_t g = 0; g < pool->n_groups; g++) {
		uint32_t first = topology_members(pool->topology, g, &n)[0];

		if (topology_place(pool->topology, first)->node == node)
			return g;
	}
	return pool->n_groups;
}

struct worker *pool_worker_on(struct pool *pool, struct worker *near, uint32_t node)
{
	uint32_t group = pool_group_on(pool, node), n;
	const uint32_t *members;
	struct worker *w = NULL;

	if (group == pool->n_groups)
		return NULL;
	if (group == near->group)
		return near;
	/* Prefer one that is not busy; if all are busy, the last one that is not offline, if
	 * any. */
	members = topology_members(pool->topology, group, &n);
	for (uint32_t i = 0; i < n; i++) {
		struct worker *other = &pool->workers[members[(near->index + i) % n]];

		if (w && worker_is_parked(other))
			continue;
		w = other;
		if (!worker_is_parked(w) && wake_state(wake_load(&w->board->wake)) != WAKE_BUSY)
			break;
	}
	return w;
}
