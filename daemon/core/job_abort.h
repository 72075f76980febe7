/* SPDX-License-Identifier: MIT */
/*
 * job_abort.h - what a running job is to end with, if not with its result
 *
 * One word per row of the ledger, { code:32, generation:24, outcome:8 }. It is begun with the
 * generation that starts and no outcome; a task that fails, a cancel, a deadline or the end of the
 * client put their outcome in, and the first one wins.
 *
 * Threads: abort_begin(): the worker that starts the job. abort_fail(): workers that run it.
 * abort_set(): any thread; a generation that does not run any more is left alone. abort_get():
 * workers, of the job that they run, at each frame that they resume and at attention; and of jobs
 * that they have set aside. Such a one may have been stolen and be over by then; if so, nothing of
 * it is left to be moved (preempt_switch.c).
 *
 * INVARIANTS
 *   I1. Between two abort_begin() the outcome changes once, by a CAS from none.
 *   I2. A thread that changes it asks all workers that run the job for attention afterwards, and
 *       all that have set anything aside, so each strand of the job sees it at its next fork, or at
 *       that of what runs in its place (rows 16 and 17 of slow_path.c; preempt_switch.c). A worker
 *       that resumes a strand says which job it runs (worker_mark_job()) before it reads the
 *       verdict, with a full fence in between; a thread that changes the verdict does the two in
 *       the other order. So one sees the other: a strand that begins later reads the verdict first.
 *       A worker that starts a job says so before abort_begin(), and no thread changes the verdict
 *       that has not seen that.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;

struct verdict {
	uint32_t outcome; /* JOB_*, or 0: go on */
	int32_t code;	  /* with JOB_FAILED */
};

/* The job of this row and generation starts. */
void abort_begin(struct pool *pool, uint32_t row, uint32_t generation);

/* What the job of this row has so far: one that runs here, or that was set aside here. */
struct verdict abort_get(struct pool *pool, uint32_t row);
