/* SPDX-License-Identifier: MIT */
/*
 * job_times.h - counts wait and run times of jobs on the board
 *
 * Threads: times_count(): the worker that ends a job. times_has(): the manager, when the pool is
 * dead.
 *
 * INVARIANTS
 *   I1. A worker counts in its own rows, one for each tenant, by plain stores: it shares no cache
 *       line with another worker, and readers sum (shm/histogram.h). A job that another thread ends
 *       before a worker has started it has no wait or run time: it is counted as dropped, and not
 *       here. So each row has as many waits as runs.
 *   I2. Each job that is started is counted once. The worker counts while the row is FINISHING,
 *       between ledger and record, and stores the job's id last. If the pool dies before that, the
 *       job was not counted: the manager, which gives it its outcome, counts it as ended. If the
 *       pool dies after that, the manager finds the id. A job that is put back into the queue was
 *       never FINISHING. If the pool dies within the ten or so instructions that count a job, only
 *       its wait may be counted. Then it counts as ended.
 *   I3. All stores are of one thread, so after the pool's death another process finds the stores
 *       before some point of the program: compiler fences are enough.
 *   I4. It is a statistic: a stray write of a task can change it. A client that overwrites its
 *       records can increase its wait time, up to the time since boot. Both change only what is
 *       shown.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/board.h"
#include "shm/fence.h"

/* The id of a job for board_times.last; never 0. */
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

/* Counts a job that has ended on the worker that owns these times; its row is FINISHING. */
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

/* True if this job is the last one that was counted there. */
static inline bool times_has(const struct board_times *t, uint64_t id)
{
	return load_relaxed(&t->last) == id;
}
