/* SPDX-License-Identifier: MIT */
/*
 * quiet.h - a pool that is idle, and has released everything
 *
 * Threads: tests that run their own pool (tests/support/rig.h), after the last rig_wait().
 */
#pragma once

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "daemon/engine/slow_path.h"
#include "tests/support/rig.h"

/* An idle worker keeps one empty stack: its first stacklet, and one of twice the size. */
#define QUIET_STACK (3 * STACK_MIN)

/* Waits until no worker is busy. Then no job holds stack memory, each job that was started has
 * ended, and all freed pages go back. */
static inline void quiet(struct rig *rig)
{
	struct pool *pool = rig->pool;

	while (atomic_load(&pool->idle.lazy.active))
		sched_yield();
	for (uint32_t row = 0; row < RIG_JOBS; row++)
		ck_assert_msg(atomic_load(&pool->rows.stack_bytes[row]) == 0,
			      "the job of row %u holds %llu bytes of stack", row,
			      (unsigned long long)atomic_load(&pool->rows.stack_bytes[row]));
	ck_assert_int_le((int64_t)rig_counter(rig, stack_bytes),
			 (int64_t)pool->n_workers * QUIET_STACK);
	ck_assert_uint_eq(rig_counter(rig, jobs_started),
			  rig_counter(rig, jobs_done) + rig_counter(rig, jobs_failed));
	for (uint32_t i = 0; i < pool->n_groups; i++)
		while (atomic_load(&pool->stacks[i].dirty))
			sched_yield();
}

static _Atomic uint32_t quiet_storm;

/* For each signal that a worker gets, this thread yields twice. Otherwise a worker with a slow
 * handler (sanitizers) would run nothing else. */
static inline void *quiet_blow(void *arg)
{
	struct pool *pool = arg;

	for (uint32_t i = 0; atomic_load(&quiet_storm); i++) {
		struct worker *w = &pool->workers[i % pool->n_workers];

		tgkill(getpid(), (pid_t)atomic_load(&w->board->tid), WORKER_SIGNAL);
		raise(WORKER_SIGNAL);
		raise(WORKER_SIGNAL);
		if (i % 7 == 0)
			worker_ask(w);
		if (i % 64 == 0)
			sched_yield();
	}
	return NULL;
}

/* Sends signals and requests to all workers until quiet_storm_end(). */
static inline pthread_t quiet_storm_begin(struct rig *rig)
{
	pthread_t thread;

	atomic_store(&quiet_storm, 1);
	ck_assert_int_eq(pthread_create(&thread, NULL, quiet_blow, rig->pool), 0);
	return thread;
}

static inline void quiet_storm_end(pthread_t thread)
{
	atomic_store(&quiet_storm, 0);
	pthread_join(thread, NULL);
}
