/* SPDX-License-Identifier: MIT */
/*
 * deadline.h - the jobs that are to end at a certain time, queued and running
 *
 * A binary heap of rows, the earliest on top. A job with a deadline is in it from when it is taken
 * off its ring until it ends; a job that was cancelled while a worker had it in hand, and neither a
 * queue nor a strand did, is in it until it is found in one of them.
 *
 * Threads: deadline_add(): the thread that takes a job off its ring; deadline_watch(): the
 * channel's thread, too. deadline_remove(): the thread that ends the job. The others: the
 * dispatcher, in deadlines_check() (job_cancel.h), which sleeps until the next one. All under one
 * lock, which is held for a few steps of the heap: a job with a deadline takes it three times, one
 * without never.
 *
 * INVARIANTS
 *   I1. A row is in the heap once at most, and where[] says where. So there is room for all rows
 *       from the start, and nothing can be refused later.
 *   I2. A thread that adds one that becomes the earliest wakes the dispatcher.
 *   I3. A job that is over is asked for, at each look, until it has ended or winds down: one that
 *       is QUEUED and in no queue comes to one, or starts (job.c, I2).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pool;

#define DEADLINE_SOME 64u /* jobs that are looked at between two locks */

struct deadline {
	uint64_t at_ns;	  /* CLOCK_MONOTONIC: when the job is over; UINT64_MAX: not by time */
	uint64_t look_ns; /* when the dispatcher looks at it: the heap's order */
	uint32_t row;
	uint32_t generation;
};

struct deadlines {
	pthread_mutex_t lock;
	struct deadline *heap;
	_Atomic uint32_t *where; /* of each row: its place in the heap + 1, 0 if it is not there */
	uint32_t n;
};

/* rows: of the ledger. Returns 0 or -ENOMEM; deadlines_fini() is to be called in both cases. */
int deadlines_init(struct deadlines *deadlines, uint64_t rows);
void deadlines_fini(struct deadlines *deadlines);

/* Adds a job, in the place of an older one of this row. True if it is the earliest now: the caller
 * wakes the dispatcher, once for all that it adds. */
bool deadline_add(struct pool *pool, uint32_t row, uint32_t generation, uint64_t at_ns);

/* The dispatcher is to look at this job at once, and again while it is in hand; wakes it. */
void deadline_watch(struct pool *pool, uint32_t row, uint32_t generation);

/* The job of this row has ended. */
void deadline_remove(struct pool *pool, uint32_t row);

/* True if the job has a deadline, and it has passed at this time. */
bool deadline_is_over(struct pool *pool, uint32_t row, uint32_t generation, uint64_t now);

/* Takes at most DEADLINE_SOME jobs that are due, and puts them back for the next look. Returns how
 * many. */
uint32_t deadlines_due(struct deadlines *deadlines, uint64_t now, struct deadline *ret_jobs);

/* The job needs no more looks, unless another one has its row by now. */
void deadline_forget(struct deadlines *deadlines, const struct deadline *job);

/* When the next look is due, CLOCK_MONOTONIC, ns; 0 if there is none to come. */
uint64_t deadlines_next(struct deadlines *deadlines);
