/* SPDX-License-Identifier: MIT */
/*
 * The engine alone, which links without sched, jobs, pool and manager.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include <forkd/fiber.h>
#include <forkd/task.h>

#include "daemon/core/preempt_request.h"
#include "daemon/core/worker.h"
#include "shm/job.h"
#include "tests/support/check_unit.h"
#include "tests/support/engine_rig.h"
#include "tests/support/fib.h"

static _Atomic uint32_t stolen; /* what follows a fork runs on another worker */
static _Atomic uint32_t held, released;

/* ------------------------------------------------------------------------ tasks */

/* Ends when what follows its fork runs, which then is on the other worker. */
FK_TASK(int64_t, waits_for_thief, (int64_t, n))
FK_NO_LEAF(waits_for_thief)
{
	while (!atomic_load(&stolen))
		sched_yield();
	FK_RETURN(self->n);
}
FK_END(waits_for_thief)

FK_TASK(int64_t, is_stolen, (int64_t, n), int64_t x;)
FK_NO_LEAF(is_stolen)
{
	/* The child gets a frame, and this one a public entry. */
	worker_ask(worker_self());
	FK_FORK(x, waits_for_thief, self->n);
	atomic_store(&stolen, 1);
	FK_JOIN();
	FK_RETURN(self->x + 1);
}
FK_END(is_stolen)

/* Keeps a worker busy. */
FK_TASK(int64_t, holds, (int64_t, n))
{
	atomic_store(&held, 1);
	while (!atomic_load(&released))
		sched_yield();
	FK_LEAF(n);
}
FK_NO_BODY(holds)
FK_END(holds)

/* Another root comes while the other worker is busy, and goes first from the next fork on. */
FK_TASK(int64_t, makes_way, (int64_t, n), int64_t x;)
FK_NO_LEAF(makes_way)
{
	while (!atomic_load(&held))
		sched_yield();
	atomic_fetch_add(&n_roots, 1);
	preempt_request(worker_self());
	FK_FORK(x, fib, self->n);
	FK_JOIN();
	atomic_store(&released, 1);
	FK_RETURN(self->x);
}
FK_END(makes_way)

FK_TASK(int64_t, fails, (int64_t, n), int64_t x;)
FK_NO_LEAF(fails)
{
	FK_FORK(x, fib, self->n);
	FK_JOIN();
	FK_FAIL((int)self->n);
}
FK_END(fails)

struct node {
	int64_t n, result;
};

static void add_up(void *arg)
{
	struct node *self = arg, left, right;
	struct fk_counter both = FK_COUNTER;

	self->result = self->n;
	if (self->n < 2)
		return;
	left.n = self->n - 1;
	right.n = self->n - 2;
	(void)fk_fiber_spawn(add_up, &left, &both);
	(void)fk_fiber_spawn(add_up, &right, &both);
	if (fk_counter_wait(&both, 0) == 0)
		self->result = left.result + right.result;
}

FK_FIBER_TASK(int64_t, fiber_tree, (int64_t, n))
{
	struct node root = { .n = n };
	int64_t x = 0;

	add_up(&root);
	return FK_FIBER_CALL(&x, fib, n) == 0 && x == root.result ? x : -1;
}

/* ------------------------------------------------------------------------ tests */

START_TEST(engine_runs_all_roots_of_an_array)
{
	for (uint32_t i = 0; i < ROOTS; i++)
		roots[i] = ROOT(fib, 20);
	run(ROOTS);
	ck_assert_uint_eq(n_ended, ROOTS);
	for (uint32_t i = 0; i < ROOTS; i++)
		ck_assert_int_eq(roots[i].result, 6765);
}
END_TEST

START_TEST(engine_lets_a_worker_steal_what_follows_a_fork)
{
	roots[0] = ROOT(is_stolen, 41);
	run(1);
	ck_assert_int_eq(roots[0].result, 42);
	ck_assert_uint_gt(n_stolen, 0);
	ck_assert_uint_gt(COUNTED(published), 0);
	ck_assert_uint_gt(COUNTED(lost), 0);
	ck_assert_uint_eq(COUNTED(joins_waited), COUNTED(joins_last));
}
END_TEST

START_TEST(engine_lets_another_root_go_first_at_a_safepoint)
{
	roots[0] = ROOT(holds, 1);
	roots[1] = ROOT(makes_way, 15);
	roots[2] = ROOT(fib, 10);
	run(2);
	ck_assert_uint_eq(n_preempted, 1);
	ck_assert_uint_gt(COUNTED(moved), 0);
	ck_assert_int_eq(roots[2].order, 1);
	ck_assert_int_eq(roots[2].result, 55);
	ck_assert_int_eq(roots[1].result, 610);
	ck_assert_int_eq(roots[0].result, 1);
}
END_TEST

START_TEST(engine_fails_only_the_root_whose_task_fails)
{
	roots[0] = ROOT(fails, -7);
	roots[1] = ROOT(fib, 10);
	run(2);
	ck_assert_uint_eq(roots[0].verdict.outcome, JOB_FAILED);
	ck_assert_int_eq(roots[0].verdict.code, -7);
	ck_assert_uint_eq(roots[1].verdict.outcome, 0);
	ck_assert_int_eq(roots[1].result, 55);
}
END_TEST

START_TEST(engine_runs_fibers_that_wait_for_each_other)
{
	roots[0] = ROOT(fiber_tree, 12);
	roots[1] = ROOT(fiber_tree, 10);
	run(2);
	ck_assert_int_eq(roots[0].result, 144);
	ck_assert_int_eq(roots[1].result, 55);
	ck_assert_uint_eq(COUNTED(fibers), 465 + 177);
}
END_TEST

CHECK_MAIN("engine", engine_runs_all_roots_of_an_array,
	   engine_lets_a_worker_steal_what_follows_a_fork,
	   engine_lets_another_root_go_first_at_a_safepoint,
	   engine_fails_only_the_root_whose_task_fails, engine_runs_fibers_that_wait_for_each_other)
