/* SPDX-License-Identifier: MIT */
/*
 * job_abort.h - the outcome forced on a running job
 *
 * One word per row of the ledger, { code:32, generation:24, outcome:8 }. It begins with the
 * generation that starts and no outcome. A failing task, a cancel, a deadline or the end of the
 * client puts its outcome in; the first one wins.
 *
 * Threads: abort_begin(): the worker that starts the job. abort_fail(): workers that run it.
 * abort_set(): any thread; a generation that has ended is ignored. abort_get(): workers, for the
 * job that they run, at each frame that they resume and at safepoints; and for jobs that they have
 * suspended. A suspended job may have been stolen and have ended by then; if so, no frame of it is
 * left to move (preempt_switch.c).
 *
 * INVARIANTS
 *   I1. Between two abort_begin() the outcome changes once, by a CAS from none.
 *   I2. A thread that changes the outcome then sends a request to all workers that run the job and
 *       to all that have suspended frames. So each strand of the job sees it at its next fork, or
 *       at that of the strand that preempted it. (Rows 16 and 17 of slow_path.c; preempt_switch.c.)
 *       A worker that resumes a strand stores its job (worker_mark_job()) before it reads the
 *       verdict, with a full fence in between. A thread that changes the verdict does the two in
 *       the opposite order. So one sees the other. A worker that starts a job stores that before
 *       abort_begin(), and no thread changes the verdict before it has seen that.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;

struct verdict {
	uint32_t outcome; /* JOB_*, or 0: continue */
	int32_t code;	  /* with JOB_FAILED */
};

void abort_begin(struct pool *pool, uint32_t row, uint32_t generation);

/* Returns the verdict of a job that this worker runs or has suspended. */
struct verdict abort_get(struct pool *pool, uint32_t row);
