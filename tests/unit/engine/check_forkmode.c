/* SPDX-License-Identifier: MIT */
/*
 * The modes of forkctl check: continuations run before the child, and workers get requests at
 * random. And the mode of benchmarks in which no worker steals. Correct tasks give the same results
 * as ever, and the counters show that the modes have their effect.
 */
#include <check.h>
#include <string.h>

#include "daemon/core/worker.h"
#include "daemon/pool/schedule_fuzz.h"
#include "tests/support/check_unit.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

static struct rig rig;

/* Returns the time at which it runs. */
static _Atomic int64_t turn;

FK_TASK(int64_t, child, (int64_t, n))
FK_NO_LEAF(child)
{
	(void)self->n;
	FK_RETURN(atomic_fetch_add(&turn, 1));
}
FK_END(child)

/* The sum of the times at which its children ran, and 1000 times that of its join. */
FK_TASK(int64_t, order, (int64_t, n), int64_t x[8]; int64_t i; int64_t mine;)
FK_NO_LEAF(order)
{
	for (self->i = 0; self->i < self->n; self->i++)
		FK_FORK(x[self->i], child, self->i);
	self->mine = atomic_load(&turn);
	FK_JOIN();
	for (self->i = 0; self->i < self->n; self->i++)
		self->mine = 10 * self->mine + self->x[self->i];
	FK_RETURN(self->mine);
}
FK_END(order)

FK_TASK(int64_t, many, (int64_t, n), int64_t x; int64_t i;)
FK_NO_LEAF(many)
{
	for (self->i = 0; self->i < self->n; self->i++)
		FK_FORK(x, child, self->i);
	FK_JOIN();
	FK_RETURN(self->i);
}
FK_END(many)

FK_EXPORT(order, 0, "")
FK_EXPORT(many, 0, "")
FK_MODULE(mode, "")

static void kept(struct pool *pool)
{
	pool->mode.no_steals = true;
}

static void late(struct pool *pool)
{
	pool->mode.late_children = true;
}

static void fuzzed(struct pool *pool)
{
	pool->mode.fuzz_seed = 1;
}

static void start(void (*prepare)(struct pool *pool), uint32_t workers)
{
	rig_prepare = prepare;
	rig_start(&rig, workers, &fk_module, prepare == late);
}

START_TEST(late_children_run_after_the_continuation_of_their_fork)
{
	start(late, 1);
	atomic_store(&turn, 0);
	/* No child has run at the join; then the newest runs first. */
	ck_assert_int_eq(rig_call(&rig, "mode:order", 4), 3210);
	ck_assert_uint_eq(rig_counter(&rig, frames_suspended), 4);
	rig_stop(&rig);
	rig_start(&rig, 1, &fk_module, true);
	atomic_store(&turn, 0);
	ck_assert_int_eq(rig_call(&rig, "mode:order", 4), 40123);
	ck_assert_uint_eq(rig_counter(&rig, frames_suspended), 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(results_are_right_with_late_children)
{
	for (uint32_t workers = 1; workers <= 5; workers += 2) {
		start(late, workers);
		for (int i = 0; i < 3; i++)
			ck_assert_int_eq(rig_call(&rig, "mode:fib", 16), 987);
		ck_assert_uint_gt(rig_counter(&rig, frames_suspended), 0);
		/* Each inner node of fib forks once, and each fork is stolen, by its own worker or
		 * another one. */
		ck_assert_uint_ge(rig_counter(&rig, steals), 3 * 1596);
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(late_children_are_limited_by_the_room_for_them)
{
	start(late, 1);
	ck_assert_int_eq(rig_call(&rig, "mode:many", 5 * WORKER_DELAYED), 5 * WORKER_DELAYED);
	ck_assert_uint_eq(rig_counter(&rig, frames_suspended), WORKER_DELAYED);
	/* The room is free again. */
	ck_assert_int_eq(rig_call(&rig, "mode:many", 10), 10);
	ck_assert_uint_eq(rig_counter(&rig, frames_suspended), WORKER_DELAYED + 10);
	ck_assert_uint_eq(rig.pool->workers[0].engine.n_delayed, 0);
	ck_assert_uint_eq(rig.pool->workers[0].engine.n_self_stolen, 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(failed_jobs_end_with_late_children)
{
	int64_t n = 12;

	for (uint32_t workers = 1; workers <= 3; workers += 2) {
		start(late, workers);
		for (int i = 0; i < 10; i++) {
			rig_submit(&rig, 0, "mode:failing", &n, sizeof(n));
			ck_assert_uint_eq(rig_wait(&rig, 0), JOB_FAILED);
			ck_assert_int_eq(atomic_load(&rig.jobs[0].code), 77);
			ck_assert_int_eq(rig_call(&rig, "mode:fib", 10), 55);
		}
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(results_are_right_with_the_schedule_fuzzer)
{
	for (uint32_t workers = 1; workers <= 5; workers += 4) {
		struct shake *shake;

		start(fuzzed, workers);
		shake = schedule_fuzz_start(rig.pool, 7);
		ck_assert_ptr_nonnull(shake);
		for (int i = 0; i < 10; i++)
			ck_assert_int_eq(rig_call(&rig, "mode:fib", 18), 2584);
		/* Random, but certain to happen in 40,000 forks. */
		ck_assert_uint_gt(rig_counter(&rig, frames_materialized), 100);
		ck_assert_uint_gt(rig_counter(&rig, requests_served), 100);
		ck_assert_uint_gt(rig_counter(&rig, steals), 100);
		/* And not all of them. */
		ck_assert_uint_lt(rig_counter(&rig, steals), 10 * 4180);
		schedule_fuzz_stop(shake);
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(kept_forks_are_not_stolen)
{
	start(kept, 4);
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(rig_call(&rig, "mode:fib", 18), 2584);
	/* No steal was even tried. */
	ck_assert_uint_eq(rig_counter(&rig, steals), 0);
	ck_assert_uint_eq(rig_counter(&rig, steal_attempts), 0);
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("forkmode")
