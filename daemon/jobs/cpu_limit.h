/* SPDX-License-Identifier: MIT */
/*
 * cpu_limit.h - ends jobs that have used more CPU time than job-cpu-max
 *
 * The dispatcher compares the charge of each job that a worker runs (fair_charge()) with the limit.
 * A job that has reached it ends as at a deadline: EXPIRED at its next fork, with the code
 * JOB_CPU_EXCEEDED. So the granularity is that of the checks, at least CPU_LIMIT_SOON, times the
 * number of workers that run the job.
 *
 * Threads: cpu_limits_check(): the dispatcher. Workers set cpu_limit.watched (job_switch.c).
 *
 * INVARIANTS
 *   I1. With a limit set, while a worker runs a job, the dispatcher checks again. It does so before
 *       a job can use the rest of its limit on all workers, or a new job all of it, or after
 *       CPU_LIMIT_SOON. A worker opens its account and then reads watched, the dispatcher clears
 *       watched and then reads the accounts, both with a full fence in between. So the dispatcher
 *       finds the account, or the worker finds watched cleared and wakes the dispatcher.
 *   I2. A job is ended for its own charge. The state RUNNING is read before the charge, by an
 *       acquire: the charge was set to 0 before, when the job was accepted. If the row has the next
 *       job by then, abort_set() finds another generation. A worker that leaves a job late may
 *       charge the next job of the row, of the same connection, for at most the time since the last
 *       check.
 *   I3. A job that has an outcome is left alone, so the dispatcher does not wake itself again and
 *       again.
 */
#pragma once

#include <stdint.h>

#include "common/clock.h"

struct pool;

#define CPU_LIMIT_SOON (10 * NSEC_PER_MSEC) /* from one check to the next, at least */

/* Ends jobs whose charge has reached the limit. Returns when to call again, CLOCK_MONOTONIC, ns; 0:
 * not before a worker runs a job. */
uint64_t cpu_limits_check(struct pool *pool, uint64_t now);
