/* SPDX-License-Identifier: MIT */
/*
 * soak_starve: a forkd and clients that share a tenth of a CPU while 16 processes use all of it. No
 * process is taken for dead, and no job is blamed.
 *
 * 	soak_starve			SOAK_SECONDS in the environment; 3 by default
 *
 * A quota of a control group starves them if one can be made; otherwise all are stopped for nine
 * tenths of the time. From 60 seconds on, a task that really hangs must be detected in the end,
 * although forkd is starved.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHECK_TIMEOUT 86400
#include "tests/support/check_unit.h"
#include "tests/support/control_group.h"
#include "tests/support/jobs.h"

#define SPINNERS     16
#define CLIENTS	     3
#define STARVED_NICE 10
#define LIMIT	     "--hang-timeout=1s"
#define LEAF_MS	     100 /* of CPU, far from the limit */
#define LONG_SOAK    60u /* seconds */
#define RUN_NS	     10000000
#define STOPPED_NS   90000000

struct shared {
	_Atomic uint32_t stop;
	_Atomic uint64_t called, late, cancelled, opened;
};

static struct daemon d;
static struct shared *shared;
static struct control_group group;

/* ------------------------------------------------------------------------ the quota */

/* A tenth of a CPU. */
static void make_group(void)
{
	if (control_group_make(&group, CONTROL_GROUP_V2, "cpu.max", "10000 100000") ||
	    control_group_make(&group, CONTROL_GROUP_V2 "/cpu", "cpu.cfs_quota_us", "10000"))
		printf("a quota of 10 %% of a CPU: %s\n", group.directory);
	else
		printf("no control group can be made: stopped for 90 %% of the time\n");
}

static void enter_group(pid_t pid)
{
	ck_assert(!group.made || control_group_enter(&group, pid));
}

/* Lets this much time pass, by forkd's clock. */
static void starve_for_a_while(void)
{
	const struct timespec run = { .tv_nsec = RUN_NS }, stopped = { .tv_nsec = STOPPED_NS };
	pid_t pool = daemon_pool(&d);

	if (!group.made) {
		ck_assert_int_eq(kill(d.manager, SIGSTOP), 0);
		ck_assert_int_eq(kill(pool, SIGSTOP), 0);
	}
	(void)nanosleep(&stopped, NULL);
	if (!group.made) {
		ck_assert_int_eq(kill(pool, SIGCONT), 0);
		ck_assert_int_eq(kill(d.manager, SIGCONT), 0);
	}
	(void)nanosleep(&run, NULL);
}

/* ------------------------------------------------------------------------ the other processes */

static void spin(void)
{
	for (volatile int on = 1; on;)
		;
}

static int end_of(fk_client *c, fk_job job)
{
	int outcome;

	ck_assert_int_eq(fk_wait(c, job, FK_FOREVER), 0);
	outcome = fk_outcome(c, job, NULL, NULL);
	ck_assert_int_eq(fk_release(c, job), 0);
	return outcome;
}

/* One of each kind, on its own connection. */
static void live_once(void)
{
	fk_client *c = daemon_open(&d);
	const union fk_value ms = { .i64 = LEAF_MS };
	struct fk_request request = {
		.values = &ms,
		.size = 1,
		.options.timeout_ns = 300 * NSEC_PER_MSEC,
	};
	int64_t n = 0;
	fk_job job;

	atomic_fetch_add(&shared->opened, 1);
	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(18)), 0);
	ck_assert_int_eq(n, 2584);
	atomic_fetch_add(&shared->called, 1);
	/* Its deadline passes before it begins, or in its first leaf, which takes many times the
	 * limit on the clock. */
	ck_assert_int_eq(fk_task_find(c, "hang:slow", &request.task), 0);
	ck_assert_int_eq(fk_submit_batch(c, &request, 1, 0, &job), 0);
	ck_assert_int_eq(end_of(c, job), FK_EXPIRED);
	atomic_fetch_add(&shared->late, 1);
	job = jobs_submit(c, "hang:slow", 0, LEAF_MS, 0);
	ck_assert_int_eq(fk_wait(c, job, 200 * NSEC_PER_MSEC), -ETIMEDOUT);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	ck_assert_int_eq(end_of(c, job), FK_CANCELLED);
	atomic_fetch_add(&shared->cancelled, 1);
	ck_assert_int_eq(fk_close(c), 0);
}

static void live(void)
{
	enter_group(getpid());
	do
		live_once();
	while (!atomic_load(&shared->stop));
}

static void hangs_at_last(pid_t pool)
{
	fk_client *c = daemon_open(&d);
	fk_job job = jobs_submit(c, "hang:spin", 0, 0, 0);

	DAEMON_AWAIT(jobs_running(&d, "hang:spin") == 1);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	while (!fk_poll(c, job))
		starve_for_a_while();
	ck_assert_int_eq(end_of(c, job), FK_CRASHED);
	ck_assert_uint_eq(jobs_crash(&d, 1)->reason, CRASH_HANG);
	(void)jobs_pool_after(&d, pool);
	ck_assert_int_eq(fk_close(c), 0);
}

START_TEST(starved_process_is_not_taken_for_dead)
{
	const char *said = getenv("SOAK_SECONDS");
	uint64_t seconds = said ? strtoull(said, NULL, 10) : 3;
	uint64_t end = clock_ns() + seconds * NSEC_PER_SEC;
	pid_t spinners[SPINNERS], clients[CLIENTS], pool;

	/* All of them: other tests that run now must not starve. */
	(void)setpriority(PRIO_PROCESS, 0, STARVED_NICE);
	shared = daemon_share(sizeof(*shared));
	make_group();
	daemon_start(&d, "--workers=2", LIMIT, NULL);
	pool = daemon_pool(&d);
	enter_group(d.manager);
	enter_group(pool);
	for (int i = 0; i < SPINNERS; i++)
		spinners[i] = daemon_client(spin, DAEMON_UID);
	for (int i = 0; i < CLIENTS; i++)
		clients[i] = daemon_client(live, DAEMON_UID);
	while (clock_ns() < end)
		starve_for_a_while();
	atomic_store(&shared->stop, 1);
	while (atomic_load(&d.board->manager.clients) > 1)
		starve_for_a_while();
	for (int i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(daemon_reap(clients[i]), 0);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	if (seconds >= LONG_SOAK)
		hangs_at_last(pool);
	for (int i = 0; i < SPINNERS; i++) {
		ck_assert_int_eq(kill(spinners[i], SIGKILL), 0);
		ck_assert_int_eq(daemon_reap(spinners[i]), 256 + SIGKILL);
	}
	ck_assert_int_eq(daemon_stop(&d), 0);
	control_group_end(&group);
	printf("%" PRIu64 " s: %" PRIu64 " connections, %" PRIu64 " calls, %" PRIu64
	       " late, %" PRIu64 " cancelled; no job blamed\n",
	       seconds, atomic_load(&shared->opened), atomic_load(&shared->called),
	       atomic_load(&shared->late), atomic_load(&shared->cancelled));
}
END_TEST

CHECK_MAIN("soak_starve")
