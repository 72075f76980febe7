/* SPDX-License-Identifier: MIT */
/* fdstore_inherit: the descriptors that the service manager passes to the next forkd.
 * check_fdstore.c has those that it is sent. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>

#include "daemon/manager/pool_segments.h"
#include "daemon/manager/takeover.h"
#include "tests/support/fdstore_rig.h"

static int sockets[2], listener;
static pid_t child;

/* libcheck may use these descriptor numbers: each of these tests runs in a child. */
static void alone(void (*run)(void))
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		run();
		_exit(0);
	}
	ends_well(pid);
}

#define TEST_ALONE(name)                                                                           \
	static void name##_alone(void);                                                            \
	START_TEST(name)                                                                           \
	{                                                                                          \
		alone(name##_alone);                                                               \
	}                                                                                          \
	END_TEST                                                                                   \
	static void name##_alone(void)

/* Takes descriptor 3 and the following ones: two of "c1", "board", "pool", a socket of the unit. */
static void inherit(const char *names)
{
	int fds[5], pair[2];
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char number[16];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	(void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "check_fdstore.%d",
		       (int)getpid());
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		(void)close(pair[1]);
		(void)!read(pair[0], number, 1); /* until the end of the test */
		_exit(0);
	}
	fds[0] = sockets[0];
	fds[1] = memfd_create("c1", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fds[2] = memfd_create("board", MFD_CLOEXEC);
	fds[3] = pidfd_open(child, 0);
	fds[4] = listener;
	for (int i = 0; i < 5; i++)
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 20);
	sockets[1] = fcntl(sockets[1], F_DUPFD_CLOEXEC, 20);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(dup2(fds[i], 3 + i), 3 + i);
	(void)snprintf(number, sizeof(number), "%d", (int)getpid());
	ck_assert_int_eq(setenv("LISTEN_PID", number, 1), 0);
	ck_assert_int_eq(setenv("LISTEN_FDS", "5", 1), 0);
	ck_assert_int_eq(setenv("LISTEN_FDNAMES", names, 1), 0);
}

TEST_ALONE(returned_descriptors_are_known_by_name_and_kind)
{
	uint32_t n;

	inherit("c1:c1:board:pool:forkd.socket");
	begin("9");
	ck_assert_ptr_null(getenv("LISTEN_FDS"));
	ck_assert_int_eq(fcntl(3, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	ck_assert_uint_eq(store.n, 4);
	ck_assert_int_eq(fdstore_take(&store, "c1", FDSTORE_PIDFD), -1);
	ck_assert_int_eq(fdstore_take(&store, "c2", FDSTORE_MEMFD), -1);
	ck_assert_int_eq(fdstore_take(&store, "c1", FDSTORE_MEMFD), 4);
	ck_assert_int_eq(fdstore_take(&store, "c1", FDSTORE_MEMFD), -1);
	ck_assert_int_eq(fdstore_take(&store, "c1", FDSTORE_SOCKET), 3);
	ck_assert_int_eq(fdstore_take(&store, "board", FDSTORE_MEMFD), 5);
	ck_assert_int_eq(fdstore_take(&store, "pool", FDSTORE_PIDFD), 6);
	ck_assert_int_eq(fdstore_take_socket(&store, &n), 7);
	ck_assert_uint_eq(n, 1);
	fdstore_drop_rest(&store, &closer);
	ck_assert_int_ge(fcntl(4, F_GETFD), 0);
	hear_nothing();
	/* They are in the store, and can be removed as any other. */
	fdstore_remove(&store, "c1");
	hear_remove("c1");
	ck_assert_uint_eq(store.n, 2);
	end();
}

TEST_ALONE(names_are_accepted_in_any_order)
{
	inherit("t9:t1:t1:c2:forkd.socket");
	begin("9");
	ck_assert_uint_eq(store.n, 4);
	/* Of several the oldest. */
	ck_assert_int_eq(fdstore_take(&store, "t1", FDSTORE_MEMFD), 4);
	ck_assert_int_eq(fdstore_take(&store, "t1", FDSTORE_MEMFD), 5);
	ck_assert_int_eq(fdstore_take(&store, "t1", FDSTORE_MEMFD), -1);
	ck_assert_int_eq(fdstore_take(&store, "t", FDSTORE_MEMFD), -1);
	ck_assert_int_eq(fdstore_take(&store, "t91", FDSTORE_SOCKET), -1);
	ck_assert_int_eq(fdstore_take(&store, "t9", FDSTORE_SOCKET), 3);
	ck_assert_int_eq(fdstore_take(&store, "c2", FDSTORE_PIDFD), 6);
	fdstore_drop_rest(&store, &closer);
	hear_nothing();
	end();
}

/* The last manager died after it had put the next arena and before it removed the old one. */
TEST_ALONE(next_arena_is_put_before_the_last_one_is_removed)
{
	struct takeover takeover = TAKEOVER_INIT;
	struct pool_segments pool_segments = { .arena_fd = STDERR_FILENO };

	inherit("t1:arena:arenab:t2:forkd.socket");
	ck_assert_int_eq(dup2(4, 5), 5); /* a memfd that can be sealed */
	begin("9");
	takeover_look(&takeover, &store);
	ck_assert_int_eq(takeover.arena_fd, 4);
	hear_remove("arenab");
	takeover_share_arena(&takeover, &store, &pool_segments);
	hear_put("arenab", 1);
	hear_remove("arena");
	fdstore_drop_rest(&store, &closer);
	hear_remove("t1");
	hear_remove("t2");
	hear_nothing();
	takeover_share_arena(&takeover, &store, &pool_segments);
	hear_put("arena", 1);
	hear_remove("arenab");
	/* Without room for both, the old one is removed first. */
	store.max = store.n;
	takeover_share_arena(&takeover, &store, &pool_segments);
	hear_remove("arena");
	hear_put("arenab", 1);
	hear_nothing();
	takeover_fini(&takeover);
	end();
}

TEST_ALONE(descriptors_beyond_the_size_of_the_store_leave_it)
{
	struct fdstore_put put;

	inherit("c1:c1:board:pool:forkd.socket");
	begin("3");
	/* They can be removed. */
	ck_assert(!fdstore_is_there(&store));
	ck_assert_int_eq(fdstore_take(&store, "board", FDSTORE_MEMFD), -1);
	ck_assert_int_eq(put_one(&put, "pool"), 0);
	fdstore_drop_rest(&store, &closer);
	hear_remove("board");
	hear_remove("c1");
	hear_remove("pool");
	hear_nothing();
	ck_assert_int_eq(put_one(&put, "t1"), 0);
	end();
}

/* Too many: a removal was not received, and the name was used again. */
TEST_ALONE(too_many_descriptors_of_a_name_close_no_others)
{
	inherit("c1:c1:c1:c1:forkd.socket");
	begin("9");
	ck_assert_uint_eq(store.n, 4);
	end();
	/* It has closed its descriptors, and nothing else. */
	ck_assert_int_ge(fcntl(STDIN_FILENO, F_GETFD), 0);
}

TEST_ALONE(unclaimed_descriptors_are_closed_and_leave_the_store)
{
	char bytes[256];
	uint32_t n;
	ssize_t r;

	inherit("c1:c1:board:pool:forkd.socket");
	begin("9");
	ck_assert_int_eq(fdstore_take_socket(&store, &n), 7);
	ck_assert_int_eq(fdstore_take(&store, "c1", FDSTORE_MEMFD), 4);
	fdstore_drop_rest(&store, &closer);
	hear_remove("board");
	hear_remove("pool");
	hear_nothing();
	/* Also other descriptors of a name of which one was taken. */
	ck_assert_int_lt(fcntl(3, F_GETFD), 0);
	ck_assert_int_lt(fcntl(5, F_GETFD), 0);
	ck_assert_int_lt(fcntl(6, F_GETFD), 0);
	/* The bytes that libcheck has written to descriptor 3, and then its end. */
	while ((r = recv(sockets[1], bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		;
	ck_assert_int_eq(r, 0);
	end();
}

TEST_ALONE(socket_of_the_unit_is_known_under_any_name)
{
	uint32_t n;

	/* FileDescriptorName= may be any text. */
	inherit("c1:unknown:board:pool:pool");
	begin("9");
	ck_assert_int_eq(fdstore_take_socket(&store, &n), 4);
	ck_assert_uint_eq(n, 2);
	ck_assert_int_eq(fdstore_take(&store, "pool", FDSTORE_PIDFD), 6);
	ck_assert_int_eq(fdstore_take(&store, "pool", FDSTORE_LISTENER), -1);
	end();
}

TEST_ALONE(without_a_store_only_the_socket_is_passed)
{
	uint32_t n;

	inherit("c1:c1:board:pool:forkd.socket");
	begin(NULL);
	ck_assert_int_eq(fdstore_take(&store, "board", FDSTORE_MEMFD), -1);
	ck_assert_int_eq(fdstore_take_socket(&store, &n), 7);
	fdstore_drop_rest(&store, &closer);
	ck_assert_int_lt(fcntl(5, F_GETFD), 0);
	hear_nothing();
	end();
}

CHECK_MAIN("fdstore_inherit")
