/* SPDX-License-Identifier: MIT */
/*
 * fiber_rig.h - a pool in this process that runs jobs of fibers
 *
 * The rig checks that no fiber is left when it stops. Jobs of its module take one number; the rig
 * checks how each ends, and can cancel it at any moment. Tasks share notes and error reports. The
 * module has the tasks of tests/support/tasks.h.
 */
#pragma once

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <forkd/fiber.h>

#include "common/clock.h"
#include "common/list.h"
#include "daemon/fiber/fiber_types.h"
#include "shm/job.h"
#include "tests/support/quiet.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

extern const struct fk_module fk_module;

static struct rig rig;
static _Atomic uint32_t ended; /* fibers that have ended */
static _Atomic uint32_t cut;   /* waits and sections that returned -ECANCELED */

/* ------------------------------------------------------------------------ in tasks */

/* Returns the line number if the value is not the expected one. */
#define FAILS(what, error)                                                                         \
	do {                                                                                       \
		if ((what) != (error))                                                             \
			return __LINE__;                                                           \
	} while (0)

static inline void nothing(void *arg)
{
	(void)arg;
}

/* Waits, and counts if the job ended first. */
static inline int wait_noted(struct fk_counter *counter, uint32_t value)
{
	int r = fk_counter_wait(counter, value);

	if (r == -ECANCELED)
		atomic_fetch_add(&cut, 1);
	return r;
}

/* ------------------------------------------------------------------------ the pool */

/* forced: each fork is treated as stolen. */
static inline void start(uint32_t workers, bool forced)
{
	atomic_store(&tasks_reached, 0);
	atomic_store(&tasks_opened, 0);
	atomic_store(&ended, 0);
	atomic_store(&cut, 0);
	rig_start(&rig, workers, &fk_module, forced);
}

/* For rig_prepare: shuffles decisions. */
static inline void shake(struct pool *pool)
{
	pool->mode.fuzz_seed = 7;
}

/* Returns how many workers keep a shared stack; no fiber uses one. */
static inline uint32_t shared_stacks_in_use(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < rig.pool->n_workers; i++) {
		const struct shared_stack *shared =
			&rig.pool->fibers->shared_stacks.shared_stacks[i];

		n += shared->stack != NULL;
		ck_assert_ptr_null(shared->resident);
	}
	return n;
}

static inline uint64_t blocks_used(void)
{
	const struct fiber_memory *blocks = &rig.pool->fibers->blocks;
	uint64_t n = 0;

	for (uint64_t i = 0; i < blocks->next; i++)
		n += blocks->slabs[i].used;
	return n;
}

/* Checks that nothing is left except shared stacks and threads for sections. */
static inline void stop(void)
{
	struct fibers *fibers = rig.pool->fibers;
	const struct blocking_threads *threads = &fibers->blocking;
	struct fiber_stacks_count count;

	quiet(&rig);
	fiber_stacks_count(&fibers->stacks, &count);
	ck_assert_uint_eq(count.n_used, shared_stacks_in_use());
	ck_assert_uint_eq(blocks_used(), 0);
	ck_assert_uint_eq(rig_counter(&rig, fiber_bytes), 0);
	ck_assert_uint_eq(rig_counter(&rig, fiber_io_waiting), 0);
	for (uint32_t i = 0; i < FIBER_BUCKETS; i++)
		ck_assert(list_is_empty(&fibers->buckets[i].scopes));
	for (uint32_t i = 0; i < FIBER_SHARDS; i++) {
		ck_assert_uint_eq(fibers->times[i].heap.n, 0);
		ck_assert_uint_eq(atomic_load(&fibers->times[i].first_ns), 0);
	}
	ck_assert_uint_eq(threads->n_queued, 0);
	ck_assert_uint_le(threads->n, threads->max);
	ck_assert_uint_eq(rig_counter(&rig, fiber_block_threads), threads->n);
	rig_stop(&rig);
}

/* ------------------------------------------------------------------------ its jobs */

static inline void submit(uint32_t job, const char *task, int64_t n)
{
	rig_submit(&rig, job, task, &n, sizeof(n));
}

/* Waits until n waits of fibers have begun. */
static inline void await_waiting(uint64_t n)
{
	while (rig_counter(&rig, fiber_parks) < n)
		sched_yield();
}

/* Waits until a task of tests/support/tasks.h, or another that counts itself, has reached its
 * endless part. */
static inline void await_reached(void)
{
	while (!atomic_load(&tasks_reached))
		sched_yield();
}

/* Waits for a job that must be DONE. Returns its result. */
static inline int64_t result(uint32_t job)
{
	ck_assert_uint_eq(rig_wait(&rig, job), JOB_DONE);
	return *(int64_t *)(void *)rig.jobs[job].result;
}

/* Cancels a job, which must end as cancelled. */
static inline void see_cancelled(uint32_t job)
{
	rig_cancel(&rig, job);
	ck_assert_uint_eq(rig_wait(&rig, job), JOB_CANCELLED);
}

/* Submits a job, which must fail with this code. */
static inline void see_failed(const char *task, int64_t n, int32_t code)
{
	submit(1, task, n);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
	ck_assert_int_eq((int32_t)atomic_load(&rig.jobs[1].code), code);
}

/* Submits a job that runs longer than its deadline of 10 ms. */
static inline void see_expired(const char *task, int64_t n)
{
	atomic_store(&rig.jobs[1].deadline_ns, clock_ns() + 10 * NSEC_PER_MSEC);
	submit(1, task, n);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_EXPIRED);
	atomic_store(&rig.jobs[1].deadline_ns, 0);
}

/* Submits a job and cancels it after n iterations of an empty loop, in any state. It may have ended
 * already. Returns its outcome. */
static inline uint32_t cancel_after(uint32_t turns, const char *task, int64_t n)
{
	uint32_t outcome;

	submit(1, task, n);
	for (uint32_t i = 0; i < turns; i++)
		__asm__ volatile("");
	rig_cancel(&rig, 1);
	outcome = rig_wait(&rig, 1);
	ck_assert(outcome == JOB_CANCELLED || outcome == JOB_DONE);
	return outcome;
}
