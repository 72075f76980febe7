/* SPDX-License-Identifier: MIT */
/* The table of all cases at the top of daemon/engine/slow_path.c, row by row, each identified by
 * its counters. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "shm/wake.h"
#include "tests/support/check_unit.h"
#include "tests/support/strand_tasks.h"

START_TEST(nested_children_touch_nothing_but_the_fast_path) /* rows 1, 2, 12 */
{
	rig_start(&rig, 1, &fk_module, false);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 20), 6765);
	ck_assert_uint_eq(rig_counter(&rig, forks_stolen), 0);
	ck_assert_uint_eq(rig_counter(&rig, unpublished), 0);
	ck_assert_uint_eq(rig_counter(&rig, frames_materialized), 0);
	ck_assert_uint_eq(rig_counter(&rig, strands), 1);
	rig_stop(&rig);
}
END_TEST

START_TEST(frames_of_sixty_forks_fit_on_the_first_stacklet)
{
	rig_start(&rig, 1, &fk_module, false);
	ck_assert_int_eq(rig_call(&rig, "t:forked", 60), 60);
	ck_assert_uint_eq(rig_counter(&rig, frames_materialized), 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(resumed_parents_of_called_children_continue) /* rows 6, 10, 11 */
{
	rig_start(&rig, 1, &fk_module, false);
	ck_assert_int_eq(rig_call(&rig, "t:called", 200000), 200000);
	ck_assert_uint_gt(rig_counter(&rig, frames_materialized), 0);
	ck_assert_uint_eq(rig_counter(&rig, forks_stolen), 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(resumed_parents_of_forked_children_are_popped) /* rows 7, 13 */
{
	rig_start(&rig, 1, &fk_module, false);
	ck_assert_int_eq(rig_call(&rig, "t:forked", 200000), 200000);
	ck_assert_uint_gt(rig_counter(&rig, frames_materialized), 0);
	ck_assert_uint_eq(rig_counter(&rig, forks_stolen), 0);
	ck_assert_uint_eq(rig_counter(&rig, unpublished), 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(published_parents_are_taken_back) /* rows 3, 4, 8 */
{
	rig_start(&rig, 1, &fk_module, false);
	ck_assert_int_eq(rig_call(&rig, "t:askers", 1000), 1000);
	ck_assert_uint_ge(rig_counter(&rig, unpublished), 998);
	ck_assert_uint_eq(rig_counter(&rig, published), rig_counter(&rig, unpublished));
	ck_assert_uint_eq(rig_counter(&rig, forks_stolen), 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(stolen_parents_join_when_all_have_ended) /* rows 5, 9, 14 */
{
	rig_start(&rig, 1, &fk_module, true);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 15), 610);
	/* fib(15) has 986 inner nodes, and each fork was stolen. */
	ck_assert_uint_eq(rig_counter(&rig, steals), 986);
	ck_assert_uint_eq(rig_counter(&rig, forks_stolen), 986);
	ck_assert_uint_eq(rig_counter(&rig, joins_waited), 0);
	ck_assert_uint_eq(rig_counter(&rig, joins_last), 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(last_child_resumes_the_parent_that_waits) /* rows 5, 15 */
{
	rig_start(&rig, 2, &fk_module, false);
	for (int i = 0; i < 50; i++) {
		uint64_t waited = rig_counter(&rig, joins_waited);
		uint64_t last = rig_counter(&rig, joins_last);

		atomic_store(&gate, waited);
		ck_assert_int_eq(rig_call(&rig, "t:waiter", 7), 8);
		ck_assert_uint_eq(rig_counter(&rig, joins_waited), waited + 1);
		ck_assert_uint_eq(rig_counter(&rig, joins_last), last + 1);
	}
	rig_stop(&rig);
}
END_TEST

START_TEST(waiting_job_preempts_the_giant_which_then_resumes) /* moved */
{
	int64_t n = 5;

	for (uint32_t workers = 1; workers <= 2; workers++) {
		atomic_store(&tasks_opened, 0);
		rig_start(&rig, workers, &fk_module, false);
		/* As many giants as workers. */
		for (uint32_t i = 0; i < workers; i++)
			rig_submit(&rig, 10 + i, "t:until", &n, sizeof(n));
		while (rig_counter(&rig, jobs_started) < workers)
			sched_yield();
		for (int i = 0; i < 20; i++)
			ck_assert_int_eq(rig_call(&rig, "t:fib", 10), 55);
		ck_assert_uint_gt(rig_counter(&rig, frames_suspended), 0);
		ck_assert_uint_eq(rig_counter(&rig, jobs_done), 20);
		atomic_store(&tasks_opened, 1);
		for (uint32_t i = 0; i < workers; i++)
			ck_assert_uint_eq(rig_wait(&rig, 10 + i), JOB_DONE);
		rig_stop(&rig);
	}
}
END_TEST

/* Only the continuation ends the leaf, so each of these tests hangs if it stays private. */
START_TEST(work_behind_a_long_leaf_is_taken) /* row 3 */
{
	for (uint32_t workers = 2; workers <= 4; workers += 2) {
		rig_start(&rig, workers, &fk_module, false);
		for (int i = 0; i < 30; i++) {
			atomic_store(&tasks_opened, 0);
			ck_assert_int_eq(rig_call(&rig, "t:opener", 7), 10);
			atomic_store(&tasks_opened, 0);
			ck_assert_int_eq(rig_call(&rig, "t:opener_above", 7), 9);
			atomic_store(&tasks_opened, 0);
			ck_assert_int_eq(rig_call(&rig, "t:fine_opener", 7), 8);
			atomic_store(&tasks_opened, 0);
			ck_assert_int_eq(rig_call(&rig, "t:deep", 50), 50);
		}
		ck_assert_uint_gt(rig_counter(&rig, forks_stolen), 0);
		rig_stop(&rig);
	}
}
END_TEST

static _Atomic uint32_t storm;

/* Sends as many signals as possible to all workers, and sometimes a request. */
static void *send_signals(void *arg)
{
	struct pool *pool = rig.pool;

	(void)arg;
	for (uint32_t i = 0; atomic_load(&storm); i++) {
		struct worker *w = &pool->workers[i % pool->n_workers];

		tgkill(getpid(), (pid_t)atomic_load(&w->board->tid), WORKER_SIGNAL);
		if (i % 7 == 0)
			worker_ask(w);
	}
	return NULL;
}

START_TEST(twelve_arguments_survive_forks_and_steals)
{
	for (int stolen = 0; stolen < 2; stolen++) {
		rig_start(&rig, 1, &fk_module, stolen);
		ck_assert_int_eq(rig_call(&rig, "t:of_twelve", 15), 610);
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(signals_at_any_moment_do_no_harm)
{
	pthread_t thread;

	for (uint32_t workers = 1; workers <= 4; workers++) {
		rig_start(&rig, workers, &fk_module, false);
		ck_assert_int_eq(rig_call(&rig, "t:fib", 10), 55);
		atomic_store(&storm, 1);
		ck_assert_int_eq(pthread_create(&thread, NULL, send_signals, NULL), 0);
		do {
			ck_assert_int_eq(rig_call(&rig, "t:mixed", 21), 10946);
			ck_assert_int_eq(rig_call(&rig, "t:fib", 18), 2584);
			ck_assert_int_eq(rig_call(&rig, "t:forked", 3000), 3000);
			ck_assert_int_eq(rig_call(&rig, "t:called", 3000), 3000);
		} while (rig_counter(&rig, published_by_signal) < 30);
		atomic_store(&storm, 0);
		pthread_join(thread, NULL);
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(job_fails_with_the_first_error_code)
{
	int64_t n = 12;

	for (int forced = 0; forced < 2; forced++) {
		rig_start(&rig, 2, &fk_module, forced);
		rig_submit(&rig, 0, "t:failing", &n, sizeof(n));
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_FAILED);
		ck_assert_int_eq(atomic_load(&rig.jobs[0].code), 77);
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(results_are_right_on_more_workers_than_cores)
{
	for (uint32_t workers = 2; workers <= 8; workers *= 2) {
		rig_start(&rig, workers, &fk_module, false);
		for (int i = 0; i < 30; i++) {
			ck_assert_int_eq(rig_call(&rig, "t:fib", 22), 17711);
			ck_assert_int_eq(rig_call(&rig, "t:forked", 3000), 3000);
			ck_assert_int_eq(rig_call(&rig, "t:called", 3000), 3000);
		}
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(stolen_everywhere_on_four_workers_is_right)
{
	rig_start(&rig, 4, &fk_module, true);
	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(rig_call(&rig, "t:fib", 14), 377);
		ck_assert_int_eq(rig_call(&rig, "t:forked", 500), 500);
	}
	rig_stop(&rig);
}
END_TEST

START_TEST(many_jobs_at_once_have_one_outcome_each)
{
	rig_start(&rig, 3, &fk_module, false);
	for (int round = 0; round < 20; round++) {
		int64_t n = 12;

		for (uint32_t i = 0; i < RIG_JOBS; i++)
			rig_submit(&rig, i, "t:fib", &n, sizeof(n));
		for (uint32_t i = 0; i < RIG_JOBS; i++) {
			ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
			ck_assert_int_eq(*(int64_t *)rig.jobs[i].result, 144);
		}
	}
	ck_assert_uint_eq(rig_counter(&rig, jobs_done), 20 * RIG_JOBS);
	ck_assert_uint_eq(rig_counter(&rig, jobs_refused), 0);
	rig_stop(&rig);
}
END_TEST

/* A request is served once, even if there are no forks; afterwards all code is fast again. */
START_TEST(worker_that_only_calls_serves_a_request_once)
{
	rig_start(&rig, 1, &fk_module, false);
	for (uint64_t i = 1; i <= 10; i++) {
		ck_assert_int_eq(rig_call(&rig, "t:caller", 12), 4096);
		/* The dispatcher may have sent requests, too. */
		ck_assert_uint_ge(rig_counter(&rig, frames_materialized), i);
		ck_assert_uint_le(rig_counter(&rig, frames_materialized),
				  rig_counter(&rig, requests_served));
	}
	rig_stop(&rig);
}
END_TEST

/* Published entries stay published while the newest entry is pushed and popped. */
START_TEST(public_entries_stay_public)
{
	static const char *const tasks[] = { "t:above_forks", "t:above_calls" };

	for (uint32_t i = 0; i < 2; i++) {
		atomic_store(&looks, 0);
		atomic_store(&hidden, 0);
		rig_start(&rig, 1, &fk_module, false);
		ck_assert_int_eq(rig_call(&rig, tasks[i], 1000), 1001);
		ck_assert_uint_eq(atomic_load(&looks), 1000);
		ck_assert_uint_eq(atomic_load(&hidden), 0);
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(request_is_pending_until_the_first_fork_after_calls)
{
	atomic_store(&hidden, 0);
	rig_start(&rig, 1, &fk_module, false);
	for (int64_t n = 0; n < 5; n++)
		ck_assert_int_eq(rig_call(&rig, "t:asked_first", n), 2);
	ck_assert_uint_eq(atomic_load(&hidden), 0);
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("strand")
