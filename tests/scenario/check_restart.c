/* SPDX-License-Identifier: MIT */
/* restart: a pool that is killed when it is hardest to replace, and its jobs */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/wake.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"

#define QUEUED 40

static struct daemon d;
static fk_client *c;

static fk_job submit(const char *name, unsigned int flags, int64_t a, int64_t b)
{
	return jobs_submit(c, name, flags, a, b);
}

static int outcome(fk_job job)
{
	return jobs_outcome(c, job, NULL);
}

/* Lowers the manager's limit of this resource. Its pool inherits that and cannot start, for this
 * many tries. Then restores it. */
static void short_of(int resource, rlim_t limit, const char *why, uint32_t tries)
{
	struct rlimit usual, none;
	fk_job running, queued[QUEUED];

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	running = submit("crash:hang", 0, 60000, 0);
	DAEMON_AWAIT(daemon_counter(&d, "jobs_started") == 1);
	for (int i = 0; i < QUEUED; i++)
		queued[i] = submit("null:add", 0, i, 1000);

	ck_assert_int_eq(prlimit(d.manager, resource, NULL, &usual), 0);
	none = (struct rlimit){ .rlim_cur = limit, .rlim_max = usual.rlim_max };
	ck_assert_int_eq(prlimit(d.manager, resource, &none, NULL), 0);
	ck_assert_int_eq(kill(daemon_pool(&d), SIGKILL), 0);
	DAEMON_AWAIT(daemon_logged(&d, "cannot start the pool", why));
	ck_assert(daemon_logged(&d, why, "trying again"));
	ck_assert_int_eq(outcome(running), FK_LOST);
	/* Each try has another pid. */
	DAEMON_AWAIT(!tries || (daemon_pool(&d) && d.n_pools >= 1 + tries));
	for (int i = 0; i < QUEUED; i++)
		ck_assert_int_eq(fk_wait(c, queued[i], 0), -ETIMEDOUT);

	ck_assert_int_eq(prlimit(d.manager, resource, &usual, NULL), 0);
	for (int i = 0; i < QUEUED; i++)
		jobs_see(c, queued[i], i + 1000);
	ck_assert_int_eq(fk_release(c, running), 0);
	/* Pools that could not start do not count. */
	ck_assert_uint_eq(daemon_crashes(&d), 1);
	ck_assert_uint_eq(atomic_load(&d.board->manager.pool_generation), 2);
	daemon_stop_close(&d, c);
}

START_TEST(pool_that_cannot_be_started_is_retried_and_no_queued_job_is_lost)
{
	short_of(RLIMIT_NOFILE, 3, "Too many open files", 0);
}
END_TEST

/* More of them than deaths in a row that end forkd. */
START_TEST(pool_without_memory_is_retried)
{
	/* A sanitizer needs more memory than any limit. */
	if (daemon_sanitized())
		check_unit_not_run(pool_without_memory_is_retried, "built with a sanitizer");
	else
		short_of(RLIMIT_AS, 512 << 20, "cannot map the arena", 7);
}
END_TEST

START_TEST(pool_that_cannot_create_threads_is_retried)
{
	/* Threads get stacks of this size by default; only the dispatcher uses the default. */
	short_of(RLIMIT_STACK, UINT64_C(100) << 40, "cannot start a thread", 7);
}
END_TEST

START_TEST(manager_stops_while_its_pool_cannot_be_started)
{
	struct rlimit none = { .rlim_cur = 3 }, usual;
	fk_job job;

	/* LeakSanitizer opens files at the end, and this one has no descriptor for it. */
	ck_assert_int_eq(setenv("LSAN_OPTIONS", "detect_leaks=0", 1), 0);
	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	ck_assert_int_eq(prlimit(d.manager, RLIMIT_NOFILE, NULL, &usual), 0);
	none.rlim_max = usual.rlim_max;
	ck_assert_int_eq(prlimit(d.manager, RLIMIT_NOFILE, &none, NULL), 0);
	ck_assert_int_eq(kill(daemon_pool(&d), SIGKILL), 0);
	DAEMON_AWAIT(daemon_logged(&d, "cannot start the pool", "trying again"));
	job = submit("null:add", 0, 1, 2);
	ck_assert_int_eq(kill(d.manager, SIGTERM), 0);
	ck_assert_int_eq(outcome(job), FK_CANCELLED);
	(void)fk_close(c);
	ck_assert_int_eq(daemon_wait(&d), 0);
}
END_TEST

START_TEST(hangup_of_the_terminal_changes_nothing)
{
	fk_job running, queued;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	pool = daemon_pool(&d);
	running = submit("crash:hang", 0, 500, 0);
	queued = submit("null:add", 0, 1, 2);
	DAEMON_AWAIT(daemon_counter(&d, "jobs_started") >= 1); /* the other is queued */
	/* A terminal that is closed signals both. */
	ck_assert_int_eq(kill(d.manager, SIGHUP), 0);
	ck_assert_int_eq(kill(pool, SIGHUP), 0);
	DAEMON_AWAIT(daemon_logged(&d, "SIGHUP", "read again"));
	DAEMON_AWAIT(daemon_logged(&d, "reload: no option has changed", ""));
	ck_assert_int_eq(outcome(running), FK_DONE);
	ck_assert_int_eq(outcome(queued), FK_DONE);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_uint_eq(atomic_load(&d.board->manager.state), BOARD_RUNNING);
	ck_assert(!daemon_logged(&d, "stopping", ""));
	daemon_stop_close(&d, c);
}
END_TEST

START_TEST(pool_is_killed_before_the_manager_if_memory_is_short)
{
	int64_t usual = daemon_oom_score(getpid());

	daemon_start(&d, "--workers=1", NULL);
	for (int i = 0; i < 3; i++) {
		pid_t pool = daemon_pool(&d);

		ck_assert_int_eq(daemon_oom_score(d.manager), usual);
		/* Above the manager, and not above the last one. */
		ck_assert_int_eq(daemon_oom_score(pool), min(usual + 100, INT64_C(1000)));
		/* As the kernel does in that case. */
		ck_assert_int_eq(kill(pool, SIGKILL), 0);
		(void)jobs_pool_after(&d, pool);
		daemon_call_fib(&d);
	}
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* A client with jobs that record each run in a file: two that never end, and more queued after
 * them. */
static char marks[128];
static _Atomic uint32_t *submitted;

static int64_t marks_left(void)
{
	struct stat st;

	ck_assert_int_eq(stat(marks, &st), 0);
	return st.st_size;
}

static void victim(void)
{
	const fk_task *leave;
	fk_client *mine = NULL;
	fk_job job;

	if (fk_open(d.socket, NULL, &mine) < 0 || fk_task_find(mine, "mark:leave", &leave) < 0)
		_exit(2);
	for (int64_t i = 0; i < QUEUED; i++) {
		/* Each worker has an endless job before the others are submitted. */
		while (i == 2 && marks_left() < 2)
			(void)poll(NULL, 0, 1);
		if (fk_submit(mine, leave, FK_IDEMPOTENT, &job, marks, (int64_t)(i < 2)) < 0)
			_exit(3);
	}
	atomic_store(submitted, 1);
	for (;;)
		(void)pause();
}

/* late: the client dies when its pool is dead, and the next one cannot be started yet. */
static void die_before_the_pool(bool late)
{
	struct rlimit usual, none;
	fk_client *next = NULL;
	pid_t pid, pool;
	int64_t n = 0;

	c = JOBS_BEGIN(&d, "--workers=2", "--clients-max=3", NULL);
	pool = daemon_pool(&d);
	(void)snprintf(marks, sizeof(marks), "%s/marks", d.directory);
	(void)close(open(marks, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	/* The pool's user writes to it. */
	ck_assert_int_eq(chmod(marks, 0666), 0);
	submitted = daemon_share(sizeof(*submitted));
	pid = daemon_client(victim, DAEMON_UID);
	DAEMON_AWAIT(atomic_load(submitted));
	ck_assert_int_eq(marks_left(), 2);
	ck_assert_uint_eq(atomic_load(&d.board->manager.clients), 3);
	if (late) {
		ck_assert_int_eq(prlimit(d.manager, RLIMIT_NOFILE, NULL, &usual), 0);
		none = (struct rlimit){ .rlim_cur = 3, .rlim_max = usual.rlim_max };
		ck_assert_int_eq(prlimit(d.manager, RLIMIT_NOFILE, &none, NULL), 0);
		ck_assert_int_eq(kill(pool, SIGKILL), 0);
		DAEMON_AWAIT(daemon_logged(&d, "cannot start the pool", "trying again"));
	}
	daemon_kill_client(pid);
	DAEMON_AWAIT(atomic_load(&d.board->manager.clients) == 2);
	if (late)
		ck_assert_int_eq(prlimit(d.manager, RLIMIT_NOFILE, &usual, NULL), 0);
	else
		ck_assert_int_eq(kill(pool, SIGKILL), 0);

	/* Its slot is free: then nothing of the client can still run. */
	DAEMON_AWAIT(fk_open(d.socket, NULL, &next) == 0);
	ck_assert_int_eq(fk_call(next, "null:add", &n, INT64_C(20), INT64_C(22)), 0);
	ck_assert_int_eq(n, 42);
	ck_assert_int_eq(marks_left(), 2);
	ck_assert_uint_eq(d.board->crashes[0].requeued, late ? 2 : 0);
	/* No pool had to detect that: this would depend on which is first. */
	if (late)
		ck_assert_uint_eq(atomic_load(&d.board->manager.manager_fails), QUEUED);
	ck_assert_uint_eq(d.board->crashes[0].lost, 0);
	ck_assert_uint_eq(daemon_crashes(&d), 1);
	ck_assert_int_eq(fk_call(c, "null:add", &n, INT64_C(1), INT64_C(2)), 0);
	ck_assert_int_eq(fk_close(next), 0);
	daemon_stop_close(&d, c);
}

START_TEST(jobs_of_a_dead_client_do_not_run_again)
{
	die_before_the_pool(false);
}
END_TEST

START_TEST(jobs_of_a_client_that_dies_without_a_pool_do_not_run_again)
{
	die_before_the_pool(true);
}
END_TEST

/* Each pool is idle when it is killed, and young. */
START_TEST(pools_killed_after_they_served_a_client_are_always_replaced)
{
	int64_t n = 0;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	for (int64_t i = 0; i < 8; i++) {
		pid_t pool;

		ck_assert_int_eq(fk_call(c, "null:add", &n, i, INT64_C(1000)), 0);
		ck_assert_int_eq(n, i + 1000);
		DAEMON_AWAIT((atomic_load(&d.board->workers[0].wake) & WAKE_STATE) ==
			     WAKE_SLEEPING);
		pool = daemon_pool(&d);
		ck_assert_int_eq(kill(pool, SIGKILL), 0);
		(void)jobs_pool_after(&d, pool);
	}
	ck_assert_int_eq(fk_call(c, "null:add", &n, INT64_C(1), INT64_C(2)), 0);
	ck_assert_uint_eq(daemon_crashes(&d), 8);
	daemon_stop_close(&d, c);
}
END_TEST

CHECK_MAIN("restart")
