/* SPDX-License-Identifier: MIT */
/*
 * deadline - jobs that end when their time is over, and not before
 *
 * WHAT IT IS
 *   The list of running jobs with a deadline, driven alone; and jobs whose deadline is over before
 *   they start, over while they run, and far away, one by one and by the thousand. Nothing here
 *   measures time: a job that never ends by itself ends as EXPIRED, or the test hangs.
 */
#define CHECK_TIMEOUT 120

#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "daemon/root.h"
#include "daemon/verdict.h"
#include "tests/check_unit.h"
#include "tests/quiet.h"
#include "tests/rig.h"

#define FAR (3600 * NSEC_PER_SEC)

static struct rig rig;
static _Atomic uint32_t reached, opened;

FK_TASK(int64_t, leaf, (int64_t, n))
{
	FK_LEAF(n);
}
FK_NO_BODY(leaf)
FK_END(leaf)

FK_TASK(int64_t, fib, (int64_t, n), int64_t x; int64_t y;)
{
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(fib)
{
	FK_FORK(x, fib, self->n - 1);
	FK_CALL(y, fib, self->n - 2);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(fib)

FK_TASK(int64_t, flat, (int64_t, n), int64_t x;)
FK_NO_LEAF(flat)
{
	atomic_fetch_add(&reached, 1);
	for (;;) {
		FK_FORK(x, leaf, 0);
		FK_JOIN();
	}
}
FK_END(flat)

FK_TASK(int64_t, wide, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(wide)
{
	if (self->n == 0)
		FK_RETURN(1);
	FK_FORK(x, wide, self->n - 1);
	FK_CALL(y, wide, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(wide)

FK_TASK(int64_t, held, (int64_t, n))
{
	atomic_fetch_add(&reached, 1);
	while (!atomic_load(&opened))
		sched_yield();
	FK_LEAF(n);
}
FK_NO_BODY(held)
FK_END(held)

FK_EXPORT(fib, "n:i64 -> i64", 0, "forks")
FK_EXPORT(flat, "n:i64 -> i64", 0, "forks for ever")
FK_EXPORT(wide, "n:i64 -> i64", 0, "wide")
FK_EXPORT(held, "n:i64 -> i64", 0, "a long leaf")
FK_MODULE(t, "test tasks")

static void start(uint32_t workers, bool forced)
{
	atomic_store(&reached, 0);
	atomic_store(&opened, 0);
	rig_start(&rig, workers, &fk_module, forced);
}

static uint32_t listed(void)
{
	struct deadlines *all = &rig.pool->deadlines;
	uint32_t n;

	pthread_mutex_lock(&all->lock);
	n = all->n;
	pthread_mutex_unlock(&all->lock);
	return n;
}

/* No job is left in the list. */
static void stop(void)
{
	quiet(&rig);
	ck_assert_uint_eq(listed(), 0);
	rig_stop(&rig);
}

static void submit(uint32_t job, const char *task, int64_t n, uint64_t deadline)
{
	atomic_store(&rig.jobs[job].deadline_ns, deadline);
	rig_submit(&rig, job, task, &n, sizeof(n));
}

START_TEST(list_knows_where_each_job_is)
{
	static uint32_t places[RIG_JOBS];
	uint32_t n = 0, random = 1;

	start(1, false);
	memset(places, 0xff, sizeof(places));
	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t job = (random = random * 1664525u + 1013904223u) >> 8 & (RIG_JOBS - 1);
		struct deadlines *all = &rig.pool->deadlines;

		if (places[job] == DEADLINE_NONE) {
			deadline_add(rig.pool, job, 1, clock_ns() + FAR, &places[job]);
			n++;
		} else {
			deadline_remove(rig.pool, &places[job]);
			deadline_remove(rig.pool, &places[job]);
			ck_assert_uint_eq(places[job], DEADLINE_NONE);
			n--;
		}
		ck_assert_uint_eq(listed(), n);
		if (i % 500)
			continue;
		for (uint32_t k = 0; k < n; k++) {
			ck_assert_ptr_eq(all->jobs[k].place, &places[all->jobs[k].row]);
			ck_assert_uint_eq(places[all->jobs[k].row], k);
		}
	}
	for (uint32_t job = 0; job < RIG_JOBS; job++)
		deadline_remove(rig.pool, &places[job]);
	stop();
}
END_TEST

START_TEST(list_says_when_the_next_one_is)
{
	uint32_t places[3];
	uint64_t at = clock_ns() + FAR;

	start(1, false);
	ck_assert_uint_eq(deadlines_check(rig.pool), 0);
	deadline_add(rig.pool, 5, 1, at + 20, &places[0]);
	deadline_add(rig.pool, 6, 1, at + 10, &places[1]);
	deadline_add(rig.pool, 7, 1, at + 30, &places[2]);
	ck_assert_uint_eq(deadlines_check(rig.pool), at + 10);
	deadline_remove(rig.pool, &places[1]);
	ck_assert_uint_eq(deadlines_check(rig.pool), at + 20);
	deadline_remove(rig.pool, &places[0]);
	ck_assert_uint_eq(deadlines_check(rig.pool), at + 30);
	deadline_remove(rig.pool, &places[2]);
	ck_assert_uint_eq(deadlines_check(rig.pool), 0);
	stop();
}
END_TEST

START_TEST(job_that_runs_beyond_its_deadline_expires)
{
	static const char *const tasks[] = { "t:flat", "t:wide" };

	for (uint32_t workers = 1; workers <= 4; workers *= 2)
		for (int forced = 0; forced < 2; forced++) {
			start(workers, forced);
			for (uint32_t i = 0; i < 6; i++) {
				submit(1, tasks[i % 2], 60, clock_ns() + 5 * NSEC_PER_MSEC);
				ck_assert_uint_eq(rig_wait(&rig, 1), JOB_EXPIRED);
			}
			stop();
		}
}
END_TEST

START_TEST(running_job_with_a_far_deadline_is_done)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		start(workers, false);
		for (int i = 0; i < 50; i++) {
			submit(1, "t:fib", 15, clock_ns() + FAR);
			submit(2, "t:fib", 15, UINT64_MAX);
			submit(3, "t:fib", 15, 0);
			for (uint32_t job = 1; job <= 3; job++) {
				ck_assert_uint_eq(rig_wait(&rig, job), JOB_DONE);
				ck_assert_int_eq(*(int64_t *)rig.jobs[job].result, 610);
			}
		}
		stop();
	}
}
END_TEST

/* Fewer jobs than workers: one that was set aside waits until a worker is free. */
START_TEST(only_who_is_late_expires)
{
	start(4, false);
	for (uint32_t i = 0; i < 20; i++) {
		submit(1, "t:flat", 0, clock_ns() + FAR);
		submit(2, "t:flat", 0, clock_ns() + 3 * NSEC_PER_MSEC);
		submit(3, "t:flat", 0, 0);
		ck_assert_uint_eq(rig_wait(&rig, 2), JOB_EXPIRED);
		for (uint32_t job = 1; job <= 3; job += 2) {
			ck_assert_uint_eq(job_outcome(&rig.jobs[job]), JOB_PENDING);
			root_cancel(rig.pool, job, rig.generation[job]);
			ck_assert_uint_eq(rig_wait(&rig, job), JOB_CANCELLED);
		}
	}
	stop();
}
END_TEST

START_TEST(late_in_the_queue_expires_and_never_runs)
{
	start(1, false);
	submit(1, "t:held", 7, 0);
	while (!atomic_load(&reached))
		sched_yield();
	submit(2, "t:flat", 0, clock_ns());
	atomic_store(&opened, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	ck_assert_uint_eq(rig_wait(&rig, 2), JOB_EXPIRED);
	ck_assert_uint_eq(atomic_load(&reached), 1);
	stop();
}
END_TEST

/* The leaf does not see it; the job has its outcome when the leaf has ended. */
START_TEST(result_after_the_deadline_is_none)
{
	start(2, false);
	for (uint32_t i = 0; i < 10; i++) {
		uint32_t before = atomic_load(&reached);

		atomic_store(&opened, 0);
		submit(1, "t:held", 7, clock_ns() + 2 * NSEC_PER_MSEC);
		/* Or it was late before it began. */
		while (job_outcome(&rig.jobs[1]) == JOB_PENDING &&
		       !(atomic_load(&reached) > before && verdict_get(rig.pool, 1).outcome))
			sched_yield();
		atomic_store(&opened, 1);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_EXPIRED);
	}
	stop();
}
END_TEST

START_TEST(thousands_of_short_jobs_with_deadlines)
{
	uint64_t done = 0, expired = 0;

	start(4, false);
	for (uint32_t round = 0; round < 6; round++) {
		for (uint32_t i = 0; i < RIG_JOBS; i++)
			submit(i, "t:fib", 8,
			       clock_ns() + (i % 4 ? FAR : (i % 64) * 20 * NSEC_PER_USEC));
		for (uint32_t i = 0; i < RIG_JOBS; i++) {
			uint32_t outcome = rig_wait(&rig, i);

			if (i % 4)
				ck_assert_uint_eq(outcome, JOB_DONE);
			else
				ck_assert(outcome == JOB_DONE || outcome == JOB_EXPIRED);
			/* Never a half-written result. */
			if (outcome == JOB_DONE)
				ck_assert_int_eq(*(int64_t *)rig.jobs[i].result, 21);
			done += outcome == JOB_DONE;
			expired += outcome == JOB_EXPIRED;
		}
	}
	/* i = 0 is late at once. */
	ck_assert_uint_ge(expired, 6);
	ck_assert_uint_eq(done + expired, 6 * RIG_JOBS);
	ck_assert_uint_eq(rig_counter(&rig, jobs_done), done);
	ck_assert_uint_eq(rig_counter(&rig, jobs_failed), expired);
	stop();
}
END_TEST

CHECK_MAIN("deadline", list_knows_where_each_job_is, list_says_when_the_next_one_is,
	   job_that_runs_beyond_its_deadline_expires, running_job_with_a_far_deadline_is_done,
	   only_who_is_late_expires, late_in_the_queue_expires_and_never_runs,
	   result_after_the_deadline_is_none, thousands_of_short_jobs_with_deadlines)
