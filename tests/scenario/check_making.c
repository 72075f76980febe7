/* SPDX-License-Identifier: MIT */
/*
 * making - clients' segments, whose pages take time to populate and to release
 *
 * The largest heap here is 1 GiB, and there is room for only one. A successful attach shows that no
 * byte of the previous ones is counted any more.
 */
#define CHECK_TIMEOUT 120

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <forkd/client.h>

#include "daemon/manager/client_segments.h"
#include "tests/support/check_unit.h"
#include "tests/support/service.h"

#define LARGEST	  (UINT64_C(1) << 30)
#define SMALL	  (UINT64_C(1) << 20) /* the default */
#define JOBS	  256u
#define OTHER_UID 65533u

static struct service_client first;

/* Room for one large segment, two small ones, and two users. */
static pid_t start(void)
{
	const uint64_t max = segments_size(JOBS, LARGEST) + 2 * segments_size(JOBS, SMALL) +
			     2 * (tenant_segment_size(2) + board_times_size(2));
	char memory[64], one[64];
	pid_t pid;

	(void)snprintf(memory, sizeof(memory), "--shared-memory-max=%" PRIu64, max);
	/* One user may have all of it. */
	(void)snprintf(one, sizeof(one), "--user-shared-memory-max=%" PRIu64, max);
	pid = SERVICE_READY("", memory, one, "--user-clients-max=8", "--heap-max=1G",
			    "--clients-max=8", "--socket-mode=0666");
	ck_assert_int_eq(chmod(service_directory, 0755), 0);
	first = service_attach();
	return pid;
}

static struct proto_hello large(void)
{
	struct proto_hello h = service_hello();

	h.heap_size = LARGEST;
	return h;
}

/* Sends HELLO for the largest heap, and does not wait for an answer. */
static int ask(void)
{
	struct proto_hello h = large();
	int fd = service_dial();

	ck_assert_int_eq(proto_send(fd, &h, sizeof(h), NULL, 0), 0);
	return fd;
}

static bool is_answered(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Waits for the answer: 0 for WELCOME. */
static int answer(int fd)
{
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n = 0;

	ck_assert_int_gt(proto_recv(fd, &m, fds, &n, 0), 0);
	while (n)
		(void)close(fds[--n]);
	return m.head.type == PROTO_WELCOME ? 0 : m.error.code;
}

/* Attaches as soon as there is room. */
static int attach(struct proto_hello h)
{
	int fd, r;

	while ((r = service_answer(h, &fd)) < 0) {
		ck_assert_int_eq(r, -FK_E_SHARED_MEMORY);
		(void)close(fd);
	}
	return fd;
}

/* Checks that the largest heap fits again, and no more small ones than there was room for. */
static void all_is_back(void)
{
	int fd = attach(large()), small = attach(service_hello());

	ck_assert_int_eq(service_answer(service_hello(), NULL), -FK_E_SHARED_MEMORY);
	(void)close(fd);
	(void)close(small);
}

static void call(void)
{
	struct service_client c;

	/* The memory of the previous client may not be back yet. */
	while (!service_try_attach(&c))
		;
	service_do(&c, 0);
	(void)munmap(c.segment, sizeof(*c.segment));
	(void)close(c.fd);
}

/* A process, of another user if this is root, attaches and calls. Returns its pid. */
static pid_t other(uint32_t times, const _Atomic uint32_t *stop)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (geteuid() == 0 && setuid(OTHER_UID) < 0)
		_exit(9);
	for (uint32_t i = 0; i < times || (stop && !*stop); i++)
		call();
	_exit(0);
}

static void reap(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

START_TEST(others_attach_and_call_while_the_largest_heap_is_populated)
{
	pid_t pid = start();
	bool was_first = geteuid() != 0;

	/* Unless it got no CPU for that long. */
	for (uint32_t i = 0; i < 50 && !was_first; i++) {
		int fd = ask();

		reap(other(1, NULL));
		was_first = !is_answered(fd);
		(void)answer(fd);
		(void)close(fd);
		reap(other(1, NULL));
	}
	ck_assert_msg(was_first, "the other had to wait for it");
	all_is_back();
	service_stop(pid);
}
END_TEST

START_TEST(reconnects_with_the_largest_heap_do_not_delay_other_clients)
{
	_Atomic uint32_t *stop =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid, child;

	if (geteuid() != 0) {
		check_unit_not_run(reconnects_with_the_largest_heap_do_not_delay_other_clients,
				   "only root can be another user");
		return;
	}
	pid = start();
	child = other(1, stop);
	for (uint32_t i = 0; i < 4; i++) {
		int fd = ask();

		if (i % 2)
			(void)answer(fd);
		(void)close(fd);
	}
	*stop = 1;
	reap(child);
	all_is_back();
	service_stop(pid);
}
END_TEST

START_TEST(client_killed_while_its_memory_is_made_leaves_nothing)
{
	pid_t pid = start();

	for (uint32_t i = 0; i < 3; i++) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			(void)ask();
			(void)raise(SIGKILL);
		}
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert(WIFSIGNALED(status));
	}
	all_is_back();
	service_stop(pid);
}
END_TEST

START_TEST(segments_of_a_user_are_populated_one_at_a_time_in_order)
{
	pid_t pid = start();
	int fd = ask();

	ck_assert_int_eq(service_answer(service_hello(), NULL), 0);
	ck_assert(is_answered(fd));
	(void)close(fd);
	/* A client that does not wait for it delays no other client. */
	all_is_back();
	service_stop(pid);
}
END_TEST

START_TEST(client_whose_segment_is_being_populated_is_notified_of_a_stop)
{
	pid_t pid = start();
	int fd = ask(), r;

	/* The second is answered after the first was begun. */
	ck_assert_int_eq(service_answer(large(), NULL), -FK_E_SHARED_MEMORY);
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
	/* Or the population has just ended. */
	r = answer(fd);
	ck_assert_msg(r == -ESHUTDOWN || r == 0, "%d", r);
	service_expect("STOPPING=1");
	ck_assert_int_eq(service_ends(pid), 0);
	service_teardown();
}
END_TEST

START_TEST(client_gets_the_next_pool_if_one_dies_while_its_memory_is_made)
{
	pid_t pid = start();
	int fd = ask();

	ck_assert_int_eq(service_answer(large(), NULL), -FK_E_SHARED_MEMORY);
	ck_assert_int_eq(kill((pid_t)first.board->manager.pool_pid, SIGKILL), 0);
	ck_assert_int_eq(answer(fd), 0);
	call();
	ck_assert_uint_eq(first.board->manager.pool_generation, 2);
	(void)close(fd);
	all_is_back();
	service_stop(pid);
}
END_TEST

SERVICE_MAIN("making")
