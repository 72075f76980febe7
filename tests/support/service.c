/* SPDX-License-Identifier: MIT */
/*
 * service.c - a service manager for a manager under test, and a client of the manager
 *
 * Runs manager_run() in a child, with a notification socket and optionally a listening one. The
 * client does not use libforkclient, so a test can send messages that the library never sends.
 *
 * Threads: tests of the manager, one thread. Nothing here sleeps: tests wait for messages of the
 * manager and for futexes on records.
 *
 * If a peer dies: the manager: a wait for a message or an outcome ends the test. The test: the
 * manager gets SIGKILL when its parent dies.
 */
#include "tests/support/service.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <forkd/client.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/options_args.h"
#include "common/util.h"
#include "daemon/manager/manager.h"
#include "shm/futex.h"
#include "shm/layout.h"

char service_directory[32];
char service_socket[64];
static char notify_path[64];
static int notify_fd;

void service_address(struct sockaddr_un *ret, const char *path)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "%.100s", path);
}

void service_setup(const char *mode)
{
	struct timeval limit = { .tv_sec = 30 };
	struct sockaddr_un address;

	(void)strcpy(service_directory, "/tmp/check_service.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(service_directory));
	(void)snprintf(service_socket, sizeof(service_socket), "%s/run/forkd.sock",
		       service_directory);
	(void)snprintf(notify_path, sizeof(notify_path), "%s/notify", service_directory);
	service_address(&address, notify_path);
	notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(notify_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(setsockopt(notify_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	ck_assert_int_eq(setenv("NOTIFY_SOCKET", notify_path, 1), 0);
	ck_assert_int_eq(setenv("FORKD_STUB", mode, 1), 0);
}

void service_teardown(void)
{
	char path[80];

	(void)close(notify_fd);
	(void)snprintf(path, sizeof(path), "%s/run", service_directory);
	(void)unlink(service_socket);
	(void)unlink(notify_path);
	(void)rmdir(path);
	(void)rmdir(service_directory);
}

/* The service's process. */
static _Noreturn void service_run(const char *const *extra)
{
	char *argv[16] = { (char *)(uintptr_t) "forkd", NULL };
	static char socket_option[80];
	struct options options;
	struct options_error error;
	enum options_action action;
	int n = 1;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)snprintf(socket_option, sizeof(socket_option), "--socket=%s", service_socket);
	argv[n++] = (char *)(uintptr_t) "--config=/dev/null";
	argv[n++] = (char *)(uintptr_t) "--workers=2";
	argv[n++] = (char *)(uintptr_t) "--arena-max=64M";
	argv[n++] = socket_option;
	while (extra && *extra)
		argv[n++] = (char *)(uintptr_t)*extra++;
	if (options_args_parse(&options, n, argv, &action, &error) < 0) {
		(void)fprintf(stderr, "%s\n", error.text);
		_exit(99);
	}
	_exit(manager_run(&options, NULL));
}

pid_t service_start(int listen_fd, const char *const *extra)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (listen_fd >= 0) {
		char number[16];

		(void)dup2(listen_fd, 3);
		(void)fcntl(3, F_SETFD, 0);
		(void)snprintf(number, sizeof(number), "%d", (int)getpid());
		(void)setenv("LISTEN_PID", number, 1);
		(void)setenv("LISTEN_FDS", "1", 1);
	}
	service_run(extra);
}

static void service_run_kept(void *context)
{
	service_run(context);
}

int service_listen(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;

	(void)snprintf(service_socket, sizeof(service_socket), "%s/passed.sock", service_directory);
	service_address(&address, service_socket);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(fd, 8), 0);
	return fd;
}

struct systemd_stub *service_keep(const char *mode, uint32_t max, uint64_t watchdog_us,
				  const char *const *extra)
{
	struct systemd_stub_unit unit = {
		.run = service_run_kept,
		.context = (void *)(uintptr_t)extra,
		.notify = notify_path,
		.max = max,
		.watchdog_us = watchdog_us,
	};
	struct systemd_stub *store;

	service_setup(mode);
	(void)close(notify_fd);
	unit.socket = service_listen();
	store = systemd_stub_start(&unit);
	notify_fd = store->messages;
	(void)close(unit.socket);
	service_expect("READY=1");
	return store;
}

void service_end(struct systemd_stub *store)
{
	systemd_stub_end(store);
	service_teardown();
}

void service_expect(const char *text)
{
	char message[512];

	do {
		ssize_t n = recv(notify_fd, message, sizeof(message) - 1, 0);

		ck_assert_msg(n > 0, "no \"%s\" has come", text);
		message[n] = '\0';
	} while (strncmp(message, text, strlen(text)) != 0);
}

void service_deafen(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;

	service_address(&address, notify_path);
	while (sendto(fd, "x", 1, 0, (struct sockaddr *)&address, sizeof(address)) == 1)
		;
	ck_assert_int_eq(errno, EAGAIN);
	(void)close(fd);
}

int service_ends(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "the manager died of signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

void service_stop(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
	service_expect("STOPPING=1");
	ck_assert_int_eq(service_ends(pid), MANAGER_EXIT_OK);
	service_teardown();
}

/* ------------------------------------------------------------------------ a client */

int service_dial(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;

	service_address(&address, service_socket);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

struct proto_hello service_hello(void)
{
	return (struct proto_hello){
		.head = { PROTO_MAGIC, PROTO_HELLO },
		.version = PROTO_VERSION,
		.layout_hash = LAYOUT_HASH,
	};
}

int service_answer(struct proto_hello hello, int *ret_fd)
{
	_cleanup_close_ int fd = service_dial();
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n = 0;

	if (proto_send(fd, &hello, sizeof(hello), NULL, 0) < 0 ||
	    proto_recv(fd, &m, fds, &n, 0) <= 0)
		abort();
	while (n)
		(void)close(fds[--n]);
	if (ret_fd)
		*ret_fd = steal_fd(&fd);
	return m.head.type == PROTO_WELCOME ? 0 : m.error.code;
}

bool service_try_attach(struct service_client *ret_client)
{
	struct service_client c = { .fd = service_dial() };
	struct proto_hello h = service_hello();
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n;
	void *base;

	ck_assert_int_eq(proto_send(c.fd, &h, sizeof(h), NULL, 0), 0);
	ck_assert_int_gt(proto_recv(c.fd, &m, fds, &n, 0), 0);
	/* The slot or memory of the previous client may not be back yet. */
	if (m.head.type == PROTO_ERROR &&
	    (m.error.code == -EUSERS || m.error.code == -FK_E_SHARED_MEMORY)) {
		(void)close(c.fd);
		return false;
	}
	ck_assert_msg(m.head.type != PROTO_ERROR, "refused with %d: %s", m.error.code,
		      m.error.text);
	ck_assert_uint_eq(m.head.type, PROTO_WELCOME);
	ck_assert_uint_eq(n, 3);
	ck_assert_int_eq(segment_map(fds[0], SEGMENT_BOARD, 1, 0, &base, NULL), -EACCES);
	ck_assert_int_eq(segment_map(fds[0], SEGMENT_BOARD, 0, m.welcome.epoch, &base, NULL), 0);
	c.board = base;
	ck_assert_int_eq(segment_map(fds[1], SEGMENT_TENANT, 1, m.welcome.epoch, &base, NULL), 0);
	c.tenant = base;
	ck_assert_int_eq(segment_map(fds[2], SEGMENT_CLIENT, 1, m.welcome.epoch, &base, NULL), 0);
	c.segment = base;
	c.jobs = (struct job *)(void *)((char *)base + c.segment->jobs_offset);
	while (n)
		(void)close(fds[--n]);
	*ret_client = c;
	return true;
}

struct service_client service_attach(void)
{
	struct service_client c;

	ck_assert(service_try_attach(&c));
	return c;
}

void service_submit(struct service_client *c, uint32_t job, uint32_t task, uint32_t flags)
{
	uint32_t generation = (c->jobs[job].state >> JOB_GEN_SHIFT) + 1;
	uint64_t position;

	c->jobs[job].task = task;
	c->jobs[job].flags = flags;
	c->jobs[job].generation = generation;
	c->jobs[job].state = job_state(generation, JOB_PENDING);
	ck_assert_int_eq(ring_push(&c->tenant->rings[0],
				   ring_payload(c->segment->client, c->segment->generation, job),
				   &position),
			 RING_OK);
	tenant_mark(c->tenant, 0);
}

uint32_t service_outcome(struct service_client *c, uint32_t job)
{
	uint64_t deadline = clock_ns() + 30 * NSEC_PER_SEC;
	uint32_t value;

	while ((value = job_announce_waiter(&c->jobs[job])))
		ck_assert_int_ne(futex_wait(&c->jobs[job].state, value, deadline), -ETIMEDOUT);
	return job_outcome(&c->jobs[job]);
}

void service_do(struct service_client *c, uint32_t job)
{
	service_submit(c, job, STUB_DONE, 0);
	ck_assert_uint_eq(service_outcome(c, job), JOB_DONE);
}

void service_refused(const void *message, uint32_t size, int code, const char *text)
{
	_cleanup_close_ int fd = service_dial();
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n;

	if (size)
		ck_assert_int_eq(proto_send(fd, message, size, NULL, 0), 0);
	ck_assert_int_eq(proto_recv(fd, &m, fds, &n, 0), sizeof(m.error));
	ck_assert_uint_eq(m.head.type, PROTO_ERROR);
	ck_assert_msg(strstr(m.error.text, text) != NULL, "\"%s\" says nothing of \"%s\"",
		      m.error.text, text);
	ck_assert_int_eq(m.error.code, code);
	ck_assert_int_eq(proto_recv(fd, &m, fds, &n, 0), 0);
}

void service_refused_hello(struct proto_hello h, int code, const char *text)
{
	service_refused(&h, sizeof(h), code, text);
}

pid_t service_ready(const char *mode, const char *const *extra)
{
	pid_t pid;

	service_setup(mode);
	pid = service_start(-1, extra);
	service_expect("READY=1");
	return pid;
}
