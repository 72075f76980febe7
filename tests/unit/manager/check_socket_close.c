/* SPDX-License-Identifier: MIT */
/*
 * socket_close - sockets full of descriptors that take long to close
 *
 * The sockets here accept descriptors, as all do before Linux 6.16. A loop that closed one of those
 * would wait for longer than the test's time limit.
 */
#include "daemon/manager/socket_close.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/list.h"
#include "daemon/manager/loop.h"
#include "shm/proto.h"
#include "tests/support/check_unit.h"
#include "tests/support/passed.h"

#define DISCARDERS 64u /* LOOP_DISCARDERS */
/* A worker that waits has taken the message of the next socket. */
#define SOCKETS (2 * DISCARDERS + 4)

static struct loop loop;
static struct socket_closer all = { .loop = &loop };
static uint32_t turns, wanted; /* loop turns until this many wait */

/* Sockets whose peer was closed; another file may have the number of a closed one. */
static struct {
	int fd;
	ino_t ino;
} hung[SOCKETS];
static uint32_t n_hung;

static void hang_up(int fd)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_lt(n_hung, SOCKETS);
	hung[n_hung].fd = fd;
	hung[n_hung++].ino = st.st_ino;
	ck_assert_int_eq(socket_close(&all, fd), -1);
}

/* Returns how many of them are not closed yet. */
static uint32_t waiting(void)
{
	struct stat st;
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_hung; i++)
		n += fstat(hung[i].fd, &st) == 0 && st.st_ino == hung[i].ino;
	return n;
}

static void on_turn(struct loop_source *source, int result)
{
	(void)result;
	turns++;
	if (waiting() <= wanted)
		loop_stop(&loop);
	else
		ck_assert_int_eq(loop_timer(&loop, source, NSEC_PER_MSEC), 0);
}

/* Runs the loop until n sockets wait to be closed. */
static void turn_until(uint32_t n)
{
	struct loop_source source = { .call = on_turn };

	wanted = n;
	loop.stopped = false;
	ck_assert_int_eq(loop_timer(&loop, &source, NSEC_PER_MSEC), 0);
	ck_assert_int_eq(loop_run(&loop), 0);
	loop_forget(&loop, &source);
}

static void make_pair(int *ret_pair)
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_pair), 0);
}

/* Sets *ret_fd to a socket with such a message, whose peer is closed. Returns the descriptor whose
 * close ends the waiting. */
static int poisoned(int *ret_fd)
{
	int pair[2], peer, r;

	make_pair(pair);
	peer = passed_send_lingering(pair[0], "x", 1, &r);
	ck_assert_int_eq(r, 0);
	(void)close(pair[0]);
	*ret_fd = pair[1];
	return peer;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

START_TEST(socket_without_descriptors_is_closed_at_once)
{
	struct proto_head garbage = { 1, 2 };
	char byte;
	int pair[2];

	ck_assert_int_eq(loop_init(&loop), 0);
	make_pair(pair);
	for (uint32_t i = 0; i < 10; i++) {
		ck_assert_int_eq(send(pair[0], &garbage, sizeof(garbage), 0), sizeof(garbage));
		ck_assert_int_eq(send(pair[0], NULL, 0, 0), 0);
	}
	hang_up(pair[1]);
	ck_assert_uint_eq(waiting(), 0);
	ck_assert(list_is_empty(&all.sockets));
	ck_assert_int_eq(recv(pair[0], &byte, 1, 0), 0);
	ck_assert_int_eq(socket_close(&all, -1), -1);
	loop_fini(&loop);
}
END_TEST

START_TEST(closed_peer_sees_it_at_once_and_the_loop_continues)
{
	int pair[2], peer, r;
	char byte;

	ck_assert_int_eq(loop_init(&loop), 0);
	make_pair(pair);
	/* After an empty message, which looks like the end. */
	ck_assert_int_eq(send(pair[0], NULL, 0, 0), 0);
	peer = passed_send_lingering(pair[0], "x", 1, &r);
	ck_assert_int_eq(r, 0);
	hang_up(pair[1]);
	ck_assert_int_eq(recv(pair[0], &byte, 1, 0), 0);
	ck_assert_int_eq(send(pair[0], "y", 1, MSG_NOSIGNAL), -1);
	ck_assert_uint_eq(waiting(), 1);
	turn_until(0);
	ck_assert_uint_gt(turns, 0);
	(void)close(peer);
	loop_fini(&loop);
}
END_TEST

START_TEST(all_descriptors_of_several_full_messages_are_closed)
{
	int pair[2], ends[2], fds[PASSED_MANY];
	uint32_t n = 0;
	char byte;

	ck_assert_int_eq(loop_init(&loop), 0);
	make_pair(pair);
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	for (uint32_t i = 0; i < PASSED_MANY; i++)
		fds[i] = ends[1];
	while (n < 100 && passed_send(pair[0], "x", 1, fds, PASSED_MANY) == 0 &&
	       send(pair[0], "plain", 5, MSG_DONTWAIT) == 5)
		n++;
	ck_assert_uint_gt(n, 2);
	(void)close(ends[1]);
	(void)close(pair[0]);
	hang_up(pair[1]);
	turn_until(0);
	/* Its last writer is closed. */
	ck_assert_int_eq(read(ends[0], &byte, 1), 0);
	loop_fini(&loop);
}
END_TEST

static int made = 1;

static void on_made(struct loop_source *source, int result)
{
	(void)source;
	made = result;
	loop_stop(&loop);
}

/* Every worker that may wait for such descriptors waits, and some sockets find no worker. */
START_TEST(lingering_sockets_delay_only_each_other)
{
	struct loop_source source = { .call = on_made };
	int peers[SOCKETS], fd, pair[2];
	struct stat st;

	ck_assert_int_eq(loop_init(&loop), 0);
	for (uint32_t i = 0; i < SOCKETS; i++) {
		peers[i] = poisoned(&fd);
		hang_up(fd);
	}
	turn_until(SOCKETS - DISCARDERS);
	/* Pages are populated all the same, and other sockets are closed. */
	fd = memfd_create("check", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
	ck_assert_int_eq(loop_fallocate(&loop, &source, fd, 0, 0, 1 << 20), 0);
	loop.stopped = false;
	ck_assert_int_eq(loop_run(&loop), 0);
	ck_assert_int_eq(made, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_blocks, (1 << 20) / 512);
	make_pair(pair);
	(void)socket_close(&all, pair[0]);
	ck_assert(!is_open(pair[0]));
	ck_assert_uint_ge(waiting(), SOCKETS - 2 * DISCARDERS);
	/* As soon as the peers close, it continues. */
	for (uint32_t i = 0; i < SOCKETS; i++)
		(void)close(peers[i]);
	turn_until(0);
	loop_fini(&loop);
}
END_TEST

/* With one descriptor that a worker waits for, one that is still examined, one in a table. */
START_TEST(ending_process_waits_for_none_of_them)
{
	int status, fd[3], peer;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		if (loop_init(&loop) < 0)
			_exit(1);
		for (uint32_t i = 0; i < 3; i++)
			peer = poisoned(&fd[i]);
		hang_up(fd[0]);
		turn_until(0);
		(void)socket_close(&all, fd[1]);
		socket_close_fini(&all);
		loop_fini(&loop);
		_exit(list_is_empty(&all.sockets) && is_open(peer) && is_open(fd[2]) ? 0 : 2);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

CHECK_MAIN("socket_close")
