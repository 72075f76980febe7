/* SPDX-License-Identifier: MIT */
/* keeping_state - the service manager's store always has exactly the descriptors that the saved
 * state names: clients, their rings, and clients for which it has no room or no time */
#define CHECK_TIMEOUT 60

#include "daemon/manager/manager.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <forkd/client.h>

#include "common/util.h"
#include "daemon/manager/saved_state.h"
#include "daemon/manager/fdstore.h"
#include "tests/support/keeping.h"

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Returns the names that must be in the store, as systemd_stub_names() does. */
static void say_saved(const struct saved_state *saved, char *ret_names, size_t size)
{
	char names[SYSTEMD_STUB_MAX][FDSTORE_NAME] = { "arena", "board", "pool", "roster" };
	uint32_t n = 4;

	for (uint32_t slot = 0; slot < LIMIT_TENANTS && n < SYSTEMD_STUB_MAX; slot++)
		if (saved->tenants[slot].state != SAVED_FREE)
			fdstore_name(names[n++], FDSTORE_TENANT, slot);
	/* Socket, segment, pidfd. */
	for (uint32_t slot = 0; slot < LIMIT_CLIENTS && n + 3 <= SYSTEMD_STUB_MAX; slot++)
		for (uint32_t i = 0; i < 3 && saved->clients[slot].state != SAVED_FREE; i++)
			fdstore_name(names[n++], FDSTORE_CLIENT, slot);
	qsort(names, n, sizeof(names[0]), compare);
	ret_names[0] = '\0';
	for (uint32_t i = 0; i < n; i++) {
		size_t at = strlen(ret_names);

		(void)snprintf(ret_names + at, size - at, "%s%s", i ? " " : "", names[i]);
	}
}

static bool is_as_saved(struct systemd_stub *store, const struct saved_state *saved)
{
	char names[1024];

	say_saved(saved, names, sizeof(names));
	return holds(store, names);
}

/* And checks them against the saved state. */
#define AWAIT_STORE(...)                                                                           \
	DAEMON_AWAIT(holds(store, "arena board " __VA_ARGS__) && is_as_saved(store, saved))

START_TEST(kept_descriptors_are_those_that_the_saved_state_names)
{
	struct systemd_stub *store = SERVICE_KEEP("", 32, 0);
	struct service_client a, b;
	struct saved_state *saved;
	pid_t pool;

	DAEMON_AWAIT(holds(store, "arena board pool roster"));
	saved = systemd_stub_saved(store);
	AWAIT_STORE("pool roster");
	a = service_attach();
	AWAIT_STORE("c0 c0 c0 pool roster t0");
	b = service_attach();
	AWAIT_STORE("c0 c0 c0 c1 c1 c1 pool roster t0");
	pool = kept_pool(store, 0);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	pool = kept_pool(store, pool);
	AWAIT_STORE("c0 c0 c0 c1 c1 c1 pool roster t0");
	/* Killed twice. */
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(kill(store->service, SIGKILL), 0);
		service_expect("READY=1");
		pool = kept_pool(store, pool);
		AWAIT_STORE("c0 c0 c0 c1 c1 c1 pool roster t0");
	}
	/* One client sends a malformed message, and finally releases its memory; one client
	 * leaves. */
	ck_assert_int_eq(send(a.fd, "not-ours", 8, 0), 8);
	DAEMON_AWAIT(saved->clients[0].state == SAVED_GONE);
	AWAIT_STORE("c0 c0 c0 c1 c1 c1 pool roster t0");
	(void)close(a.fd);
	AWAIT_STORE("c1 c1 c1 pool roster t0");
	(void)close(b.fd);
	AWAIT_STORE("pool roster t0");
	b = service_attach();
	AWAIT_STORE("c2 c2 c2 pool roster t0");
	ck_assert_int_eq(kill(store->service, SIGUSR2), 0);
	service_expect("READY=1");
	ck_assert_int_eq(WEXITSTATUS(store->status), MANAGER_EXIT_RESTART);
	AWAIT_STORE("c2 c2 c2 pool roster t0");
	service_do(&b, 0);
	saved_unmap(saved);
	service_end(store);
}
END_TEST

/* Only root has several users. Any of them may connect. Returns the saved state that is kept. */
static struct saved_state *keep_for_all(struct systemd_stub *store)
{
	ck_assert_int_eq(chmod(service_directory, 0711), 0);
	ck_assert_int_eq(chmod(service_socket, 0666), 0);
	DAEMON_AWAIT(holds(store, "arena board pool roster"));
	return systemd_stub_saved(store);
}

/* Segments with rings are kept for this many users. */
#define IDLE  16u
#define USERS (IDLE + 3)

START_TEST(released_tenants_leave_the_store)
{
	struct systemd_stub *store = SERVICE_KEEP("", SYSTEMD_STUB_MAX, 0);
	struct saved_state *saved;
	uint32_t n = 0;

	saved = keep_for_all(store);
	for (uint32_t i = 0; i < USERS; i++) {
		pid_t pid = daemon_fork(65000 + i);

		if (pid == 0)
			_exit(service_answer(service_hello(), NULL) < 0);
		ck_assert_int_eq(daemon_reap(pid), 0);
	}
	DAEMON_AWAIT(is_as_saved(store, saved) && store->n == 4 + IDLE);
	for (uint32_t slot = 0; slot < LIMIT_TENANTS; slot++)
		n += saved->tenants[slot].state != SAVED_FREE;
	ck_assert_uint_eq(n, IDLE);
	ck_assert_uint_eq(store->refused, 0);
	saved_unmap(saved);
	service_end(store);
}
END_TEST

START_TEST(client_without_room_in_the_store_is_refused)
{
	/* Three of the manager's, the pool, one client and its rings. */
	struct systemd_stub *store = SERVICE_KEEP("", 4 + 4, 0);
	struct service_client a;
	pid_t pool;

	a = service_attach();
	service_refused_hello(service_hello(), -FK_E_NOT_KEPT, "");
	/* No descriptor was refused. */
	ck_assert_uint_eq(store->refused, 0);
	pool = kept_pool(store, 0);
	ck_assert_int_eq(kill(store->service, SIGKILL), 0);
	service_expect("READY=1");
	(void)kept_pool(store, pool);
	service_do(&a, 0);
	(void)close(a.fd);
	DAEMON_AWAIT(holds(store, "arena board pool roster t0"));
	serves();
	service_end(store);
}
END_TEST

/* Returns how many of the connections have ended, and sets *ret_here to one that has not. */
static uint32_t count_ended(const struct service_client *clients, uint32_t n, uint32_t *ret_here)
{
	uint32_t ended = 0;
	char byte;

	for (uint32_t i = 0; i < n; i++) {
		ssize_t size;

		/* A client that was taken over may have received WELCOME again. */
		while ((size = recv(clients[i].fd, &byte, 1, MSG_DONTWAIT)) > 0)
			;
		if (size == 0)
			ended++;
		else
			*ret_here = i;
	}
	return ended;
}

START_TEST(smaller_store_keeps_as_many_clients_as_fit)
{
	struct systemd_stub *store = SERVICE_KEEP("", 32, 0);
	struct service_client c[3];
	uint32_t here = 0;

	for (uint32_t i = 0; i < 3; i++)
		c[i] = service_attach();
	store->says = 4 + 1 + 3;
	ck_assert_int_eq(kill(store->service, SIGKILL), 0);
	service_expect("READY=1");
	DAEMON_AWAIT(count_ended(c, 3, &here) == 2);
	service_do(&c[here], 0);
	service_refused_hello(service_hello(), -FK_E_NOT_KEPT, "");
	/* Not even one of them. */
	store->says = 4;
	ck_assert_int_eq(kill(store->service, SIGKILL), 0);
	service_expect("READY=1");
	DAEMON_AWAIT(count_ended(c, 3, &here) == 3);
	DAEMON_AWAIT(holds(store, ""));
	serves();
	ck_assert_uint_eq(store->starts, 3);
	ck_assert_uint_eq(store->refused, 0);
	for (uint32_t i = 0; i < 3; i++)
		(void)close(c[i].fd);
	service_end(store);
}
END_TEST

/* Returns the number of descriptors of this segment in the manager, including those that wait to be
 * stored. */
static uint32_t segments(pid_t manager, const char *name)
{
	char path[64], target[64];
	uint32_t n = 0;

	for (int fd = 0; fd < 256; fd++) {
		ssize_t size;

		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)manager, fd);
		size = readlink(path, target, sizeof(target) - 1);
		target[max(size, (ssize_t)0)] = '\0';
		n += strstr(target, name) != NULL;
	}
	return n;
}

START_TEST(client_waits_while_the_service_manager_does_not_read)
{
	struct systemd_stub *store = SERVICE_KEEP("", 32, 0);
	struct proto_hello h = service_hello();
	union proto_message m;
	int fd, fds[PROTO_MAX_FDS];
	struct pollfd p = { .events = POLLIN };
	uint32_t n;

	serves();
	deafen(store);
	p.fd = fd = service_dial();
	ck_assert_int_eq(proto_send(fd, &h, sizeof(h), NULL, 0), 0);
	/* Its segment, and its copy that waits. */
	DAEMON_AWAIT(segments(store->service, "forkd-client") == 2);
	/* Other clients are served: this one is refused at once, so the loop runs. */
	service_refused("not-ours", 8, -EBADMSG, "");
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert_int_eq(kill(store->pid, SIGCONT), 0);
	ck_assert_int_gt(proto_recv(fd, &m, fds, &n, 0), 0);
	ck_assert_uint_eq(m.head.type, PROTO_WELCOME);
	DAEMON_AWAIT(holds(store, "arena board c1 c1 c1 pool roster t0"));
	service_end(store);
}
END_TEST

/* A client of this user that leaves when it has an answer or its connection has ended. */
static pid_t dial_as(uint32_t uid)
{
	const struct proto_hello h = service_hello();
	union proto_message m;
	int fd, fds[PROTO_MAX_FDS];
	uint32_t n;
	pid_t pid = daemon_fork(uid);

	if (pid)
		return pid;
	fd = service_dial();
	(void)proto_send(fd, &h, sizeof(h), NULL, 0);
	_exit(proto_recv(fd, &m, fds, &n, 0) <= 0 || m.head.type != PROTO_WELCOME);
}

START_TEST(ring_slot_is_not_reused_while_its_last_rings_are_kept)
{
	struct systemd_stub *store =
		SERVICE_KEEP("", 32, 0, "--shared-memory-max=64M", "--heap-max=64M");
	struct proto_hello large = service_hello();
	struct saved_state *saved;
	pid_t pid;

	saved = keep_for_all(store);
	ck_assert_int_eq(daemon_reap(dial_as(65001)), 0);
	DAEMON_AWAIT(saved->clients[0].state == SAVED_FREE);
	DAEMON_AWAIT(holds(store, "arena board pool roster t0"));
	ck_assert_uint_eq(saved->tenants[0].uid, 65001);
	/* It is released, and the service manager has not read that, nor the next one. */
	deafen(store);
	large.heap_size = 64 << 20;
	service_refused_hello(large, -FK_E_SHARED_MEMORY, "");
	DAEMON_AWAIT(saved->tenants[0].state == SAVED_FREE &&
		     segments(store->service, "forkd-tenant") == 0);
	pid = dial_as(65002);
	/* The segment, and its copy that waits. */
	DAEMON_AWAIT(segments(store->service, "forkd-tenant") == 2);
	ck_assert_uint_eq(saved->tenants[0].state, SAVED_FREE);
	ck_assert_int_eq(kill(store->service, SIGKILL), 0);
	ck_assert_int_eq(kill(store->pid, SIGCONT), 0);
	(void)daemon_reap(pid);
	service_expect("READY=1");
	/* The descriptor stored under the slot's name belongs to the first one. */
	DAEMON_AWAIT(holds(store, "arena board pool roster"));
	ck_assert_uint_eq(saved->tenants[0].state, SAVED_FREE);
	/* And a slot whose descriptor waits to be stored is in use. */
	deafen(store);
	pid = dial_as(65002);
	DAEMON_AWAIT(segments(store->service, "forkd-tenant") == 2);
	ck_assert_int_eq(kill(store->pid, SIGCONT), 0);
	ck_assert_int_eq(daemon_reap(pid), 0);
	DAEMON_AWAIT(is_as_saved(store, saved));
	ck_assert_uint_eq(saved->tenants[0].state, SAVED_HERE);
	ck_assert_uint_eq(saved->tenants[0].uid, 65002);
	saved_unmap(saved);
	service_end(store);
}
END_TEST

int main(int argc, char *argv[])
{
	if (argc > 1 && streq(argv[1], "--pool"))
		return stub_run();
	if (geteuid() != 0)
		check_unit_leave_out("only root can be several users",
				     &released_tenants_leave_the_store,
				     &ring_slot_is_not_reused_while_its_last_rings_are_kept);
	return check_unit_main("keeping_state");
}
