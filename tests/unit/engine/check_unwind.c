/* SPDX-License-Identifier: MIT */
/*
 * unwind - jobs that end early: cancelled, failed, out of stack
 *
 * Endless tasks, in every shape that a job can have when it is cancelled: deep, by forks, calls and
 * both; wide; flat; on several workers; suspended; queued. Each is cancelled, or one of its tasks
 * fails, on one, two and four workers. This is repeated with every fork treated as stolen, and
 * under a storm of signals.
 *
 * INVARIANTS
 *   Each job has one outcome, the first one. Afterwards no worker is busy, and no job holds stack
 *   memory (tests/support/quiet.h). Every frame that began has either ended or run its FK_UNWIND
 *   block, never both and never twice. AddressSanitizer checks the memory.
 */
#define CHECK_TIMEOUT 200

#include <check.h>
#include <errno.h>
#include <sched.h>

#include "daemon/jobs/abort.h"
#include "daemon/jobs/job_cancel.h"
#include "daemon/core/job_abort.h"
#include "tests/support/check_unit.h"
#include "tests/support/quiet.h"
#include "tests/support/unwind_tasks.h"

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

/* Starts an endless job and cancels it twice once this many tasks were reached. Then runs another
 * job in its record. */
static void cancel_one(const char *task, int64_t n, uint64_t when)
{
	uint64_t failed = rig_counter(&rig, jobs_failed), before = atomic_load(&tasks_reached);

	submit(1, task, n);
	wait_reached(before + when);
	rig_cancel(&rig, 1);
	rig_cancel(&rig, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
	rig_cancel(&rig, 1);
	quiet(&rig);
	ck_assert_uint_eq(rig_counter(&rig, jobs_failed), failed + 1);
	submit(1, "t:fib", 12);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	ck_assert_int_eq(*(int64_t *)rig.jobs[1].result, 144);
}

/* Fewer frames cover the same code for ThreadSanitizer. */
#ifdef FK_SANITIZE_THREAD
#define MILLION 100000
#else
#define MILLION 1000000
#endif

START_TEST(million_frames_are_cancelled)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		start(workers, false);
		cancel_one("t:by_forks", MILLION, 1);
		cancel_one("t:by_calls", MILLION, 1);
		cancel_one("t:by_both", MILLION / 3, 1);
		ck_assert_uint_gt(rig_counter(&rig, unwound), MILLION);
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
				rig_cancel(&rig, (i * 7 + round) % 60);
			for (uint32_t i = 0; i < 60; i++)
				ck_assert_uint_eq(rig_wait(&rig, i), JOB_CANCELLED);
			quiet(&rig);
			ck_assert_uint_eq(rig_counter(&rig, jobs_failed) +
						  rig_counter(&rig, jobs_dropped),
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
			rig_cancel(&rig, 1);
			ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
		}
		stop();
	}
}
END_TEST

START_TEST(suspended_job_is_cancelled)
{
	static const char *const shapes[] = { "t:flat", "t:by_forks", "t:by_both" };

	for (int i = 0; i < 9; i++) {
		uint64_t moved;

		start(1, false);
		submit(1, shapes[i % 3], 100);
		wait_reached(1);
		moved = rig_counter(&rig, frames_suspended);
		submit(2, "t:until", 7);
		wait_reached(2);
		ck_assert_uint_gt(rig_counter(&rig, frames_suspended), moved);
		rig_cancel(&rig, 1);
		atomic_store(&tasks_opened, 1);
		ck_assert_uint_eq(rig_wait(&rig, 2), JOB_DONE);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
		stop();
	}
}
END_TEST

START_TEST(job_that_preempted_another_is_cancelled)
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
		rig_cancel(&rig, i % 2 ? 2 : 3);
		rig_cancel(&rig, i % 2 ? 3 : 2);
		ck_assert_uint_eq(rig_wait(&rig, 2), JOB_CANCELLED);
		ck_assert_uint_eq(rig_wait(&rig, 3), JOB_CANCELLED);
		atomic_store(&tasks_opened, 1);
		/* The job that it suspended is intact. */
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
	rig_cancel(&rig, 2);
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
	job_cancel(rig.pool, 1, rig.generation[1] - 1);
	abort_set(rig.pool, 1, rig.generation[1] + 1, JOB_CANCELLED, 0);
	atomic_store(&tasks_opened, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	rig_cancel(&rig, 1);
	submit(1, "t:fib", 12);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	stop();
}
END_TEST

/* Cancels a job when this many of its frames hold memory. */
static void cancel_owners(const char *task, uint64_t when)
{
	uint64_t before = atomic_load(&begun);

	submit(1, task, 60);
	while (atomic_load(&begun) < before + when)
		sched_yield();
	rig_cancel(&rig, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
	quiet(&rig);
	ck_assert_uint_eq(atomic_load(&begun), atomic_load(&ended) + atomic_load(&given_back));
}

START_TEST(memory_of_frames_is_released_once)
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

START_TEST(memory_of_frames_is_released_once_in_a_storm)
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

START_TEST(frame_of_the_slow_path_releases_its_memory)
{
	/* More levels than are published, so that the job moves in one piece. */
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

START_TEST(frame_that_never_began_releases_nothing)
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
			atomic_store(&rig.pool->settings.stack_max, 1 << 20);
			/* Until the others have ended. */
			submit(9, "t:until", 11);
			wait_reached(1);
			for (uint32_t i = 0; i < 3; i++) {
				submit(1, "t:called", 1000000);
				submit(2, "t:called", 1000);
				/* If all forks are stolen, each has its own stack. */
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

CHECK_MAIN("unwind")
