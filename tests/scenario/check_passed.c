/* SPDX-License-Identifier: MIT */
/*
 * passed - clients that send descriptors so that the manager closes them
 *
 * Before Linux 6.16 the kernel delivers them; a filter of system calls simulates that kernel here.
 * A manager that closed such a descriptor would wait for longer than the test's time limit. So each
 * test shows that another client can attach.
 */
#define CHECK_TIMEOUT 60

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/passed.h"
#include "tests/support/service.h"

static struct service_client first;

/* Starts a manager, with a client that reads the board. */
static pid_t start(bool old)
{
	pid_t pid;

	if (old)
		passed_old_kernel();
	pid = SERVICE_READY("");
	first = service_attach();
	return pid;
}

/* Waits until the manager waits only for its loop. Otherwise a new message would interrupt its
 * wait, because io_uring uses a signal for that. */
static void await_loop(pid_t manager)
{
	char path[64], text[64];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/syscall", (int)manager);
	do {
		_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

		n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
		text[max(n, 0)] = '\0';
		(void)sched_yield();
	} while (n > 0 && atoi(text) != SYS_io_uring_enter);
}

/* Checks that the next client is served as usual. */
static void others_are_served(pid_t manager)
{
	struct service_client c;

	await_loop(manager);
	c = service_attach();
	service_do(&c, 0);
	(void)close(c.fd);
	service_do(&first, 1);
}

static void halt(pid_t manager)
{
	siginfo_t info;

	ck_assert_int_eq(kill(manager, SIGSTOP), 0);
	ck_assert_int_eq(waitid(P_PID, (id_t)manager, &info, WSTOPPED), 0);
}

/* Sends a message with a lingering descriptor, of which the manager will have the last copy: it is
 * stopped until no other process has one. Returns the descriptor whose close ends the wait. */
static int send_lingering(pid_t manager, int fd, const void *message, size_t size)
{
	int peer, r;

	halt(manager);
	peer = passed_send_lingering(fd, message, size, &r);
	ck_assert_int_eq(r, 0);
	ck_assert_int_eq(kill(manager, SIGCONT), 0);
	return peer;
}

/* Checks that the connection gets the reason, and ends. */
static void is_refused(int fd)
{
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n = 0;
	int r = proto_recv(fd, &m, fds, &n, 0);

	/* Unread data in the socket when it was closed may discard the message. */
	if (r == -ECONNRESET)
		r = proto_recv(fd, &m, fds, &n, 0);
	ck_assert_int_eq(r, sizeof(m.error));
	ck_assert_uint_eq(m.head.type, PROTO_ERROR);
	ck_assert_int_eq(m.error.code, -EPERM);
	ck_assert_ptr_nonnull(strstr(m.error.text, "no descriptors"));
	/* Or the contents of the socket are known only now. */
	r = proto_recv(fd, &m, fds, &n, 0);
	ck_assert_msg(r == 0 || r == -ECONNRESET, "%d", r);
}

static struct proto_cancel cancel_of(const struct service_client *c)
{
	return (struct proto_cancel){
		.head = { PROTO_MAGIC, PROTO_CANCEL },
		.generation = (c->jobs[0].state >> JOB_GEN_SHIFT) + 1,
	};
}

static void is_over(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, 0);

	ck_assert_msg(n == 0 || (n < 0 && errno == ECONNRESET), "it continues");
}

START_TEST(client_that_greets_with_lingering_sockets_is_disconnected_and_others_are_served)
{
	struct proto_hello h = service_hello();
	pid_t pid = start(true);
	int peers[4];

	for (uint32_t i = 0; i < ARRAY_SIZE(peers); i++) {
		int fd = service_dial();

		peers[i] = send_lingering(pid, fd, &h, sizeof(h));
		is_refused(fd);
		(void)close(fd);
		others_are_served(pid);
	}
	ck_assert_uint_eq(first.board->manager.refused, ARRAY_SIZE(peers));
	service_stop(pid);
	for (uint32_t i = 0; i < ARRAY_SIZE(peers); i++)
		(void)close(peers[i]);
}
END_TEST

START_TEST(client_that_cancels_with_lingering_sockets_is_disconnected_and_others_are_served)
{
	pid_t pid = start(true);
	struct service_client c = service_attach();
	struct proto_cancel m = cancel_of(&c);
	int peer = send_lingering(pid, c.fd, &m, sizeof(m));

	is_over(c.fd);
	others_are_served(pid);
	ck_assert_uint_eq(first.board->manager.refused, 1);
	service_stop(pid);
	(void)close(peer);
}
END_TEST

/* The descriptors are not read: something else ends the connection, in its first message or by its
 * end. */
START_TEST(unread_descriptors_delay_no_other_client)
{
	struct proto_hello h = service_hello();
	pid_t pid = start(true);
	int fd = service_dial(), r, peers[2];

	halt(pid);
	ck_assert_int_eq(send(fd, "garbage!!!", 10, 0), 10);
	ck_assert_int_eq(send(fd, NULL, 0, 0), 0);
	peers[0] = passed_send_lingering(fd, &h, sizeof(h), &r);
	ck_assert_int_eq(r, 0);
	(void)close(fd);
	fd = service_dial();
	h.version++;
	ck_assert_int_eq(send(fd, &h, sizeof(h), 0), sizeof(h));
	peers[1] = passed_send_lingering(fd, "x", 1, &r);
	ck_assert_int_eq(r, 0);
	(void)close(fd);
	ck_assert_int_eq(kill(pid, SIGCONT), 0);
	others_are_served(pid);
	service_stop(pid);
	(void)close(peers[0]);
	(void)close(peers[1]);
}
END_TEST

/* As many as one message holds, of a pipe, which shows when the last one is closed. */
static void pass_many(int fd, const void *message, uint32_t size)
{
	int ends[2], fds[PASSED_MANY];
	char byte;

	ck_assert_int_eq(pipe(ends), 0);
	for (uint32_t i = 0; i < PASSED_MANY; i++)
		fds[i] = ends[1];
	ck_assert_int_eq(passed_send(fd, message, size, fds, PASSED_MANY), 0);
	(void)close(ends[1]);
	ck_assert_int_eq(read(ends[0], &byte, 1), 0);
	(void)close(ends[0]);
}

START_TEST(full_message_of_descriptors_is_closed_and_its_sender_disconnected)
{
	struct proto_hello h = service_hello();
	pid_t pid = start(true);
	struct service_client c = service_attach();
	struct proto_cancel m = cancel_of(&c);
	int fd = service_dial();

	pass_many(fd, &h, sizeof(h));
	is_refused(fd);
	pass_many(c.fd, &m, sizeof(m));
	is_over(c.fd);
	others_are_served(pid);
	ck_assert_uint_eq(first.board->manager.refused, 2);
	service_stop(pid);
}
END_TEST

START_TEST(new_kernel_refuses_descriptors)
{
	const int off = 0;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), r, peer;
	struct proto_hello h = service_hello();
	struct service_client c;
	pid_t pid;

	r = setsockopt(fd, SOL_SOCKET, PASSED_RIGHTS, &off, sizeof(off));
	(void)close(fd);
	if (r < 0) {
		check_unit_not_run(new_kernel_refuses_descriptors, "this kernel cannot");
		return;
	}
	pid = start(false);
	c = service_attach();
	peer = passed_send_lingering(c.fd, &h, sizeof(h), &r);
	ck_assert_int_eq(r, -EPERM);
	(void)close(peer);
	fd = service_dial();
	peer = passed_send_lingering(fd, &h, sizeof(h), &r);
	ck_assert_int_eq(r, -EPERM);
	(void)close(peer);
	/* No message arrived. */
	service_do(&c, 0);
	others_are_served(pid);
	ck_assert_uint_eq(first.board->manager.refused, 0);
	service_stop(pid);
}
END_TEST

/* A service manager owned the socket, and accepted connections, before forkd could set options. */
START_TEST(client_that_connected_before_forkd_ran_is_disconnected)
{
	struct proto_hello h = service_hello();
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), on = 1;
	struct sockaddr_un address;
	int fd, r, peer;
	pid_t pid;

	service_setup("");
	(void)snprintf(service_socket, sizeof(service_socket), "%s/sock", service_directory);
	service_address(&address, service_socket);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(listener, 10), 0);
	/* PassCredentials=yes: each message has ancillary data. */
	ck_assert_int_eq(setsockopt(listener, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	fd = service_dial();
	peer = passed_send_lingering(fd, &h, sizeof(h), &r);
	ck_assert_int_eq(r, 0);
	pid = service_start(listener, NULL);
	service_expect("READY=1");
	is_refused(fd);
	first = service_attach();
	others_are_served(pid);
	service_stop(pid);
	(void)close(peer);
}
END_TEST

SERVICE_MAIN("passed")
