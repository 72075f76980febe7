/* SPDX-License-Identifier: MIT */
/*
 * preempted.h - jobs that wait in a worker's deque below another, and how they take turns
 *
 * preempted_any() may be called by any thread; the others by the worker whose deque it is.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "daemon/core/worker_state.h"

static inline uint32_t preempted_count(const struct preempted_jobs *preempted)
{
	return load_relaxed(&preempted->n);
}

/* Relaxed: a hint. */
static inline void preempted_set_count(struct preempted_jobs *preempted, uint32_t n)
{
	store_relaxed(&preempted->n, n);
}

/* Adds a row to n of them; returns how many there are then. */
static inline uint32_t preempted_add(struct preempted_jobs *preempted, uint32_t n, uint32_t row)
{
	if (n == PREEMPTED_MAX)
		return n;
	preempted->rows[n] = row;
	return n + 1;
}

/* Owner: another job runs here now. At its first look the alarm shows for how long it may. */
void preempted_set_alarm(struct worker *worker);

/* Owner: something is started that is no part of what its deque holds. */
void preempted_start(struct worker *worker);

/* Owner: an entry of this job goes on. */
void preempted_end(struct worker *worker, uint32_t row);

/* Owner: nothing is left in the deque. */
static inline void preempted_clear(struct preempted_jobs *preempted)
{
	/* Relaxed: a hint. */
	if (load_relaxed(&preempted->n))
		store_relaxed(&preempted->n, 0);
}

/* Does something wait here? A hint for other threads. */
static inline bool preempted_any(struct preempted_jobs *preempted)
{
	return load_relaxed(&preempted->n);
}
