/* SPDX-License-Identifier: MIT */
/*
 * Fibers that sleep or wait with a deadline, on the workers of a pool in this process. None resumes
 * too early, each resumes, and nothing is left of waits that ended otherwise. Tests check results
 * and counters.
 */
#define CHECK_TIMEOUT 120

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include <forkd/fiber.h>

#include "common/clock.h"
#include "tests/support/check_unit.h"
#include "tests/support/fiber_rig.h"
#include "tests/support/short_of_memory.h"

#define HOUR (3600 * NSEC_PER_SEC)

/* ------------------------------------------------------------------------ tasks */

FK_FIBER_TASK(int64_t, naps, (int64_t, n))
{
	for (int64_t i = 0; i < n; i++) {
		uint64_t until = clock_ns() + 200 * NSEC_PER_USEC;

		FAILS(fk_fiber_sleep(200 * NSEC_PER_USEC), 0);
		FAILS(clock_ns() >= until, true);
		until = clock_ns() + 100 * NSEC_PER_USEC;
		FAILS(fk_fiber_sleep_until(until), 0);
		FAILS(clock_ns() >= until, true);
	}
	return 0;
}
FK_EXPORT(naps, 0, "Sleeps 2n times: the line of what is not as it should be, or 0")

static void sleeps_an_hour(void *arg)
{
	(void)arg;
	if (fk_fiber_sleep(HOUR) == -ECANCELED)
		atomic_fetch_add(&cut, 1);
}

/* Each later fiber has an earlier time and becomes the first. */
FK_FIBER_TASK(int64_t, earlier, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(sleeps_an_hour, NULL, &all);
	FAILS(fk_fiber_yield(), 0);
	FAILS(fk_fiber_sleep(NSEC_PER_MSEC), 0);
	(void)fk_fiber_fail(-EDOM);
	FAILS(fk_counter_wait(&all, 0), -ECANCELED);
	return 0;
}
FK_EXPORT(earlier, 0, "Sleeps briefly while others sleep long, and fails")

static void naps_a_little(void *arg)
{
	/* Neighbours in spawn order are not neighbours in time. Times count from now: a time that
	 * has already passed would need no timer. */
	uint64_t from = clock_ns(), ns = 20 * NSEC_PER_MSEC;

	ns += (uint64_t)(uintptr_t)&ns * 2654435761 % (20 * NSEC_PER_MSEC);
	if (fk_fiber_sleep(ns) == 0 && clock_ns() >= from + ns)
		atomic_fetch_add((_Atomic int64_t *)arg, 1);
}

FK_FIBER_TASK(int64_t, many, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	_Atomic int64_t done = 0;

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(naps_a_little, (void *)(uintptr_t)&done, &all);
	(void)fk_counter_wait(&all, 0);
	return done;
}
FK_EXPORT(many, 0, "How many of n sleepers have slept as long as they wanted")

FK_FIBER_TASK(int64_t, timed, (int64_t, n))
{
	struct fk_counter numbers = FK_COUNTER_OF(2), none = { .fk_kind = 1 };

	/* At once: the counter has reached the value, or the time has passed. */
	FAILS(fk_counter_wait_until(&numbers, 2, 0), 0);
	FAILS(fk_counter_wait_until(&numbers, 2, FK_NEVER), 0);
	FAILS(fk_counter_wait_until(&numbers, 1, 0), -ETIMEDOUT);
	FAILS(fk_counter_wait_until(&none, 0, 0), -EINVAL);
	FAILS(fk_counter_wait_until(&none, 0, clock_ns() + HOUR), -EINVAL);
	/* Later, and nothing is left of the wait. If the time has passed before the wait begins,
	 * there is no wait. */
	for (int64_t waits = 0; waits < n;) {
		uint64_t until = clock_ns() + NSEC_PER_MSEC,
			 before = rig_counter(&rig, fiber_parks);

		FAILS(fk_counter_wait_until(&numbers, 1, until), -ETIMEDOUT);
		FAILS(clock_ns() >= until, true);
		waits += rig_counter(&rig, fiber_parks) != before;
	}
	FAILS(fk_counter_add(&numbers, -1), 0);
	FAILS(fk_counter_wait_until(&numbers, 1, clock_ns() + HOUR), 0);
	/* Nothing to wait for. */
	FAILS(fk_fiber_sleep(0), 0);
	FAILS(fk_fiber_sleep_until(1), 0);
	return 0;
}
FK_EXPORT(timed, 0, "The line of what is not as it should be, or 0")

struct race {
	struct fk_counter start, goal;
	uint64_t at_ns;
	_Atomic uint32_t outcomes[2]; /* 0, -ETIMEDOUT */
};

static void counts_at_that_time(void *arg)
{
	struct race *race = arg;

	while (clock_ns() < race->at_ns && !fk_fiber_is_over())
		(void)fk_fiber_yield();
	(void)fk_counter_add(&race->goal, -1);
}

static void waits_until_that_time(void *arg)
{
	struct race *race = arg;
	int r = fk_counter_wait_until(&race->goal, 0, race->at_ns);

	if (r == 0 || r == -ETIMEDOUT)
		atomic_fetch_add(&race->outcomes[r != 0], 1);
	else
		atomic_fetch_add(&cut, 1);
}

/* The counter reaches the value at the deadline of the wait. */
FK_FIBER_TASK(int64_t, race, (int64_t, n))
{
	struct race *race = calloc(1, sizeof(*race));
	int64_t sum;

	for (int64_t i = 0; i < n; i++) {
		struct fk_counter all = FK_COUNTER;

		race->goal = FK_COUNTER_OF(1);
		race->at_ns = clock_ns() + 150 * NSEC_PER_USEC + (uint64_t)i * 100;
		for (int k = 0; k < 3; k++)
			(void)fk_fiber_spawn(waits_until_that_time, race, &all);
		(void)fk_fiber_spawn(counts_at_that_time, race, &all);
		if (fk_counter_wait(&all, 0) < 0)
			break;
	}
	sum = race->outcomes[0] + race->outcomes[1];
	free(race);
	return sum;
}
FK_EXPORT(race, 0, "How many waits had an outcome")

static void waits_an_hour(void *arg)
{
	if (fk_counter_wait_until(arg, 0, clock_ns() + HOUR) == -ECANCELED)
		atomic_fetch_add(&cut, 1);
}

static void never_wakes(void *arg)
{
	(void)arg;
	if (fk_fiber_sleep(FK_NEVER) == -ECANCELED && fk_fiber_sleep(1) == -ECANCELED &&
	    fk_fiber_sleep_until(FK_NEVER) == -ECANCELED)
		atomic_fetch_add(&cut, 1);
}

FK_FIBER_TASK(int64_t, forever, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER, never = FK_COUNTER_OF(1);

	for (int64_t i = 0; i < n; i++) {
		(void)fk_fiber_spawn(sleeps_an_hour, NULL, &all);
		(void)fk_fiber_spawn(waits_an_hour, &never, &all);
		(void)fk_fiber_spawn(never_wakes, NULL, &all);
	}
	return fk_counter_wait(&all, 0);
}
FK_EXPORT(forever, 0, "3n fibers that wait for what is not to come soon")

FK_FIBER_TASK(int64_t, no_memory, (int64_t, n))
{
	struct fk_counter never = FK_COUNTER_OF(1);

	atomic_store(&short_of_memory, true);
	FAILS(fk_fiber_sleep(NSEC_PER_MSEC), -ENOMEM);
	FAILS(fk_counter_wait_until(&never, 0, clock_ns() + HOUR), -ENOMEM);
	atomic_store(&short_of_memory, false);
	FAILS(fk_fiber_sleep(NSEC_PER_MSEC), 0);
	return n;
}
FK_EXPORT(no_memory, 0, "The line of what is not as it should be, or n")

FK_LEAF_TASK(int64_t, no_fiber, (int64_t, n))
{
	struct fk_counter never = FK_COUNTER_OF(1);

	return fk_fiber_sleep(1) != -EPERM || fk_fiber_sleep_until(1) != -EPERM ||
	       fk_counter_wait_until(&never, 0, 1) != -EPERM;
}
FK_EXPORT(no_fiber, 0, "1 if a frame can do what only fibers can")

FK_MODULE(t, "What check_timer runs")

/* ------------------------------------------------------------------------ tests */

START_TEST(sleeping_fiber_resumes_not_too_early)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		ck_assert_int_eq(rig_call(&rig, "t:naps", 20), 0);
		ck_assert_uint_le(rig_counter(&rig, fiber_timers), 40);
		ck_assert_uint_gt(rig_counter(&rig, fiber_timers), 0);
		stop();
	}
}
END_TEST

START_TEST(earlier_sleeper_does_not_wait_for_later_ones)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		see_failed("t:earlier", 50, -EDOM);
		stop();
	}
}
END_TEST

START_TEST(thousands_of_sleepers_block_no_worker)
{
	start(2, false);
	ck_assert_int_eq(rig_call(&rig, "t:many", 5000), 5000);
	ck_assert_uint_eq(rig_counter(&rig, fiber_timers), 5000);
	ck_assert_uint_ge(rig_counter(&rig, fiber_parks), 5000);
	stop();
}
END_TEST

START_TEST(wait_for_a_counter_ends_at_its_deadline)
{
	start(1, false);
	ck_assert_int_eq(rig_call(&rig, "t:timed", 10), 0);
	ck_assert_uint_eq(rig_counter(&rig, fiber_timeouts), 10);
	ck_assert_uint_eq(rig_counter(&rig, fiber_timers), 10);
	ck_assert_uint_eq(rig_counter(&rig, fiber_parks), 10);
	/* The sleeps had nothing to wait for. */
	ck_assert_uint_eq(rig_counter(&rig, fiber_yields), 2);
	stop();
}
END_TEST

START_TEST(counter_reached_at_the_deadline_succeeds_or_times_out)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		ck_assert_int_eq(rig_call(&rig, "t:race", 500), 1500);
		stop();
	}
}
END_TEST

START_TEST(cancel_ends_sleeps)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		for (int i = 0; i < 5; i++) {
			start(workers, false);
			submit(1, "t:forever", 50);
			await_waiting(151);
			see_cancelled(1);
			ck_assert_uint_eq(atomic_load(&cut), 150);
			stop();
		}
	}
}
END_TEST

/* While timers are set, expire, or are cleared. */
START_TEST(cancel_at_any_moment_leaves_nothing)
{
	static const char *const tasks[] = { "t:race", "t:many", "t:naps" };

	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		for (uint32_t i = 0; i < 150; i++) {
			(void)cancel_after(i * 400, tasks[i % 3], 30);
		}
		stop();
	}
}
END_TEST

START_TEST(deadline_of_the_job_ends_sleeps)
{
	start(2, false);
	see_expired("t:forever", 50);
	stop();
}
END_TEST

START_TEST(sleep_without_memory_is_an_error)
{
	start(1, false);
	ck_assert_int_eq(rig_call(&rig, "t:no_memory", 0), 0);
	stop();
}
END_TEST

START_TEST(frames_do_not_sleep)
{
	start(1, false);
	ck_assert_int_eq(rig_call(&rig, "t:no_fiber", 0), 0);
	stop();
}
END_TEST

CHECK_MAIN("fiber_time")
