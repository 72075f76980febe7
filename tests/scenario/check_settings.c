/* SPDX-License-Identifier: MIT */
/* scenario: settings that are changed while forkd runs, and users that may not change them */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/connect.h"
#include "shm/proto.h"
#include "shm/wake.h"
#include "tests/support/daemon.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

#define OTHER_UID 65531u

static struct daemon d;

static uint32_t scheduler(void)
{
	return atomic_load_explicit(&d.board->manager.scheduler, memory_order_relaxed);
}

/* Returns the number of workers in this state. */
static uint32_t workers(uint32_t state)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < d.board->manager.n_workers; i++)
		n += wake_state(wake_load(&d.board->workers[i].wake)) == state;
	return n;
}

START_TEST(scheduler_is_switched_back_and_forth)
{
	daemon_start(&d, "--workers=3", NULL);
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t sleeps;

		/* So that all workers search later is caused by the switch. */
		DAEMON_AWAIT(workers(WAKE_SLEEPING) == 3);
		daemon_set(&d, "scheduler", "busy", "scheduler = busy (was lazy)\n");
		ck_assert_uint_eq(scheduler(), 1);
		DAEMON_AWAIT(workers(WAKE_LOOKING) == 3);
		sleeps = daemon_counter(&d, "sleeps") + daemon_counter(&d, "timed_sleeps");
		daemon_call_fib(&d);
		ck_assert_uint_eq(daemon_counter(&d, "sleeps") + daemon_counter(&d, "timed_sleeps"),
				  sleeps);
		daemon_set(&d, "scheduler", "lazy", "scheduler = lazy (was busy)\n");
		DAEMON_AWAIT(workers(WAKE_SLEEPING) == 3);
		daemon_call_fib(&d);
	}
	ck_assert(daemon_logged(&d, "scheduler is busy now, was lazy", "uid"));
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

START_TEST(next_pool_gets_the_changed_settings)
{
	char text[512];
	pid_t pool;

	daemon_start(&d, "--workers=2", NULL);
	DAEMON_AWAIT(workers(WAKE_SLEEPING) == 2);
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "set", "scheduler", "busy", NULL), 0);
	pool = daemon_pool(&d);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	DAEMON_AWAIT(daemon_pool(&d) != pool);
	daemon_call_fib(&d);
	DAEMON_AWAIT(workers(WAKE_LOOKING) == 2);
	/* Of this pool: the counters start at 0. */
	ck_assert_uint_eq(daemon_counter(&d, "sleeps") + daemon_counter(&d, "timed_sleeps"), 0);
	ck_assert_uint_eq(scheduler(), 1);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* Sends the request of forkctl set. Returns the socket, on which the answer arrives. */
static int ask_for_spin(const char *value)
{
	struct proto_set set = { .head = { PROTO_MAGIC, PROTO_SET }, .name = "spin" };
	int fd = -1;

	(void)snprintf(set.value, sizeof(set.value), "%s", value);
	ck_assert_int_eq(connect_socket(d.socket, &fd), 0);
	ck_assert_int_eq(proto_send(fd, &set, sizeof(set), NULL, 0), 0);
	return fd;
}

START_TEST(set_is_answered_when_the_pool_has_applied_it_or_has_ended)
{
	static const char *const values[] = { "20us", "30us" };
	union proto_message answer;
	int fds[PROTO_MAX_FDS];
	char text[16384];
	uint32_t n_fds;

	daemon_start(&d, "--workers=2", NULL);
	for (uint32_t ends = 0; ends < 2; ends++) {
		pid_t pool = daemon_pool(&d);
		int fd;

		daemon_suspend(pool);
		fd = ask_for_spin(values[ends]);
		DAEMON_AWAIT(daemon_logged(&d, "spin is", values[ends]));
		/* The manager has completed that loop turn when it answers another request. */
		ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "config", NULL), 0);
		ck_assert_int_eq(proto_recv(fd, &answer, fds, &n_fds, MSG_DONTWAIT), -EAGAIN);
		ck_assert_int_eq(kill(pool, ends ? SIGKILL : SIGCONT), 0);
		ck_assert_int_eq(proto_recv(fd, &answer, fds, &n_fds, 0), sizeof(answer.set));
		ck_assert_uint_eq(answer.head.type, PROTO_SET_DONE);
		ck_assert_int_eq(close(fd), 0);
	}
	daemon_call_fib(&d);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* A debugger holds the thread that reads the channel. */
START_TEST(change_without_an_answer_of_the_pool_is_reported_as_sent)
{
	char text[1024];
	int status;
	pid_t pool;

	daemon_start(&d, "--workers=2", NULL);
	pool = daemon_pool(&d);
	if (ptrace(PTRACE_SEIZE, pool, NULL, NULL) < 0) {
		check_unit_not_run(change_without_an_answer_of_the_pool_is_reported_as_sent,
				   "ptrace is not allowed here");
		ck_assert_int_eq(daemon_stop(&d), 0);
		return;
	}
	ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, pool, NULL, NULL), 0);
	ck_assert_int_eq(waitpid(pool, &status, __WALL), pool);
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "set", "spin", "20us", NULL), 0);
	ck_assert_msg(strstr(text, "spin = 20us") && strstr(text, "has not answered"), "%s", text);
	ck_assert_int_eq(ptrace(PTRACE_DETACH, pool, NULL, NULL), 0);
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "set", "spin", "30us", NULL), 0);
	ck_assert_msg(strstr(text, "was 20us") && !strstr(text, "has not answered"), "%s", text);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* Checks that forkctl set NAME VALUE fails with this text. */
static void refused(int status, const char *name, const char *value, const char *text)
{
	daemon_see_ctl(&d, status, text, "set", name, value, NULL);
}

START_TEST(invalid_setting_is_reported_and_nothing_changes)
{
	daemon_start(&d, "--workers=2", "--spin=10us", NULL);
	refused(1, "scheduler", "idle", "must be lazy or busy");
	refused(1, "spin", "2s", "from 0 to 1s");
	refused(1, "spin", "", "bad value");
	refused(1, "workers", "4", "workers needs a restart");
	refused(1, "socket", "/tmp/x", "only these can be set: scheduler, spin");
	refused(2, "schedular", "busy", "did you mean \"scheduler\"?");
	refused(2, "spin", NULL, "takes a name and a value");
	ck_assert_uint_eq(scheduler(), 0);
	daemon_set(&d, "spin", "1ms", "spin = 1ms (was 10us)\n");
	daemon_call_fib(&d);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* Sends size bytes of a message. Returns the code of the error, 0 for DONE, 1 for the end of the
 * connection, 2 for any other answer. */
static int send_set(const struct proto_set *set, uint32_t size)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	union proto_message answer;
	int fds[PROTO_MAX_FDS], r;
	uint32_t n_fds = 0;

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", d.socket);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return 3;
	r = proto_send(fd, set, size, NULL, 0);
	if (r == 0)
		r = proto_recv(fd, &answer, fds, &n_fds, 0);
	(void)close(fd);
	if (r <= 0)
		return 1;
	if (answer.head.type == PROTO_SET_DONE)
		return 0;
	return answer.head.type == PROTO_ERROR ? answer.error.code : 2;
}

static struct proto_set set_message(const char *name, const char *value)
{
	struct proto_set set = { .head = { PROTO_MAGIC, PROTO_SET } };

	(void)snprintf(set.name, sizeof(set.name), "%s", name);
	(void)snprintf(set.value, sizeof(set.value), "%s", value);
	return set;
}

static void set_as_another(void)
{
	struct proto_set set = set_message("scheduler", "busy");
	int code = send_set(&set, sizeof(set));

	/* Without root there is no other user. */
	if (code != (geteuid() == OTHER_UID ? -EPERM : 0))
		_exit(1);
}

START_TEST(another_user_may_not_change_settings)
{
	daemon_start(&d, "--workers=2", NULL);
	ck_assert_int_eq(daemon_reap(daemon_client(set_as_another, OTHER_UID)), 0);
	ck_assert_uint_eq(scheduler(), geteuid() != 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

START_TEST(message_that_is_not_text_is_refused)
{
	struct proto_set set = set_message("scheduler", "busy");

	daemon_start(&d, "--workers=2", NULL);
	ck_assert_int_eq(send_set(&set, sizeof(set) - 1), -EBADMSG);
	memset(set.name, 'x', sizeof(set.name));
	ck_assert_int_eq(send_set(&set, sizeof(set)), -ENOENT);
	memset(set.name, '\n', sizeof(set.name));
	ck_assert_int_eq(send_set(&set, sizeof(set)), -ENOENT);
	set = set_message("scheduler", "");
	memset(set.value, '\x1b', sizeof(set.value));
	ck_assert_int_eq(send_set(&set, sizeof(set)), -EINVAL);
	set = set_message("", "");
	ck_assert_int_eq(send_set(&set, sizeof(set)), -ENOENT);
	ck_assert_uint_eq(scheduler(), 0);
	set = set_message("scheduler", "busy");
	ck_assert_int_eq(send_set(&set, sizeof(set)), 0);
	ck_assert_uint_eq(scheduler(), 1);
	daemon_call_fib(&d);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

CHECK_MAIN("settings")
