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

/* Wakes a thief where a group needs one, the own group first. */
void worker_serve(struct worker *worker);

/* Slept, and has stolen: others of its group may come for what is left there. */
void worker_spread(struct worker *worker);

/* Was woken, and passes on what it may have been woken for. Owner. */
void worker_pass(struct worker *worker);

/*
 * Sees to it that a worker looks: wakes one that sleeps, the nearest, unless one looks already.
 * waker: the calling worker, whose wake debt this settles; NULL on other threads. False: all are
 * busy.
 */
bool worker_wake_one(struct pool *pool, struct worker *waker);

/* Wakes one that sleeps, though others look: they may get no CPU. False: none sleeps. Not on a
 * worker. */
bool worker_wake_more(struct pool *pool);

/* Wakes this very worker if it sleeps. What it is to find was published before; it looks at its own
 * root deque before each sleep. waker: as above. */
void worker_wake(struct pool *pool, uint32_t index, struct worker *waker);
