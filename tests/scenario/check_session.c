/* SPDX-License-Identifier: MIT */
/* session - the manager and messages of its clients: which clients are admitted, which are refused
 * and why */
#define CHECK_TIMEOUT 60

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <forkd/client.h>

#include "tests/support/check_unit.h"
#include "tests/support/daemon.h"
#include "tests/support/service.h"

START_TEST(impossible_sizes_are_refused_with_a_remedy)
{
	pid_t pid = SERVICE_READY("", "--clients-max=1", "--jobs-max=512", "--heap-max=2M",
				  "--shared-memory-max=2M");
	struct proto_hello h;
	struct service_client c;

	h = service_hello();
	h.version = 77;
	service_refused_hello(h, -EPROTO, "version 77");
	h = service_hello();
	h.layout_hash++;
	service_refused_hello(h, -EPROTO, "libforkclient");
	h = service_hello();
	h.n_jobs = 513;
	service_refused_hello(h, -E2BIG, "jobs-max (512)");
	h = service_hello();
	h.heap_size = (2 << 20) + 1;
	service_refused_hello(h, -FK_E_HEAP_SIZE, "heap-max (2097152)");
	h.heap_size = UINT64_MAX;
	service_refused_hello(h, -FK_E_HEAP_SIZE, "heap-max");
	h.heap_size = 2 << 20;
	service_refused_hello(h, -FK_E_SHARED_MEMORY, "shared-memory-max");
	h = service_hello();
	service_refused(&h, sizeof(h) - 1, -EBADMSG, "HELLO");
	service_refused("garbage!!!", 10, -EBADMSG, "HELLO");
	c = service_attach();
	service_refused_hello(service_hello(), -EUSERS, "clients-max (1)");
	ck_assert_uint_eq(c.board->manager.refused, 9);
	ck_assert_uint_eq(c.board->manager.accepted, 1);
	service_stop(pid);
}
END_TEST

START_TEST(client_that_the_pool_cannot_map_gets_an_error)
{
	pid_t pid = SERVICE_READY("refuse", "--clients-max=1");
	int r;

	service_refused_hello(service_hello(), -EIO, "no address space");
	/* The slot is free again as soon as the memory is back. */
	while ((r = service_answer(service_hello(), NULL)) == -EUSERS)
		;
	ck_assert_int_eq(r, -EIO);
	service_stop(pid);
}
END_TEST

START_TEST(client_that_the_pool_cannot_map_is_not_shown_as_connected)
{
	pid_t pid = SERVICE_READY("refuse-others");
	struct service_client first = service_attach();
	uint32_t n = 0;

	service_refused_hello(service_hello(), -EIO, "no address space");
	ck_assert_uint_eq(first.board->manager.refused, 1);
	ck_assert_uint_eq(first.board->manager.accepted, 2);
	ck_assert_uint_eq(first.board->manager.clients, 1);
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
		const struct board_client *row = &first.board->clients[i];

		if (!row->pid)
			continue;
		n++;
		ck_assert_int_eq(row->left_ns != 0, i != first.segment->client);
	}
	ck_assert_uint_eq(n, 2);
	service_stop(pid);
}
END_TEST

START_TEST(silent_connection_is_closed)
{
	pid_t pid = SERVICE_READY("");

	service_refused(NULL, 0, -FK_E_LATE, "HELLO");
	service_stop(pid);
}
END_TEST

START_TEST(client_that_sends_unexpected_messages_is_disconnected)
{
	pid_t pid = SERVICE_READY("");
	struct service_client c = service_attach();
	struct proto_hello h = service_hello();
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n;

	ck_assert_int_eq(proto_send(c.fd, &h, sizeof(h), NULL, 0), 0);
	ck_assert_int_eq(proto_recv(c.fd, &m, fds, &n, 0), 0);
	service_stop(pid);
}
END_TEST

START_TEST(slot_is_reused_with_the_next_generation)
{
	pid_t pid = SERVICE_READY("", "--clients-max=1");
	struct service_client c;

	for (uint32_t i = 0; i < 70; i++) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			/* Until the stub has released the last client there is no room. */
			while (!service_try_attach(&c))
				;
			if (c.segment->client != 0 || c.segment->generation != i % 32)
				_exit(1);
			service_submit(&c, 0, STUB_DONE, 0);
			if (service_outcome(&c, 0) != JOB_DONE || c.jobs[0].generation != i + 1)
				_exit(2);
			(void)raise(SIGKILL);
		}
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	service_stop(pid);
}
END_TEST

/* ------------------------------------------------------------------------ memory after the end */

#define HEAP (UINT64_C(1) << 20)

/* A client that keeps its mapping and descriptors. */
struct keeper {
	int fd;	    /* its connection */
	int memory; /* its segment */
	char *base; /* mapped */
	const struct board *board;
	uint64_t size;
};

/* Returns the bytes that a segment's pages take. */
static uint64_t pages(const struct keeper *k)
{
	struct stat st;

	return fstat(k->memory, &st) < 0 ? UINT64_MAX : (uint64_t)st.st_blocks * 512;
}

/* Attaches, and writes every page of the heap. Returns false if there is no slot or no memory. Uses
 * no assertion: it also runs in children. */
static bool keeper_attach(struct keeper *k)
{
	struct proto_hello h = service_hello();
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n = 0;
	void *base;

	h.heap_size = HEAP;
	k->fd = service_dial();
	if (proto_send(k->fd, &h, sizeof(h), NULL, 0) < 0 || proto_recv(k->fd, &m, fds, &n, 0) <= 0)
		_exit(20);
	if (m.head.type == PROTO_ERROR &&
	    (m.error.code == -EUSERS || m.error.code == -FK_E_USER_CLIENTS ||
	     m.error.code == -FK_E_SHARED_MEMORY)) {
		(void)close(k->fd);
		return false;
	}
	if (m.head.type != PROTO_WELCOME || n != 3 ||
	    segment_map(fds[2], SEGMENT_CLIENT, 1, m.welcome.epoch, &base, &k->size) < 0)
		_exit(21);
	k->memory = fds[2];
	k->base = base;
	if (segment_map(fds[0], SEGMENT_BOARD, 0, m.welcome.epoch, &base, NULL) < 0)
		_exit(22);
	k->board = base;
	(void)close(fds[0]);
	(void)close(fds[1]);
	memset(k->base + k->size - HEAP, 'x', HEAP);
	if (pages(k) != k->size)
		_exit(23);
	return true;
}

static int child_status(pid_t child)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status), "the child died of signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

/* With one slot, the next client's attach shows that the last one's memory is back. */
START_TEST(mapping_kept_over_many_connects_keeps_no_memory)
{
	enum { CONNECTS = 50 };
	pid_t pid, child;

	/* Room for three of them. */
	pid = SERVICE_READY("", "--clients-max=1", "--heap-max=1M", "--shared-memory-max=6M");
	child = fork();
	if (child == 0) {
		static struct keeper k[CONNECTS];

		for (uint32_t i = 0; i < CONNECTS; i++) {
			while (!keeper_attach(&k[i]))
				;
			for (uint32_t j = 0; j < i; j++)
				if (pages(&k[j]) != 0)
					_exit(1);
			(void)close(k[i].fd);
		}
		/* Pages that it touches now are new. */
		if (k[0].base[k[0].size - 1] != 0 || pages(&k[0]) == 0)
			_exit(2);
		_exit(0);
	}
	ck_assert_int_eq(child_status(child), 0);
	service_stop(pid);
}
END_TEST

/* As in the last test, but killed; its child has the socket, the mapping and the descriptor. */
START_TEST(child_that_outlives_its_client_keeps_no_memory)
{
	int go[2], answer[2], status;
	struct keeper next;
	pid_t pid, child;
	char byte = 0;

	pid = SERVICE_READY("", "--clients-max=1", "--heap-max=1M");
	ck_assert_int_eq(pipe(go), 0);
	ck_assert_int_eq(pipe(answer), 0);
	child = fork();
	if (child == 0) {
		struct keeper k;

		if (!keeper_attach(&k))
			_exit(1);
		if (fork() == 0) {
			(void)close(go[1]);
			(void)!write(answer[1], "r", 1);
			(void)!read(go[0], &byte, 1);
			byte = pages(&k) != 0		    ? 'p'
			     : k.base[k.size - 1] != 0	    ? 'x'
			     : recv(k.fd, &byte, 1, 0) != 0 ? 's'
							    : 'k';
			(void)!write(answer[1], &byte, 1);
			_exit(0);
		}
		(void)pause();
	}
	ck_assert_int_eq(read(answer[0], &byte, 1), 1);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	while (!keeper_attach(&next))
		;
	ck_assert_int_eq(write(go[1], "g", 1), 1);
	ck_assert_int_eq(read(answer[0], &byte, 1), 1);
	ck_assert_msg(byte == 'k', "the child says '%c'", byte);
	service_stop(pid);
}
END_TEST

START_TEST(pages_stay_as_long_as_the_pool_may_write_there)
{
	struct keeper k, next;
	struct service_client c;
	pid_t pid, pool;

	pid = SERVICE_READY("", "--clients-max=2", "--heap-max=1M");
	c = service_attach();
	ck_assert(keeper_attach(&k));
	pool = (pid_t)c.board->manager.pool_pid;
	daemon_suspend(pool);
	(void)close(k.fd);
	while (c.board->manager.clients != 1)
		(void)sched_yield();
	ck_assert(!keeper_attach(&next));
	ck_assert_uint_eq(pages(&k), k.size);
	/* Another pool has not received it either. */
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	while (!keeper_attach(&next))
		;
	ck_assert_uint_eq(pages(&k), 0);
	service_do(&c, 0);
	service_stop(pid);
}
END_TEST

START_TEST(gone_client_counts_for_its_user_until_the_pool_has_released_it)
{
	struct keeper k, next;
	struct service_client c;
	pid_t pid, pool;

	pid = SERVICE_READY("", "--clients-max=4", "--user-clients-max=2", "--heap-max=1M");
	c = service_attach();
	ck_assert(keeper_attach(&k));
	service_refused_hello(service_hello(), -FK_E_USER_CLIENTS, "user-clients-max (2)");
	pool = (pid_t)c.board->manager.pool_pid;
	daemon_suspend(pool);
	(void)close(k.fd);
	while (c.board->manager.clients != 1)
		(void)sched_yield();
	service_refused_hello(service_hello(), -FK_E_USER_CLIENTS, "user-clients-max (2)");
	ck_assert_int_eq(kill(pool, SIGCONT), 0);
	while (!keeper_attach(&next))
		;
	service_refused_hello(service_hello(), -FK_E_USER_CLIENTS, "user-clients-max (2)");
	service_stop(pid);
}
END_TEST

/* The next pool cannot map it: results that it has not read stay, until it closes. */
START_TEST(client_disconnected_by_forkd_can_still_read_its_results)
{
	pid_t pid = SERVICE_READY("forget", "--clients-max=2", "--heap-max=1M");
	struct keeper k, other, next;
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n;

	ck_assert(keeper_attach(&k));
	ck_assert_int_eq(kill((pid_t)k.board->manager.pool_pid, SIGKILL), 0);
	ck_assert_int_eq(proto_recv(k.fd, &m, fds, &n, 0), sizeof(m.error));
	ck_assert_uint_eq(m.head.type, PROTO_ERROR);
	ck_assert_int_eq(proto_recv(k.fd, &m, fds, &n, 0), 0);
	/* Its WELCOME follows the report that the pool has released the first. */
	ck_assert(keeper_attach(&other));
	ck_assert_uint_eq(pages(&k), k.size);
	ck_assert_int_eq(k.base[k.size - 1], 'x');
	ck_assert(!keeper_attach(&next));
	(void)close(k.fd);
	while (!keeper_attach(&next))
		;
	ck_assert_uint_eq(pages(&k), 0);
	service_stop(pid);
}
END_TEST

START_TEST(client_that_goes_before_its_memory_is_made_never_reaches_the_pool)
{
	struct proto_hello h = service_hello();
	struct service_client first, last;
	uint64_t told;
	pid_t pid, pool;

	/* In several pieces: the end of a connection is seen before that of the first piece. */
	h.heap_size = 32 << 20;
	pid = SERVICE_READY("", "--heap-max=32M", "--shared-memory-max=1G",
			    "--user-shared-memory-max=1G", "--clients-max=64",
			    "--user-clients-max=64");
	first = service_attach();
	pool = (pid_t)first.board->manager.pool_pid;
	daemon_suspend(pool);
	for (uint32_t i = 0; i < 20; i++) {
		int fd = service_dial();

		ck_assert_int_eq(proto_send(fd, &h, sizeof(h), NULL, 0), 0);
		(void)close(fd);
	}
	ck_assert_int_eq(kill(pool, SIGCONT), 0);
	/* Messages sent to the pool before have been read by then. */
	last = service_attach();
	told = STUB_TOLD(first.board);
	ck_assert_uint_ge(told, 2);
	ck_assert_uint_le(told, last.board->manager.accepted);
	service_stop(pid);
}
END_TEST

/* ------------------------------------------------------------------------ unwatchable clients */

/* The manager has sent its status with the number of clients, for which it needs a socket, and is
 * in its loop. */
static void await_quiet(pid_t pid)
{
	service_expect("STATUS=Running: 2 workers, 1 clients");
	DAEMON_AWAIT(daemon_proc_state(pid) == 'S');
}

/* Limits a process to one more descriptor than it has now. */
static struct rlimit leave_one_descriptor(pid_t pid)
{
	struct rlimit old, new;
	char path[64];
	uint32_t n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd/0", (int)pid);
	while (access(path, F_OK) == 0)
		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)pid, ++n);
	ck_assert_int_eq(prlimit(pid, RLIMIT_NOFILE, NULL, &old), 0);
	new = (struct rlimit){ .rlim_cur = n + 1, .rlim_max = old.rlim_max };
	ck_assert_int_eq(prlimit(pid, RLIMIT_NOFILE, &new, NULL), 0);
	return old;
}

START_TEST(client_that_cannot_be_watched_is_refused_and_others_are_served)
{
	pid_t pid = SERVICE_READY("");
	struct service_client first, next;
	struct rlimit old;

	first = service_attach();
	await_quiet(pid);
	old = leave_one_descriptor(pid);
	for (uint32_t i = 0; i < 3; i++)
		service_refused_hello(service_hello(), -FK_E_FORKD_MEMORY,
				      "cannot open a pidfd of your process");
	ck_assert_uint_eq(first.board->manager.refused, 3);
	service_do(&first, 0);
	ck_assert_int_eq(prlimit(pid, RLIMIT_NOFILE, &old, NULL), 0);
	next = service_attach();
	service_do(&next, 0);
	service_stop(pid);
}
END_TEST

START_TEST(use_of_the_connection_of_a_dead_process_is_refused)
{
	int pair[2], status;
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	struct service_client c;
	struct proto_hello h = service_hello();
	uint32_t n = 0;
	pid_t pid, child;

	pid = SERVICE_READY("");
	c = service_attach();
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	child = fork();
	if (child == 0) {
		int fd = service_dial();

		(void)proto_send(pair[1], &h, sizeof(h), &fd, 1);
		(void)raise(SIGKILL);
	}
	ck_assert_int_eq(proto_recv(pair[0], &m, fds, &n, 0), sizeof(h));
	ck_assert_uint_eq(n, 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(proto_send(fds[0], &h, sizeof(h), NULL, 0), 0);
	ck_assert_int_eq(proto_recv(fds[0], &m, fds + 1, &n, 0), sizeof(m.error));
	ck_assert_uint_eq(m.head.type, PROTO_ERROR);
	ck_assert_int_eq(m.error.code, -ESRCH);
	ck_assert_ptr_nonnull(strstr(m.error.text, "has ended"));
	ck_assert_uint_eq(c.board->manager.accepted, 1);
	service_stop(pid);
}
END_TEST

/* A connection of this uid with another group. */
static struct service_client attach_of(gid_t gid)
{
	struct service_client c;

	ck_assert_int_eq(setegid(gid), 0);
	c = service_attach();
	ck_assert_int_eq(setegid(getgid()), 0);
	return c;
}

static void weighs(const struct service_client *c, uint64_t weight)
{
	while (STUB_WEIGHT(c->board) != weight)
		(void)sched_yield();
}

START_TEST(uid_has_the_largest_weight_of_its_connections)
{
	struct service_client c, light, heavy;
	pid_t pid;

	if (geteuid() != 0) {
		check_unit_not_run(uid_has_the_largest_weight_of_its_connections,
				   "only root can have other groups");
		return;
	}
	pid = SERVICE_READY("", "--user-weights=@60101:30,@60102:300", "--heap-max=1M");
	light = attach_of(60101);
	weighs(&light, 30);
	c = service_attach();
	weighs(&c, 100);
	heavy = attach_of(60102);
	weighs(&c, 300);
	/* A connection with a smaller weight changes nothing; nor does the next pool. */
	(void)attach_of(60101);
	weighs(&c, 300);
	ck_assert_int_eq(kill((pid_t)c.board->manager.pool_pid, SIGKILL), 0);
	while (STUB_TOLD(c.board) < 6)
		(void)sched_yield();
	weighs(&c, 300);
	(void)close(heavy.fd);
	weighs(&c, 100);
	(void)close(c.fd);
	weighs(&light, 30);
	service_stop(pid);
}
END_TEST

SERVICE_MAIN("session")
