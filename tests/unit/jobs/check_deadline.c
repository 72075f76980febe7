/* SPDX-License-Identifier: MIT */
/*
 * deadline - jobs end when their deadline has passed, and not before
 *
 * The heap of jobs with a deadline, alone; and jobs whose deadline passes before they start, while
 * they run, or much later, single ones and thousands. Nothing here measures time: an endless job
 * ends as EXPIRED, or the test hangs.
 */
#define CHECK_TIMEOUT 120

#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "daemon/jobs/attach.h"
#include "daemon/jobs/job_cancel.h"
#include "daemon/core/job_abort.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/jobs/membership.h"
#include "daemon/pool/manager_requests.h"
#include "shm/ledger.h"
#include "tests/support/check_unit.h"
#include "tests/support/quiet.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

#define FAR (3600 * NSEC_PER_SEC)

static struct rig rig;

FK_MODULE(t, "test tasks")

static void start(uint32_t workers, bool forced)
{
	atomic_store(&tasks_reached, 0);
	atomic_store(&tasks_opened, 0);
	rig_start(&rig, workers, &fk_module, forced);
}

static uint32_t listed(void)
{
	struct deadlines *all = rig.pool->deadlines;
	uint32_t n;

	pthread_mutex_lock(&all->lock);
	n = all->n;
	pthread_mutex_unlock(&all->lock);
	return n;
}

/* Checks that no job is left in the list. */
static void stop(void)
{
	quiet(&rig);
	ck_assert_uint_eq(listed(), 0);
	rig_stop(&rig);
}

static bool runs(uint32_t job)
{
	return ledger_row(rig.pool->arena, job).state == LEDGER_RUNNING;
}

static void submit(uint32_t job, const char *task, int64_t n, uint64_t deadline)
{
	atomic_store(&rig.jobs[job].deadline_ns, deadline);
	rig_submit(&rig, job, task, &n, sizeof(n));
}

/* Rows without a job: the dispatcher forgets them when it looks. All deadlines are far away. */
static void add(uint32_t row, uint64_t at)
{
	(void)deadline_add(rig.pool, row, 1, at);
}

START_TEST(heap_knows_where_each_job_is)
{
	struct deadlines *all;
	uint64_t at = clock_ns() + FAR;
	uint32_t n = 0, random = 1;

	start(1, false);
	all = rig.pool->deadlines;
	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t row = (random = random * 1664525u + 1013904223u) >> 8 & (RIG_JOBS - 1);

		if (!atomic_load(&all->where[row])) {
			add(row, at + (random >> 10) % 1000);
			n++;
		} else if (i % 3) {
			deadline_remove(rig.pool, row);
			deadline_remove(rig.pool, row);
			n--;
		} else {
			add(row, at + (random >> 10) % 1000); /* at its index */
		}
		ck_assert_uint_eq(listed(), n);
		if (i % 500)
			continue;
		for (uint32_t k = 0; k < n; k++) {
			ck_assert_uint_eq(atomic_load(&all->where[all->heap[k].row]), k + 1);
			ck_assert(!k || all->heap[(k - 1) / 2].look_ns <= all->heap[k].look_ns);
		}
	}
	for (uint32_t row = 0; row < RIG_JOBS; row++)
		deadline_remove(rig.pool, row);
	stop();
}
END_TEST

START_TEST(heap_returns_the_next_deadline)
{
	uint64_t at = clock_ns() + FAR;

	start(1, false);
	ck_assert_uint_eq(deadlines_check(rig.pool), 0);
	/* Only the earliest deadline wakes the dispatcher. */
	ck_assert(deadline_add(rig.pool, 5, 1, at + 20));
	ck_assert(deadline_add(rig.pool, 6, 1, at + 10));
	ck_assert(!deadline_add(rig.pool, 7, 1, at + 30));
	ck_assert_uint_eq(deadlines_check(rig.pool), at + 10);
	ck_assert(!deadline_is_over(rig.pool, 6, 1, at + 9));
	ck_assert(deadline_is_over(rig.pool, 6, 1, at + 10));
	ck_assert(!deadline_is_over(rig.pool, 6, 2, at + 10)); /* that generation has no deadline */
	ck_assert(!deadline_is_over(rig.pool, 8, 1, at + 10));
	deadline_remove(rig.pool, 6);
	ck_assert_uint_eq(deadlines_check(rig.pool), at + 20);
	deadline_remove(rig.pool, 5);
	ck_assert_uint_eq(deadlines_check(rig.pool), at + 30);
	deadline_remove(rig.pool, 7);
	ck_assert_uint_eq(deadlines_check(rig.pool), 0);
	stop();
}
END_TEST

/* A row without a job, or with another generation, is looked at once. */
START_TEST(heap_forgets_ended_jobs)
{
	start(1, false);
	deadline_watch(rig.pool, 9, 5);
	while (listed())
		sched_yield();
	stop();
}
END_TEST

/* The job ended in the meantime, and the record holds another job now. */
START_TEST(heap_keeps_a_later_jobs_deadline)
{
	uint64_t at = clock_ns() + FAR;

	start(1, false);
	ck_assert(deadline_add(rig.pool, 5, 3, at));
	deadline_watch(rig.pool, 5, 2);
	ck_assert(deadline_is_over(rig.pool, 5, 3, at));
	/* Generations wrap. */
	deadline_remove(rig.pool, 5);
	ck_assert(deadline_add(rig.pool, 5, 1, at));
	deadline_watch(rig.pool, 5, JOB_GEN_MASK);
	ck_assert(deadline_is_over(rig.pool, 5, 1, at));
	deadline_remove(rig.pool, 5);
	stop();
}
END_TEST

static void many_at_once(struct pool *pool)
{
	uint64_t next;

	for (uint32_t row = 0; row < RIG_JOBS; row++)
		(void)deadline_add(pool, row, 1, 1);
	next = deadlines_check(pool);
	ck_assert_uint_ge(pool->deadlines->n, RIG_JOBS / 2);
	ck_assert_uint_lt(pool->deadlines->n, RIG_JOBS);
	ck_assert_uint_eq(next, 1);
}

/* However many jobs are due, a pass over them is bounded, and the next one follows at once. */
START_TEST(pass_over_the_heap_is_bounded)
{
	rig_prepare = many_at_once;
	start(1, false);
	while (listed())
		sched_yield();
	stop();
}
END_TEST

/* The only worker runs a leaf and has not even taken the jobs off the ring. */
START_TEST(queued_job_expires_at_its_deadline_and_not_later)
{
	start(1, false);
	for (uint32_t round = 0; round < 5; round++) {
		atomic_store(&tasks_reached, 0);
		atomic_store(&tasks_opened, 0);
		submit(1, "t:held", 7, 0);
		while (!atomic_load(&tasks_reached))
			sched_yield();
		for (uint32_t i = 2; i < 300; i++)
			submit(i, "t:flat", 0,
			       i == 2  ? 1
			       : i % 2 ? 0
				       : clock_ns() + (i % 8) * NSEC_PER_MSEC);
		/* The worker still runs the leaf. */
		for (uint32_t i = 2; i < 300; i += 2)
			ck_assert_uint_eq(rig_wait(&rig, i), JOB_EXPIRED);
		for (uint32_t i = 3; i < 300; i += 2) {
			ck_assert_uint_eq(job_outcome(&rig.jobs[i]), JOB_PENDING);
			rig_cancel(&rig, i);
		}
		for (uint32_t i = 3; i < 300; i += 2)
			ck_assert_uint_eq(rig_wait(&rig, i), JOB_CANCELLED);
		ck_assert_uint_eq(job_outcome(&rig.jobs[1]), JOB_PENDING);
		atomic_store(&tasks_opened, 1);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
		ck_assert_uint_eq(atomic_load(&tasks_reached), 1);
	}
	ck_assert_uint_eq(rig_counter(&rig, jobs_dropped), 5 * 298);
	stop();
}
END_TEST

/* The same for jobs of a client that has left. */
START_TEST(waiting_jobs_of_a_dead_client_end_at_once)
{
	start(1, false);
	submit(1, "t:held", 7, 0);
	while (!atomic_load(&tasks_reached))
		sched_yield();
	for (uint32_t i = 2; i < RIG_JOBS; i++)
		submit(i, "t:flat", 0, 0);
	while (!fair_queued(rig.pool->fair))
		sched_yield();
	clients_gone(rig.pool, 0, 1);
	while (!rig_counter(&rig, jobs_dropped) || fair_queued(rig.pool->fair))
		sched_yield();
	ck_assert_uint_eq(rig_counter(&rig, jobs_started), 1);
	atomic_store(&tasks_opened, 1);
	while (atomic_load(&rig.pool->clients.entries[0].state) != CLIENT_NONE)
		sched_yield();
	rig_stop(&rig);
}
END_TEST

static void expect_cancelled(struct pool *pool, uint32_t job)
{
	ck_assert_uint_eq(job_outcome(&rig.jobs[job]), JOB_PENDING);
	(void)deadlines_check(pool);
	ck_assert_uint_eq(job_outcome(&rig.jobs[job]), JOB_CANCELLED);
}

/* Before the workers start: this thread acts as the channel's thread, the dispatcher and a
 * worker. */
static void cancel_by_hand(struct pool *pool)
{
	struct fair *fair = pool->fair;
	uint32_t rows[FAIR_BATCH_JOBS];

	/* On its way in: the mark is set before the job is taken off its ring. */
	submit(1, "t:flat", 0, 0);
	job_cancel(pool, 1, rig.generation[1]);
	intake_collect(pool, 0);
	expect_cancelled(pool, 1);
	/* Taken by a worker, which does not start the job, and returns it. */
	submit(2, "t:flat", 0, 0);
	intake_collect(pool, 0);
	fair_lock(fair);
	ck_assert_uint_eq(fair_pick(fair, 0, rows, FAIR_BATCH_JOBS, clock_ns()), 1);
	fair_unlock(fair);
	job_cancel(pool, 2, rig.generation[2]);
	(void)deadlines_check(pool);
	fair_lock(fair);
	fair_return(fair, rows, 1, clock_ns());
	fair_unlock(fair);
	for (uint64_t from = clock_ns(); clock_ns() < from + NSEC_PER_MSEC;)
		; /* the next pass is not due at once */
	expect_cancelled(pool, 2);
	/* In a queue: at once. */
	submit(3, "t:flat", 0, 0);
	intake_collect(pool, 0);
	job_cancel(pool, 3, rig.generation[3]);
	ck_assert_uint_eq(job_outcome(&rig.jobs[3]), JOB_CANCELLED);
	ck_assert_uint_eq(fair_queued(fair), 0);
}

START_TEST(cancel_finds_a_job_in_a_ring_at_a_worker_and_in_a_queue)
{
	rig_prepare = cancel_by_hand;
	start(1, false);
	ck_assert_uint_eq(rig_counter(&rig, jobs_dropped), 3);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 10), 55);
	stop();
}
END_TEST

/* In any state of the job: on its way, queued, picked, running, or done. */
START_TEST(cancel_at_any_moment_is_not_lost)
{
	uint32_t random = 1;

	start(2, false);
	for (uint32_t round = 0; round < 3000; round++) {
		uint32_t wait = (random = random * 1664525u + 1013904223u) >> 20;

		submit(1, "t:flat", 0, 0);
		submit(2, "t:fib", 5, 0);
		for (volatile uint32_t i = 0; i < wait; i++)
			;
		rig_cancel(&rig, 1);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
		ck_assert_uint_eq(rig_wait(&rig, 2), JOB_DONE);
	}
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

/* Fewer jobs than workers: a suspended job waits until a worker is free. */
START_TEST(only_jobs_past_their_deadline_expire)
{
	start(4, false);
	for (uint32_t i = 0; i < 20; i++) {
		submit(1, "t:flat", 0, clock_ns() + FAR);
		submit(2, "t:flat", 0, clock_ns() + 3 * NSEC_PER_MSEC);
		submit(3, "t:flat", 0, 0);
		ck_assert_uint_eq(rig_wait(&rig, 2), JOB_EXPIRED);
		for (uint32_t job = 1; job <= 3; job += 2) {
			ck_assert_uint_eq(job_outcome(&rig.jobs[job]), JOB_PENDING);
			rig_cancel(&rig, job);
			ck_assert_uint_eq(rig_wait(&rig, job), JOB_CANCELLED);
		}
	}
	stop();
}
END_TEST

static void set_default(uint64_t ns)
{
	static const uint64_t no_rules[PROTO_RULES];

	intake_set_rights(rig.pool, 0, 1, ns, no_rules);
}

START_TEST(default_deadline_is_for_jobs_without_one_and_can_change)
{
	start(4, false);
	set_default(3 * NSEC_PER_MSEC);
	for (uint32_t i = 0; i < 20; i++) {
		submit(1, "t:flat", 0, clock_ns() + FAR);
		submit(2, "t:flat", 0, 0);
		ck_assert_uint_eq(rig_wait(&rig, 2), JOB_EXPIRED);
		ck_assert_uint_eq(job_outcome(&rig.jobs[1]), JOB_PENDING);
		rig_cancel(&rig, 1);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
	}
	set_default(1000 * NSEC_PER_SEC);
	submit(1, "t:fib", 15, 0);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	set_default(0);
	submit(1, "t:flat", 0, 0);
	while (!runs(1))
		sched_yield();
	ck_assert_uint_eq(listed(), 0);
	rig_cancel(&rig, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
	stop();
}
END_TEST

START_TEST(job_that_expires_in_the_queue_never_runs)
{
	start(1, false);
	submit(1, "t:held", 7, 0);
	while (!atomic_load(&tasks_reached))
		sched_yield();
	submit(2, "t:flat", 0, clock_ns());
	atomic_store(&tasks_opened, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	ck_assert_uint_eq(rig_wait(&rig, 2), JOB_EXPIRED);
	ck_assert_uint_eq(atomic_load(&tasks_reached), 1);
	stop();
}
END_TEST

/* The leaf does not notice the deadline; the job has its outcome when the leaf has ended. */
START_TEST(result_after_the_deadline_is_discarded)
{
	start(2, false);
	for (uint32_t i = 0; i < 10; i++) {
		uint32_t before = atomic_load(&tasks_reached);

		atomic_store(&tasks_opened, 0);
		submit(1, "t:held", 7, clock_ns() + 2 * NSEC_PER_MSEC);
		/* It may have expired before it began. */
		while (job_outcome(&rig.jobs[1]) == JOB_PENDING &&
		       !(atomic_load(&tasks_reached) > before && abort_get(rig.pool, 1).outcome))
			sched_yield();
		atomic_store(&tasks_opened, 1);
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
	/* i = 0 expires at once. */
	ck_assert_uint_ge(expired, 6);
	ck_assert_uint_eq(done + expired, 6 * RIG_JOBS);
	ck_assert_uint_eq(rig_counter(&rig, jobs_done), done);
	ck_assert_uint_eq(rig_counter(&rig, jobs_failed) + rig_counter(&rig, jobs_dropped),
			  expired);
	stop();
}
END_TEST

CHECK_MAIN("deadline")
