/* SPDX-License-Identifier: MIT */
/*
 * preempted.h - suspended jobs in a worker's deque, and how they alternate
 *
 * preempted_any(): any thread; the others: the worker whose deque it is.
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

/* Adds a row to n rows; returns their new number. */
static inline uint32_t preempted_add(struct preempted_jobs *preempted, uint32_t n, uint32_t row)
{
	if (n == PREEMPTED_MAX)
		return n;
	preempted->rows[n] = row;
	return n + 1;
}

/* Owner: another job runs here now. The alarm sets the end of its first time slice. */
void preempted_set_alarm(struct worker *worker);

/* Owner: a job is started that has no entries in the deque. */
void preempted_start(struct worker *worker);

/* Owner: an entry of this job is resumed. */
void preempted_end(struct worker *worker, uint32_t row);

/* Owner: the deque is empty. */
static inline void preempted_clear(struct preempted_jobs *preempted)
{
	/* Relaxed: a hint. */
	if (load_relaxed(&preempted->n))
		store_relaxed(&preempted->n, 0);
}

/* True if a suspended job waits here. A hint for other threads. */
static inline bool preempted_any(struct preempted_jobs *preempted)
{
	return load_relaxed(&preempted->n);
}
