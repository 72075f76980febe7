/* SPDX-License-Identifier: MIT */
/*
 * takeover: the manager is killed, and the next one takes over its clients, which notice nothing
 *
 * The systemd stub (tests/support/systemd_stub.h) keeps forkd's descriptors in between. Each client
 * has one connection, made with the first manager.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util.h"
#include "daemon/manager/takeover.h"
#include "tests/support/takeover_rig.h"
#include "tests/support/oracle.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

#define CLIENTS	  4u /* that stay */
#define GUESTS	  2u /* that connect and leave all the time */
#define KILLS	  20u
#define OTHER_UID 65531u

static _Atomic uint64_t *ended; /* jobs of each client, those that stay first */

/* ------------------------------------------------------------------------ the fence */

static bool is_dead(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

START_TEST(takeover_waits_until_each_stored_pool_is_dead)
{
	struct fdstore_inherited *inherited = calloc(2, sizeof(*inherited));
	struct takeover takeover = TAKEOVER_INIT;
	struct store s = FDSTORE_INIT;
	int fds[2];

	for (uint32_t i = 0; i < 2; i++) {
		pid_t pid = daemon_fork(DAEMON_UID);

		while (pid == 0)
			(void)pause();
		fds[i] = (int)syscall(SYS_pidfd_open, pid, 0);
		ck_assert_int_ge(fds[i], 0);
		inherited[i] = (struct fdstore_inherited){
			.name = "pool",
			.kind = FDSTORE_PIDFD,
			.fd = dup(fds[i]),
		};
	}
	s.fd = open("/dev/null", O_WRONLY | O_CLOEXEC); /* the store sends its messages nowhere */
	s.inherited = inherited;
	s.n_inherited = 2;
	s.max = 16;
	ck_assert(!is_dead(fds[0]) && !is_dead(fds[1]));
	takeover_look(&takeover, &s);
	ck_assert(is_dead(fds[0]) && is_dead(fds[1]));
	ck_assert_ptr_null(takeover.saved);
	ck_assert(!takeover.inherited);
	takeover_fini(&takeover);
	(void)close(s.fd);
	free(inherited);
}
END_TEST

/* ------------------------------------------------------------------------ without loss */

/* A client that connects while a manager dies is admitted by the next one. Returns an exit
 * status. */
static int visit(const _Atomic uint32_t *stop, _Atomic uint64_t *calls)
{
	while (!atomic_load(stop)) {
		fk_client *c = NULL;
		int64_t sum = 0;

		if (fk_open(d.socket, NULL, &c) < 0) {
			(void)fprintf(stderr, "guest %d: %s\n", (int)getpid(), fk_error_text());
			return 94;
		}
		/* LOST if it had started. */
		if (fk_call(c, "null:add", &sum, (int64_t)40, (int64_t)2) == 0 && sum != 42)
			return 95;
		atomic_fetch_add(calls, 1);
		if (fk_close(c) < 0)
			return 96;
	}
	return 0;
}

START_TEST(twenty_managers_are_killed_under_load_and_no_client_notices)
{
	struct oracle_verdict v;
	pid_t pids[CLIENTS + GUESTS];
	uint64_t ns[KILLS];
	struct oracle o;

	ended = daemon_share((CLIENTS + GUESTS) * sizeof(*ended));
	store = kept_start(&d, "--workers=2", NULL);
	oracle_init(&o, d.directory);
	for (uint32_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = daemon_fork(i % 2 ? OTHER_UID : DAEMON_UID);
		if (pids[i] == 0)
			_exit(i < CLIENTS ? oracle_serve(&o, d.socket, &ended[i])
					  : visit(&o.shared->stop, &ended[i]));
	}
	oracle_await_each(ended, CLIENTS + GUESTS);
	for (uint32_t i = 0; i < KILLS; i++) {
		ns[i] = clock_ns();
		kept_kill(&d, store);
		serves(d.watcher);
		ns[i] = clock_ns() - ns[i];
		kept_ready(&d, store);
		oracle_await_each(ended, CLIENTS + GUESTS);
	}
	serves(d.watcher);
	atomic_store(&o.shared->stop, 1);
	for (uint32_t i = 0; i < ARRAY_SIZE(pids); i++)
		ck_assert_int_eq(daemon_reap(pids[i]), 0);
	ck_assert_uint_eq(store->starts, KILLS + 1);
	ck_assert_msg(oracle_judge(&o, &v), "%s; the log is %s", v.wrong, d.log);
	ck_assert_uint_eq(v.outcomes[FK_CANCELLED] + v.refused + v.orphans, 0);
	ck_assert_uint_eq(v.lost_idempotent, 0);
	qsort(ns, KILLS, sizeof(*ns), daemon_compare_u64);
	printf("from a kill to the next job done: %.1f ms (median), %.1f (max)\n",
	       (double)ns[KILLS / 2] / 1e6, (double)ns[KILLS - 1] / 1e6);
	printf("%" PRIu64 " jobs done, %" PRIu64 " lost, %" PRIu64 " runs again\n",
	       v.outcomes[FK_DONE], v.outcomes[FK_LOST], v.again);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	/* No two pools have the same generation. */
	ck_assert_uint_eq(atomic_load(&d.board->manager.pool_generation), KILLS + 1);
	/* The store had all clients of the saved state. */
	ck_assert(!daemon_logged(&d, "of the last forkd is disconnected", ""));
	/* The watcher's socket, pidfd and segment are left. */
	DAEMON_AWAIT(n_kept("c*") == 3);
	oracle_fini(&o);
	kept_stop(&d, store);
}
END_TEST

START_TEST(running_jobs_are_LOST_or_rerun_until_they_end)
{
	volatile uint8_t *gates[2];
	fk_job jobs[2];
	fk_client *c;

	c = TAKEOVER_BEGIN("--workers=2", NULL);
	jobs[0] = jobs_hold(c, 0, &gates[0]);
	jobs[1] = jobs_hold(c, FK_IDEMPOTENT, &gates[1]);
	DAEMON_AWAIT(jobs_running(&d, NULL) == 2);
	/* The job is not blamed for these deaths. */
	for (uint32_t i = 0; i < 4; i++) {
		kept_kill(&d, store);
		kept_ready(&d, store);
		jobs_see_end(c, jobs[0], "LOST");
		DAEMON_AWAIT(jobs_running(&d, NULL) == 1);
	}
	*gates[1] = 1;
	jobs_see_end(c, jobs[1], "DONE");
	takeover_end(c);
}
END_TEST

START_TEST(jobs_submitted_without_a_manager_are_run)
{
	fk_client *c;
	fk_job job;

	c = TAKEOVER_BEGIN("--workers=2", NULL);
	kept_kill_and_hold(&d, store);
	job = jobs_submit(c, "null:add", FK_IDEMPOTENT, 40, 2);
	kept_go_on(store);
	jobs_see_end(c, job, "DONE");
	kept_ready(&d, store);
	takeover_end(c);
}
END_TEST

START_TEST(cancel_without_a_manager_takes_effect)
{
	volatile uint8_t *gate;
	fk_client *c;
	fk_job job;

	c = TAKEOVER_BEGIN("--workers=2", NULL);
	job = jobs_hold_one(&d, c, FK_IDEMPOTENT, &gate);
	kept_kill_and_hold(&d, store);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	kept_go_on(store);
	jobs_see_end(c, job, "CANCELLED");
	serves(c);
	kept_ready(&d, store);
	takeover_end(c);
}
END_TEST

static void be_held(void)
{
	fk_client *c = daemon_open(&d);
	volatile uint8_t *gate;

	(void)jobs_hold(c, FK_IDEMPOTENT, &gate);
	for (;;)
		(void)pause();
}

START_TEST(client_that_dies_without_a_manager_leaves_nothing)
{
	pid_t pid;

	store = kept_start(&d, "--workers=2", NULL);
	pid = daemon_client(be_held, DAEMON_UID);
	DAEMON_AWAIT(jobs_running(&d, NULL) == 1);
	DAEMON_AWAIT(n_kept("c0") && n_kept("c1"));
	kept_kill_and_hold(&d, store);
	daemon_kill_client(pid);
	kept_go_on(store);
	kept_ready(&d, store);
	/* Its job does not run again. */
	ck_assert(daemon_logged(&d, "continuing with 2 clients", "1 cancelled, 0 run again"));
	DAEMON_AWAIT(!n_kept("c1"));
	ck_assert(n_kept("c0"));
	serves(d.watcher);
	kept_stop(&d, store);
}
END_TEST

static int maybe(fk_client *c, int64_t bad)
{
	int64_t n = 0;

	return fk_call(c, "crash:maybe", &n, bad);
}

START_TEST(crashes_count_and_quarantine_lasts_over_the_death_of_a_manager)
{
	fk_client *c;

	c = TAKEOVER_BEGIN("--workers=2", "--quarantine-task-crashes=2", NULL);
	ck_assert_int_eq(maybe(c, 1), -ENOTRECOVERABLE);
	/* The outcome is stored before the crash is counted, and the next pool starts after
	 * that. */
	serves(c);
	kept_kill(&d, store);
	kept_ready(&d, store);
	ck_assert_uint_eq(daemon_crashes(&d), 1);
	ck_assert_int_eq(maybe(c, 1), -ENOTRECOVERABLE);
	ck_assert_int_eq(maybe(c, 0), -EKEYREVOKED);
	kept_kill(&d, store);
	kept_ready(&d, store);
	ck_assert_int_eq(maybe(c, 0), -EKEYREVOKED);
	ck_assert_uint_eq(daemon_crashes(&d), 2);
	serves(c);
	takeover_end(c);
}
END_TEST

CHECK_MAIN("takeover")
