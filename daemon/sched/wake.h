/* SPDX-License-Identifier: MIT */
/* wake.h - which worker is woken when there is work */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/lazy_policy.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker_state.h"

static inline struct lazy_group *worker_group(struct worker *worker)
{
	return lazy_group_of(&worker->pool->idle.lazy, worker->index);
}

/* Wakes a thief in a group in need, its own group first. */
void worker_serve(struct worker *worker);

/* The worker slept and has stolen: wakes others of its group for the work that is left there. */
void worker_spread(struct worker *worker);

/* The worker was woken: passes on its wake debt. Owner. */
void worker_pass(struct worker *worker);

/*
 * Ensures that a worker searches: wakes the nearest sleeping one, unless one already searches.
 * waker: the calling worker, whose wake debt this settles; NULL on other threads. False: all are
 * busy.
 */
bool worker_wake_one(struct pool *pool, struct worker *waker);

/* Wakes a sleeping worker even if others search, which may get no CPU. False: none sleeps. Not on a
 * worker. */
bool worker_wake_more(struct pool *pool);

/* Wakes this worker if it sleeps. The work that it should find must be published before; it checks
 * its own root deque before each sleep. waker: as above. */
void worker_wake(struct pool *pool, uint32_t index, struct worker *waker);
