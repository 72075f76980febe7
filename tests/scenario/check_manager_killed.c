/* SPDX-License-Identifier: MIT */
/*
 * manager_killed - a manager that is killed and not restarted, right before and right after each
 * message that it sends
 *
 * In a run clients connect and leave, a pool and the next one start, a job is cancelled, and forkd
 * stops. After each kill connected and connecting clients get an error, the pool ends, and no
 * process is left. The next manager replaces the socket and serves the next client.
 */
#define CHECK_TIMEOUT 120

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <forkd/client.h>

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/service.h"

/* Replaces proto_send(): the manager kills itself at a message. */
static struct {
	pid_t test;
	uint32_t type; /* of the message; 0: none */
	uint32_t nth;  /* of these messages */
	bool after;    /* after it was sent */
} plan;

int __real_proto_send(int fd, const void *message, uint32_t size, const int *fds, uint32_t n_fds);
int __wrap_proto_send(int fd, const void *message, uint32_t size, const int *fds, uint32_t n_fds);

int __wrap_proto_send(int fd, const void *message, uint32_t size, const int *fds, uint32_t n_fds)
{
	const struct proto_head *head = message;
	bool here = plan.type && getpid() != plan.test && head->type == plan.type && !--plan.nth;
	int r;

	if (here && !plan.after)
		(void)raise(SIGKILL);
	r = __real_proto_send(fd, message, size, fds, n_fds);
	if (here)
		(void)raise(SIGKILL);
	return r;
}

/* ------------------------------------------------------------------------ what leads there */

static void start(pid_t pid)
{
	(void)pid;
}

/* Any result is an error that names the path. */
static void attach(pid_t pid)
{
	fk_client *c = NULL;
	int r = fk_open(service_socket, NULL, &c);

	(void)pid;
	if (r == 0) {
		/* It was admitted. */
		ck_assert_uint_eq(plan.type, PROTO_WELCOME);
		ck_assert(plan.after);
		ck_assert_int_eq(fk_close(c), 0);
		return;
	}
	/* Another try finds no listener, or a queue that ends with its socket. */
	ck_assert_msg(r == -FK_E_NOT_LISTENING || r == -ECONNRESET, "%d", r);
	ck_assert_msg(strstr(fk_error_text(), service_socket) != NULL, "%s", fk_error_text());
}

static void leave(pid_t pid)
{
	struct service_client c = service_attach();

	(void)pid;
	ck_assert_int_eq(close(c.fd), 0);
}

static void crash(pid_t pid)
{
	struct service_client c = service_attach();

	(void)pid;
	service_submit(&c, 0, STUB_CRASH, 0);
}

static void cancel(pid_t pid)
{
	struct service_client c = service_attach();
	const struct proto_cancel m = { .head = { PROTO_MAGIC, PROTO_CANCEL }, .generation = 1 };

	(void)pid;
	service_submit(&c, 0, STUB_HANG, 0);
	ck_assert_int_eq(send(c.fd, &m, sizeof(m), 0), sizeof(m));
}

static void stop(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
}

static const struct row {
	uint32_t type, nth;
	void (*act)(pid_t pid);
} rows[] = {
	{ PROTO_POOL_START, 1, start },
	/* Of the second client; the first one is connected. */
	{ PROTO_POOL_CLIENT, 2, attach },
	{ PROTO_WELCOME, 2, attach },
	{ PROTO_POOL_GONE, 1, leave },
	{ PROTO_POOL_CANCEL, 1, cancel },
	/* The next pool receives all of them. */
	{ PROTO_POOL_START, 2, crash },
	{ PROTO_POOL_CLIENT, 3, crash },
	{ PROTO_POOL_TENANT, 3, crash },
	{ PROTO_POOL_STOP, 1, stop },
};

/* ------------------------------------------------------------------------ the test */

/* Checks that the connection ends, with no message before. */
static void see_the_end(struct service_client *c)
{
	char byte;
	ssize_t n = recv(c->fd, &byte, 1, 0);

	ck_assert(n == 0 || (n < 0 && errno == ECONNRESET));
}

static void die_at(const struct row *row, bool after)
{
	struct service_client first;
	pid_t pid, pool = 0;
	int status;

	printf("message %u, the %uth, %s\n", row->type, row->nth, after ? "after it" : "before it");
	(void)fflush(stdout);
	plan.type = row->type;
	plan.nth = row->nth;
	plan.after = after;
	service_setup("");
	pid = SERVICE_START();
	if (row->act != start) {
		service_expect("READY=1");
		first = service_attach();
		pool = (pid_t)first.board->manager.pool_pid;
	}
	row->act(pid);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		      "message %u, the %uth: the manager continued", row->type, row->nth);
	if (pool)
		see_the_end(&first);
	/* Its pools are children of this process now, and end; no other process had anything of
	 * it. */
	while ((pid = waitpid(-1, &status, 0)) > 0)
		ck_assert_msg(!WIFSIGNALED(status) || WTERMSIG(status) == SIGKILL ||
				      (row->act == crash && WTERMSIG(status) == SIGSEGV),
			      "process %d: status %x", (int)pid, status);
	ck_assert_int_eq(errno, ECHILD);

	/* Its socket exists without a listener; then the next manager listens. */
	plan.type = 0;
	pid = SERVICE_START();
	service_expect("READY=1");
	first = service_attach();
	service_do(&first, 0);
	service_stop(pid);
}

START_TEST(manager_killed_at_any_message_disconnects_all_and_leaves_nothing)
{
	plan.test = getpid();
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (int after = 0; after < 2; after++)
			die_at(&rows[i], after);
}
END_TEST

SERVICE_MAIN("manager_killed")
