/* SPDX-License-Identifier: MIT */
/*
 * job_times.h - how long jobs have waited and run: what a worker counts on the board
 *
 * Threads: times_count(): the worker that ends a job. times_has(): the manager, when the pool is
 * dead.
 *
 * INVARIANTS
 *   I1. A worker counts in rows of its own, one for each tenant, by plain stores: no line of it is
 *       another worker's, and readers sum (shm/histogram.h). What another thread ends without a
 *       worker having taken it up has neither waited for its start nor run: it is counted as
 *       dropped, and here not at all. So each row has as many waits as runs.
 *   I2. Of the jobs that are started each is counted once. The worker counts while the row is
 *       FINISHING, between ledger and record, and names the job in the end. A pool that dies before
 *       has not counted it: the manager, which gives it its outcome, does, as ended. One that dies
 *       after it has: the manager finds the name. A job that is put back into the queue was never
 *       FINISHING. One that is being counted when its pool dies, in some ten instructions, may be
 *       among the waits and not among the runs, and is one of ended then.
 *   I3. All stores are the same thread's, so what another process finds after the pool's death is
 *       what stands before some place of the program, and the compiler alone has to be told.
 *   I4. It is a statistic: a stray write of a task can change it, and a client that writes over its
 *       records can say that it has waited for longer, up to since the machine was started. Both
 *       change what is shown, and nothing else.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/board.h"
#include "shm/fence.h"

/* A job, as the worker that has counted it names it; never 0. */
static inline uint64_t times_id(uint32_t row, uint32_t generation)
{
	return (uint64_t)row << 32 | UINT64_C(1) << 31 | generation;
}

/* Relaxed: the worker's own words, a statistic for others. */
static inline void times_add(_Atomic uint64_t *word, uint64_t n)
{
	store_relaxed(word, load_relaxed(word) + n);
}

static inline void times_add_to(struct board_times *t, enum board_time which, uint64_t ns)
{
	times_add(&t->counts[which][histogram_bucket(ns)], 1);
	times_add(&t->sum_ns[which], ns);
	if (ns > load_relaxed(&t->max_ns[which]))
		store_relaxed(&t->max_ns[which], ns);
}

/* A job of this row has ended on the worker whose times these are; its row is FINISHING. */
static inline void times_count(struct board_times *t, uint64_t wait_ns, uint64_t run_ns,
			       uint64_t id)
{
	fence_signal();
	times_add_to(t, TIMES_WAIT, wait_ns);
	times_add_to(t, TIMES_RUN, run_ns);
	fence_signal();
	store_relaxed(&t->last, id);
	fence_signal();
}

/* Is this job the last one that was counted there? */
static inline bool times_has(const struct board_times *t, uint64_t id)
{
	return load_relaxed(&t->last) == id;
}
