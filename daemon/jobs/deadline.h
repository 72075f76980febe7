/* SPDX-License-Identifier: MIT */
/*
 * deadline.h - deadlines of queued and running jobs
 *
 * A binary heap of rows, the earliest on top. A job with a deadline (its own or default-deadline)
 * is in it from when it is taken off its ring until it ends. A job can be cancelled while a worker
 * holds it, neither queued nor running. Then it is in the heap until it is found queued or running.
 *
 * Threads: deadline_add(): the thread that takes a job off its ring; deadline_watch(): also the
 * channel's thread. deadline_remove(): the thread that ends the job. The others: the dispatcher, in
 * deadlines_check() (job_cancel.h), which sleeps until the next one. All use one lock, held for a
 * few steps of the heap: a job with a deadline takes it three times, a job without never.
 *
 * INVARIANTS
 *   I1. A row is in the heap at most once, at the place in where[]. So there is room for all rows
 *       from the start, and adding never fails.
 *   I2. A thread that adds the earliest deadline wakes the dispatcher.
 *   I3. A job that should end is checked repeatedly until it has ended or unwinds: a QUEUED job
 *       that is in no queue will be queued, or start (job.c, I2).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/sparse.h"

struct pool;

#define DEADLINE_SOME 64u /* jobs that are processed in one lock period */

struct deadline {
	uint64_t at_ns;	  /* CLOCK_MONOTONIC: when the job must end; UINT64_MAX: no time limit */
	uint64_t look_ns; /* when the dispatcher checks it: the heap's order */
	uint32_t row;
	uint32_t generation;
};

struct deadlines {
	pthread_mutex_t lock;
	struct sparse tables; /* heap and where */
	struct deadline *heap;
	_Atomic uint32_t *where; /* each row's index in the heap + 1, 0: not in it */
	uint32_t n;
};

/* rows: of the ledger. Returns 0 or -ENOMEM; deadlines_fini() must be called in both cases. */
int deadlines_init(struct deadlines *deadlines, uint64_t rows);
void deadlines_fini(struct deadlines *deadlines);

/* Adds a job, replacing an older one of this row. True if it is the earliest now: the caller wakes
 * the dispatcher, once for all that it adds. */
bool deadline_add(struct pool *pool, uint32_t row, uint32_t generation, uint64_t at_ns);

/* Makes the dispatcher check this job at once, and again while it is in hand; wakes it. */
void deadline_watch(struct pool *pool, uint32_t row, uint32_t generation);

/* Removes the job of this row, which has ended. */
void deadline_remove(struct pool *pool, uint32_t row);

/* True if the job has a deadline that has passed at this time. */
bool deadline_is_over(struct pool *pool, uint32_t row, uint32_t generation, uint64_t now);

/* Returns at most DEADLINE_SOME due jobs, and schedules their next check. Returns their number. */
uint32_t deadlines_due(struct deadlines *deadlines, uint64_t now, struct deadline *ret_jobs);

/* Removes a job that needs no more checks, unless another job has its row by now. */
void deadline_forget(struct deadlines *deadlines, const struct deadline *job);

/* Returns when the next check is due, CLOCK_MONOTONIC, ns; 0: never. */
uint64_t deadlines_next(struct deadlines *deadlines);
