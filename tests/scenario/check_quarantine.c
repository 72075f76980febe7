/* SPDX-License-Identifier: MIT */
/* quarantine: tasks that crash repeatedly for a user are refused to this user alone, until the
 * quarantine has expired or was lifted */
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/connect.h"
#include "common/util.h"
#include "shm/proto.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"

#define OTHER_UID 65531u /* if the test runs as root; otherwise there is no other user */

static struct daemon d;
static fk_client *c;
static char user[16];

/* NULL: off. */
static void setup(const char *crashes, const char *budget, const char *more)
{
	c = JOBS_BEGIN(&d, "--workers=2", crashes ? crashes : "--quarantine-task-crashes=0",
		       budget ? budget : "--quarantine-user-crashes=0", more, NULL);
	(void)snprintf(user, sizeof(user), "%u", (unsigned int)geteuid());
}

static void teardown(void)
{
	daemon_stop_close(&d, c);
}

static int maybe(int64_t bad)
{
	int64_t n = -1;
	int err = fk_call(c, "crash:maybe", &n, bad);

	ck_assert(err || n == bad);
	return err;
}

static int fib(void)
{
	int64_t n = 0;
	int err = fk_call(c, "fib:fib", &n, (int64_t)10);

	ck_assert(err || n == 55);
	return err;
}

/* A job of this user crashes a pool, n times; the next pool runs each time. */
static void crash(const char *name, uint32_t n)
{
	while (n--) {
		uint64_t before = daemon_crashes(&d);
		pid_t pool = daemon_pool(&d);

		ck_assert_int_eq(streq(name, "crash:maybe") ? maybe(1) : fk_call(c, name, NULL),
				 -ENOTRECOVERABLE);
		(void)jobs_pool_after(&d, pool);
		ck_assert_uint_eq(daemon_crashes(&d), before + 1);
	}
}

/* A client of another user. */
static void call_as_another(void)
{
	int64_t n = -1;

	if (fk_open(d.socket, NULL, &c) < 0)
		_exit(2);
	if (fk_call(c, "crash:maybe", &n, INT64_C(0)) || n != 0)
		_exit(3);
	if (fib())
		_exit(4);
	(void)fk_close(c);
}

static void see_that_others_may(void)
{
	if (geteuid() == 0)
		ck_assert_int_eq(daemon_reap(daemon_client(call_as_another, OTHER_UID)), 0);
}

/* Checks that `forkctl quarantine ARG...` succeeds and prints this. */
static void ctl(const char *text, const char *lift, const char *whose, const char *task)
{
	char output[4096];

	ck_assert_int_eq(
		daemon_ctl(&d, output, sizeof(output), "quarantine", lift, whose, task, NULL), 0);
	ck_assert_msg(strstr(output, text), "no \"%s\" in: %s", text, output);
}

static void ctl_fails(int status, const char *text, const char *lift, const char *whose,
		      const char *task)
{
	char output[4096];

	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "quarantine", lift, whose, task,
				    NULL),
			 status);
	ck_assert_msg(strstr(output, text), "no \"%s\" in: %s", text, output);
}

/* Returns the number of rows of the board in use. */
static uint32_t n_rows(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < LIMIT_QUARANTINE; i++)
		n += atomic_load(&d.board->quarantine[i].until_ns) != 0;
	return n;
}

START_TEST(crashing_task_is_refused_only_to_its_user)
{
	const struct board_quarantine *row;
	fk_job queued[8];
	const fk_task *task;

	setup("--quarantine-task-crashes=3", NULL, NULL);
	crash("crash:maybe", 2);
	ck_assert_int_eq(maybe(0), 0);
	ck_assert_uint_eq(n_rows(), 0);
	crash("crash:maybe", 1);

	/* Whether it would crash or not, it is refused now, and no pool dies. */
	ck_assert_int_eq(maybe(0), -EKEYREVOKED);
	ck_assert_int_eq(maybe(1), -EKEYREVOKED);
	ck_assert_ptr_eq(strstr(fk_error_text(),
				"crash:maybe: FAILED: not begun: the task is in quarantine"),
			 fk_error_text());
	ck_assert_uint_eq(daemon_crashes(&d), 3);
	ck_assert_int_eq(fk_task_find(c, "crash:maybe", &task), 0);
	for (size_t i = 0; i < ARRAY_SIZE(queued); i++)
		ck_assert_int_eq(fk_submit(c, task, FK_IDEMPOTENT, &queued[i], INT64_C(1)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(queued); i++) {
		int code = 0;

		ck_assert_int_eq(fk_wait(c, queued[i], FK_FOREVER), 0);
		ck_assert_int_eq(fk_outcome(c, queued[i], &code, NULL), FK_FAILED);
		ck_assert_int_eq(code, -EKEYREVOKED);
		ck_assert_int_eq(fk_release(c, queued[i]), 0);
	}
	ck_assert_ptr_nonnull(strstr(fk_strerror(-EKEYREVOKED), "forkctl quarantine"));
	/* Other tasks and other users are not affected. */
	ck_assert_int_eq(fib(), 0);
	crash("crash:segv", 1);
	see_that_others_may();

	ck_assert_uint_eq(n_rows(), 1);
	row = &d.board->quarantine[0];
	ck_assert_uint_eq(atomic_load(&row->uid), geteuid());
	ck_assert_uint_eq(atomic_load(&row->crashes), 3);
	ck_assert_str_eq(row->task, "crash:maybe");
	ck_assert(daemon_logged(&d, "task crash:maybe is refused to uid", "after 3 crashes"));
	teardown();
}
END_TEST

START_TEST(next_pool_has_the_quarantine_before_its_first_job)
{
	pid_t pool;

	setup("--quarantine-task-crashes=1", NULL, NULL);
	crash("crash:maybe", 1);
	for (int i = 0; i < 4; i++) {
		/* A pool that is killed before it is ready does not count as a crash. */
		ck_assert_int_eq(fib(), 0);
		pool = daemon_pool(&d);
		ck_assert_int_eq(kill(pool, SIGKILL), 0);
		/* Submitted while there is no pool. */
		ck_assert_int_eq(maybe(1), -EKEYREVOKED);
		(void)jobs_pool_after(&d, pool);
	}
	ck_assert_uint_eq(daemon_crashes(&d), 1 + 4);
	ck_assert_uint_eq(n_rows(), 1);
	teardown();
}
END_TEST

START_TEST(task_is_callable_after_lift_and_its_crashes_count_from_0)
{
	setup("--quarantine-task-crashes=2", NULL, NULL);
	ctl_fails(1, "no task of uid", "lift", user, NULL);
	crash("crash:maybe", 2);
	crash("crash:segv", 2);
	ck_assert_int_eq(maybe(0), -EKEYREVOKED);
	ctl("crash:maybe", NULL, NULL, NULL);
	ctl("crash:segv", NULL, NULL, NULL);
	ctl_fails(1, "task fib:fib of uid", "lift", user, "fib:fib");
	ctl_fails(1, "is in quarantine: `forkctl quarantine` lists", "lift", "4000000000", NULL);
	ctl_fails(2, "there is no user", "lift", "no-such-user", NULL);
	ctl_fails(2, "lists entries", "lift", NULL, NULL);
	ctl_fails(2, "lists entries", "drop", user, NULL);
	ck_assert_int_eq(maybe(0), -EKEYREVOKED);

	ctl("lifted 1 entry", "lift", user, "crash:maybe");
	ck_assert_int_eq(maybe(0), 0);
	ck_assert_int_eq(fk_call(c, "crash:segv", NULL), -EKEYREVOKED);
	crash("crash:maybe", 1);
	ck_assert_int_eq(maybe(0), 0);
	crash("crash:maybe", 1);
	ck_assert_int_eq(maybe(0), -EKEYREVOKED);

	/* By the name of the user, if it has one; both. */
	ctl("lifted 2 entries", "lift", getpwuid(geteuid()) ? getpwuid(geteuid())->pw_name : user,
	    NULL);
	ck_assert_int_eq(maybe(0), 0);
	crash("crash:segv", 1);
	ck_assert_uint_eq(n_rows(), 0);
	ck_assert(daemon_logged(&d, "task crash:maybe of uid", "it was lifted"));
	ck_assert(daemon_logged(&d, "2 lifted for uid", "by pid"));
	teardown();
}
END_TEST

/* Requests the end of all quarantines of this user. Returns the connection. */
static int ask_for_lift(void)
{
	struct proto_set lift = { .head = { PROTO_MAGIC, PROTO_LIFT } };
	int fd = -1;

	(void)snprintf(lift.value, sizeof(lift.value), "%s", user);
	ck_assert_int_eq(connect_socket(d.socket, &fd), 0);
	ck_assert_int_eq(proto_send(fd, &lift, sizeof(lift), NULL, 0), 0);
	return fd;
}

START_TEST(lift_is_answered_when_the_pool_has_applied_it_or_ended)
{
	union proto_message answer;
	int fds[PROTO_MAX_FDS];
	char text[16384];
	uint32_t n_fds;

	setup("--quarantine-task-crashes=1", NULL, NULL);
	for (uint32_t ends = 0; ends < 2; ends++) {
		pid_t pool;
		int fd, r;

		crash("crash:maybe", 1);
		ck_assert_int_eq(maybe(0), -EKEYREVOKED);
		pool = daemon_pool(&d);
		daemon_suspend(pool);
		fd = ask_for_lift();
		DAEMON_AWAIT(daemon_count_lines(&d, "lifted for uid", user) == ends + 1);
		/* The manager has completed that loop turn when it answers another request. */
		ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "config", NULL), 0);
		r = proto_recv(fd, &answer, fds, &n_fds, MSG_DONTWAIT);
		/* If this took 5 s, the answer was that the pool has not confirmed. */
		if (r != -EAGAIN)
			ck_assert_uint_eq(answer.head.type, PROTO_SET_SENT);
		ck_assert_int_eq(kill(pool, ends ? SIGKILL : SIGCONT), 0);
		if (r == -EAGAIN)
			ck_assert_int_eq(proto_recv(fd, &answer, fds, &n_fds, 0),
					 sizeof(answer.set));
		if (answer.head.type == PROTO_SET_DONE)
			ck_assert_int_eq(maybe(0), 0);
		ck_assert_int_eq(close(fd), 0);
	}
	teardown();
}
END_TEST

static void lift_as_another(void)
{
	struct proto_set lift = { .head = { PROTO_MAGIC, PROTO_LIFT } };
	union proto_message answer = { .head = { 0 } };
	int fds[PROTO_MAX_FDS], fd;
	uint32_t n_fds;

	(void)snprintf(lift.value, sizeof(lift.value), "%s", user);
	if (connect_socket(d.socket, &fd) < 0)
		_exit(1);
	if (connect_ask(fd, d.socket, &lift, sizeof(lift), &answer, fds, &n_fds) != -EPERM)
		_exit(2);
}

START_TEST(another_user_may_not_lift_a_quarantine)
{
	setup("--quarantine-task-crashes=1", NULL, NULL);
	crash("crash:maybe", 1);
	if (geteuid() == 0)
		ck_assert_int_eq(daemon_reap(daemon_client(lift_as_another, OTHER_UID)), 0);
	ck_assert_int_eq(maybe(0), -EKEYREVOKED);
	teardown();
}
END_TEST

START_TEST(quarantine_ends_without_a_command)
{
	setup("--quarantine-task-crashes=2", NULL, "--quarantine-time=300ms");
	crash("crash:maybe", 2);
	DAEMON_AWAIT(daemon_logged(&d, "task crash:maybe of uid", "quarantine-time has passed"));
	ck_assert_uint_eq(n_rows(), 0);
	/* The pool has been notified, and reads the message when it can. */
	DAEMON_AWAIT(maybe(0) == 0);
	/* The count begins again. */
	crash("crash:maybe", 1);
	ck_assert_int_eq(maybe(0), 0);
	teardown();
}
END_TEST

START_TEST(user_with_too_many_crashes_is_refused_all_tasks)
{
	static const char *const tasks[] = { "crash:segv", "crash:abort", "crash:maybe" };

	setup(NULL, "--quarantine-user-crashes=5", NULL);
	for (uint32_t i = 0; i < 5; i++) {
		ck_assert_int_eq(fib(), 0);
		crash(tasks[i % 3], 1);
	}
	ck_assert_int_eq(fib(), -EKEYREVOKED);
	ck_assert_int_eq(maybe(0), -EKEYREVOKED);
	see_that_others_may();
	ck_assert_uint_eq(n_rows(), 1);
	ctl("(every task)", NULL, NULL, NULL);
	ctl_fails(1, "task fib:fib of uid", "lift", user, "fib:fib");
	ctl("lifted 1 entry", "lift", user, NULL);
	ck_assert_int_eq(fib(), 0);
	crash("crash:segv", 4);
	ck_assert_int_eq(fib(), 0);
	teardown();
}
END_TEST

START_TEST(crashes_that_are_far_apart_do_not_count_together)
{
	setup("--quarantine-task-crashes=2", "--quarantine-user-crashes=2",
	      "--quarantine-window=1ms");
	/* A pool does not start within that time. */
	crash("crash:maybe", 4);
	ck_assert_int_eq(maybe(0), 0);
	ck_assert_uint_eq(n_rows(), 0);
	teardown();
}
END_TEST

START_TEST(signal_from_outside_counts_for_no_user)
{
	static const int signals[] = { SIGSEGV, SIGABRT, SIGKILL, SIGBUS };
	const fk_task *hang;
	char output[4096];
	fk_job job;

	setup("--quarantine-task-crashes=1", "--quarantine-user-crashes=1", NULL);
	ck_assert_int_eq(fk_task_find(c, "crash:hang", &hang), 0);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		pid_t pool = daemon_pool(&d);

		ck_assert_int_eq(fk_submit(c, hang, 0, &job, INT64_C(60000)), 0);
		DAEMON_AWAIT(jobs_running(&d, "crash:hang") == 1);
		ck_assert_int_eq(kill(pool, signals[i]), 0);
		ck_assert_int_eq(fk_wait(c, job, FK_FOREVER), 0);
		ck_assert_int_eq(fk_outcome(c, job, NULL, NULL), FK_LOST);
		ck_assert_int_eq(fk_release(c, job), 0);
		(void)jobs_pool_after(&d, pool);
	}
	ck_assert_uint_eq(daemon_crashes(&d), ARRAY_SIZE(signals));
	ck_assert_uint_eq(n_rows(), 0);
	ck_assert_int_eq(fib(), 0);
	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "crashes", NULL), 0);
	for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
		ck_assert_msg(strstr(line, "CAUSE") || strstr(line, " outside "), "%s", line);
	teardown();
}
END_TEST

START_TEST(details_of_a_crash_are_shown)
{
	const uint32_t more = daemon_sanitized() ? 2 : LIMIT_CRASHES;
	char output[16384], text[64];
	uint32_t lines = 0;

	setup(NULL, NULL, NULL);
	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "status", NULL), 0);
	ck_assert_ptr_null(strstr(output, "last crash"));
	crash("crash:segv", 1);
	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "status", NULL), 0);
	ck_assert_ptr_nonnull(strstr(output, "last crash"));
	(void)snprintf(text, sizeof(text), "SEGV, crash:segv of uid %s (see", user);
	ck_assert_msg(strstr(output, text), "no \"%s\" in: %s", text, output);
	ck_assert_ptr_null(strstr(output, "quarantine:"));
	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "crashes", NULL), 0);
	ck_assert_ptr_nonnull(strstr(output, " fault "));
	ck_assert_ptr_nonnull(strstr(output, " SEGV "));
	ck_assert_ptr_nonnull(strstr(output, " 0x8 "));
	ck_assert_ptr_nonnull(strstr(output, " crash:segv "));
	(void)snprintf(text, sizeof(text), " %d ", (int)getpid());
	ck_assert_ptr_nonnull(strstr(output, text));
	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "crashes", "all", NULL), 2);
	/* More than are stored. */
	crash("crash:abort", more);
	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "crashes", NULL), 0);
	for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
		lines++;
	ck_assert_uint_eq(lines, 1 + min(1 + more, LIMIT_CRASHES));
	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "status", NULL), 0);
	ck_assert_ptr_nonnull(strstr(output, "ABRT, crash:abort of uid"));
	teardown();
}
END_TEST

CHECK_MAIN("quarantine")
