/* SPDX-License-Identifier: MIT */
/* blame: in whichever way a task ends the pool, its own job is CRASHED and the report is complete;
 * deaths that no task has caused are not blamed on a task */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"

#define QUEUED 40

static struct daemon d;
static fk_client *c;

/*
 * Runs a task that ends the pool while another task runs. argument: of the task, if it takes one.
 * signo: signal of the crash; how: text in the log. n: number of crashes including this one.
 */
static void blame(const char *task, int64_t argument, int signo, const char *how, uint64_t n)
{
	pid_t pool = daemon_pool(&d);
	fk_job other = jobs_submit(c, "crash:hang", 0, 60000, 0), bad;
	const struct board_crash *crash;
	char text[64];
	int got = -1;

	DAEMON_AWAIT(jobs_running(&d, "crash:hang") == 1);
	bad = jobs_submit(c, task, FK_IDEMPOTENT, argument, 0);
	ck_assert_msg(jobs_outcome(c, bad, &got) == FK_CRASHED, "%s %d is %s", task, (int)argument,
		      fk_outcome_name(jobs_outcome(c, bad, NULL)));
	ck_assert_int_eq(got, signo);
	ck_assert_int_eq(jobs_outcome(c, other, NULL), FK_LOST);
	crash = jobs_crash(&d, n);
	ck_assert_uint_eq(crash->pid, (uint32_t)pool);
	ck_assert_uint_eq(crash->signo, (uint32_t)signo);
	ck_assert_uint_eq(crash->job, bad);
	ck_assert_str_eq(crash->task, task);
	ck_assert_uint_eq(crash->client_pid, (uint32_t)getpid());
	ck_assert_uint_eq(crash->uid, (uint32_t)getuid());
	ck_assert_uint_lt(crash->worker, 2);
	ck_assert_uint_eq(crash->lost, 1);
	ck_assert_uint_eq(crash->requeued, 0);
	(void)snprintf(text, sizeof(text), "task %s,", task);
	/* The log line follows the crash on the board. */
	DAEMON_AWAIT(daemon_logged(&d, how, text));
	ck_assert_int_eq(fk_release(c, bad), 0);
	ck_assert_int_eq(fk_release(c, other), 0);
	(void)jobs_pool_after(&d, pool);
	jobs_see(c, jobs_submit(c, "null:add", 0, 20, 22), 42);
}

START_TEST(task_that_ends_the_process_by_libc_is_blamed)
{
	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	blame("crash:exit", 0, 0, "exited with status 3", 1);
	blame("crash:exit_c99", 0, 0, "exited with status 4", 2);
	blame("crash:exit_hooks", 0, 0, "exited with status 5", 3);
	blame("crash:exit_quick", 0, 0, "exited with status 1", 4);
	jobs_end(&d, c);
}
END_TEST

START_TEST(task_that_ends_its_thread_is_blamed_and_no_worker_is_lost)
{
	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	blame("crash:exit_thread", 0, 0, "exited with status 1", 1);
	jobs_end(&d, c);
}
END_TEST

/* Returns how long the last of the jobs queued after such a task waits, in us. */
static uint64_t wait_behind(const char *task, int64_t argument, int outcome)
{
	volatile uint8_t *gate;
	fk_job held = jobs_hold(c, FK_IDEMPOTENT, &gate), bad, queued[QUEUED];
	uint64_t since;

	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	since = clock_ns();
	bad = jobs_submit(c, task, 0, argument, 0);
	jobs_queue(c, 0, queued, QUEUED);
	ck_assert_int_eq(jobs_outcome(c, bad, NULL), outcome);
	jobs_see_queue(c, queued, QUEUED);
	since = clock_ns() - since;
	ck_assert_int_eq(fk_release(c, bad), 0);
	*gate = 1;
	jobs_drop(c, held, "DONE");
	return since / NSEC_PER_USEC;
}

START_TEST(task_that_ends_its_thread_without_libc_is_blamed_in_every_sandbox)
{
	static const char *const sandbox[] = { "--sandbox=off", "--sandbox=normal",
					       "--sandbox=strict" };

	for (size_t i = 0; i < ARRAY_SIZE(sandbox); i++) {
		uint64_t control;

		c = JOBS_BEGIN(&d, "--workers=2", sandbox[i], NULL);
		blame("crash:vanish", 0, 0, "exited with status 1", 1);
		control = wait_behind("crash:hang", 0, FK_DONE);
		printf("%s: %d queued jobs wait for %" PRIu64 " us, control %" PRIu64 " us\n",
		       sandbox[i], QUEUED, wait_behind("crash:vanish", 0, FK_CRASHED), control);
		(void)jobs_crash(&d, 2);
		jobs_end(&d, c);
	}
}
END_TEST

START_TEST(task_that_exhausts_its_C_stack_is_blamed)
{
	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	blame("crash:recurse", 0, SIGSEGV, "died of signal 11", 1);
	jobs_end(&d, c);
}
END_TEST

START_TEST(task_is_blamed_for_any_signal_that_it_raises)
{
	/* All signals that end a process, except those that the manager's process gets as well. */
	const int signals[] = { SIGABRT, SIGALRM, SIGBUS,  SIGFPE,    SIGILL,	SIGIO,
				SIGPROF, SIGPWR,  SIGQUIT, SIGSEGV,   SIGSYS,	SIGTRAP,
				SIGUSR1, SIGUSR2, SIGXCPU, SIGVTALRM, SIGRTMIN, SIGRTMAX };
	char text[32];

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	for (uint32_t i = 0; i < ARRAY_SIZE(signals); i++) {
		(void)snprintf(text, sizeof(text), "died of signal %d ", signals[i]);
		blame("crash:raise", signals[i], signals[i], text, i + 1);
	}
	jobs_end(&d, c);
}
END_TEST

START_TEST(signals_that_the_pool_ignores_end_nothing)
{
	const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGXFSZ, SIGWINCH, SIGURG };
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	pool = daemon_pool(&d);
	for (uint32_t i = 0; i < ARRAY_SIZE(signals); i++) {
		fk_job job = jobs_submit(c, "crash:raise", 0, signals[i], 0);

		jobs_drop(c, job, "DONE");
	}
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(end_of_a_vfork_child_ends_no_pool_and_blames_no_task)
{
	fk_job jobs[2];
	int64_t n = 0;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", "--sandbox=off", NULL); /* otherwise vfork() is refused */
	pool = daemon_pool(&d);
	ck_assert_int_eq(fk_call(c, "crash:fork_shared", &n, INT64_C(17)), 0);
	ck_assert_int_eq(n, 17);
	/* If the child had stored a fault report, one of these jobs would be blamed. */
	jobs[0] = jobs_submit(c, "crash:hang", 0, 60000, 0);
	jobs[1] = jobs_submit(c, "crash:hang", 0, 60000, 0);
	DAEMON_AWAIT(jobs_running(&d, "crash:hang") == 2);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	ck_assert_int_eq(jobs_outcome(c, jobs[0], NULL), FK_LOST);
	ck_assert_int_eq(jobs_outcome(c, jobs[1], NULL), FK_LOST);
	ck_assert_uint_eq(jobs_crash(&d, 1)->signo, SIGKILL);
	DAEMON_AWAIT(daemon_logged(&d, "died of signal 9", "no job can be blamed"));
	(void)jobs_pool_after(&d, pool);
	jobs_end(&d, c);
}
END_TEST

/* The worker reads where a client has made a hole for which the kernel has no page. The hole is
 * simulated: a real one would need the whole machine to be short of memory. */
START_TEST(hole_in_the_segment_of_another_client_is_not_blamed_on_the_job)
{
	fk_client *other;
	fk_job job;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	other = daemon_open(&d);
	pool = daemon_pool(&d);
	job = jobs_submit(c, "crash:hole", 0, other->segment->client, 0);
	ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_LOST);
	ck_assert_uint_eq(jobs_crash(&d, 1)->signo, SIGBUS);
	DAEMON_AWAIT(daemon_logged(&d, "died of signal 7", "no job can be blamed"));
	ck_assert_int_eq(fk_release(c, job), 0);
	(void)jobs_pool_after(&d, pool);
	ck_assert_int_eq(fk_close(other), 0);
	jobs_see(c, jobs_submit(c, "null:add", 0, 20, 22), 42);
	/* A hole in its own client's segment. */
	blame("crash:hole", c->segment->client, SIGBUS, "died of signal 7", 2);
	jobs_end(&d, c);
}
END_TEST

/* A worker that runs another job may access it first. */
START_TEST(memory_unmapped_by_a_task_is_not_blamed_on_another_job)
{
	volatile uint8_t *gate;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	for (uint64_t how = 0; how < 4; how++) {
		pid_t pool = daemon_pool(&d);
		fk_job victim = jobs_hold(c, 0, &gate), bad, queued[QUEUED];

		DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
		bad = jobs_submit(c, "wild:unmap", 0, (int64_t)how, 0);
		jobs_queue(c, 0, queued, QUEUED);
		ck_assert_msg(jobs_outcome(c, victim, NULL) == FK_LOST, "%d: %s", (int)how,
			      fk_outcome_name(jobs_outcome(c, victim, NULL)));
		(void)jobs_outcome(c, bad, NULL);
		jobs_see_queue(c, queued, QUEUED);
		ck_assert_str_eq(jobs_crash(&d, how + 1)->task, "");
		ck_assert_uint_eq(jobs_crash(&d, how + 1)->client_pid, 0);
		ck_assert_int_eq(fk_release(c, victim), 0);
		ck_assert_int_eq(fk_release(c, bad), 0);
		(void)jobs_pool_after(&d, pool);
	}
	jobs_end(&d, c);
}
END_TEST

START_TEST(library_unloaded_by_a_task_is_not_needed)
{
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	jobs_see(c, jobs_submit(c, "wild:unload", 0, 0, 0), 1);
	job = jobs_submit(c, "crash:segv", 0, 0, 0);
	jobs_drop(c, job, "CRASHED");
	jobs_end(&d, c);
}
END_TEST

CHECK_MAIN("blame")
