/* SPDX-License-Identifier: MIT */
/*
 * unwind - jobs that end before they are done: cancelled, failed, out of stack
 *
 * WHAT IT IS
 *   Tasks that never end by themselves, in every shape a job can have when it is told to: deep, by
 *   forks, calls and both; wide; flat; on several workers; set aside; queued. Each is cancelled, or
 *   one of its tasks fails, on one, two and four workers, with and without every fork treated as
 *   stolen, and under a storm of signals.
 *
 * WHAT MUST BE TRUE
 *   One outcome each, the first one; nobody is busy afterwards; no job holds stack memory
 *   (tests/quiet.h). What FK_UNWIND blocks give back is counted: every frame that began has ended
 *   by itself or was given back, never both and never twice (AddressSanitizer looks at the memory).
 */
#define CHECK_TIMEOUT 200

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/root.h"
#include "daemon/verdict.h"
#include "tests/check_unit.h"
#include "tests/quiet.h"
#include "tests/rig.h"
#include "tests/tasks.h"

static struct rig rig;
static _Atomic uint64_t begun, ended, given_back;

/* ------------------------------------------------------------------------ shapes */

FK_FINE_TASK(int64_t, fine_flat, (int64_t, n), int64_t x;)
FK_NO_LEAF(fine_flat)
{
	atomic_fetch_add(&tasks_reached, 1);
	for (;;) {
		FK_FORK(x, leaf, 0);
		FK_JOIN();
	}
}
FK_END(fine_flat)

/* Calls for ever, and never forks. */
FK_TASK(int64_t, calls, (int64_t, n), int64_t x;)
FK_NO_LEAF(calls)
{
	atomic_fetch_add(&tasks_reached, 1);
	for (;;)
		FK_CALL(x, leaf, 0);
}
FK_END(calls)

FK_TASK(fk_void, nothing, (int64_t, n), int64_t x;)
{
	if (n < 2)
		FK_LEAF();
}
FK_BODY(nothing)
{
	FK_CALL(x, fib, self->n);
	FK_RETURN();
}
FK_END(nothing)

/* Forks for ever, and never joins. */
FK_TASK(int64_t, heap, (int64_t, n), int64_t x;)
FK_NO_LEAF(heap)
{
	atomic_fetch_add(&tasks_reached, 1);
	for (self->x = 0;; self->x++)
		FK_FORK_VOID(nothing, self->x % 4);
}
FK_END(heap)

FK_TASK(int64_t, by_forks, (int64_t, n), int64_t x;)
FK_NO_LEAF(by_forks)
{
	if (self->n == 0) {
		FK_CALL(x, flat, 0);
		FK_RETURN(0);
	}
	FK_FORK(x, by_forks, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x + 1);
}
FK_END(by_forks)

FK_TASK(int64_t, by_calls, (int64_t, n), int64_t x;)
FK_NO_LEAF(by_calls)
{
	if (self->n == 0) {
		FK_CALL(x, flat, 0);
		FK_RETURN(0);
	}
	FK_CALL(x, by_calls, self->n - 1);
	FK_RETURN(self->x + 1);
}
FK_END(by_calls)

/* A fork and a call in turn, coarse and fine, and continuations that do something. */
FK_FINE_DECLARE(int64_t, by_both_fine, (int64_t, n), int64_t x; int64_t y;)

FK_TASK(int64_t, by_both, (int64_t, n), int64_t x[2]; int64_t i;)
FK_NO_LEAF(by_both)
{
	if (self->n <= 0) {
		FK_CALL(x[0], fine_flat, 0);
		FK_RETURN(0);
	}
	self->i = 0;
	FK_FORK(x[self->i++], by_both_fine, self->n - 1);
	FK_CALL(x[self->i++], fib, 5);
	FK_JOIN();
	FK_RETURN(self->x[0] + 1);
}
FK_END(by_both)

FK_DEFINE(int64_t, by_both_fine, (int64_t, n))
FK_NO_LEAF(by_both_fine)
{
	FK_CALL(x, by_both, self->n - 1);
	FK_FORK(y, leaf, 1);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(by_both_fine)

/* ------------------------------------------------------------------------ what frames hold */

FK_DECLARE(int64_t, owner, (int64_t, n), char *memory; int64_t x; int64_t y; int64_t z;)
FK_FINE_DECLARE(int64_t, fine_owner, (int64_t, n), char *memory; int64_t x; int64_t y;)

static char *own(int64_t n)
{
	char *memory = malloc(24);

	atomic_fetch_add_explicit(&begun, 1, memory_order_relaxed);
	memset(memory, (int)n, 24);
	return memory;
}

static void disown(char *memory, int64_t n, _Atomic uint64_t *why)
{
	if (memory[0] != (char)n || memory[23] != (char)n)
		abort(); /* another frame's */
	atomic_fetch_add_explicit(why, 1, memory_order_relaxed);
	free(memory);
}

FK_UNWIND(owner)
{
	disown(self->memory, self->n, &given_back);
}

FK_DEFINE_UNWIND(int64_t, owner, (int64_t, n))
{
	if (n < 0)
		FK_LEAF(1);
}
FK_BODY(owner)
{
	self->memory = own(self->n);
	FK_FORK(x, owner, self->n - 1);
	FK_CALL(y, fine_owner, self->n - 1);
	FK_JOIN();
	FK_FORK(z, owner, self->n - 4);
	FK_JOIN();
	disown(self->memory, self->n, &ended);
	FK_RETURN(self->x + self->y + self->z);
}
FK_END(owner)

FK_UNWIND(fine_owner)
{
	disown(self->memory, self->n, &given_back);
}

FK_DEFINE_UNWIND(int64_t, fine_owner, (int64_t, n))
{
	if (n < 0)
		FK_LEAF(1);
}
FK_BODY(fine_owner)
{
	self->memory = own(self->n);
	FK_CALL(x, owner, self->n - 2);
	FK_FORK(y, fine_owner, self->n - 1);
	FK_JOIN();
	disown(self->memory, self->n, &ended);
	FK_RETURN(self->x + self->y);
}
FK_END(fine_owner)

/* Fails far below. */
FK_TASK(int64_t, fails, (int64_t, n))
{
	FK_LEAF_FAIL((int)n);
}
FK_NO_BODY(fails)
FK_END(fails)

/* The only frame that holds something is built on the slow path, above frames that hold nothing and
 * below others. */
FK_DECLARE(int64_t, holder, (int64_t, n), char *memory; int64_t x;)
FK_UNWIND(holder)
{
	disown(self->memory, self->n, &given_back);
}
FK_DEFINE_UNWIND(int64_t, holder, (int64_t, n))
FK_NO_LEAF(holder)
{
	self->memory = own(self->n);
	FK_FORK(x, fails_below, 20);
	FK_JOIN();
	disown(self->memory, self->n, &ended);
	FK_RETURN(self->x);
}
FK_END(holder)

FK_TASK(int64_t, asks_above, (int64_t, n), int64_t x;)
FK_NO_LEAF(asks_above)
{
	if (self->n == 0) {
		worker_ask(worker_self());
		FK_FORK(x, holder, 3);
	} else {
		FK_FORK(x, asks_above, self->n - 1);
	}
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(asks_above)

/* A frame whose job has failed before its body began: what its locals are is not known. */
FK_TASK(int64_t, dirties, (int64_t, n), unsigned char dirt[400];)
FK_NO_LEAF(dirties)
{
	memset(self->dirt, 0x5a, sizeof(self->dirt));
	__asm__ volatile("" : : "r"(self->dirt) : "memory");
	FK_RETURN(self->dirt[self->n]);
}
FK_END(dirties)

FK_TASK(int64_t, never_begins, (int64_t, n), int64_t x;)
FK_NO_LEAF(never_begins)
{
	FK_CALL(x, dirties, 7);
	FK_CALL(x, fails, -EXDEV);
	FK_CALL(x, holder, 3);
	FK_RETURN(self->x);
}
FK_END(never_begins)

/* ------------------------------------------------------------------------ failures */

/* Fails after somebody else has. */
FK_TASK(int64_t, fails_late, (int64_t, row))
{
	while (!verdict_get(rig.pool, (uint32_t)row).outcome)
		sched_yield();
	FK_LEAF_FAIL(99);
}
FK_NO_BODY(fails_late)
FK_END(fails_late)

FK_TASK(int64_t, both_fail, (int64_t, row), int64_t x; int64_t y;)
FK_NO_LEAF(both_fail)
{
	FK_FORK(x, fails_late, self->row);
	FK_CALL(y, fails, 7);
	FK_FORK(y, fails_late, self->row);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(both_fail)

/* Fails while its siblings run, which never end; on three workers or more. */
FK_TASK(int64_t, among_others, (int64_t, n), int64_t x; int64_t y; int64_t z;)
FK_NO_LEAF(among_others)
{
	FK_FORK(x, flat, 0);
	FK_FORK(y, wide, 60);
	while (!atomic_load(&tasks_reached))
		sched_yield();
	FK_FORK(z, fails, (int)self->n);
	FK_JOIN();
	FK_RETURN(0);
}
FK_END(among_others)

FK_EXPORT(fine_flat, "n:i64 -> i64", 0, "forks for ever, fine-grained")
FK_EXPORT(calls, "n:i64 -> i64", 0, "calls for ever")
FK_EXPORT(heap, "n:i64 -> i64", 0, "forks for ever without a join")
FK_EXPORT(by_forks, "n:i64 -> i64", 0, "deep by forks")
FK_EXPORT(by_calls, "n:i64 -> i64", 0, "deep by calls")
FK_EXPORT(by_both, "n:i64 -> i64", 0, "deep by both")
FK_EXPORT(owner, "n:i64 -> i64", 0, "holds memory")
FK_EXPORT(fine_owner, "n:i64 -> i64", 0, "holds memory, fine-grained")
FK_EXPORT(asks_above, "n:i64 -> i64", 0, "holds memory in a frame of the slow path")
FK_EXPORT(never_begins, "n:i64 -> i64", 0, "calls what never begins")
FK_EXPORT(both_fail, "row:i64 -> i64", 0, "fails twice")
FK_EXPORT(among_others, "n:i64 -> i64", 0, "fails beside others")
FK_MODULE(t, "test tasks")

/* ------------------------------------------------------------------------ tests */

static void start(uint32_t workers, bool forced)
{
	atomic_store(&tasks_reached, 0);
	atomic_store(&tasks_opened, 0);
	atomic_store(&begun, 0);
	atomic_store(&ended, 0);
	atomic_store(&given_back, 0);
	rig_start(&rig, workers, &fk_module, forced);
}

static void submit(uint32_t job, const char *task, int64_t n)
{
	rig_submit(&rig, job, task, &n, sizeof(n));
}

static void cancel(uint32_t job)
{
	root_cancel(rig.pool, job, rig.generation[job]);
}

static void wait_reached(uint64_t n)
{
	while (atomic_load(&tasks_reached) < n)
		sched_yield();
}

static void stop(void)
{
	quiet(&rig);
	ck_assert_uint_eq(atomic_load(&begun), atomic_load(&ended) + atomic_load(&given_back));
	rig_stop(&rig);
}

/* Starts a job that never ends, cancels it twice once so many tasks were reached, and then runs
 * another in its place. */
static void cancel_one(const char *task, int64_t n, uint64_t when)
{
	uint64_t failed = rig_counter(&rig, jobs_failed), before = atomic_load(&tasks_reached);

	submit(1, task, n);
	wait_reached(before + when);
	cancel(1);
	cancel(1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
	cancel(1);
	quiet(&rig);
	ck_assert_uint_eq(rig_counter(&rig, jobs_failed), failed + 1);
	submit(1, "t:fib", 12);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	ck_assert_int_eq(*(int64_t *)rig.jobs[1].result, 144);
}

START_TEST(million_frames_are_cancelled)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		start(workers, false);
		cancel_one("t:by_forks", 1000000, 1);
		cancel_one("t:by_calls", 1000000, 1);
		cancel_one("t:by_both", 300000, 1);
		ck_assert_uint_gt(rig_counter(&rig, unwound), 1000000);
		stop();
	}
}
END_TEST

START_TEST(every_shape_is_cancelled)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2)
		for (int forced = 0; forced < 2; forced++) {
			start(workers, forced);
			for (int i = 0; i < 5; i++) {
				cancel_one("t:flat", 0, 1);
				cancel_one("t:fine_flat", 0, 1);
				cancel_one("t:calls", 0, 1);
				cancel_one("t:heap", 0, 1);
				cancel_one("t:by_forks", 2000, 1);
				cancel_one("t:by_calls", 2000, 1);
				cancel_one("t:by_both", 2000, 1);
				cancel_one("t:wide", 60, 1 + 500 * (uint64_t)i);
			}
			stop();
		}
}
END_TEST

START_TEST(every_shape_is_cancelled_in_a_storm)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		pthread_t storm;

		start(workers, false);
		storm = quiet_storm_begin(&rig);
		for (int i = 0; i < 5; i++) {
			cancel_one("t:flat", 0, 1);
			cancel_one("t:fine_flat", 0, 1);
			cancel_one("t:by_forks", 2000, 1);
			cancel_one("t:by_calls", 2000, 1);
			cancel_one("t:by_both", 2000, 1);
			cancel_one("t:wide", 60, 1 + 500 * (uint64_t)i);
		}
		quiet_storm_end(storm);
		stop();
	}
}
END_TEST

START_TEST(many_jobs_are_cancelled_at_once)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		start(workers, false);
		for (uint32_t round = 0; round < 5; round++) {
			for (uint32_t i = 0; i < 60; i++)
				submit(i, i % 3 ? "t:wide" : "t:by_both", i % 3 ? 60 : 500);
			wait_reached(1);
			for (uint32_t i = 0; i < 60; i++)
				cancel((i * 7 + round) % 60);
			for (uint32_t i = 0; i < 60; i++)
				ck_assert_uint_eq(rig_wait(&rig, i), JOB_CANCELLED);
			quiet(&rig);
			ck_assert_uint_eq(rig_counter(&rig, jobs_failed) +
						  rig_counter(&rig, dropped),
					  60 * (round + 1));
		}
		stop();
	}
}
END_TEST

START_TEST(job_on_several_workers_is_cancelled)
{
	for (int forced = 0; forced < 2; forced++) {
		start(4, forced);
		for (int i = 0; i < 10; i++) {
			uint64_t steals = rig_counter(&rig, steals);

			submit(1, "t:wide", 60);
			while (rig_counter(&rig, steals) < steals + 3)
				sched_yield();
			cancel(1);
			ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
		}
		stop();
	}
}
END_TEST

START_TEST(job_that_was_set_aside_is_cancelled)
{
	static const char *const shapes[] = { "t:flat", "t:by_forks", "t:by_both" };

	for (int i = 0; i < 9; i++) {
		uint64_t moved;

		start(1, false);
		submit(1, shapes[i % 3], 100);
		wait_reached(1);
		moved = rig_counter(&rig, moved);
		submit(2, "t:until", 7);
		wait_reached(2);
		ck_assert_uint_gt(rig_counter(&rig, moved), moved);
		cancel(1);
		atomic_store(&tasks_opened, 1);
		ck_assert_uint_eq(rig_wait(&rig, 2), JOB_DONE);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
		stop();
	}
}
END_TEST

START_TEST(who_set_another_aside_is_cancelled)
{
	start(1, false);
	for (uint32_t i = 0; i < 20; i++) {
		atomic_store(&tasks_opened, 0);
		submit(1, "t:until", 7);
		wait_reached(3 * i + 1);
		submit(2, i % 2 ? "t:flat" : "t:by_both", 50);
		wait_reached(3 * i + 2);
		submit(3, i % 3 ? "t:flat" : "t:by_forks", 50);
		wait_reached(3 * i + 3);
		cancel(i % 2 ? 2 : 3);
		cancel(i % 2 ? 3 : 2);
		ck_assert_uint_eq(rig_wait(&rig, 2), JOB_CANCELLED);
		ck_assert_uint_eq(rig_wait(&rig, 3), JOB_CANCELLED);
		atomic_store(&tasks_opened, 1);
		/* What it set aside is as it was. */
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
		ck_assert_int_eq(*(int64_t *)rig.jobs[1].result, 7);
	}
	stop();
}
END_TEST

START_TEST(queued_job_is_cancelled_and_never_runs)
{
	start(1, false);
	submit(1, "t:held", 7);
	wait_reached(1);
	submit(2, "t:flat", 0);
	submit(3, "t:fib", 10);
	cancel(2);
	atomic_store(&tasks_opened, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	ck_assert_uint_eq(rig_wait(&rig, 2), JOB_CANCELLED);
	ck_assert_uint_eq(rig_wait(&rig, 3), JOB_DONE);
	ck_assert_uint_eq(atomic_load(&tasks_reached), 1);
	stop();
}
END_TEST

START_TEST(cancel_of_another_generation_does_nothing)
{
	start(2, false);
	submit(1, "t:until", 7);
	wait_reached(1);
	root_cancel(rig.pool, 1, rig.generation[1] - 1);
	verdict_set(rig.pool, 1, rig.generation[1] + 1, JOB_CANCELLED);
	atomic_store(&tasks_opened, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	cancel(1);
	submit(1, "t:fib", 12);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	stop();
}
END_TEST

/* Cancels a job when so many of its frames hold memory. */
static void cancel_owners(const char *task, uint64_t when)
{
	uint64_t before = atomic_load(&begun);

	submit(1, task, 60);
	while (atomic_load(&begun) < before + when)
		sched_yield();
	cancel(1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
	quiet(&rig);
	ck_assert_uint_eq(atomic_load(&begun), atomic_load(&ended) + atomic_load(&given_back));
}

START_TEST(what_frames_hold_is_given_back_once)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2)
		for (int forced = 0; forced < 2; forced++) {
			start(workers, forced);
			submit(1, "t:owner", 8);
			ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
			quiet(&rig);
			ck_assert_uint_eq(atomic_load(&given_back), 0);
			for (uint64_t i = 0; i < 10; i++) {
				cancel_owners("t:owner", 1 + 97 * i);
				cancel_owners("t:fine_owner", 1 + 61 * i);
			}
			ck_assert_uint_gt(atomic_load(&given_back), 0);
			stop();
		}
}
END_TEST

START_TEST(what_frames_hold_is_given_back_once_in_a_storm)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		pthread_t storm;

		start(workers, false);
		storm = quiet_storm_begin(&rig);
		for (uint64_t i = 0; i < 10; i++) {
			cancel_owners("t:owner", 1 + 97 * i);
			cancel_owners("t:fine_owner", 1 + 61 * i);
		}
		quiet_storm_end(storm);
		stop();
	}
}
END_TEST

START_TEST(frame_of_the_slow_path_gives_back)
{
	/* More levels than are public, so that the job goes in one piece. */
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		submit(1, "t:asks_above", 30);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
		ck_assert_int_eq(atomic_load(&rig.jobs[1].code), -EDOM);
		ck_assert_uint_eq(atomic_load(&begun), 1);
		ck_assert_uint_eq(atomic_load(&given_back), 1);
		stop();
	}
}
END_TEST

START_TEST(frame_that_never_began_gives_nothing_back)
{
	for (int forced = 0; forced < 2; forced++) {
		start(1, forced);
		submit(1, "t:never_begins", 0);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
		ck_assert_int_eq(atomic_load(&rig.jobs[1].code), -EXDEV);
		ck_assert_uint_eq(atomic_load(&given_back), 0);
		stop();
	}
}
END_TEST

START_TEST(first_code_wins)
{
	start(2, false);
	for (int i = 0; i < 50; i++) {
		submit(5, "t:both_fail", 5);
		ck_assert_uint_eq(rig_wait(&rig, 5), JOB_FAILED);
		ck_assert_int_eq(atomic_load(&rig.jobs[5].code), 7);
	}
	stop();
}
END_TEST

START_TEST(failure_ends_siblings_that_run)
{
	for (uint32_t workers = 3; workers <= 4; workers++) {
		start(workers, false);
		for (int i = 0; i < 20; i++) {
			atomic_store(&tasks_reached, 0);
			submit(1, "t:among_others", -EIO);
			ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
			ck_assert_int_eq(atomic_load(&rig.jobs[1].code), -EIO);
			quiet(&rig);
		}
		stop();
	}
}
END_TEST

START_TEST(job_beyond_its_stack_fails_alone)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2)
		for (int forced = 0; forced < 2; forced++) {
			start(workers, forced);
			rig.options.stack_max = 1 << 20;
			/* Until the others have ended. */
			submit(9, "t:until", 11);
			wait_reached(1);
			for (uint32_t i = 0; i < 3; i++) {
				submit(1, "t:called", 1000000);
				submit(2, "t:called", 1000);
				/* Forks that are all stolen have a stack each. */
				submit(3, forced ? "t:called" : "t:forked", 1000000);
				submit(4, "t:fib", 12);
				ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
				ck_assert_int_eq(atomic_load(&rig.jobs[1].code), -ENOMEM);
				ck_assert_uint_eq(rig_wait(&rig, 3), JOB_FAILED);
				ck_assert_int_eq(atomic_load(&rig.jobs[3].code), -ENOMEM);
				ck_assert_uint_eq(rig_wait(&rig, 2), JOB_DONE);
				ck_assert_int_eq(*(int64_t *)rig.jobs[2].result, 1000);
				ck_assert_uint_eq(rig_wait(&rig, 4), JOB_DONE);
				ck_assert_int_eq(*(int64_t *)rig.jobs[4].result, 144);
			}
			atomic_store(&tasks_opened, 1);
			ck_assert_uint_eq(rig_wait(&rig, 9), JOB_DONE);
			stop();
		}
}
END_TEST

CHECK_MAIN("unwind", million_frames_are_cancelled, every_shape_is_cancelled,
	   every_shape_is_cancelled_in_a_storm, many_jobs_are_cancelled_at_once,
	   job_on_several_workers_is_cancelled, job_that_was_set_aside_is_cancelled,
	   who_set_another_aside_is_cancelled, queued_job_is_cancelled_and_never_runs,
	   cancel_of_another_generation_does_nothing, what_frames_hold_is_given_back_once,
	   what_frames_hold_is_given_back_once_in_a_storm, frame_of_the_slow_path_gives_back,
	   frame_that_never_began_gives_nothing_back, first_code_wins,
	   failure_ends_siblings_that_run, job_beyond_its_stack_fails_alone)
