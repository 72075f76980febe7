/* SPDX-License-Identifier: MIT */
/* job_switch.h - a worker continues with another job, or with none: which job is charged */
#ifndef DAEMON_SCHED_JOB_SWITCH_H
#define DAEMON_SCHED_JOB_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

struct worker;

/* Owner: goes on to another job, or to none. Charges the one that it leaves, and shows the other on
 * the board. last: the one it leaves has ended. now: the clock. */
void intake_account(struct worker *worker, uint32_t row, bool last, uint64_t now);

/* Marks which job the worker runs, here and in the ledger, for blame. */
void worker_set_job(struct worker *worker, uint32_t job);

/* The same, from now on, CLOCK_MONOTONIC, ns; 0: a clock is read, if that is needed. */
void worker_set_job_from(struct worker *worker, uint32_t job, uint64_t now);

#endif
