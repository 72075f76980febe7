/* SPDX-License-Identifier: MIT */
/* renew: the state that a new pool finds: memory that the last one has used, no room for a client's
 * rings, a manager that does not read */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/tenant.h"
#define CHECK_TIMEOUT 180
#include "tests/support/check_unit.h"
#include "tests/support/counts.h"
#include "tests/support/jobs.h"

#define WORKERS	    32u /* the rings for this many workers exceed the needs of a small client */
#define OTHER_UID   12345u
#define LEAVERS	    60u
#define CHANNEL	    3		       /* the pool's descriptor */
#define DEEP	    (INT64_C(1) << 30) /* bytes of stacklets */
#define DEEP_FRAME  64		       /* bytes of a frame of crash:deep, at least */
#define LEFT_AT_END (4 << 20)

static struct daemon d;
static fk_client *c;

/* ------------------------------------------------------------------------ stopped processes */

static void go_on(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGCONT), 0);
}

/* ------------------------------------------------------------------------ memory */

/* Returns the allocated bytes of the arena's file. */
static int64_t arena_bytes(void)
{
	char path[64], target[64];
	struct stat st;

	for (int fd = 3; fd < 64; fd++) {
		ssize_t n;

		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)d.manager, fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		if (strncmp(target, "/memfd:forkd-arena", 18) != 0)
			continue;
		ck_assert_int_eq(stat(path, &st), 0);
		return (int64_t)st.st_blocks * 512;
	}
	ck_abort_msg("the manager has no arena");
	return 0;
}

START_TEST(gigabyte_used_by_the_last_job_is_released_by_the_next_pool)
{
	int64_t bytes = daemon_sanitized() ? DEEP / 64 : DEEP, before;
	uint64_t start;
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", "--memory-max=16G", "--stack-max=3G", "--arena-max=4G",
		       NULL);
	before = arena_bytes();
	for (uint64_t i = 1; i <= 3; i++) {
		pid_t pool = daemon_pool(&d);

		/* The next pool does not start before this one's pages were counted. */
		daemon_suspend(d.manager);
		job = jobs_submit(c, "crash:deep", 0, bytes / DEEP_FRAME, 0);
		DAEMON_AWAIT(daemon_proc_state(pool) == 'Z');
		ck_assert_int_ge(arena_bytes() - before, bytes);
		start = clock_ns();
		go_on(d.manager);
		ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_CRASHED);
		ck_assert_int_eq(fk_release(c, job), 0);
		ck_assert_str_eq(jobs_crash(&d, i)->task, "crash:deep");
		jobs_see(c, jobs_submit(c, "null:add", 0, 20, 22), 42);
		printf("an answer %" PRIu64 " us after a crash that left %" PRId64 " MiB\n",
		       (clock_ns() - start) / NSEC_PER_USEC, bytes >> 20);
		/* Used memory is used again, and its pages are released. */
		if (i == 2)
			daemon_call_fib(&d);
		if (i != 2)
			DAEMON_AWAIT(arena_bytes() - before <= LEFT_AT_END);
		(void)jobs_pool_after(&d, pool);
	}
	daemon_stop_close(&d, c);
}
END_TEST

/* ------------------------------------------------------------------------ no room for rings */

/* Returns true if all threads of the pool exist (the main one, the dispatcher, the poller, the
 * watch, workers), and it waits for the manager. */
static bool is_ready(pid_t pool)
{
	for (uint32_t i = 0; i < WORKERS; i++)
		if (!atomic_load(&d.board->workers[i].tid))
			return false;
	return daemon_proc_status(pool, "Threads") == WORKERS + 4 && daemon_proc_state(pool) == 'S';
}

/* Limits the pool to this many more bytes of addresses; 0: no limit. For the pool of another user
 * this needs CAP_SYS_RESOURCE, which root may lack. So tasks run as root. */
static void limit_pool(uint64_t more)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY };

	/* A starting thread maps and unmaps memory. */
	DAEMON_AWAIT(is_ready(daemon_pool(&d)));
	if (more)
		limit.rlim_cur =
			(uint64_t)daemon_proc_status(daemon_pool(&d), "VmSize") * 1024 + more;
	ck_assert_int_eq(prlimit(daemon_pool(&d), RLIMIT_AS, &limit, NULL), 0);
}

static _Atomic uint32_t *step;

/* A client of a uid that the pool does not know, and for whose rings it has no room at first. */
static void newcomer(void)
{
	const struct fk_open_options small = { .n_jobs = 1, .heap_size = 4096 };
	fk_client *mine = NULL;
	int64_t n = 0;

	if (fk_open(d.socket, &small, &mine) == 0)
		_exit(2);
	if (!strstr(fk_error_text(), "cannot serve this connection: Cannot allocate memory"))
		_exit(3);
	atomic_store(step, 1);
	while (atomic_load(step) == 1)
		(void)poll(NULL, 0, 1);
	if (fk_open(d.socket, &small, &mine) < 0)
		_exit(4);
	if (fk_call(mine, "null:add", &n, INT64_C(20), INT64_C(22)) < 0 || n != 42)
		_exit(5);
	(void)fk_close(mine);
}

START_TEST(client_whose_rings_cannot_be_mapped_is_refused_and_the_next_is_served)
{
	char workers[32];
	int64_t n = 0;
	pid_t pid;

	(void)snprintf(workers, sizeof(workers), "--workers=%u", WORKERS);
	daemon_prepare(&d);
	step = daemon_share(sizeof(*step));
	daemon_start(&d, workers, "--socket-mode=0666", "--user=root", NULL);
	limit_pool(tenant_segment_size(WORKERS) / 2);
	pid = daemon_client(newcomer, OTHER_UID);
	DAEMON_AWAIT(atomic_load(step) == 1 || daemon_proc_state(pid) == 'Z');
	if (!atomic_load(step))
		ck_assert_int_eq(daemon_reap(pid), 0);
	limit_pool(0);
	/* Connected clients are served as before. */
	ck_assert_int_eq(fk_call(d.watcher, "null:add", &n, INT64_C(1), INT64_C(2)), 0);
	ck_assert_int_eq(n, 3);
	atomic_store(step, 2);
	ck_assert_int_eq(daemon_reap(pid), 0);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* Kills the pool under an idempotent job, and stops the manager before it has sent any client to
 * the next pool. Returns the job. */
static fk_job stop_before_the_next_is_told(void)
{
	uint64_t roots;
	fk_job job;
	pid_t old;

	for (;;) {
		old = daemon_pool(&d);
		roots = daemon_counter(&d, "jobs_started");
		job = jobs_submit(c, "crash:hang", FK_IDEMPOTENT, 300, 0);
		DAEMON_AWAIT_BUSY(daemon_counter(&d, "jobs_started") == roots + 1);
		ck_assert_int_eq(kill(old, SIGKILL), 0);
		DAEMON_AWAIT_BUSY(atomic_load(&d.board->manager.pool_pid) &&
				  (pid_t)atomic_load(&d.board->manager.pool_pid) != old);
		daemon_suspend(d.manager);
		DAEMON_AWAIT(is_ready(daemon_pool(&d)));
		if (!counts_mapped(daemon_pool(&d), "forkd-client", NULL))
			return job;
		/* Too late: once more, with the next pool. */
		go_on(d.manager);
		ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_DONE);
		ck_assert_int_eq(fk_release(c, job), 0);
	}
}

START_TEST(accepted_jobs_run_after_a_restart_and_clients_without_rings_are_refused)
{
	fk_client *next = NULL;
	fk_job running, waiting;
	char workers[32];
	int64_t n = 0;

	(void)snprintf(workers, sizeof(workers), "--workers=%u", WORKERS);
	c = JOBS_BEGIN(&d, workers, "--user=root", NULL);
	running = stop_before_the_next_is_told();
	limit_pool(c->segment_size + d.watcher->segment_size + tenant_segment_size(WORKERS) / 2);
	/* For a ring that no pool will read. */
	waiting = jobs_submit(c, "null:add", 0, 1, 2);
	go_on(d.manager);
	ck_assert_int_eq(jobs_outcome(c, running, NULL), FK_DONE);
	ck_assert_int_eq(jobs_outcome(c, waiting, NULL), FK_LOST);
	ck_assert(daemon_logged(&d, "is disconnected", "its rings cannot be mapped"));
	ck_assert_int_lt(fk_call(c, "null:add", &n, INT64_C(1), INT64_C(2)), 0);
	limit_pool(0);
	ck_assert_int_eq(fk_close(c), 0);
	ck_assert_int_eq(fk_close(d.watcher), 0);
	/* When all clients of the uid have left, mapping the rings is tried again. */
	DAEMON_AWAIT(fk_open(d.socket, NULL, &next) == 0);
	d.watcher = next;
	d.board = next->board;
	ck_assert_int_eq(fk_call(next, "null:add", &n, INT64_C(20), INT64_C(22)), 0);
	ck_assert_int_eq(n, 42);
	ck_assert_uint_eq(atomic_load(&d.board->manager.clients), 1);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* ------------------------------------------------------------------------ a manager that stops */

/* From now on the manager's end holds only a few messages. */
static void narrow_channel(pid_t pool)
{
	int process = pidfd_open(pool, 0), channel, bytes = 1;

	ck_assert_int_ge(process, 0);
	channel = pidfd_getfd(process, CHANNEL, 0);
	ck_assert_int_ge(channel, 0);
	ck_assert_int_eq(setsockopt(channel, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	(void)close(channel);
	(void)close(process);
}

START_TEST(stopped_manager_does_not_delay_clients_of_the_pool)
{
	fk_client *others[LEAVERS];
	fk_job busy;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=1", "--clients-max=64", "--user-clients-max=64", NULL);
	pool = daemon_pool(&d);
	for (uint32_t i = 0; i < LEAVERS; i++)
		others[i] = daemon_open(&d);
	/* All leave; the pool reports that while the manager does not read. */
	daemon_suspend(pool);
	for (uint32_t i = 0; i < LEAVERS; i++)
		ck_assert_int_eq(fk_close(others[i]), 0);
	DAEMON_AWAIT(atomic_load(&d.board->manager.clients) == 2);
	daemon_suspend(d.manager);
	narrow_channel(pool);
	go_on(pool);
	/* The only worker runs this job, and serves others on request of the dispatcher. */
	busy = jobs_submit(c, "crash:spin", 0, 600000, 0);
	DAEMON_AWAIT(daemon_counter(&d, "jobs_started") == 1);
	for (int64_t i = 0; i < 100; i++)
		jobs_see(c, jobs_submit(c, "null:add", 0, i, 1), i + 1);
	ck_assert_int_eq(daemon_proc_state(d.manager), 'T');
	go_on(d.manager);
	/* Each slot is free again, because the manager has received each report. */
	for (uint32_t i = 0; i < LEAVERS; i++)
		DAEMON_AWAIT(fk_open(d.socket, NULL, &others[i]) == 0);
	ck_assert_int_eq(fk_cancel(c, busy), 0);
	ck_assert_int_eq(jobs_outcome(c, busy, NULL), FK_CANCELLED);
	for (uint32_t i = 0; i < LEAVERS; i++)
		ck_assert_int_eq(fk_close(others[i]), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	daemon_stop_close(&d, c);
}
END_TEST

int main(void)
{
	if (daemon_sanitized())
		check_unit_leave_out(
			"a sanitizer takes all addresses",
			&accepted_jobs_run_after_a_restart_and_clients_without_rings_are_refused,
			&client_whose_rings_cannot_be_mapped_is_refused_and_the_next_is_served);
	else if (geteuid() != 0)
		check_unit_leave_out(
			"only root can be two users",
			&client_whose_rings_cannot_be_mapped_is_refused_and_the_next_is_served);
	return check_unit_main("renew");
}
