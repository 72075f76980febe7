/* SPDX-License-Identifier: MIT */
/*
 * nested - C functions that tasks call run tasks again
 *
 * Trees whose first blocks, bodies and fibers make nested calls, coarse and fine-grained, on one
 * and several workers, in each mode; calls that wait for other workers, and end in any order; calls
 * that end early.
 *
 * INVARIANTS
 *   Each result is that of the same program without nested calls. Afterwards no worker is busy, and
 *   no job holds stack memory (tests/support/quiet.h). Each worker runs on its thread's own stack
 *   again, and no call is held.
 */
#define CHECK_TIMEOUT 200

#include <alloca.h>
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <forkd/fiber.h>

#include "daemon/engine/nested.h"
#include "daemon/fiber/call_frame.h"
#include "daemon/jobs/job_cancel.h"
#include "daemon/pool/schedule_fuzz.h"
#include "tests/support/check_unit.h"
#include "tests/support/quiet.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

static struct rig rig;

#define NESTED(result, task, ...)                                                                  \
	({                                                                                         \
		struct task##__args nested_args = { __VA_ARGS__ };                                 \
		nested_call(worker_self(), task##__enter, &task##__task, result,                   \
			    sizeof(*(result)), &nested_args);                                      \
	})

/* ------------------------------------------------------------------------ trees */

/* The plain function that the tasks of this file call. Returns fib(n), or a negative errno. */
static __attribute__((noinline)) int64_t plain_fib(int64_t n)
{
	int64_t x = -1;
	int r = NESTED(&x, fib, n);

	return r < 0 ? r : x;
}

/* fib(n) with nested calls: below 9, in first blocks. */
FK_TASK(int64_t, coarse, (int64_t, n), int64_t x; int64_t y;)
{
	if (n < 9)
		FK_LEAF(plain_fib(n));
}
FK_BODY(coarse)
{
	FK_FORK(x, coarse, self->n - 1);
	FK_CALL(y, coarse, self->n - 2);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(coarse)

FK_FINE_TASK(int64_t, fine, (int64_t, n), int64_t x; int64_t y;)
{
	if (n < 9)
		FK_LEAF(plain_fib(n));
}
FK_BODY(fine)
{
	FK_FORK(x, fine, self->n - 1);
	FK_CALL(y, fine, self->n - 2);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(fine)

/* In bodies: before the first fork, with a fork outstanding, in arguments, and after the join. */
FK_TASK(int64_t, body, (int64_t, n), int64_t x; int64_t y; int64_t a[3];)
{
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(body)
{
	self->a[0] = plain_fib(self->n % 5);
	FK_FORK(x, body, self->n - 1 + 0 * plain_fib(3));
	self->a[1] = plain_fib(self->n % 7);
	FK_FORK(y, body, self->n - 2);
	self->a[2] = plain_fib(self->n % 11);
	FK_JOIN();
	if (self->a[0] != plain_fib(self->n % 5) || self->a[1] != plain_fib(self->n % 7) ||
	    self->a[2] != plain_fib(self->n % 11))
		FK_FAIL(-EBADMSG);
	FK_RETURN(self->x + self->y);
}
FK_END(body)

FK_FINE_TASK(int64_t, fine_body, (int64_t, n), int64_t x; int64_t y; int64_t a;)
{
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(fine_body)
{
	FK_FORK(x, fine_body, self->n - 1);
	self->a = plain_fib(self->n % 9);
	FK_CALL(y, coarse, self->n - 2);
	FK_JOIN();
	if (self->a != plain_fib(self->n % 9))
		FK_FAIL(-EBADMSG);
	FK_RETURN(self->x + self->y);
}
FK_END(fine_body)

/* Nested in nested: depth n, with a tree at each level. The result is n * fib(9). */
FK_DECLARE(int64_t, deep, (int64_t, n), int64_t x; int64_t y;)

static __attribute__((noinline)) int64_t plain_deep(int64_t n)
{
	int64_t x = -1;
	int r = NESTED(&x, deep, n);

	return r < 0 ? INT64_MIN : x;
}

FK_LEAF_TASK(int64_t, deeper, (int64_t, n))
{
	return plain_deep(n - 1);
}

FK_DEFINE(int64_t, deep, (int64_t, n))
{
	if (n == 0)
		FK_LEAF(0);
}
FK_BODY(deep)
{
	FK_FORK(x, deeper, self->n);
	FK_CALL(y, coarse, 9);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(deep)

/* The same, with a quarter of the room for functions in use at each level. */
FK_DECLARE(int64_t, tall, (int64_t, n), int64_t x; int64_t y;)

static __attribute__((noinline)) int64_t plain_tall(int64_t n)
{
	size_t size = 250 << 10;
	char *all = alloca(size);
	int64_t x = -1;
	int r;

	memset(all, (int)n, size);
	__asm__ volatile("" : : "r"(all) : "memory");
	r = NESTED(&x, tall, n);
	for (size_t i = 0; i < size; i++)
		if (all[i] != (char)n)
			return INT64_MIN;
	return r < 0 ? INT64_MIN : x;
}

FK_LEAF_TASK(int64_t, taller, (int64_t, n))
{
	return plain_tall(n - 1);
}

FK_DEFINE(int64_t, tall, (int64_t, n))
{
	if (n == 0)
		FK_LEAF(0);
}
FK_BODY(tall)
{
	FK_FORK(x, taller, self->n);
	FK_CALL(y, fib, 9);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(tall)

/* ------------------------------------------------------------------------ fibers */

static void add_nested(void *arg)
{
	int64_t *x = arg;

	*x = plain_fib(*x);
}

/* fib(n) + fib(n - 1), in two fibers that make nested calls. */
FK_FIBER_TASK(int64_t, fibers, (int64_t, n))
{
	int64_t x = n, y = n - 1;
	struct fk_counter both = FK_COUNTER;

	(void)fk_fiber_spawn(add_nested, &x, &both);
	(void)fk_fiber_spawn(add_nested, &y, &both);
	(void)fk_fiber_yield();
	return fk_counter_wait(&both, 0) == 0 ? x + y : -1;
}

/* A plain function whose nested call runs fibers, which yield. */
static int64_t plain_fibers(int64_t n)
{
	int64_t x = -1;
	int r = NESTED(&x, fibers, n);

	return r < 0 ? r : x;
}

FK_TASK(int64_t, around, (int64_t, n), int64_t x; int64_t y;)
{
	if (n < 9)
		FK_LEAF(plain_fibers(n + 1));
}
FK_BODY(around)
{
	FK_FORK(x, around, self->n - 1);
	FK_CALL(y, around, self->n - 2);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(around)

/* ------------------------------------------------------------------------ waits */

/* Number of calls that have ended, in the order in which they may. */
static _Atomic int64_t turn;

/* Goes to worker w, and ends there when it is its turn. */
FK_TASK(int64_t, away, (int64_t, w, int64_t, rank))
FK_NO_LEAF(away)
{
	FK_GO_TO_WORKER((uint32_t)self->w);
	while (atomic_load(&turn) != self->rank)
		sched_yield();
	FK_RETURN(self->rank);
}
FK_END(away)

FK_TASK(int64_t, away_until, (int64_t, n))
FK_NO_LEAF(away_until)
{
	FK_GO_TO_WORKER(1);
	atomic_fetch_add(&tasks_reached, 1);
	while (!atomic_load(&tasks_opened))
		sched_yield();
	FK_RETURN(self->n);
}
FK_END(away_until)

/* Calls of worker 0. n: 16 * worker + rank. */
FK_LEAF_TASK(int64_t, sends, (int64_t, n))
{
	int64_t x = -1;
	int r = NESTED(&x, away, n / 16, n % 16);

	/* Back on worker 0, and the next one may end. */
	if (worker_self()->index != 0)
		return -EXDEV;
	atomic_fetch_add(&turn, 1);
	return r < 0 ? r : x;
}

FK_LEAF_TASK(int64_t, sends_until, (int64_t, n))
{
	int64_t x = -1;
	int r = NESTED(&x, away_until, n);

	return r < 0 ? r : x;
}

/* A fork is outstanding, whose frame other work on worker 0 may resume while the call is held. */
FK_TASK(int64_t, from_zero, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(from_zero)
{
	FK_GO_TO_WORKER(0);
	FK_FORK(x, sends, self->n);
	FK_CALL(y, fib, 5);
	FK_JOIN();
	FK_RETURN(self->x + 1000 * self->y);
}
FK_END(from_zero)

/* The same, with a call between the two that is never held itself. */
FK_LEAF_TASK(int64_t, sends_below, (int64_t, n))
{
	int64_t x = -1;
	int r = NESTED(&x, sends, n);

	return r < 0 ? r : x;
}

FK_TASK(int64_t, from_zero_below, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(from_zero_below)
{
	FK_GO_TO_WORKER(0);
	FK_FORK(x, sends_below, self->n);
	FK_CALL(y, fib, 5);
	FK_JOIN();
	FK_RETURN(self->x + 1000 * self->y);
}
FK_END(from_zero_below)

FK_TASK(int64_t, until_from_zero, (int64_t, n), int64_t x;)
FK_NO_LEAF(until_from_zero)
{
	FK_GO_TO_WORKER(0);
	FK_CALL(x, sends_until, self->n);
	FK_RETURN(self->x);
}
FK_END(until_from_zero)

/* Only another worker can end the call: the oldest frame below it opens it. */
static int64_t plain_held(void)
{
	int64_t x = -1;
	int r = NESTED(&x, held, 3);

	return r < 0 ? r : x;
}

FK_LEAF_TASK(int64_t, held_leaf, (int64_t, n))
{
	return plain_held() + n;
}

FK_TASK(int64_t, held_below, (int64_t, n), int64_t x;)
FK_NO_LEAF(held_below)
{
	FK_FORK(x, held_leaf, self->n);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(held_below)

/* Most often a fresh frame: the first forks have served the requests so far. */
FK_TASK(int64_t, opens, (int64_t, n), int64_t x; int64_t i;)
FK_NO_LEAF(opens)
{
	FK_FORK(x, held_below, self->n);
	atomic_store(&tasks_opened, 1);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(opens)

FK_TASK(int64_t, opens_above, (int64_t, n), int64_t x;)
FK_NO_LEAF(opens_above)
{
	FK_FORK(x, leaf, 1);
	FK_JOIN();
	FK_CALL(x, opens, self->n);
	FK_RETURN(self->x);
}
FK_END(opens_above)

/* Forks until a call has ended, with entries below. */
FK_TASK(int64_t, until_turn, (int64_t, n), int64_t x;)
FK_NO_LEAF(until_turn)
{
	if (self->n > 0) {
		FK_FORK(x, until_turn, self->n - 1);
		FK_JOIN();
		FK_RETURN(self->x + 1);
	}
	atomic_fetch_add(&tasks_reached, 1);
	while (atomic_load(&turn) < 1) {
		FK_FORK(x, leaf, 0);
		FK_JOIN();
	}
	FK_RETURN(0);
}
FK_END(until_turn)

/* ------------------------------------------------------------------------ early ends */

/* Counts of frames that hold a resource, and of calls that returned an error. */
static _Atomic uint64_t begun, ended, given_back, cancelled;

FK_DECLARE(int64_t, endless, (int64_t, n), int64_t x; int64_t y;)

static __attribute__((noinline)) int64_t plain_endless(int64_t n)
{
	int64_t x = -1;
	int r = NESTED(&x, endless, n);

	if (r == -ECANCELED)
		atomic_fetch_add(&cancelled, 1);
	return r < 0 ? r : x;
}

FK_LEAF_TASK(int64_t, calls_endless, (int64_t, n))
{
	return plain_endless(n);
}

FK_UNWIND(endless)
{
	(void)self;
	atomic_fetch_add(&given_back, 1);
}

FK_DEFINE_UNWIND(int64_t, endless, (int64_t, n))
FK_NO_LEAF(endless)
{
	atomic_fetch_add(&begun, 1);
	if (self->n == 0) {
		FK_CALL(x, flat, 0);
	} else {
		FK_FORK(x, calls_endless, self->n - 1);
		FK_CALL(y, wide, 60);
		FK_JOIN();
	}
	atomic_fetch_add(&ended, 1);
	FK_RETURN(self->x);
}
FK_END(endless)

/* Forks until the job is cancelled, above two forked frames that are fresh when the call begins. */
FK_TASK(int64_t, forks_on, (int64_t, n), int64_t x;)
FK_NO_LEAF(forks_on)
{
	atomic_fetch_add(&tasks_reached, 1);
	while (self->n >= 0) {
		FK_FORK(x, leaf, 0);
		FK_JOIN();
	}
	FK_RETURN(self->x);
}
FK_END(forks_on)

static __attribute__((noinline)) int64_t plain_forks_on(int64_t n)
{
	int64_t x = -1;
	int r = NESTED(&x, forks_on, n);

	if (r == -ECANCELED)
		atomic_fetch_add(&cancelled, 1);
	return r < 0 ? r : x;
}

FK_TASK(int64_t, above_forks, (int64_t, n), int64_t x;)
{
	if (n == 0)
		FK_LEAF(plain_forks_on(n));
}
FK_BODY(above_forks)
{
	FK_FORK(x, above_forks, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(above_forks)

FK_LEAF_TASK(int64_t, calls_failing, (int64_t, n))
{
	int64_t x = -1;
	int r = NESTED(&x, failing, n);

	if (r == -ECANCELED)
		atomic_fetch_add(&cancelled, 1);
	return r < 0 ? r : x;
}

/* A nested call fails, and its caller has an ancestor in the deque. */
static int64_t plain_fails_below(void)
{
	int64_t x = -1;

	if (NESTED(&x, fails_below, 200) == -ECANCELED)
		atomic_fetch_add(&cancelled, 1);
	return x;
}

FK_LEAF_TASK(int64_t, calls_fails_below, (int64_t, n))
{
	return n + plain_fails_below();
}

FK_TASK(int64_t, forks_failing, (int64_t, n), int64_t x;)
FK_NO_LEAF(forks_failing)
{
	FK_GO_TO_WORKER(0);
	FK_FORK(x, calls_fails_below, self->n);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(forks_failing)

/* Fails after a call was held, between frames that hold nothing. */
FK_FINE_DECLARE(int64_t, keeper, (int64_t, n), int64_t x;)
FK_UNWIND(keeper)
{
	(void)self;
	atomic_fetch_add(&given_back, 1);
}
FK_DEFINE_UNWIND(int64_t, keeper, (int64_t, n))
FK_NO_LEAF(keeper)
{
	atomic_fetch_add(&begun, 1);
	self->x = sends__leaf(fk_w, NULL, self->n);
	FK_FORK(x, fails_below, 200);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(keeper)

FK_FINE_TASK(int64_t, above_keeper, (int64_t, n), int64_t x;)
FK_NO_LEAF(above_keeper)
{
	FK_FORK(x, keeper, self->n);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(above_keeper)

FK_TASK(int64_t, keeps, (int64_t, n), int64_t x;)
FK_NO_LEAF(keeps)
{
	FK_GO_TO_WORKER(0);
	FK_FORK(x, above_keeper, self->n);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(keeps)

/* Called after the end of its job. */
FK_TASK(int64_t, fails_first, (int64_t, n))
FK_NO_LEAF(fails_first)
{
	fk_rt_fail(fk_w, 5);
	FK_RETURN(plain_fib(self->n));
}
FK_END(fails_first)

FK_EXPORT(coarse, 0, "")
FK_EXPORT(fine, 0, "")
FK_EXPORT(body, 0, "")
FK_EXPORT(fine_body, 0, "")
FK_EXPORT(deep, 0, "")
FK_EXPORT(tall, 0, "")
FK_EXPORT(fibers, 0, "")
FK_EXPORT(around, 0, "")
FK_EXPORT(from_zero, 0, "")
FK_EXPORT(from_zero_below, 0, "")
FK_EXPORT(until_from_zero, 0, "")
FK_EXPORT(opens_above, 0, "")
FK_EXPORT(until_turn, 0, "")
FK_EXPORT(forks_failing, 0, "")
FK_EXPORT(keeps, 0, "")
FK_EXPORT(calls_endless, 0, "")
FK_EXPORT(above_forks, 0, "")
FK_EXPORT(calls_failing, 0, "")
FK_EXPORT(fails_first, 0, "")
FK_MODULE(t, "")

/* ------------------------------------------------------------------------ tests */

static int64_t serial(int64_t n)
{
	return n < 2 ? n : serial(n - 1) + serial(n - 2);
}

static void start(void (*prepare)(struct pool *pool), uint32_t workers, bool forced)
{
	atomic_store(&tasks_reached, 0);
	atomic_store(&tasks_opened, 0);
	atomic_store(&turn, 0);
	rig_prepare = prepare;
	rig_start(&rig, workers, &fk_module, forced);
}

static void stop(void)
{
	quiet(&rig);
	for (uint32_t i = 0; i < rig.pool->n_workers; i++) {
		ck_assert_uint_eq(rig.pool->workers[i].engine.n_held, 0);
		ck_assert_ptr_null(rig.pool->workers[i].engine.nested);
	}
	rig_stop(&rig);
}

static void late(struct pool *pool)
{
	pool->mode.late_children = true;
}

static void fuzzed(struct pool *pool)
{
	pool->mode.fuzz_seed = 3;
}

static void kept(struct pool *pool)
{
	pool->mode.no_steals = true;
}

/* Runs all trees once, and compares their results. */
static void run_trees(int64_t n)
{
	ck_assert_int_eq(rig_call(&rig, "t:coarse", n), serial(n));
	ck_assert_int_eq(rig_call(&rig, "t:fine", n), serial(n));
	ck_assert_int_eq(rig_call(&rig, "t:body", n - 4), serial(n - 4));
	ck_assert_int_eq(rig_call(&rig, "t:fine_body", n - 2), serial(n - 2));
	ck_assert_int_eq(rig_call(&rig, "t:deep", 5), 5 * serial(9));
	ck_assert_int_eq(rig_call(&rig, "t:tall", 4), 4 * serial(9));
	ck_assert_int_eq(rig_call(&rig, "t:fibers", n), serial(n + 1));
	ck_assert_int_eq(rig_call(&rig, "t:around", n - 4), serial(n - 2));
}

START_TEST(unstolen_calls_run_on_the_callers_stack)
{
	uint64_t requests;

	start(NULL, 1, false);
	ck_assert_int_eq(rig_call(&rig, "t:coarse", 18), serial(18));
	ck_assert_int_eq(rig_call(&rig, "t:fine", 18), serial(18));
	ck_assert_uint_eq(rig_counter(&rig, nested_waits), 0);
	/* The dispatcher sends a request if a job waits in a ring for long. */
	requests = rig_counter(&rig, requests_served);
	ck_assert_uint_le(rig_counter(&rig, frames_materialized), requests);
	ck_assert_uint_le(rig_counter(&rig, strands), 2 + requests);
	stop();
}
END_TEST

START_TEST(results_are_right_on_any_number_of_workers)
{
	for (uint32_t workers = 1; workers <= 4; workers++) {
		start(NULL, workers, false);
		for (int i = 0; i < 10; i++)
			run_trees(17);
		stop();
	}
}
END_TEST

START_TEST(results_are_right_if_every_fork_is_stolen)
{
	for (uint32_t workers = 1; workers <= 4; workers += 3) {
		start(NULL, workers, true);
		run_trees(14);
		ck_assert_uint_gt(rig_counter(&rig, nested_waits), 100);
		stop();
	}
}
END_TEST

START_TEST(results_are_right_with_late_children)
{
	for (uint32_t workers = 1; workers <= 3; workers += 2) {
		start(late, workers, true);
		run_trees(14);
		ck_assert_uint_gt(rig_counter(&rig, nested_waits), 100);
		stop();
	}
}
END_TEST

START_TEST(results_are_right_without_steals)
{
	start(kept, 3, false);
	run_trees(16);
	ck_assert_uint_eq(rig_counter(&rig, steals), 0);
	stop();
}
END_TEST

START_TEST(results_are_right_with_the_schedule_fuzzer)
{
	for (uint32_t workers = 1; workers <= 5; workers += 2) {
		struct shake *shake;

		start(fuzzed, workers, false);
		shake = schedule_fuzz_start(rig.pool, workers);
		ck_assert_ptr_nonnull(shake);
		for (int i = 0; i < 5; i++)
			run_trees(15);
		ck_assert_uint_gt(rig_counter(&rig, nested_waits), 100);
		schedule_fuzz_stop(shake);
		stop();
	}
}
END_TEST

START_TEST(results_are_right_in_a_storm)
{
	for (uint32_t workers = 1; workers <= 4; workers++) {
		pthread_t storm;

		start(NULL, workers, false);
		storm = quiet_storm_begin(&rig);
		for (int i = 0; i < 5; i++)
			run_trees(16);
		quiet_storm_end(storm);
		stop();
	}
}
END_TEST

START_TEST(calls_nest_fifty_deep)
{
	for (uint32_t workers = 1; workers <= 4; workers++)
		for (int forced = 0; forced < 2; forced++) {
			start(NULL, workers, forced);
			for (int i = 0; i < 3; i++)
				ck_assert_int_eq(rig_call(&rig, "t:deep", 50), 50 * serial(9));
			stop();
		}
}
END_TEST

START_TEST(calls_do_not_need_the_room_of_their_callers)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(NULL, workers, false);
		ck_assert_int_eq(rig_call(&rig, "t:tall", 12), 12 * serial(9));
		ck_assert_uint_gt(rig_counter(&rig, nested_waits), 0);
		stop();
	}
}
END_TEST

/* Each permutation of three calls, which are held by one worker together. */
START_TEST(held_calls_end_in_any_order)
{
	static const int64_t ranks[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
					     { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

	for (int forced = 0; forced < 2; forced++) {
		start(NULL, 4, forced);
		for (int i = 0; i < 24; i++) {
			uint64_t waits = rig_counter(&rig, nested_waits);

			atomic_store(&turn, -1);
			for (uint32_t k = 0; k < 3; k++) {
				int64_t n = 16 * (k + 1) + ranks[i % 6][k];

				/* One after the other: mail would let worker 0 suspend one before
				 * its call, and a thief take it. */
				rig_submit(&rig, k, "t:from_zero", &n, sizeof(n));
				while (rig_counter(&rig, nested_waits) <= waits + k)
					sched_yield();
			}
			atomic_store(&turn, 0);
			for (uint32_t k = 0; k < 3; k++) {
				ck_assert_uint_eq(rig_wait(&rig, k), JOB_DONE);
				ck_assert_int_eq(*(int64_t *)rig.jobs[k].result,
						 ranks[i % 6][k] + 1000 * serial(5));
			}
			ck_assert_int_eq(atomic_load(&turn), 3);
		}
		stop();
	}
}
END_TEST

START_TEST(calls_fail_if_there_are_too_many_stacks)
{
	const uint32_t n_jobs = NESTED_LOOPS + 6;
	uint32_t n_held = 0;

	start(NULL, 2, false);
	for (int round = 1; round <= 2; round++) {
		atomic_store(&tasks_opened, 0);
		for (uint32_t i = 0; i < n_jobs; i++) {
			int64_t n = i;

			rig_submit(&rig, i, "t:until_from_zero", &n, sizeof(n));
		}
		while (rig_counter(&rig, nested_waits) < (uint64_t)round * NESTED_LOOPS ||
		       rig_counter(&rig, jobs_done) <
			       (uint64_t)(round - 1) * n_jobs + n_jobs - NESTED_LOOPS)
			sched_yield();
		atomic_store(&tasks_opened, 1);
		rig_all_done(&rig, 0, n_jobs);
		n_held = 0;
		for (uint32_t i = 0; i < n_jobs; i++) {
			int64_t x = *(int64_t *)rig.jobs[i].result;

			ck_assert(x == (int64_t)i || x == -ENOMEM);
			n_held += x == (int64_t)i;
		}
		ck_assert_uint_eq(n_held, NESTED_LOOPS);
		ck_assert_uint_le(rig.pool->workers[0].engine.n_loops, 4);
	}
	ck_assert_int_eq(rig_call(&rig, "t:coarse", 15), serial(15));
	stop();
}
END_TEST

/* Hangs if the frames of the caller stay hidden. */
START_TEST(work_below_a_nested_call_is_taken)
{
	start(NULL, 2, false);
	for (int i = 0; i < 30; i++) {
		atomic_store(&tasks_opened, 0);
		ck_assert_int_eq(rig_call(&rig, "t:opens_above", 7), 10);
	}
	stop();
}
END_TEST

static void wait_held(uint64_t n)
{
	while (rig_counter(&rig, nested_waits) < n)
		sched_yield();
}

/* The caller has no entry in the deque any more, and must not take one of the other job. Worker 1
 * is busy, so it cannot steal them. */
START_TEST(caller_takes_no_entries_of_the_work_that_it_interrupts)
{
	static const char *const callers[] = { "t:from_zero", "t:from_zero_below" };

	for (int i = 0; i < 20; i++) {
		int64_t first = 16, n = 30;

		start(NULL, 2, false);
		atomic_store(&turn, -1);
		rig_submit(&rig, 0, callers[i % 2], &first, sizeof(first));
		wait_held(1);
		rig_submit(&rig, 1, "t:until_from_zero", &n, sizeof(n));
		wait_held(2);
		rig_submit(&rig, 2, "t:until_turn", &n, sizeof(n));
		while (atomic_load(&tasks_reached) < 1)
			sched_yield();
		atomic_store(&turn, 0);
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
		ck_assert_int_eq(*(int64_t *)rig.jobs[0].result, 1000 * serial(5));
		ck_assert_uint_eq(rig_wait(&rig, 2), JOB_DONE);
		ck_assert_int_eq(*(int64_t *)rig.jobs[2].result, n);
		atomic_store(&tasks_opened, 1);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
		ck_assert_int_eq(*(int64_t *)rig.jobs[1].result, n);
		stop();
	}
}
END_TEST

START_TEST(failing_call_leaves_its_caller_in_place)
{
	int64_t n = 1;

	start(NULL, 1, false);
	atomic_store(&cancelled, 0);
	for (int i = 0; i < 10; i++) {
		rig_submit(&rig, 0, "t:forks_failing", &n, sizeof(n));
		rig_fails(&rig, 0, -EDOM);
	}
	ck_assert_uint_eq(atomic_load(&cancelled), 10);
	stop();
}
END_TEST

START_TEST(caller_that_fails_later_is_unwound)
{
	start(NULL, 2, false);
	for (int i = 0; i < 10; i++) {
		int64_t n = 16;

		atomic_store(&begun, 0);
		atomic_store(&given_back, 0);
		atomic_store(&turn, -1);
		rig_submit(&rig, 0, "t:keeps", &n, sizeof(n));
		wait_held((uint64_t)i + 1);
		/* Another job begins on worker 0 in the meantime. */
		rig_submit(&rig, 1, "t:fib", &n, sizeof(n));
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
		atomic_store(&turn, 0);
		rig_fails(&rig, 0, -EDOM);
		ck_assert_uint_eq(atomic_load(&begun), 1);
		ck_assert_uint_eq(atomic_load(&given_back), 1);
	}
	stop();
}
END_TEST

START_TEST(jobs_of_all_kinds_run_together)
{
	static const char *const tasks[] = { "t:coarse", "t:fine", "t:fine_body", "t:fib" };

	for (uint32_t workers = 1; workers <= 4; workers++) {
		start(NULL, workers, false);
		for (uint32_t i = 0; i < 400; i++) {
			int64_t n = 12 + i % 5;

			rig_submit(&rig, i, tasks[i / 5 % 4], &n, sizeof(n));
		}
		for (uint32_t i = 0; i < 400; i++) {
			ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
			ck_assert_int_eq(*(int64_t *)rig.jobs[i].result, serial(12 + i % 5));
		}
		stop();
	}
}
END_TEST

START_TEST(job_in_nested_calls_is_cancelled)
{
	for (uint32_t workers = 1; workers <= 4; workers++)
		for (int forced = 0; forced < 2; forced++) {
			start(NULL, workers, forced);
			for (int64_t n = 0; n < 10; n++) {
				atomic_store(&begun, 0);
				atomic_store(&ended, 0);
				atomic_store(&given_back, 0);
				atomic_store(&cancelled, 0);
				atomic_store(&tasks_reached, 0);
				rig_submit(&rig, 1, "t:calls_endless", &n, sizeof(n));
				while (!atomic_load(&tasks_reached))
					sched_yield();
				rig_cancel(&rig, 1);
				ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
				quiet(&rig);
				/* Each call whose task had begun returned the error, and each frame
				 * that had begun was unwound. */
				ck_assert_uint_ge(atomic_load(&cancelled), atomic_load(&begun));
				ck_assert_uint_gt(atomic_load(&begun), 0);
				ck_assert_uint_eq(atomic_load(&begun),
						  atomic_load(&ended) + atomic_load(&given_back));
				ck_assert_int_eq(rig_call(&rig, "t:coarse", 12), serial(12));
			}
			stop();
		}
}
END_TEST

START_TEST(cancelled_call_leaves_the_frames_of_its_caller)
{
	for (int64_t n = 0; n < 10; n++) {
		start(NULL, 1, false);
		atomic_store(&cancelled, 0);
		atomic_store(&tasks_reached, 0);
		rig_submit(&rig, 1, "t:above_forks", &n, sizeof(n));
		while (!atomic_load(&tasks_reached))
			sched_yield();
		rig_cancel(&rig, 1);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
		ck_assert_uint_eq(atomic_load(&cancelled), 1);
		stop();
	}
}
END_TEST

START_TEST(call_of_a_failing_task_is_cancelled)
{
	int64_t n = 12;

	for (uint32_t workers = 1; workers <= 3; workers += 2)
		for (int forced = 0; forced < 2; forced++) {
			start(NULL, workers, forced);
			atomic_store(&cancelled, 0);
			for (int i = 0; i < 10; i++) {
				rig_submit(&rig, 0, "t:calls_failing", &n, sizeof(n));
				rig_fails(&rig, 0, 77);
				rig_submit(&rig, 0, "t:fails_first", &n, sizeof(n));
				rig_fails(&rig, 0, 5);
			}
			ck_assert_uint_eq(atomic_load(&cancelled), 10);
			stop();
		}
}
END_TEST

START_TEST(only_tasks_can_call)
{
	int64_t x = 0;

	ck_assert_int_eq(NESTED(&x, fib, 5), -EPERM);
}
END_TEST

CHECK_MAIN("nested")
