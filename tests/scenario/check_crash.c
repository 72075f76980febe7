/* SPDX-License-Identifier: MIT */
/* crash: tasks that kill the pool, and pools that are killed: each job gets exactly one outcome,
 * and the next pool continues */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/ledger.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/counts.h"
#include "tests/support/jobs.h"

#define QUEUED	40
#define CHANNEL 3 /* of the pool, to the manager */

static struct daemon d;
static fk_client *c;

static void wait_for_pool_after(pid_t old)
{
	uint64_t start = clock_ns();
	int64_t n = 0;
	fk_job job;
	int err;

	(void)jobs_pool_after(&d, old);
	/* Submitted while the next pool may not have started yet. */
	job = jobs_submit(c, "null:add", 0, 1, 2);
	err = fk_wait(c, job, DAEMON_PATIENCE * NSEC_PER_SEC);
	ck_assert_msg(err == 0, "no answer: %s; the pool threw %" PRIu64 " words away",
		      fk_strerror(err), daemon_counter(&d, "malformed_slots"));
	ck_assert_int_eq(fk_result(c, job, &n, sizeof(n)), 0);
	ck_assert_int_eq(n, 3);
	ck_assert_int_eq(fk_release(c, job), 0);
	printf("the next pool's first answer after %" PRIu64 " us\n",
	       (clock_ns() - start) / NSEC_PER_USEC);
}

/* Three workers: one runs a job that is not idempotent, one runs an idempotent job; the third gets
 * the job that crashes, with others queued after it. */
static void crash_among_others(const char *task, int signo, const char *how)
{
	fk_job bad, once, twice, queued[QUEUED];
	const struct board_crash *crash;
	volatile uint8_t *gate;
	char text[64];
	pid_t pool;
	int got = -1;

	c = JOBS_BEGIN(&d, "--workers=3", NULL);
	pool = daemon_pool(&d);
	once = jobs_submit(c, "crash:hang", 0, 60000, 0);
	twice = jobs_hold(c, FK_IDEMPOTENT, &gate);
	DAEMON_AWAIT(jobs_running(&d, "crash:hang") == 1 && jobs_running(&d, "crash:hold") == 1);
	bad = jobs_submit(c, task, 0, 0, 0);
	jobs_queue(c, FK_IDEMPOTENT, queued, QUEUED);

	ck_assert_int_eq(jobs_outcome(c, bad, &got), FK_CRASHED);
	ck_assert_int_eq(got, signo);
	ck_assert_int_eq(jobs_outcome(c, once, NULL), FK_LOST);
	wait_for_pool_after(pool);
	jobs_see_queue(c, queued, QUEUED);
	*gate = 1;
	ck_assert_int_eq(jobs_outcome(c, twice, NULL), FK_DONE);

	crash = jobs_crash(&d, 1);
	ck_assert_uint_eq(crash->pid, (uint32_t)pool);
	ck_assert_uint_eq(crash->requeued, 1);
	ck_assert_uint_eq(crash->signo, (uint32_t)signo);
	ck_assert_str_eq(crash->task, task);
	ck_assert_uint_eq(crash->client_pid, (uint32_t)getpid());
	ck_assert_uint_eq(crash->lost, 1);
	ck_assert(daemon_logged(&d, how, task));
	(void)snprintf(text, sizeof(text), ".%" PRIu64 " (pid", (uint64_t)bad);
	ck_assert(daemon_logged(&d, text, task));
	/* Exactly one outcome: they have not changed. */
	jobs_drop(c, bad, "CRASHED");
	jobs_drop(c, once, "LOST");
	jobs_drop(c, twice, "DONE");
	jobs_end(&d, c);
}

START_TEST(task_that_writes_to_an_unmapped_address_is_CRASHED)
{
	crash_among_others("crash:segv", SIGSEGV, "died of signal 11");
}
END_TEST

START_TEST(task_that_aborts_is_CRASHED)
{
	crash_among_others("crash:abort", SIGABRT, "died of signal 6");
}
END_TEST

START_TEST(task_that_ends_the_process_is_CRASHED)
{
	crash_among_others("crash:exit", 0, "exited with status 3");
}
END_TEST

START_TEST(killed_pool_loses_running_jobs_and_reruns_the_others)
{
	fk_job once, twice, queued[QUEUED];
	volatile uint8_t *gate;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	pool = daemon_pool(&d);
	once = jobs_submit(c, "crash:hang", 0, 60000, 0);
	twice = jobs_hold(c, FK_IDEMPOTENT, &gate);
	DAEMON_AWAIT(jobs_running(&d, "crash:hang") == 1 && jobs_running(&d, "crash:hold") == 1);
	/* Both workers run a leaf: these jobs wait in the rings. */
	jobs_queue(c, 0, queued, QUEUED);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	ck_assert_int_eq(jobs_outcome(c, once, NULL), FK_LOST);
	wait_for_pool_after(pool);
	jobs_see_queue(c, queued, QUEUED);
	*gate = 1;
	ck_assert_int_eq(jobs_outcome(c, twice, NULL), FK_DONE);
	ck_assert_uint_eq(jobs_crash(&d, 1)->signo, SIGKILL);
	ck_assert_uint_eq(jobs_crash(&d, 1)->lost, 1);
	ck_assert_uint_eq(jobs_crash(&d, 1)->requeued, 1);
	ck_assert(daemon_logged(&d, "died of signal 9", "no job can be blamed"));
	jobs_end(&d, c);
}
END_TEST

START_TEST(killed_idle_pool_is_replaced_and_keeps_its_clients)
{
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	pool = daemon_pool(&d);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	wait_for_pool_after(pool);
	jobs_end(&d, c);
}
END_TEST

START_TEST(crash_deep_in_stolen_work_blames_the_right_job)
{
	fk_job giant, bad;
	int signo = 0;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	pool = daemon_pool(&d);
	giant = jobs_submit(c, "fib:fib", 0, daemon_sanitized() ? 38 : 44, 0);
	DAEMON_AWAIT(daemon_counter(&d, "steals") > 0);
	bad = jobs_submit(c, "crash:segv", 0, 0, 0);
	ck_assert_int_eq(jobs_outcome(c, bad, &signo), FK_CRASHED);
	ck_assert_int_eq(signo, SIGSEGV);
	ck_assert_int_eq(jobs_outcome(c, giant, NULL), FK_LOST);
	wait_for_pool_after(pool);
	ck_assert_str_eq(jobs_crash(&d, 1)->task, "crash:segv");
	ck_assert_uint_eq(jobs_crash(&d, 1)->lost, 1);
	jobs_end(&d, c);
}
END_TEST

/* The thief has started another root task, or none. */
START_TEST(crash_in_a_stolen_strand_names_the_root_task_of_its_job)
{
	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	for (uint64_t k = 1; k <= 3; k++) {
		pid_t pool = daemon_pool(&d);

		for (int i = 0; k > 1 && i < QUEUED; i++)
			jobs_see(c, jobs_submit(c, "null:add", 0, i, 1), i + 1);
		jobs_drop(c, jobs_submit(c, "crash:stolen_segv", 0, 0, 0), "CRASHED");
		ck_assert_str_eq(jobs_crash(&d, k)->task, "crash:stolen_segv");
		wait_for_pool_after(pool);
	}
	jobs_end(&d, c);
}
END_TEST

START_TEST(task_that_crashes_repeatedly_fails_no_other_job)
{
	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	for (int k = 0; k < 12; k++) {
		pid_t pool = daemon_pool(&d);
		fk_job bad = jobs_submit(c, "crash:segv", 0, 0, 0);
		fk_job good = jobs_submit(c, "null:add", FK_IDEMPOTENT, k, 1);

		jobs_drop(c, bad, "CRASHED");
		jobs_see(c, good, k + 1);
		(void)jobs_pool_after(&d, pool);
	}
	ck_assert_uint_eq(daemon_crashes(&d), 12);
	jobs_end(&d, c);
}
END_TEST

START_TEST(waiting_client_gets_its_outcome_at_once_and_keeps_its_handle)
{
	fk_client *other;
	fk_job job;
	int64_t n = 0;
	int code = -1, signo = -1;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	other = daemon_open(&d);
	job = jobs_submit(other, "crash:hang", 0, 60000, 0);
	DAEMON_AWAIT(jobs_running(&d, "crash:hang") == 1);
	(void)jobs_submit(c, "crash:abort", 0, 0, 0);
	ck_assert_int_eq(fk_wait(other, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_outcome(other, job, &code, &signo), FK_LOST);
	ck_assert_int_eq(code, 0);
	ck_assert_int_eq(signo, 0);
	ck_assert_int_eq(fk_result(other, job, &n, sizeof(n)), -EOWNERDEAD);
	ck_assert_int_eq(fk_release(other, job), 0);
	ck_assert_int_eq(fk_call(other, "null:add", &n, INT64_C(20), INT64_C(22)), 0);
	ck_assert_int_eq(n, 42);
	ck_assert_int_eq(fk_close(other), 0);
	jobs_end(&d, c);
}
END_TEST

/* Returns true if the pool has a descriptor that no task must find. */
static bool pool_has_more(char *ret_what, size_t size)
{
	char path[64], status[64], target[256];
	struct dirent *e;
	bool found = false;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)daemon_pool(&d));
	(void)snprintf(status, sizeof(status), "/proc/%d/status", (int)daemon_pool(&d));
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while (!found && (e = readdir(dir))) {
		ssize_t r = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

		if (r < 0)
			continue; /* "." and "..", or it is closed by now */
		target[r] = '\0';
		found = atoi(e->d_name) >= CHANNEL && !streq(target, status) &&
			(atoi(e->d_name) != CHANNEL || strncmp(target, "socket:", 7) != 0);
		(void)snprintf(ret_what, size, "descriptor %s is %s", e->d_name, target);
	}
	(void)closedir(dir);
	return found;
}

START_TEST(pool_has_only_stdio_its_channel_and_its_status_open)
{
	char what[600];
	uint64_t end;
	int64_t n;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(20)), 0);
	/* A client's memory is closed after it was mapped: its first job may have ended by then. */
	end = clock_ns() + DAEMON_PATIENCE * NSEC_PER_SEC;
	while (pool_has_more(what, sizeof(what))) {
		ck_assert_msg(clock_ns() < end, "%s", what);
		(void)poll(NULL, 0, 1);
	}
	jobs_end(&d, c);
}
END_TEST

START_TEST(C_stack_overflow_by_a_frame_of_any_size_hits_the_guard)
{
	int signo = 0;

	c = JOBS_BEGIN(&d, "--workers=3", NULL);
	for (int i = 0; i < 6; i++) {
		pid_t pool = daemon_pool(&d);
		fk_job bad = jobs_submit(c, "crash:step_over", 0, 0, 0);

		ck_assert_int_eq(jobs_outcome(c, bad, &signo), FK_CRASHED);
		ck_assert_int_eq(signo, SIGSEGV);
		ck_assert_str_eq(jobs_crash(&d, (uint64_t)i + 1)->task, "crash:step_over");
		ck_assert_int_eq(fk_release(c, bad), 0);
		(void)jobs_pool_after(&d, pool);
	}
	jobs_end(&d, c);
}
END_TEST

START_TEST(signal_from_outside_blames_no_job)
{
	static const int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGTRAP };
	struct fk_buffer buffer = { .size = 1 };
	volatile unsigned char *gate;
	const fk_task *hold;
	fk_job once, twice;
	char text[64];

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	ck_assert_int_eq(fk_alloc(c, 1, &buffer.data), 0);
	hold = jobs_task(c, "crash:hold");
	gate = buffer.data;
	for (uint32_t i = 0; i < ARRAY_SIZE(signals); i++) {
		pid_t pool = daemon_pool(&d);

		*gate = 0;
		ck_assert_int_eq(fk_submit(c, hold, 0, &once, buffer), 0);
		ck_assert_int_eq(fk_submit(c, hold, FK_IDEMPOTENT, &twice, buffer), 0);
		DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 2);
		/* To the process, and to a thread that runs a job. */
		if (i % 2)
			ck_assert_int_eq(kill(pool, signals[i]), 0);
		else
			ck_assert_int_eq(
				syscall(SYS_tgkill, pool, d.board->workers[0].tid, signals[i]), 0);
		jobs_drop(c, once, "LOST");
		*gate = 1;
		wait_for_pool_after(pool);
		jobs_drop(c, twice, "DONE");
		ck_assert_uint_eq(jobs_crash(&d, i + 1)->signo, (uint32_t)signals[i]);
		ck_assert_uint_eq(jobs_crash(&d, i + 1)->lost, 1);
		ck_assert_uint_eq(jobs_crash(&d, i + 1)->requeued, 1);
		ck_assert_str_eq(jobs_crash(&d, i + 1)->task, "");
		(void)snprintf(text, sizeof(text), "died of signal %d", signals[i]);
		ck_assert(daemon_logged(&d, text, "no job can be blamed"));
	}
	jobs_end(&d, c);
}
END_TEST

START_TEST(child_forked_by_a_task_is_not_a_pool)
{
	static const char *const tasks[] = { "crash:fork", "crash:fork_frame" };
	uint64_t done;
	int64_t n;
	pid_t pool, stray;

	c = JOBS_BEGIN(&d, "--workers=2", "--sandbox=off", NULL); /* otherwise fork() is refused */
	pool = daemon_pool(&d);
	for (int i = 0; i < 20; i++) {
		done = daemon_counter(&d, "jobs_done");
		n = -1;
		ck_assert_int_eq(fk_call(c, tasks[i % 2], &n, INT64_C(5)), 0);
		/* The child that returned into the worker found no memory of the pool there. */
		ck_assert_int_eq(n, SIGSEGV);
		DAEMON_AWAIT(daemon_counter(&d, "jobs_done") >= done + 1);
		ck_assert_uint_eq(daemon_counter(&d, "jobs_done"), done + 1);
	}
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	/* A child that stays maps no segment, and ends with its pool. */
	ck_assert_int_eq(fk_call(c, "crash:fork_stray", &n, INT64_C(0)), 0);
	stray = (pid_t)n;
	ck_assert_uint_ge(counts_mapped(pool, "forkd-", NULL), 4);
	ck_assert_int_gt(daemon_pss(stray), 0);
	ck_assert_uint_eq(counts_mapped(stray, "forkd-", NULL), 0);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	/* It has no memory any more; it may be a zombie. */
	DAEMON_AWAIT(daemon_proc_status(stray, "VmRSS") < 0);
	wait_for_pool_after(pool);
	jobs_end(&d, c);
}
END_TEST

/* The fronts of arena and board are overwritten, while another client's job runs. */
START_TEST(task_that_overwrites_the_fronts_is_CRASHED_and_the_next_pool_starts)
{
	fk_job bad, once, twice, queued[QUEUED];
	pid_t pool;
	int signo = -1;

	c = JOBS_BEGIN(&d, "--workers=3", NULL);
	for (uint32_t k = 1; k <= 6; k++) { /* one more than deaths in a row that end forkd */
		uint64_t roots = daemon_counter(&d, "jobs_started");

		pool = daemon_pool(&d);
		once = jobs_submit(c, "crash:hang", 0, 60000, 0);
		twice = jobs_submit(c, "crash:hang", FK_IDEMPOTENT, 300, 0);
		DAEMON_AWAIT(daemon_counter(&d, "jobs_started") == roots + 2);
		bad = jobs_submit(c, "wild:fronts", 0, offsetof(struct arena, fault),
				  offsetof(struct board, counters));
		jobs_queue(c, FK_IDEMPOTENT, queued, QUEUED);
		ck_assert_int_eq(jobs_outcome(c, bad, &signo), FK_CRASHED);
		ck_assert_int_eq(signo, SIGABRT);
		jobs_drop(c, once, "LOST");
		jobs_see_queue(c, queued, QUEUED);
		jobs_drop(c, twice, "DONE");
		ck_assert_str_eq(jobs_crash(&d, k)->task, "wild:fronts");
		ck_assert_uint_eq(jobs_crash(&d, k)->lost, 1);
		ck_assert_int_eq(fk_release(c, bad), 0);
		wait_for_pool_after(pool);
		/* Attaches and maps the board. */
		daemon_call_fib(&d);
	}
	jobs_end(&d, c);
}
END_TEST

CHECK_MAIN("crash")
