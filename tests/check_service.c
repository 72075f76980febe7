/* SPDX-License-Identifier: MIT */
/*
 * service: the manager as a service, with a stand-in for the service manager around it and a stub
 * in the place of the pool.
 *
 * The manager starts /proc/self/exe as its pool, so this program is also the stub: see stub_run().
 * Nothing here sleeps: the test waits for messages of the manager's and for futexes on records.
 */
#include "daemon/manager.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"
#include "shm/board.h"
#include "shm/futex.h"
#include "shm/job.h"
#include "shm/layout.h"
#include "shm/ledger.h"
#include "shm/proto.h"
#include "shm/tenant.h"
#define CHECK_TIMEOUT 60
#include "tests/check_unit.h"

/* ------------------------------------------------------------------------ the stub of a pool */

#define TASK_DONE  0u /* ends at once */
#define TASK_CRASH 1u /* a segmentation fault, on worker 0 */
#define TASK_HANG  2u /* runs for ever, on worker 1 */
#define TASK_QUEUE 3u /* is drained, and not started by the first pool */

#define STUB_TENANTS 4u
#define STUB_CLIENTS 8u

static struct {
	struct board *board;
	struct arena *arena;
	struct tenant_segment *tenants[STUB_TENANTS];
	struct client_segment *clients[STUB_CLIENTS];
	uint32_t generation;
} stub;

static void stub_send(uint32_t type, const struct proto_pool *about, const char *text)
{
	struct proto_pool m = { .head = { PROTO_MAGIC, type } };

	if (about) {
		m.client = about->client;
		m.client_generation = about->client_generation;
	}
	(void)snprintf(m.text, sizeof(m.text), "%s", text);
	(void)proto_send(3, &m, sizeof(m), NULL, 0);
}

/* Descriptors 0 to 3 and no other, nothing of the service manager's. */
static bool stub_is_clean(void)
{
	_cleanup_closedir_ DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	bool clean = !getenv("NOTIFY_SOCKET") && !getenv("LISTEN_FDS");

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && atoi(e->d_name) > 3 && atoi(e->d_name) != dirfd(d))
			clean = false;
	return d && clean;
}

static void stub_run_row(struct client_segment *client, uint32_t slot, uint32_t job)
{
	struct job *record = (struct job *)(void *)((char *)client + client->jobs_offset) + job;
	uint32_t index = slot * stub.arena->max_jobs + job;
	_Atomic uint64_t *word = &arena_rows(stub.arena)[index];
	struct ledger_row row = {
		.generation = record->generation,
		.state = LEDGER_QUEUED,
		.flags = record->flags & JOB_IDEMPOTENT ? LEDGER_FLAG_IDEMPOTENT : 0,
	};
	uint32_t task = record->task;

	if (stub.generation > 1)
		task = TASK_DONE;
	if (task == TASK_QUEUE) {
		*word = ledger_pack(row);
		return;
	}
	row.state = LEDGER_RUNNING;
	row.worker = task == TASK_CRASH ? 0 : 1;
	*word = ledger_pack(row);
	stub.arena->workers[row.worker].job = index;
	stub.arena->workers[row.worker].task = task;
	if (task == TASK_CRASH) {
		stub.arena->fault.signo = SIGSEGV;
		stub.arena->fault.address = 0xabc;
		stub.arena->fault.worker = 1;
		(void)signal(SIGSEGV, SIG_DFL); /* a sanitizer would report it */
		(void)raise(SIGSEGV);
	}
	if (task == TASK_HANG)
		return;
	if (job_finish(record, row.generation, JOB_DONE))
		(void)futex_wake(&record->state, 1);
	row.state = LEDGER_FREE;
	*word = ledger_pack(row);
}

static void stub_drain(uint32_t tenant)
{
	for (uint32_t i = 0; i < stub.arena->n_workers; i++) {
		_Atomic uint64_t *head = &stub.arena->rings[tenant][i].head;
		struct ring *ring = &stub.tenants[tenant]->rings[i];
		uint32_t payload;

		while (ring_peek(ring, *head, &payload) == RING_OK) {
			uint32_t slot = ring_payload_client(payload);
			uint64_t at = *head;

			if (!stub.clients[slot])
				break; /* it comes with the next message */
			*head = at + 1;
			ring_consume(ring, at);
			stub_run_row(stub.clients[slot], slot, ring_payload_job(payload));
		}
	}
}

/* A client; of a later pool: what was queued before is run now. */
static void stub_client(const struct proto_pool *m, void *base)
{
	const _Atomic uint64_t *rows =
		arena_rows(stub.arena) + (size_t)m->client * stub.arena->max_jobs;

	stub.clients[m->client] = base;
	for (uint32_t i = 0; i < stub.clients[m->client]->n_jobs; i++)
		if (ledger_unpack(rows[i]).state == LEDGER_QUEUED)
			stub_run_row(stub.clients[m->client], m->client, i);
}

static bool stub_message(const char *mode)
{
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n = 0;
	void *base = NULL;

	if (proto_recv(3, &m, fds, &n, 0) <= 0)
		_exit(0);
	switch (m.head.type) {
	case PROTO_POOL_TENANT:
		if (n != 1 || segment_map(fds[0], SEGMENT_TENANT, 1, 0, &base, NULL) < 0)
			_exit(11);
		stub.tenants[m.pool.tenant] = base;
		break;
	case PROTO_POOL_CLIENT:
		if (n != 1 || segment_map(fds[0], SEGMENT_CLIENT, 1, 0, &base, NULL) < 0)
			_exit(12);
		if (streq(mode, "refuse")) {
			stub_send(PROTO_POOL_ATTACHED, &m.pool, "no address space");
			break;
		}
		stub_send(PROTO_POOL_ATTACHED, &m.pool, "");
		stub_client(&m.pool, base);
		break;
	case PROTO_POOL_GONE:
		stub_send(PROTO_POOL_RELEASED, &m.pool, "");
		break;
	case PROTO_POOL_STOP:
		if (streq(mode, "stuck"))
			break;
		stub_send(PROTO_POOL_STOPPED, NULL, "");
		return false;
	}
	return true;
}

static int stub_run(void)
{
	const char *mode = getenv("FORKD_STUB") ? getenv("FORKD_STUB") : "";
	struct pollfd p = { .fd = 3, .events = POLLIN };
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n = 0;
	void *base;

	if (!stub_is_clean())
		return 10;
	if (streq(mode, "die"))
		return 3;
	if (streq(mode, "fail")) {
		stub_send(PROTO_POOL_FAILED, NULL, "there is no module");
		return 1;
	}
	if (proto_recv(3, &m, fds, &n, 0) <= 0 || m.head.type != PROTO_POOL_START || n != 2)
		return 13;
	if (segment_map(fds[0], SEGMENT_BOARD, 1, 0, &base, NULL) < 0)
		return 14;
	stub.board = base;
	if (segment_map(fds[1], SEGMENT_ARENA, 1, 0, &base, NULL) < 0)
		return 15;
	stub.arena = base;
	stub.generation = stub.board->manager.pool_generation;
	if (streq(mode, "once") && stub.generation > 1)
		return 3;
	(void)snprintf(stub.board->tasks[TASK_CRASH].name, 64, "stub:crash");
	stub_send(PROTO_POOL_READY, NULL, "");
	for (;;) {
		if (poll(&p, 1, 1) > 0 && !stub_message(mode))
			return 0;
		for (uint32_t i = 0; i < STUB_TENANTS; i++)
			if (stub.tenants[i])
				stub_drain(i);
	}
}

/* ------------------------------------------------------------------------ the service manager */

static char folder[] = "/tmp/check_service.XXXXXX";
static char socket_path[64];
static char notify_path[64];
static int notify_fd = -1;

static void address_of(struct sockaddr_un *ret, const char *path)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "%.100s", path);
}

static void setup(const char *mode)
{
	struct timeval limit = { .tv_sec = 30 };
	struct sockaddr_un address;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	(void)snprintf(socket_path, sizeof(socket_path), "%s/run/forkd.sock", folder);
	(void)snprintf(notify_path, sizeof(notify_path), "%s/notify", folder);
	address_of(&address, notify_path);
	notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(notify_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(setsockopt(notify_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	ck_assert_int_eq(setenv("NOTIFY_SOCKET", notify_path, 1), 0);
	ck_assert_int_eq(setenv("FORKD_STUB", mode, 1), 0);
}

static void teardown(void)
{
	char path[80];

	(void)snprintf(path, sizeof(path), "%s/run", folder);
	(void)unlink(socket_path);
	(void)unlink(notify_path);
	(void)rmdir(path);
	(void)rmdir(folder);
}

/* Runs the manager with these options; listen_fd: a socket to pass, or -1. */
static pid_t start(int listen_fd, const char *const *extra)
{
	char *argv[16] = { (char *)(uintptr_t) "forkd", NULL };
	static char socket_option[80];
	struct options options;
	struct options_error error;
	enum options_action action;
	int n = 1;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGPIPE, SIG_IGN);
	if (listen_fd >= 0) {
		char number[16];

		(void)dup2(listen_fd, 3);
		(void)fcntl(3, F_SETFD, 0);
		(void)snprintf(number, sizeof(number), "%d", (int)getpid());
		(void)setenv("LISTEN_PID", number, 1);
		(void)setenv("LISTEN_FDS", "1", 1);
	}
	(void)snprintf(socket_option, sizeof(socket_option), "--socket=%s", socket_path);
	argv[n++] = (char *)(uintptr_t) "--config=/dev/null";
	argv[n++] = (char *)(uintptr_t) "--workers=2";
	argv[n++] = (char *)(uintptr_t) "--arena-max=64M";
	argv[n++] = socket_option;
	while (extra && *extra)
		argv[n++] = (char *)(uintptr_t)*extra++;
	if (options_parse(&options, n, argv, &action, &error) < 0) {
		(void)fprintf(stderr, "%s\n", error.text);
		_exit(99);
	}
	_exit(manager_run(&options));
}

#define START(...) start(-1, (const char *[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })

/* Waits for a message of the service's that begins so. */
static void expect(const char *text)
{
	char message[512];

	do {
		ssize_t n = recv(notify_fd, message, sizeof(message) - 1, 0);

		ck_assert_msg(n > 0, "no \"%s\" has come", text);
		message[n] = '\0';
	} while (strncmp(message, text, strlen(text)) != 0);
}

static int ends(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "the manager died of signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

static void stop(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
	expect("STOPPING=1");
	ck_assert_int_eq(ends(pid), MANAGER_EXIT_OK);
	teardown();
}

/* ------------------------------------------------------------------------ a client */

struct client {
	int fd;
	struct proto_welcome welcome;
	struct board *board;
	struct tenant_segment *tenant;
	struct client_segment *segment;
	struct job *jobs;
};

static int dial(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;

	address_of(&address, socket_path);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static struct proto_hello hello(void)
{
	return (struct proto_hello){
		.head = { PROTO_MAGIC, PROTO_HELLO },
		.version = PROTO_VERSION,
		.layout_hash = LAYOUT_HASH,
	};
}

/* False if there is no room. */
static bool try_attach(struct client *ret_client)
{
	struct client c = { .fd = dial() };
	struct proto_hello h = hello();
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n;
	void *base;

	ck_assert_int_eq(proto_send(c.fd, &h, sizeof(h), NULL, 0), 0);
	ck_assert_int_gt(proto_recv(c.fd, &m, fds, &n, 0), 0);
	if (m.head.type == PROTO_ERROR && m.error.code == -EUSERS) {
		(void)close(c.fd);
		return false;
	}
	ck_assert_uint_eq(m.head.type, PROTO_WELCOME);
	ck_assert_uint_eq(n, 3);
	c.welcome = m.welcome;
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

static struct client attach(void)
{
	struct client c;

	ck_assert(try_attach(&c));
	return c;
}

static void submit(struct client *c, uint32_t job, uint32_t task, uint32_t flags)
{
	uint32_t generation = (c->jobs[job].state >> JOB_GEN_SHIFT) + 1;
	uint64_t position;

	c->jobs[job].task = task;
	c->jobs[job].flags = flags;
	c->jobs[job].generation = generation;
	c->jobs[job].state = job_state(generation, JOB_PENDING);
	ck_assert_int_eq(
		ring_push(&c->tenant->rings[0],
			  ring_payload(c->welcome.client, c->welcome.client_generation, job),
			  &position),
		RING_OK);
	tenant_mark(c->tenant, 0);
}

static uint32_t outcome(struct client *c, uint32_t job)
{
	uint64_t deadline = clock_ns() + 30 * NSEC_PER_SEC;
	uint32_t value;

	while ((value = job_announce_waiter(&c->jobs[job])))
		ck_assert_int_ne(futex_wait(&c->jobs[job].state, value, deadline), -ETIMEDOUT);
	return job_outcome(&c->jobs[job]);
}

/* What forkd answers to a message that it must refuse. */
static void refused(const void *message, uint32_t size, int code, const char *text)
{
	_cleanup_close_ int fd = dial();
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

static void refused_hello(struct proto_hello h, int code, const char *text)
{
	refused(&h, sizeof(h), code, text);
}

/* ------------------------------------------------------------------------ tests */

START_TEST(it_is_ready_when_its_pool_is_and_stops_when_told)
{
	struct client c;
	struct stat st;
	pid_t pid;

	setup("");
	pid = START("--socket-mode=0620");
	expect("READY=1");
	expect("STATUS=Running: 2 workers");
	ck_assert_int_eq(lstat(socket_path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0620);
	c = attach();
	ck_assert_uint_eq(c.board->manager.pid, (uint32_t)pid);
	ck_assert_uint_eq(c.board->manager.state, BOARD_RUNNING);
	ck_assert_uint_eq(c.board->manager.clients, 1);
	ck_assert_uint_eq(c.board->clients[c.welcome.client].pid, (uint32_t)getpid());
	ck_assert_uint_eq(c.tenant->uid, getuid());
	ck_assert_uint_eq(c.segment->n_jobs, 256);
	ck_assert_uint_eq(c.segment->heap_size, 1 << 20);
	submit(&c, 0, TASK_DONE, 0);
	ck_assert_uint_eq(outcome(&c, 0), JOB_DONE);
	stop(pid);
	ck_assert_uint_eq(c.board->manager.state, BOARD_STOPPED);
	ck_assert_int_eq(lstat(socket_path, &st), -1);
}
END_TEST

START_TEST(a_socket_from_the_service_manager_is_used_and_left_there)
{
	struct sockaddr_un address;
	struct client c;
	struct stat st;
	pid_t pid;
	int fd;

	setup("");
	(void)snprintf(socket_path, sizeof(socket_path), "%s/passed.sock", folder);
	address_of(&address, socket_path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(fd, 8), 0);
	pid = start(fd, NULL);
	expect("READY=1");
	c = attach();
	submit(&c, 0, TASK_DONE, 0);
	ck_assert_uint_eq(outcome(&c, 0), JOB_DONE);
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
	ck_assert_int_eq(ends(pid), MANAGER_EXIT_OK);
	ck_assert_int_eq(lstat(socket_path, &st), 0);
	teardown();
}
END_TEST

START_TEST(a_socket_of_the_wrong_type_is_refused)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setup("");
	ck_assert_int_eq(ends(start(fd, NULL)), MANAGER_EXIT_LISTEN);
	teardown();
}
END_TEST

START_TEST(a_pool_that_cannot_start_ends_it)
{
	setup("fail");
	ck_assert_int_eq(ends(START()), MANAGER_EXIT_POOL);
	ck_assert_int_eq(setenv("FORKD_STUB", "die", 1), 0);
	ck_assert_int_eq(ends(START()), MANAGER_EXIT_POOL);
	teardown();
}
END_TEST

START_TEST(a_pool_that_dies_again_and_again_ends_it)
{
	struct client c;
	pid_t pid;

	setup("once");
	pid = START();
	expect("READY=1");
	c = attach();
	submit(&c, 0, TASK_QUEUE, 0);
	submit(&c, 1, TASK_CRASH, 0);
	ck_assert_uint_eq(outcome(&c, 1), JOB_CRASHED);
	ck_assert_int_eq(ends(pid), MANAGER_EXIT_POOL);
	ck_assert_uint_eq(outcome(&c, 0), JOB_LOST);
	teardown();
}
END_TEST

START_TEST(what_cannot_be_had_is_refused_with_what_to_do)
{
	struct proto_hello h;
	struct client c;
	pid_t pid;

	setup("");
	pid = START("--max-clients=1", "--max-jobs=512", "--heap-max=2M", "--memory-max=2M");
	expect("READY=1");
	h = hello();
	h.version = 77;
	refused_hello(h, -EPROTO, "version 77");
	h = hello();
	h.layout_hash++;
	refused_hello(h, -EPROTO, "libforkclient");
	h = hello();
	h.n_jobs = 513;
	refused_hello(h, -E2BIG, "max-jobs (512)");
	h = hello();
	h.heap_size = (2 << 20) + 1;
	refused_hello(h, -E2BIG, "heap-max (2097152)");
	h.heap_size = UINT64_MAX;
	refused_hello(h, -E2BIG, "heap-max");
	h.heap_size = 2 << 20;
	refused_hello(h, -ENOMEM, "memory-max");
	h = hello();
	refused(&h, sizeof(h) - 1, -EBADMSG, "HELLO");
	refused("garbage!!!", 10, -EBADMSG, "HELLO");
	c = attach();
	refused_hello(hello(), -EUSERS, "max-clients (1)");
	ck_assert_uint_eq(c.board->manager.refused, 9);
	ck_assert_uint_eq(c.board->manager.accepted, 1);
	stop(pid);
}
END_TEST

START_TEST(a_client_that_the_pool_cannot_map_is_told_so)
{
	pid_t pid;

	setup("refuse");
	pid = START("--max-clients=1");
	expect("READY=1");
	refused_hello(hello(), -EIO, "no address space");
	refused_hello(hello(), -EIO, "no address space"); /* the slot is free again */
	stop(pid);
}
END_TEST

START_TEST(who_connects_and_says_nothing_is_sent_away)
{
	pid_t pid;

	setup("");
	pid = START();
	expect("READY=1");
	refused(NULL, 0, -ETIMEDOUT, "HELLO");
	stop(pid);
}
END_TEST

START_TEST(a_client_that_goes_on_talking_is_disconnected)
{
	struct proto_hello h = hello();
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	struct client c;
	uint32_t n;
	pid_t pid;

	setup("");
	pid = START();
	expect("READY=1");
	c = attach();
	ck_assert_int_eq(proto_send(c.fd, &h, sizeof(h), NULL, 0), 0);
	ck_assert_int_eq(proto_recv(c.fd, &m, fds, &n, 0), 0);
	stop(pid);
}
END_TEST

START_TEST(a_slot_is_used_again_with_the_next_generation)
{
	struct client c;
	pid_t pid;

	setup("");
	pid = START("--max-clients=1");
	expect("READY=1");
	for (uint32_t i = 0; i < 70; i++) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			/* As long as the stub has not released the last one there is no room. */
			while (!try_attach(&c))
				;
			if (c.welcome.client != 0 || c.welcome.client_generation != i % 32)
				_exit(1);
			submit(&c, 0, TASK_DONE, 0);
			if (outcome(&c, 0) != JOB_DONE || c.jobs[0].generation != i + 1)
				_exit(2);
			(void)raise(SIGKILL);
		}
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	stop(pid);
}
END_TEST

START_TEST(when_the_pool_crashes_each_job_gets_what_it_deserves)
{
	struct client c;
	uint64_t crashes;
	pid_t pid;

	setup("");
	pid = START();
	expect("READY=1");
	c = attach();
	submit(&c, 0, TASK_HANG, 0);
	submit(&c, 1, TASK_HANG, JOB_IDEMPOTENT);
	submit(&c, 2, TASK_QUEUE, 0);
	submit(&c, 3, TASK_CRASH, JOB_IDEMPOTENT);
	submit(&c, 4, TASK_HANG, 0); /* still in the ring: the next pool drains it */
	ck_assert_uint_eq(outcome(&c, 3), JOB_CRASHED);
	ck_assert_uint_eq(c.jobs[3].signo, SIGSEGV);
	ck_assert_uint_eq(outcome(&c, 0), JOB_LOST);
	ck_assert_uint_eq(outcome(&c, 1), JOB_DONE);
	ck_assert_uint_eq(outcome(&c, 2), JOB_DONE);
	ck_assert_uint_eq(outcome(&c, 4), JOB_DONE);
	/* ORDER board/crashes [B2]: acquire, pairs with the release in the manager. */
	crashes = atomic_load_explicit(&c.board->manager.crashes, memory_order_acquire);
	ck_assert_uint_eq(crashes, 1);
	ck_assert_str_eq(c.board->crashes[0].task, "stub:crash");
	ck_assert_uint_eq(c.board->crashes[0].signo, SIGSEGV);
	ck_assert_uint_eq(c.board->crashes[0].address, 0xabc);
	ck_assert_uint_eq(c.board->crashes[0].client_pid, (uint32_t)getpid());
	ck_assert_uint_eq(c.board->crashes[0].job, 3);
	ck_assert_uint_eq(c.board->crashes[0].lost, 1);
	ck_assert_uint_eq(c.board->crashes[0].requeued, 1);
	ck_assert_uint_eq(c.board->manager.pool_generation, 2);
	stop(pid);
}
END_TEST

START_TEST(a_pool_that_is_killed_comes_back)
{
	struct client c;
	pid_t pid;

	setup("");
	pid = START();
	expect("READY=1");
	c = attach();
	submit(&c, 0, TASK_DONE, 0);
	ck_assert_uint_eq(outcome(&c, 0), JOB_DONE);
	ck_assert_int_eq(kill((pid_t)c.board->manager.pool_pid, SIGKILL), 0);
	submit(&c, 1, TASK_DONE, 0);
	ck_assert_uint_eq(outcome(&c, 1), JOB_DONE);
	stop(pid);
}
END_TEST

START_TEST(what_does_not_end_in_time_is_cancelled)
{
	struct client c;
	pid_t pid;

	setup("stuck");
	pid = START("--stop-timeout=50ms");
	expect("READY=1");
	c = attach();
	submit(&c, 0, TASK_HANG, 0);
	submit(&c, 1, TASK_QUEUE, 0);
	submit(&c, 2, TASK_DONE, 0);
	ck_assert_uint_eq(outcome(&c, 2), JOB_DONE);
	stop(pid);
	ck_assert_uint_eq(outcome(&c, 0), JOB_CANCELLED);
	ck_assert_uint_eq(outcome(&c, 1), JOB_CANCELLED);
}
END_TEST

START_TEST(a_second_signal_does_not_wait_for_the_timeout)
{
	struct client c;
	pid_t pid;

	setup("stuck");
	pid = START("--stop-timeout=3000s");
	expect("READY=1");
	c = attach();
	submit(&c, 0, TASK_HANG, 0);
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
	expect("STOPPING=1");
	ck_assert_int_eq(kill(pid, SIGINT), 0);
	ck_assert_int_eq(ends(pid), MANAGER_EXIT_OK);
	ck_assert_uint_eq(outcome(&c, 0), JOB_CANCELLED);
	teardown();
}
END_TEST

START_TEST(only_one_listens_and_a_dead_ones_socket_is_replaced)
{
	struct stat st;
	pid_t pid;
	int fd;

	setup("");
	pid = START();
	expect("READY=1");
	ck_assert_int_eq(ends(START()), MANAGER_EXIT_LISTEN);
	ck_assert_int_eq(lstat(socket_path, &st), 0);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_int_eq(lstat(socket_path, &st), 0);
	pid = START();
	expect("READY=1");
	(void)attach();
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
	ck_assert_int_eq(ends(pid), MANAGER_EXIT_OK);

	/* What is no socket stays. */
	fd = open(socket_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ends(START()), MANAGER_EXIT_LISTEN);
	ck_assert_int_eq(lstat(socket_path, &st), 0);
	ck_assert(S_ISREG(st.st_mode));
	teardown();
}
END_TEST

int main(int argc, char *argv[])
{
	const TTest *const tests[] = {
		it_is_ready_when_its_pool_is_and_stops_when_told,
		a_socket_from_the_service_manager_is_used_and_left_there,
		a_socket_of_the_wrong_type_is_refused,
		a_pool_that_cannot_start_ends_it,
		a_pool_that_dies_again_and_again_ends_it,
		what_cannot_be_had_is_refused_with_what_to_do,
		a_client_that_the_pool_cannot_map_is_told_so,
		who_connects_and_says_nothing_is_sent_away,
		a_client_that_goes_on_talking_is_disconnected,
		a_slot_is_used_again_with_the_next_generation,
		when_the_pool_crashes_each_job_gets_what_it_deserves,
		a_pool_that_is_killed_comes_back,
		what_does_not_end_in_time_is_cancelled,
		a_second_signal_does_not_wait_for_the_timeout,
		only_one_listens_and_a_dead_ones_socket_is_replaced,
	};

	if (argc > 1 && streq(argv[1], "--pool"))
		return stub_run();
	return check_unit_main("service", tests, sizeof(tests) / sizeof(tests[0]));
}
