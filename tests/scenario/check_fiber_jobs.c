/* SPDX-License-Identifier: MIT */
/* Fibers in a real forkd: jobs of tests/support/modules/fiber.c have their results, end early, and
 * end the pool with the fiber named. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "common/util.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"
#include "tests/support/local.h"

#define QUEUED 40

static struct daemon d;
static fk_client *c;

static fk_job submit(const char *name, int64_t n)
{
	return jobs_submit(c, name, 0, n, 0);
}

/* Waits until n fibers have begun to wait. */
static void await_waiting(uint64_t n)
{
	DAEMON_AWAIT(daemon_counter(&d, "fiber_parks") >= n);
}

/* Waits until n fibers wait for input. */
static void await_reading(uint64_t n)
{
	DAEMON_AWAIT(daemon_counter(&d, "fiber_io_waiting") == n);
}

/* The next job runs as well, and then forkd ends. */
static void see_tree_and_end(void)
{
	jobs_see(c, submit("fiber:tree", 10), 55);
	jobs_end(&d, c);
}

/* The same, after fibers have waited for input: none waits any more. */
static void see_talk_and_end(void)
{
	await_reading(0);
	jobs_see(c, submit("fiber:talk", 10), 16 * 55);
	jobs_end(&d, c);
}

START_TEST(fiber_jobs_have_their_results)
{
	static const char *const workers[] = { "--workers=1", "--workers=2" };

	for (size_t i = 0; i < ARRAY_SIZE(workers); i++) {
		c = JOBS_BEGIN(&d, workers[i], NULL);
		jobs_see(c, submit("fiber:tree", 15), 610);
		jobs_see(c, submit("fiber:calls", 15), 6100);
		jobs_see(c, submit("fiber:both", 15), 6710);
		ck_assert_uint_eq(daemon_counter(&d, "fibers"), 2 * 1973 + 2);
		jobs_end(&d, c);
	}
}
END_TEST

START_TEST(cancel_by_the_client_ends_waiting_fibers)
{
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	job = submit("fiber:forever", 1000);
	await_waiting(1001);
	jobs_cancel(c, job);
	see_tree_and_end();
}
END_TEST

START_TEST(fibers_that_wait_end_with_their_client)
{
	fk_client *gone;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	gone = daemon_open(&d);
	(void)jobs_submit(gone, "fiber:forever", 0, 100, 0);
	await_waiting(101);
	(void)fk_close(gone);
	DAEMON_AWAIT(daemon_counter(&d, "jobs_failed") == 1);
	see_tree_and_end();
}
END_TEST

static void see_expired(const char *name)
{
	const union fk_value n = { .i64 = 100 };
	struct fk_request request = { .options.timeout_ns = 50 * NSEC_PER_MSEC };
	fk_job job;

	request.task = jobs_task(c, name);
	request.values = &n;
	request.size = 1;
	ck_assert_int_eq(fk_submit_batch(c, &request, 1, 0, &job), 0);
	ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_EXPIRED);
}

START_TEST(fibers_that_wait_end_at_the_deadline)
{
	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	see_expired("fiber:forever");
	jobs_end(&d, c);
}
END_TEST

/* The fibers of one job wait for each other's end in n pairs of circles of five fibers each. */
static fk_job circle(fk_client *client, int64_t n)
{
	uint64_t parks = daemon_counter(&d, "fiber_parks");
	fk_job job = jobs_submit(client, "fiber:circle", 0, n, 0);

	await_waiting(parks + 4 * (uint64_t)n + 1);
	return job;
}

START_TEST(fibers_that_wait_for_each_other_end_with_their_job)
{
	fk_client *gone;
	uint64_t failed;

	for (int workers = 1; workers <= 2; workers++) {
		c = JOBS_BEGIN(&d, workers == 1 ? "--workers=1" : "--workers=2", "--hang-timeout=0",
			       NULL);
		jobs_cancel(c, circle(c, 1));
		jobs_cancel(c, circle(c, 100));
		see_expired("fiber:circle");
		failed = daemon_counter(&d, "jobs_failed");
		gone = daemon_open(&d);
		(void)circle(gone, 3);
		(void)fk_close(gone);
		DAEMON_AWAIT(daemon_counter(&d, "jobs_failed") == failed + 1);
		see_tree_and_end();
	}
}
END_TEST

START_TEST(fibers_that_wait_for_each_other_are_logged)
{
	c = JOBS_BEGIN(&d, "--workers=1", "--hang-timeout=0", NULL);
	/* Not those whose wait ends. */
	jobs_cancel(c, submit("fiber:forever", 100));
	ck_assert(!daemon_logged(&d, "each other's end", ""));
	jobs_cancel(c, circle(c, 1));
	ck_assert(daemon_logged(&d, "deadlock: 5 fibers wait for each other's end", ""));
	see_tree_and_end();
}
END_TEST

START_TEST(fiber_that_repeats_a_cancelled_wait_is_ended)
{
	fk_job job;

	LOCAL_REFUSE("the hang detector");
	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=1s", NULL);
	job = submit("fiber:stubborn", 1);
	await_waiting(2);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_CRASHED);
	see_tree_and_end();
}
END_TEST

START_TEST(failing_fiber_reports_its_code)
{
	fk_job job;
	int code = 0;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	job = submit("fiber:ends", 4);
	ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_FAILED);
	(void)fk_outcome(c, job, &code, NULL);
	ck_assert_int_eq(code, -EDOM);
	jobs_end(&d, c);
}
END_TEST

START_TEST(fibers_talk_through_pipes_in_every_sandbox)
{
	static const char *const sandboxed[] = { "--sandbox=off", "--sandbox=normal" };

	for (size_t i = 0; i < ARRAY_SIZE(sandboxed); i++) {
		c = JOBS_BEGIN(&d, "--workers=2", sandboxed[i], NULL);
		jobs_see(c, submit("fiber:talk", 2000), 16 * 2000 * 2001 / 2);
		ck_assert_uint_gt(daemon_counter(&d, "fiber_io_waits"), 0);
		ck_assert_uint_eq(daemon_counter(&d, "fiber_io_waiting"), 0);
		jobs_end(&d, c);
	}
}
END_TEST

START_TEST(cancel_ends_fibers_that_read)
{
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	job = submit("fiber:reading", 1000);
	await_reading(1000);
	jobs_cancel(c, job);
	see_talk_and_end();
}
END_TEST

/* Its client is killed while they wait. */
static void submits_and_stays(void)
{
	c = daemon_open(&d);
	(void)submit("fiber:reading", 1000);
	for (;;)
		(void)pause();
}

START_TEST(reading_fibers_end_with_a_killed_client)
{
	pid_t pid;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	pid = daemon_client(submits_and_stays, 0);
	await_reading(1000);
	daemon_kill_client(pid);
	see_talk_and_end();
}
END_TEST

/* For any kind of wait, and any end of the pool: nothing of it is left. */
START_TEST(killed_pool_leaves_nothing_of_reading_fibers)
{
	fk_job job;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	job = submit("fiber:reading", 1000);
	await_reading(1000);
	pool = daemon_pool(&d);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_LOST);
	(void)jobs_pool_after(&d, pool);
	see_talk_and_end();
}
END_TEST

/* Fibers wait for input, another one begins to, and other jobs are queued. Returns how long the
 * queued ones waited, in us. how: of wild:rings; < 0: nothing is overwritten. */
static uint64_t write_over_rings(int64_t how)
{
	uint64_t crashes = daemon_crashes(&d), since;
	fk_job reading = submit("fiber:reading", 10), other, bad, queued[QUEUED];
	pid_t pool = daemon_pool(&d);

	/* The ring's memory has its initial contents until an operation has completed. */
	await_reading(10);
	jobs_cancel(c, reading);
	ck_assert_int_eq(fk_release(c, reading), 0);
	reading = submit("fiber:reading", 100);
	await_reading(100);
	since = clock_ns();
	bad = how < 0 ? submit("fiber:naps", 0) : submit("wild:rings", how);
	ck_assert_int_ne(jobs_outcome(c, bad, NULL), FK_CRASHED);
	other = submit("fiber:reading", 1);
	jobs_queue(c, FK_IDEMPOTENT, queued, QUEUED);
	jobs_see_queue(c, queued, QUEUED);
	since = clock_ns() - since;
	ck_assert_int_eq(fk_release(c, bad), 0);
	if (how < 0) {
		jobs_cancel(c, reading);
		jobs_cancel(c, other);
		ck_assert_int_eq(daemon_pool(&d), pool);
	} else {
		ck_assert_int_eq(jobs_outcome(c, reading, NULL), FK_LOST);
		/* The pool may have ended before the job began. */
		(void)fk_cancel(c, other);
		ck_assert_int_ne(jobs_outcome(c, other, NULL), FK_CRASHED);
		ck_assert_str_eq(jobs_crash(&d, crashes + 1)->task, "");
		ck_assert_int_ne(jobs_pool_after(&d, pool), pool);
	}
	ck_assert_int_eq(fk_release(c, reading), 0);
	ck_assert_int_eq(fk_release(c, other), 0);
	return since / NSEC_PER_USEC;
}

/* The kernel would search for completions forever if a thread waited for them in the ring. */
START_TEST(overwritten_io_uring_memory_ends_the_pool_and_blames_no_job)
{
	uint64_t control, longest = 0;

	LOCAL_REFUSE("the hang detector");
	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=1s", NULL);
	control = write_over_rings(-1);
	for (int64_t how = 0; how < 4; how++)
		longest = max(longest, write_over_rings(how));
	printf("%d queued jobs wait for %" PRIu64 " us, control %" PRIu64 " us\n", QUEUED, longest,
	       control);
	see_talk_and_end();
}
END_TEST

/* Ends the pool in one of several ways; the fiber is named, and the next pool runs fibers. */
static void see_bad_end(int64_t how, int signo, uint32_t reason, const char *fiber,
			const char *said)
{
	const struct board_crash *crash;
	int got = -1;
	pid_t pool;

	LOCAL_REFUSE("a fault of a task");
	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	pool = daemon_pool(&d);
	ck_assert_int_eq(jobs_outcome(c, submit("fiber:ends", how), &got), FK_CRASHED);
	ck_assert_int_eq(got, signo);
	crash = jobs_crash(&d, 1);
	ck_assert_uint_eq(crash->pid, (uint32_t)pool);
	ck_assert_uint_eq(crash->reason, reason);
	ck_assert_str_eq(crash->task, "fiber:ends");
	ck_assert_str_eq(crash->fiber, fiber);
	DAEMON_AWAIT(daemon_logged(&d, "task fiber:ends", said));
	(void)jobs_pool_after(&d, pool);
	see_tree_and_end();
}

START_TEST(stack_overflow_is_a_crash_and_names_the_fiber)
{
	see_bad_end(0, SIGSEGV, CRASH_STACK, "overflow", "beyond the stack of fiber overflow");
}
END_TEST

START_TEST(overflow_of_a_shared_stack_names_the_fiber_on_it)
{
	see_bad_end(5, SIGSEGV, CRASH_STACK, "overflow", "beyond the stack of fiber overflow");
}
END_TEST

START_TEST(exit_in_a_fiber_is_blamed_on_its_job)
{
	see_bad_end(1, 0, CRASH_EXIT, "leaves", "in fiber leaves");
}
END_TEST

START_TEST(pthread_exit_in_a_fiber_is_blamed_on_its_job)
{
	see_bad_end(2, 0, CRASH_EXIT, "thread_ends", "in fiber thread_ends");
}
END_TEST

START_TEST(fiber_that_ends_its_thread_without_libc_is_blamed_on_its_job)
{
	see_bad_end(6, 0, CRASH_EXIT, "thread_vanishes", "in fiber thread_vanishes");
}
END_TEST

START_TEST(abort_in_a_fiber_is_blamed_on_its_job)
{
	see_bad_end(3, SIGABRT, CRASH_FAULT, "aborts", "in fiber aborts");
}
END_TEST

START_TEST(signal_handled_by_a_module_ends_nothing)
{
	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	jobs_see(c, submit("fiber:signals", 8), 1 | 8);
	see_tree_and_end();
}
END_TEST

/* In a section that may block: on no worker, and the worker runs another job that is not to
 * blame. */
static void see_bad_end_aside(int64_t how, bool late, int signo, uint32_t reason)
{
	const struct board_crash *crash;
	fk_job job, other = 0;
	int got = -1;
	pid_t pool;

	LOCAL_REFUSE("a fault of a task");
	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	pool = daemon_pool(&d);
	job = jobs_submit(c, "fiber:ends_aside", 0, how, late);
	/* The section has its thread, or will have it; the worker is free. */
	if (late) {
		DAEMON_AWAIT(daemon_counter(&d, "fiber_blocks") == 1);
		other = jobs_submit(c, "fiber:spin", 0, 1, 0);
	}
	ck_assert_int_eq(jobs_outcome(c, job, &got), FK_CRASHED);
	ck_assert_int_eq(got, signo);
	if (late)
		ck_assert_int_eq(jobs_outcome(c, other, NULL), FK_LOST);
	crash = jobs_crash(&d, 1);
	ck_assert_uint_eq(crash->reason, reason);
	ck_assert_str_eq(crash->task, "fiber:ends_aside");
	ck_assert_str_eq(crash->fiber, "ends_in_section");
	(void)jobs_pool_after(&d, pool);
	jobs_see(c, submit("fiber:naps", 1), 0);
	jobs_end(&d, c);
}

START_TEST(crash_in_a_section_is_blamed_on_its_job)
{
	see_bad_end_aside(0, false, SIGSEGV, CRASH_STACK);
	see_bad_end_aside(1, false, 0, CRASH_EXIT);
	see_bad_end_aside(2, false, 0, CRASH_EXIT);
	see_bad_end_aside(3, false, SIGABRT, CRASH_FAULT);
	see_bad_end_aside(4, false, 0, CRASH_EXIT);
}
END_TEST

START_TEST(crash_in_a_section_is_not_blamed_on_the_job_of_the_worker)
{
	see_bad_end_aside(0, true, SIGSEGV, CRASH_STACK);
	see_bad_end_aside(1, true, 0, CRASH_EXIT);
	see_bad_end_aside(3, true, SIGABRT, CRASH_FAULT);
	see_bad_end_aside(4, true, 0, CRASH_EXIT);
}
END_TEST

START_TEST(sections_work_in_every_sandbox)
{
	static const char *const sandbox[] = { "--sandbox=off", "--sandbox=normal",
					       "--sandbox=strict" };

	for (size_t i = 0; i < ARRAY_SIZE(sandbox); i++) {
		c = JOBS_BEGIN(&d, "--workers=1", sandbox[i], "--blocking-max=2", NULL);
		for (int k = 0; k < 5; k++)
			jobs_see(c, submit("fiber:naps", 1), 0);
		ck_assert_uint_eq(daemon_counter(&d, "fiber_blocks"), 5);
		ck_assert_uint_ge(daemon_counter(&d, "fiber_block_threads"), 1);
		jobs_end(&d, c);
	}
}
END_TEST

/* A stop waits for a section as it waits for a task, and not longer. */
START_TEST(stop_waits_for_a_section_up_to_its_timeout)
{
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	job = submit("fiber:naps", 200);
	DAEMON_AWAIT(daemon_counter(&d, "fiber_blocks") == 1);
	ck_assert_int_eq(kill(d.manager, SIGTERM), 0);
	jobs_see(c, job, 0);
	(void)fk_close(c);
	ck_assert_int_eq(daemon_wait(&d), 0);

	c = JOBS_BEGIN(&d, "--workers=1", "--stop-timeout=100ms", NULL);
	(void)submit("fiber:naps", 3600 * 1000);
	DAEMON_AWAIT(daemon_counter(&d, "fiber_blocks") == 1);
	ck_assert_int_eq(kill(d.manager, SIGTERM), 0);
	(void)fk_close(c);
	ck_assert_int_eq(daemon_wait(&d), 0);
}
END_TEST

CHECK_MAIN("fiber_jobs")
