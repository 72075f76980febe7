/* SPDX-License-Identifier: MIT */
/* job_switch.h - a worker continues with another job, or with none: which job is charged */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct worker;

/* Owner: continues with another job, or with none. Charges the one that it leaves, and shows the
 * other one on the board. last: the one that it leaves has ended. now: CLOCK_MONOTONIC, ns. */
void intake_account(struct worker *worker, uint32_t row, bool last, uint64_t now);

/* Marks which job the worker runs, here and in the ledger, for blame. */
void worker_mark_job(struct worker *worker, uint32_t job);

/* Both, from now on. */
void worker_set_job(struct worker *worker, uint32_t job);
