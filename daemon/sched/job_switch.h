/* SPDX-License-Identifier: MIT */
/* job_switch.h - a worker changes to another job, or to none: which job is charged */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;
struct worker;

/* Owner: changes to another job, or to none. Charges the old job, and shows the new one on the
 * board. last: the old job has ended. now: CLOCK_MONOTONIC, ns. */
void intake_account(struct worker *worker, uint32_t row, bool last, uint64_t now);

/* With a limit set, after the account was opened for this row: the dispatcher must check the CPU
 * time of jobs, at once if this one has reached the limit (daemon/jobs/cpu_limit.h, I1). */
void intake_watch_cpu(struct pool *pool, uint32_t row);

/* Stores the job that the worker runs, here and in the ledger, for crash reports. */
void worker_mark_job(struct worker *worker, uint32_t job);

/* Does both. */
void worker_set_job(struct worker *worker, uint32_t job);
