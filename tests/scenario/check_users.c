/* SPDX-License-Identifier: MIT */
/*
 * scenario: users that take all they can get, and others that must still be served
 *
 * Each user is a process with another uid, which only root can start.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/cleanup.h"
#include "daemon/manager/quota.h"
#include "tests/support/daemon.h"
#include "tests/support/service.h"
#define CHECK_TIMEOUT 240
#include "tests/support/check_unit.h"

#define HOG_UID	  65533u
#define OTHER_UID 65531u
#define FIRST_UID 200000u /* of the visitors */

struct shared {
	_Atomic uint32_t ready; /* the hog has all it can get */
	_Atomic uint32_t again; /* it must release one connection and open one */
	_Atomic uint32_t n;	/* connections that it got */
	int err;		/* the error of the next one, and its text */
	char text[256];
	/* of a user that connects in a loop, and of another one */
	_Atomic uint32_t phase;
	_Atomic uint64_t n_dials;
	_Atomic uint64_t worst_ns;
};

static struct shared *shared;
static struct daemon d;

static void begin(void)
{
	shared = daemon_share(sizeof(*shared));
}

/* A user that opens, calls, and closes. The exit status names the error. */
static void visit(void)
{
	struct fk_open_options options = { .heap_size = 0 };
	fk_client *c = NULL;
	int64_t n = 0;

	if (fk_open(d.socket, &options, &c) < 0) {
		(void)fprintf(stderr, "uid %u: %s\n", (unsigned int)getuid(), fk_error_text());
		_exit(2);
	}
	if (fk_call(c, "fib:fib", &n, (int64_t)10) < 0 || n != 55)
		_exit(3);
	_exit(fk_close(c) < 0 ? 4 : 0);
}

static void visited(uint32_t uid)
{
	ck_assert_int_eq(daemon_reap(daemon_client(visit, uid)), 0);
}

/* ------------------------------------------------------------------------ half a handshake */

#define HALF_OPEN 300u

static int dial(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", d.socket);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		_exit(10);
	return fd;
}

/* Connects as often as it can, sends nothing, and reconnects when it is disconnected. */
static void half_open(void)
{
	struct pollfd p[HALF_OPEN];
	uint32_t away = 0;

	for (uint32_t i = 0; i < HALF_OPEN; i++)
		p[i] = (struct pollfd){ .fd = dial(), .events = POLLIN };
	for (;;) {
		if (poll(p, HALF_OPEN, -1) < 0)
			_exit(11);
		for (uint32_t i = 0; i < HALF_OPEN; i++) {
			if (!p[i].revents)
				continue;
			(void)close(p[i].fd);
			p[i].fd = dial();
			/* Enough disconnections that all places were taken. */
			if (++away == HALF_OPEN - QUOTA_GREETINGS)
				atomic_store(&shared->ready, 1);
		}
	}
}

START_TEST(silent_connections_do_not_lock_out_clients)
{
	pid_t hog;

	begin();
	daemon_start(&d, "--workers=1", NULL);
	hog = daemon_client(half_open, HOG_UID);
	DAEMON_AWAIT(atomic_load(&shared->ready));
	for (uint32_t i = 0; i < 20; i++)
		visited(OTHER_UID);
	/* The uid's own share is its limit; a fast client is served. */
	daemon_kill_client(hog);
	visited(HOG_UID);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* ------------------------------------------------------------------------ too often */

enum { HURRY_HOLD, HURRY_CLOSE, HURRY_HELLO };

#define HURRY_HELD (QUOTA_BURST_NS / QUOTA_CONNECT_NS + 2 * QUOTA_WAITING_1)
#define HURRY_TIME (2 * NSEC_PER_SEC)
#define VISITS	   50u

/* Returns true if the connection was refused because its uid connects too often. */
static bool hurry_is_told(int fd)
{
	union proto_message m;

	return recv(fd, &m, sizeof(m), MSG_DONTWAIT) == (ssize_t)sizeof(m.error) &&
	       m.error.code == -EAGAIN && strstr(m.error.text, "connects too often");
}

/* Connects in a loop. It keeps some connections until one is refused; or closes each; or sends
 * HELLO, reads the answer and closes. */
static void hurry(void)
{
	const struct proto_hello hello = service_hello();
	int fds[HURRY_HELD] = { 0 };
	union proto_message m;

	for (uint64_t n = 0;; n++) {
		uint32_t phase = atomic_load(&shared->phase);
		/* Low priority only after the first refusal, because at nice 19 it may get no
		 * CPU. */
		int nice = phase == HURRY_HOLD ? 0 : 19;
		int *fd = &fds[phase == HURRY_HOLD ? n % HURRY_HELD : 0];

		if (n % 64 == 0)
			(void)setpriority(PRIO_PROCESS, 0, nice);
		if (*fd > 0 && hurry_is_told(*fd))
			atomic_store(&shared->ready, 1);
		if (*fd > 0)
			(void)close(*fd);
		*fd = dial();
		if (phase == HURRY_HELLO && send(*fd, &hello, sizeof(hello), MSG_NOSIGNAL) > 0)
			(void)recv(*fd, &m, sizeof(m), 0);
		atomic_fetch_add(&shared->n_dials, 1);
	}
}

/* Opens, calls and closes less often than the limit allows. */
static void visit_often(void)
{
	for (uint32_t i = 0; i < VISITS; i++) {
		uint64_t began = clock_ns(), took;
		fk_client *c = NULL;
		int64_t n = 0;

		if (fk_open(d.socket, NULL, &c) < 0) {
			(void)fprintf(stderr, "visit %u: %s\n", i, fk_error_text());
			_exit(2);
		}
		if (fk_call(c, "fib:fib", &n, (int64_t)10) < 0 || n != 55)
			_exit(3);
		took = clock_ns() - began;
		if (took > atomic_load(&shared->worst_ns))
			atomic_store(&shared->worst_ns, took);
		if (fk_close(c) < 0)
			_exit(4);
	}
	_exit(0);
}

/* Other users are served until HURRY_TIME has passed. Returns how often. */
static uint64_t visited_for_a_while(const char *meanwhile)
{
	uint64_t began = clock_ns(), cpu = daemon_cpu_ns(d.manager);
	uint64_t dials = atomic_load(&shared->n_dials), visits = 0, took;
	double seconds;

	atomic_store(&shared->worst_ns, 0);
	do {
		ck_assert_int_eq(
			daemon_reap(daemon_client(visit_often, OTHER_UID - (uint32_t)visits)), 0);
		visits += VISITS;
		took = clock_ns() - began;
	} while (took < HURRY_TIME);
	seconds = (double)took / (double)NSEC_PER_SEC;
	(void)printf("%s: %.0f connections a second, %.0f others served a second, the slowest in "
		     "%.2f ms; the manager used %.1f %% of a CPU\n",
		     meanwhile, (double)(atomic_load(&shared->n_dials) - dials) / seconds,
		     (double)visits / seconds,
		     (double)atomic_load(&shared->worst_ns) / (double)NSEC_PER_MSEC,
		     100 * (double)(daemon_cpu_ns(d.manager) - cpu) / (double)took);
	return visits;
}

START_TEST(user_that_connects_in_a_loop_waits_and_others_do_not)
{
	uint64_t accepted, began, visits, most;
	pid_t pid;

	begin();
	daemon_start(&d, "--workers=1", NULL);
	(void)visited_for_a_while("without a loop");
	pid = daemon_client(hurry, HOG_UID);
	DAEMON_AWAIT(atomic_load(&shared->ready));
	ck_assert_uint_gt(atomic_load(&d.board->manager.refused), 0);
	atomic_store(&shared->phase, HURRY_CLOSE);
	(void)visited_for_a_while("connect, close");
	began = clock_ns();
	accepted = atomic_load(&d.board->manager.accepted);
	atomic_store(&shared->phase, HURRY_HELLO);
	visits = visited_for_a_while("connect, HELLO, close");
	accepted = atomic_load(&d.board->manager.accepted) - accepted - visits;
	most = (clock_ns() - began + QUOTA_BURST_NS) / QUOTA_CONNECT_NS + 1;
	ck_assert_msg(accepted <= most, "%" PRIu64 " connections, at most %" PRIu64, accepted,
		      most);
	daemon_kill_client(pid);
	visited(HOG_UID);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* ------------------------------------------------------------------------ all it can get */

static struct fk_open_options wanted;

static fk_client *take_all(fk_client *last)
{
	fk_client *c;

	while ((shared->err = fk_open(d.socket, &wanted, &c)) == 0) {
		last = c;
		atomic_fetch_add(&shared->n, 1);
	}
	(void)snprintf(shared->text, sizeof(shared->text), "%s", fk_error_text());
	return last;
}

static void hog(void)
{
	fk_client *last = take_all(NULL);

	atomic_store(&shared->ready, 1);
	for (;;) {
		if (!atomic_load(&shared->again)) {
			(void)poll(NULL, 0, 1);
			continue;
		}
		(void)fk_close(last);
		/* Until the pool has released it. */
		while (fk_open(d.socket, &wanted, &last) < 0)
			;
		atomic_store(&shared->again, 0);
	}
}

/* Checks that one uid gets n connections, and this refusal for the next; another uid connects and
 * leaves. */
static void takes_all(uint32_t n, const char *text)
{
	pid_t pid = daemon_client(hog, HOG_UID);

	DAEMON_AWAIT(atomic_load(&shared->ready));
	ck_assert_uint_eq(atomic_load(&shared->n), n);
	ck_assert_int_eq(fk_errno(shared->err), EDQUOT);
	ck_assert_msg(strstr(shared->text, "uid 65533") && strstr(shared->text, text), "%s",
		      shared->text);
	/* Each by another uid: memory of the last one may not be back yet. */
	for (uint32_t i = 0; i < 3; i++)
		visited(OTHER_UID - i);
	/* A connection that it releases can be opened again. */
	atomic_store(&shared->again, 1);
	DAEMON_AWAIT(!atomic_load(&shared->again));
	visited(OTHER_UID - 3);
	daemon_kill_client(pid);
	/* Finally, after the pool has released its memory and the manager has taken it back. */
	DAEMON_AWAIT(daemon_reap(daemon_client(visit, HOG_UID)) == 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

START_TEST(user_at_its_connection_limit_leaves_room_for_others)
{
	begin();
	daemon_start(&d, "--workers=1", "--clients-max=20", "--user-clients-max=7", NULL);
	takes_all(7, "user-clients-max (7)");
}
END_TEST

START_TEST(user_at_its_job_limit_leaves_room_for_others)
{
	begin();
	daemon_start(&d, "--workers=1", "--user-jobs-max=600", NULL);
	takes_all(2, "user-jobs-max (600)");
}
END_TEST

START_TEST(user_at_its_memory_limit_leaves_room_for_others)
{
	begin();
	wanted.heap_size = 8 << 20;
	daemon_start(&d, "--workers=1", "--shared-memory-max=40M", "--heap-max=8M",
		     "--user-shared-memory-max=20M", NULL);
	takes_all(2, "user-shared-memory-max (20971520)");
}
END_TEST

START_TEST(default_limits_leave_room_for_others)
{
	begin();
	daemon_start(&d, "--workers=1", "--clients-max=64", NULL);
	takes_all(56, "user-clients-max (56)");
	begin();
	wanted.heap_size = 8 << 20;
	daemon_start(&d, "--workers=1", "--shared-memory-max=96M", "--heap-max=8M", NULL);
	takes_all(10, "user-shared-memory-max (88080384)");
}
END_TEST

/* ------------------------------------------------------------------------ more than there is */

#define USERS (2 * LIMIT_TENANTS + 44)

/* Returns the number of segments with rings in the manager. */
static uint32_t tenants(void)
{
	_cleanup_closedir_ DIR *dir = NULL;
	char path[64], target[256];
	struct dirent *e;
	uint32_t n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)d.manager);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while ((e = readdir(dir))) {
		ssize_t size = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

		target[size > 0 ? size : 0] = '\0';
		n += strncmp(target, "/memfd:forkd-tenant", 19) == 0;
	}
	return n;
}

START_TEST(more_users_than_slots_connect_in_sequence)
{
	fk_client *steady;
	int64_t n = 0;

	begin();
	daemon_start(&d, "--workers=2", NULL);
	steady = daemon_open(&d);
	for (uint32_t i = 0; i < USERS; i++) {
		visited(FIRST_UID + i);
		/* The next pool receives only connected clients. */
		if (i % 100 == 99) {
			pid_t pool = daemon_pool(&d);

			ck_assert_int_eq(kill(pool, SIGKILL), 0);
			DAEMON_AWAIT((pid_t)atomic_load(&d.board->manager.pool_pid) != pool);
			(void)daemon_pool(&d);
		}
	}
	/* The user of this process, and users that are kept for some time. */
	DAEMON_AWAIT(tenants() <= 20);
	DAEMON_AWAIT(atomic_load(&d.board->manager.tenants) == 1);
	ck_assert_int_eq(fk_call(steady, "fib:fib", &n, (int64_t)15), 0);
	ck_assert_int_eq(n, 610);
	daemon_stop_close(&d, steady);
}
END_TEST

START_TEST(many_users_connect_and_leave_at_the_same_time)
{
	enum { TOGETHER = 24, ROUNDS = 8 };
	pid_t pids[TOGETHER];

	begin();
	daemon_start(&d, "--workers=2", NULL);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < TOGETHER; i++)
			pids[i] = daemon_client(visit, FIRST_UID + round * TOGETHER + i);
		for (uint32_t i = 0; i < TOGETHER; i++)
			ck_assert_int_eq(daemon_reap(pids[i]), 0);
	}
	DAEMON_AWAIT(tenants() <= 20 + TOGETHER);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* ------------------------------------------------------------------------ slots that come back */

/* Overwrites its rings so that they are full for all laps, as long as it gets the CPU.
 * check_clients.c has a client that always does so. */
static void fill_rings(void)
{
	fk_client *c = NULL;

	if (fk_open(d.socket, NULL, &c) < 0)
		_exit(2);
	for (;;) {
		for (uint32_t i = 0; i < c->n_workers; i++) {
			struct ring *ring = &c->tenant->rings[i];

			atomic_store(&ring->tail, UINT64_C(1) << 63);
			/* A free slot names its lap. */
			for (uint32_t k = 0; k < RING_SLOTS; k++)
				atomic_fetch_or(&ring->slots[k], RING_FULL_BIT | RING_PAYLOAD);
			tenant_mark(c->tenant, i);
		}
		atomic_store(&shared->ready, 1);
	}
}

/* Finally attaches, and dies. */
static void die(void)
{
	fk_client *c = NULL;

	while (fk_open(d.socket, NULL, &c) < 0)
		(void)poll(NULL, 0, 1);
	(void)raise(SIGKILL);
}

START_TEST(slots_of_dead_clients_are_released_although_their_rings_are_full)
{
	pid_t pid;

	begin();
	daemon_start(&d, "--workers=1", "--clients-max=12", "--user-clients-max=3", NULL);
	pid = daemon_client(fill_rings, HOG_UID);
	DAEMON_AWAIT(atomic_load(&shared->ready));
	for (uint32_t i = 0; i < 8; i++)
		ck_assert_int_eq(daemon_reap(daemon_client(die, HOG_UID)), 256 + SIGKILL);
	visited(OTHER_UID);
	daemon_kill_client(pid);
	/* Finally, after the pool has released its memory and the manager has taken it back. */
	DAEMON_AWAIT(daemon_reap(daemon_client(visit, HOG_UID)) == 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

int main(void)
{
	if (geteuid() != 0) {
		(void)printf("only root can be several users\n");
		return 77;
	}
	return check_unit_main("users");
}
