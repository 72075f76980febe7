/* SPDX-License-Identifier: MIT */
/*
 * preempted.h - jobs that wait in a worker's deque below another, and how they take turns
 *
 * aside_any() may be called by any thread; the others by the worker whose deque it is.
 */
#ifndef DAEMON_ENGINE_PREEMPTED_H
#define DAEMON_ENGINE_PREEMPTED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "daemon/core/worker_state.h"

static inline uint32_t aside_count(const struct asides *asides)
{
	return load_relaxed(&asides->n);
}

/* Relaxed: who reads it looks again. */
static inline void aside_set_count(struct asides *asides, uint32_t n)
{
	store_relaxed(&asides->n, n);
}

/* Adds a row to n of them; returns how many there are then. */
static inline uint32_t aside_add(struct asides *asides, uint32_t n, uint32_t row)
{
	if (n == ASIDE_MAX)
		return n;
	asides->rows[n] = row;
	return n + 1;
}

/* Owner: another job runs here now. At its first look the alarm shows for how long it may. */
void aside_set_alarm(struct worker *worker);

/* Owner: something is started that is no part of what its deque holds. */
void aside_start(struct worker *worker);

/* Owner: an entry of this job goes on. */
void aside_end(struct worker *worker, uint32_t row);

/* Owner: nothing is left in the deque. */
static inline void aside_clear(struct asides *asides)
{
	/* Relaxed: who reads it looks again. */
	if (load_relaxed(&asides->n))
		store_relaxed(&asides->n, 0);
}

/* Does something wait here? A hint for other threads. */
static inline bool aside_any(struct asides *asides)
{
	return load_relaxed(&asides->n);
}

#endif
