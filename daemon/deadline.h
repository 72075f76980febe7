/* SPDX-License-Identifier: MIT */
/*
 * daemon/deadline.h - the running jobs that have a deadline
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Workers add a job when they start it and remove it when it ends; the dispatcher asks which are
 *   over, and sleeps until the next one. All under one lock: a job with a deadline takes it twice.
 */
#ifndef DAEMON_DEADLINE_H
#define DAEMON_DEADLINE_H

#include <pthread.h>
#include <stdint.h>

struct pool;

#define DEADLINE_NONE UINT32_MAX

struct deadline {
	uint64_t at_ns; /* CLOCK_MONOTONIC */
	uint32_t row;
	uint32_t generation;
	uint32_t *place; /* where its owner keeps its index */
};

struct deadlines {
	pthread_mutex_t lock;
	struct deadline *jobs;
	uint32_t n;
	uint32_t max;
};

void deadlines_init(struct deadlines *deadlines);
void deadlines_fini(struct deadlines *deadlines);

/*
 * Adds a job. *place is kept up to date for deadline_remove(), DEADLINE_NONE if there was no
 * memory: then the job runs without a deadline. Wakes the dispatcher.
 */
void deadline_add(struct pool *pool, uint32_t row, uint32_t generation, uint64_t at_ns,
		  uint32_t *place);
void deadline_remove(struct pool *pool, uint32_t *place);

/* Ends the jobs whose deadline is over with JOB_EXPIRED. Returns when the next one is, 0 for none. */
uint64_t deadlines_check(struct pool *pool);

#endif
