/* SPDX-License-Identifier: MIT */
/*
 * cpu_limit.h - ends jobs that have used more CPU time than job-cpu-max
 *
 * The dispatcher compares the charge of each job that a worker runs (fair_charge()) with the limit.
 * A job that has reached it ends as at a deadline: EXPIRED at its next fork, with the code
 * JOB_CPU_EXCEEDED.
 *
 * Threads: cpu_limits_check(): the dispatcher. Workers set cpu_limit.watched and reached
 * (job_switch.c).
 *
 * INVARIANTS
 *   I1. With a limit set, a job uses at most the limit, CPU_LIMIT_CHECK on each worker that runs
 *       it, and the time until its next fork; and the time by which the dispatcher is late.
 *       While a worker runs a job, the dispatcher checks every CPU_LIMIT_CHECK. A job that reaches
 *       the limit is found by the next check, or has left all workers by then. A worker that
 *       resumes it finds the charge above the limit, and the dispatcher checks at once.
 *       A worker opens its account and then reads watched and sets reached. The dispatcher clears
 *       both and then reads the accounts, with a full fence in between, as in the worker. So the
 *       dispatcher finds the account, or the worker finds watched cleared and wakes the dispatcher,
 *       or reached remains set.
 *   I2. A job is ended for its own charge. The state RUNNING is read before the charge, by an
 *       acquire: the charge was set to 0 before, when the job was accepted. If the row has the next
 *       job by then, abort_set() finds another generation. A worker that leaves a job late may
 *       charge the next job of the row for at most the time since the last check. Both are of one
 *       connection.
 *   I3. A job that has an outcome is left alone, so the dispatcher does not wake itself again and
 *       again.
 */
#pragma once

#include <stdint.h>

#include "common/clock.h"

struct pool;

#define CPU_LIMIT_CHECK (10 * NSEC_PER_MSEC) /* from one check to the next, while jobs run */

/* Ends jobs whose charge has reached the limit. Returns when to call again, CLOCK_MONOTONIC, ns; 0:
 * not before a worker runs a job. */
uint64_t cpu_limits_check(struct pool *pool, uint64_t now);
