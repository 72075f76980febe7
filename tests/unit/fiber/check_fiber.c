/* SPDX-License-Identifier: MIT */
/* Fibers on the workers of a pool in this process: each function does what forkd/fiber.h says, on
 * one worker and on several. Tests check results and counters. */
#define CHECK_TIMEOUT 120

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <forkd/fiber.h>

#include "daemon/engine/slow_path.h"
#include "daemon/fiber/cancel.h"
#include "daemon/core/crash_handler.h"
#include "daemon/core/job_abort.h"
#include "shm/ledger.h"
#include "shm/wake.h"
#include "tests/support/check_unit.h"
#include "tests/support/fiber_rig.h"
#include "tests/support/fiber_tasks_ends.h"
#include "tests/support/fiber_tasks_errors.h"
#include "tests/support/fiber_tasks_own.h"
#include "tests/support/fiber_tasks_steals.h"
#include "tests/support/fiber_tasks_trees.h"
#include "tests/support/fiber_tasks_waits.h"

#ifdef FK_SANITIZE_THREAD
#define TIMES 2u /* the sanitizer maps memory for each fiber */
#else
#define TIMES 10u
#endif

FK_MODULE(t, "What check_fiber runs")

/* ------------------------------------------------------------------------ trees and steals */

START_TEST(tree_of_fibers_has_its_result)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		start(workers, false);
		for (uint32_t i = 0; i < TIMES; i++)
			ck_assert_int_eq(rig_call(&rig, "t:tree", 12), 144);
		/* Each of 465 calls is a fiber: the first one is the root. */
		ck_assert_uint_eq(rig_counter(&rig, fibers), TIMES * 465);
		ck_assert_uint_ge(rig_counter(&rig, fiber_switches), TIMES * 465);
		stop();
	}
}
END_TEST

START_TEST(tree_is_correct_if_every_fork_is_stolen)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, true);
		ck_assert_int_eq(rig_call(&rig, "t:tree", 10), 55);
		ck_assert_int_eq(rig_call(&rig, "t:both", 10), 11 * 55);
		stop();
	}
}
END_TEST

START_TEST(tree_is_correct_with_the_schedule_fuzzer)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		rig_prepare = shake;
		start(workers, false);
		for (int i = 0; i < 5; i++)
			ck_assert_int_eq(rig_call(&rig, "t:both", 10), 11 * 55);
		stop();
	}
}
END_TEST

static void make_late(struct pool *pool)
{
	pool->mode.late_children = true;
}

START_TEST(results_are_right_with_late_children)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		rig_prepare = make_late;
		start(workers, true);
		for (int i = 0; i < 3; i++) {
			ck_assert_int_eq(rig_call(&rig, "t:tree", 10), 55);
			ck_assert_int_eq(rig_call(&rig, "t:both", 10), 11 * 55);
			ck_assert_int_eq(rig_call(&rig, "t:yielding", 10), 55);
			ck_assert_int_eq(rig_call(&rig, "t:nested", 20), 20);
			ck_assert_int_eq(rig_call(&rig, "t:told", 10), 10);
		}
		/* Frames that had begun were delayed until after the continuation of their fork. */
		ck_assert_uint_gt(rig_counter(&rig, frames_suspended), 0);
		stop();
	}
}
END_TEST

START_TEST(fibers_on_one_worker_wait_and_never_migrate)
{
	start(1, false);
	ck_assert_int_eq(rig_call(&rig, "t:tree", 10), 55);
	/* 88 inner fibers wait for their two children, which run then; leaves do not wait. */
	ck_assert_uint_eq(rig_counter(&rig, fiber_parks), 88);
	ck_assert_uint_eq(rig_counter(&rig, fiber_switches), 177 + 88);
	ck_assert_uint_eq(rig_counter(&rig, fiber_migrations), 0);
	ck_assert_uint_eq(rig_counter(&rig, steals), 0);
	stop();
}
END_TEST

/* The fiber that opens the gate was spawned by one that waits for it in a loop. It must be stolen
 * from the deque of a worker that makes no runtime call. */
START_TEST(fibers_below_a_spinning_one_are_stolen)
{
	for (uint32_t workers = 2; workers <= 4; workers += 2) {
		start(workers, false);
		for (int i = 0; i < 20; i++) {
			atomic_store(&tasks_opened, 0);
			ck_assert_int_eq(rig_call(&rig, "t:opened", 20), 20);
			atomic_store(&tasks_opened, 0);
			ck_assert_int_eq(rig_call(&rig, "t:opened_below", 2), 2);
		}
		ck_assert_uint_ge(rig_counter(&rig, steals), 20);
		stop();
	}
}
END_TEST

START_TEST(stolen_fiber_migrates_and_continues)
{
	start(2, false);
	/* Until two of them have run at the same time. */
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(rig_call(&rig, "t:meet", 8), 8);
	ck_assert_uint_gt(rig_counter(&rig, fiber_migrations), 0);
	stop();
}
END_TEST

START_TEST(many_fibers_wait_at_once)
{
	start(2, false);
	ck_assert_int_eq(rig_call(&rig, "t:many", 3000), 3000);
	ck_assert_uint_eq(rig_counter(&rig, fibers), 3001);
	ck_assert_uint_ge(rig_counter(&rig, fiber_parks), 2000);
	stop();
}
END_TEST

/* ------------------------------------------------------------------------ yields, counters */

START_TEST(yielding_fiber_runs_after_all_others)
{
	start(1, false);
	/* Each of 5 fibers records its turn 4 times: 5 different ones in each round. */
	ck_assert_int_eq(rig_call(&rig, "t:rounds", 5), 0);
	ck_assert_uint_ge(rig_counter(&rig, fiber_yields), 15);
	stop();
}
END_TEST

START_TEST(queued_job_preempts_fibers_that_only_yield)
{
	start(1, false);
	submit(1, "t:yields", 0);
	await_reached();
	ck_assert_int_eq(rig_call(&rig, "t:fib", 10), 55);
	atomic_store(&tasks_opened, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	ck_assert_uint_gt(rig_counter(&rig, frames_suspended), 0);
	stop();
}
END_TEST

START_TEST(waits_end_at_the_value_they_wait_for)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		for (int i = 0; i < 50; i++)
			ck_assert_int_eq(rig_call(&rig, "t:levels", 20), 0);
		stop();
	}
}
END_TEST

START_TEST(fiber_about_to_wait_is_woken)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		start(workers, false);
		for (int i = 0; i < 5; i++)
			ck_assert_int_eq(rig_call(&rig, "t:barriers", 2000), 8000);
		stop();
	}
}
END_TEST

START_TEST(frames_count_for_fibers_that_wait)
{
	for (uint32_t i = 0; i < 4; i++) {
		start(1 + i / 2, i % 2);
		for (int j = 0; j < 50; j++)
			ck_assert_int_eq(rig_call(&rig, "t:told", 10), 10);
		stop();
	}
}
END_TEST

START_TEST(errors_are_returned_without_an_effect)
{
	start(1, false);
	ck_assert_int_eq(rig_call(&rig, "t:errors", 0), 0);
	/* The task itself is not a fiber. */
	ck_assert_int_eq(rig_call(&rig, "t:no_fiber", 0), 0);
	stop();
}
END_TEST

START_TEST(each_fiber_has_local_data_that_ends_with_it)
{
	start(2, false);
	atomic_store(&ended, 0);
	ck_assert_int_eq(rig_call(&rig, "t:own", 100), 0);
	ck_assert_uint_eq(atomic_load(&ended), 100);
	stop();
}
END_TEST

START_TEST(data_set_by_an_end_function_is_ended_as_well)
{
	start(1, false);
	ck_assert_int_eq(rig_call(&rig, "t:chained_ends", 1), 1);
	ck_assert_int_eq(rig_call(&rig, "t:chained_ends", 3), 3);
	/* An end function that always sets its value again. */
	ck_assert_int_eq(rig_call(&rig, "t:chained_ends", 9), FK_LOCAL_PASSES);
	stop();
}
END_TEST

START_TEST(resumed_fiber_is_in_no_list)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		ck_assert_int_eq(rig_call(&rig, "t:unlisted", 20), 0);
		stop();
	}
}
END_TEST

START_TEST(fiber_with_a_stack_size_can_use_all_of_it)
{
	start(1, false);
	for (int i = 0; i < 70; i++)
		ck_assert_int_eq(rig_call(&rig, "t:large", 500000), 500000);
	/* One stack was measured. */
	ck_assert_uint_ge(rig_counter(&rig, fiber_stack_high_bytes), 500000);
	ck_assert_uint_le(rig_counter(&rig, fiber_stack_high_bytes), FIBER_STACK_MAX);
	stop();
}
END_TEST

/* ------------------------------------------------------------------------ both worlds */

START_TEST(frames_run_fibers_and_fibers_run_frames)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		start(workers, false);
		for (uint32_t i = 0; i < 2 * TIMES; i++)
			ck_assert_int_eq(rig_call(&rig, "t:both", 12), 11 * 144);
		stop();
	}
}
END_TEST

START_TEST(continuations_of_frames_run_in_turn_with_yielding_fibers)
{
	for (uint32_t i = 0; i < 6; i++) {
		bool forced = i % 2;

		start(1u << i / 2, forced);
		for (uint32_t j = 0; j < max(TIMES / 2, 1u); j++)
			ck_assert_int_eq(rig_call(&rig, "t:yielding", 10), 55);
		stop();
	}
}
END_TEST

START_TEST(signals_and_requests_at_any_moment_do_no_harm)
{
	static const char *const tasks[] = { "t:tree", "t:both", "t:yielding" };
	static const int64_t results[] = { 21, 11 * 21, 21 };
	pthread_t storm;

	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		storm = quiet_storm_begin(&rig);
		do {
			for (int i = 0; i < 3; i++)
				ck_assert_int_eq(rig_call(&rig, tasks[i], 8), results[i]);
		} while (rig_counter(&rig, published_by_signal) < 10);
		quiet_storm_end(storm);
		stop();
	}
}
END_TEST

START_TEST(fibers_and_frames_are_nested_deeply)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		ck_assert_int_eq(rig_call(&rig, "t:nested", 200), 200);
		stop();
	}
}
END_TEST

/* As if each guard cost a mapping, and there were too many mappings. */
static void without_guards(struct pool *pool)
{
	struct fiber_stacks_options options = {
		.space = 64 << 20, .keep = 1 << 20, .guards = 1, .protect = true
	};

	fiber_stacks_fini(&pool->fibers->stacks);
	ck_assert_int_eq(fiber_stacks_init(&pool->fibers->stacks, pool->n_groups, &options), 0);
}

START_TEST(exhausted_guards_are_an_error_and_slabs_are_available)
{
	rig_prepare = without_guards;
	start(2, false);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(rig_call(&rig, "t:on_slab", 1), 1);
	ck_assert_uint_eq(rig_counter(&rig, fibers_refused), 5);
	stop();
}
END_TEST

START_TEST(write_below_a_slab_ends_the_pool)
{
	char path[64];
	int ready[2], go[2], fd, status;
	const struct arena *arena;
	pid_t child;

	ck_assert_int_eq(pipe(ready), 0);
	ck_assert_int_eq(pipe(go), 0);
	child = fork();
	if (child == 0) {
		int64_t n = 0;

		rig_prepare = without_guards;
		start(1, false);
		rig.pool->pid = getpid();
		rig.pool->crash = &crash_handler;
		if (write(ready[1], &rig.arena_fd, sizeof(int)) != sizeof(int) ||
		    read(go[0], &fd, 1) != 1)
			_exit(1);
		rig_submit(&rig, 0, "t:beyond", &n, sizeof(n));
		(void)rig_wait(&rig, 0);
		_exit(2);
	}
	ck_assert_int_eq(read(ready[0], &fd, sizeof(fd)), sizeof(fd));
	(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)child, fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	arena = mmap(NULL, sizeof(*arena), PROT_READ, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(arena, MAP_FAILED);
	ck_assert_int_eq(write(go[1], "", 1), 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %x", status);
	ck_assert_uint_eq(arena->fault.reason, LEDGER_FAULT_STACK);
	ck_assert_uint_eq(arena->fault.worker, 1);
	ck_assert_str_eq(arena->fault.fiber, "writes_below");
}
END_TEST

static void without_stacks(struct pool *pool)
{
	fiber_stacks_fini(&pool->fibers->stacks);
	pool->fibers->error = -ENOTSUP;
}

START_TEST(without_fibers_only_fiber_tasks_fail)
{
	rig_prepare = without_stacks;
	start(1, false);
	see_failed("t:tree", 3, -ENOTSUP);
	see_failed("t:both", 3, -ENOTSUP);
	ck_assert_int_eq(rig_call(&rig, "t:fib", 10), 55);
	stop();
}
END_TEST

START_TEST(spawned_fibers_end_before_their_task)
{
	start(2, false);
	for (int i = 0; i < 20; i++) {
		atomic_store(&ended, 0);
		ck_assert_int_eq(rig_call(&rig, "t:orphans", 30), 30);
	}
	stop();
}
END_TEST

START_TEST(many_jobs_at_once_have_their_results)
{
	start(2, false);
	for (uint32_t job = 0; job < 20 * TIMES; job++)
		submit(job, job % 2 ? "t:both" : "t:tree", 8);
	for (uint32_t job = 0; job < 20 * TIMES; job++) {
		ck_assert_int_eq(result(job), job % 2 ? 11 * 21 : 21);
	}
	stop();
}
END_TEST

/* ------------------------------------------------------------------------ ends before the end */

START_TEST(cancel_ends_waits_of_fibers)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		for (int i = 0; i < 10; i++) {
			start(workers, false);
			submit(1, "t:forever", 50);
			await_waiting(51);
			see_cancelled(1);
			/* All waits returned -ECANCELED, and all fibers have ended. */
			ck_assert_uint_eq(atomic_load(&cut), 51);
			stop();
		}
	}
}
END_TEST

/* While fibers are spawned, begin, wait and wake each other: it takes about a millisecond. */
START_TEST(cancel_at_any_moment_ends_the_job)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		for (uint32_t i = 0; i < 300; i++) {
			(void)cancel_after(i % 100 * 10000, "t:busy", 40);
		}
		stop();
	}
}
END_TEST

START_TEST(deadline_ends_waits_of_fibers)
{
	start(2, false);
	see_expired("t:forever", 50);
	stop();
}
END_TEST

START_TEST(error_of_one_fiber_reaches_the_others)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		see_failed("t:one_fails", 30, -EDOM);
		ck_assert_uint_eq(atomic_load(&cut), 31);
		stop();
	}
}
END_TEST

START_TEST(frames_that_fail_end_the_fiber_that_called_them)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		see_failed("t:calls_failing", 8, 77);
		ck_assert_uint_eq(atomic_load(&cut), 1);
		for (int64_t n = 0; n < 20; n++) {
			see_failed("t:forks_failing", n, 77);
		}
		stop();
	}
}
END_TEST

START_TEST(fibers_that_have_not_begun_do_not_begin)
{
	start(1, false);
	see_failed("t:fails_first", 20, -EDOM);
	ck_assert_uint_eq(atomic_load(&tasks_reached), 0);
	ck_assert_uint_eq(atomic_load(&cut), 2);
	stop();
}
END_TEST

START_TEST(frames_and_families_unwind_together)
{
	for (uint32_t i = 0; i < 6; i++) {
		start(1u << i / 2, i % 2);
		for (int64_t n = 1; n < 2 * TIMES; n++) {
			see_failed("t:scopes", n, -EDOM);
		}
		stop();
	}
}
END_TEST

START_TEST(unwinding_frame_does_not_affect_fibers_of_others)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		for (int i = 0; i < 20; i++) {
			see_failed("t:shared", 1, -EDOM);
		}
		stop();
	}
}
END_TEST

START_TEST(wait_that_begins_after_the_cancel_returns_at_once)
{
	start(1, false);
	submit(1, "t:waits_when_opened", 1);
	await_reached();
	rig_cancel(&rig, 1);
	atomic_store(&tasks_opened, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
	ck_assert_uint_eq(atomic_load(&cut), 1);
	stop();
}
END_TEST

/* A cancelled wait does not return before the fibers have ended that have pointers to the waiter's
 * stack. */
START_TEST(cancelled_wait_outlasts_the_fibers_of_its_counter)
{
	start(2, false);
	submit(1, "t:outlasts", 1);
	await_reached();
	await_waiting(1);
	rig_cancel(&rig, 1);
	while (!abort_get(rig.pool, 1).outcome)
		sched_yield();
	/* The fiber was cancelled and waits again. Its child does not wait, but runs until here. */
	await_waiting(2);
	ck_assert_uint_eq(atomic_load(&cut), 0);
	atomic_store(&tasks_opened, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
	ck_assert_uint_eq(atomic_load(&cut), 1);
	stop();
}
END_TEST

START_TEST(stacks_count_against_the_limit_of_a_job)
{
	start(1, false);
	atomic_store(&rig.pool->settings.stack_max, 4 << 20);
	/* 62 fibers of 64 KiB fit: the task gets an error for the next one, and continues without
	 * it. */
	ck_assert_int_eq(rig_call(&rig, "t:greedy", 100), 62);
	atomic_store(&rig.pool->settings.stack_max, 16 << 10);
	see_failed("t:tree", 3, -ENOMEM);
	stop();
}
END_TEST

START_TEST(cancel_with_partial_waits_is_no_deadlock)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		submit(1, "t:circle", 1);
		await_waiting(4);
		see_cancelled(1);
		stop();
	}
}
END_TEST

/* As if a thread had stored the outcome of the row's former job, and was stopped then. */
START_TEST(late_cancel_does_not_end_the_next_job)
{
	start(2, false);
	submit(1, "t:gated", 5);
	await_waiting(1);
	fibers_cancel(rig.pool, 1);
	atomic_store(&tasks_opened, 1);
	ck_assert_int_eq(result(1), 5);
	stop();
}
END_TEST

static void make_deques_short(struct pool *pool)
{
	for (uint32_t i = 0; i < pool->n_workers; i++)
		pool->workers[i].engine.fk.end = pool->workers[i].engine.fk.bottom + 1000;
}

START_TEST(yielding_fiber_resumes_at_the_end_of_the_deque)
{
	rig_prepare = make_deques_short;
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, false);
		ck_assert_int_eq(rig_call(&rig, "t:duet", 10000), 10000);
		stop();
	}
}
END_TEST

START_TEST(yielding_fiber_finds_frames_of_forced_steals)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers, true);
		ck_assert_int_eq(rig_call(&rig, "t:behind", 10), 55);
		stop();
	}
}
END_TEST

CHECK_MAIN("fiber")
