/* SPDX-License-Identifier: MIT */
/* planned - forkd is restarted, as by systemctl restart: running jobs may end, queued jobs wait,
 * and no client notices */
#include <signal.h>
#include <unistd.h>

#include "common/util.h"
#include "daemon/manager/manager.h"
#include "tests/support/jobs.h"
#include "tests/support/kept.h"
#include "tests/support/oracle.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

#define CLIENTS	  4u
#define RESTARTS  20u
#define QUEUED	  10u
#define OTHER_UID 65531u

static struct daemon d;
static struct systemd_stub *store;

/* Waits until the next forkd has been started. */
static void restart(void)
{
	uint32_t starts = store->starts;

	ck_assert_int_eq(kill(d.manager, SIGUSR2), 0);
	DAEMON_AWAIT(store->starts > starts);
	ck_assert_int_eq(WEXITSTATUS(store->status), MANAGER_EXIT_RESTART);
}

static fk_job add(fk_client *c)
{
	return jobs_submit(c, "null:add", 0, 40, 2);
}

/* Waits until the pool has handled all messages that the manager received before: this one takes
 * the same way. */
static void settle(fk_client *c)
{
	fk_job job = add(c);

	ck_assert_int_eq(fk_cancel(c, job), 0);
	jobs_see_end(c, job, "CANCELLED");
}

START_TEST(running_jobs_end_and_queued_jobs_run_in_the_next_pool)
{
	fk_job jobs[2], queued[2 * QUEUED];
	volatile uint8_t *gates[2];
	fk_client *c;

	store = kept_start(&d, "--workers=2", "--stop-timeout=1000s", NULL);
	c = daemon_open(&d);
	for (uint32_t i = 0; i < 2; i++)
		jobs[i] = jobs_hold(c, 0, &gates[i]);
	DAEMON_AWAIT(jobs_running(&d, NULL) == 2);
	for (uint32_t i = 0; i < QUEUED; i++)
		queued[i] = add(c);
	ck_assert_int_eq(kill(d.manager, SIGUSR2), 0);
	DAEMON_AWAIT(daemon_logged(&d, "SIGUSR2: restarting", ""));
	settle(c);
	for (uint32_t i = QUEUED; i < 2 * QUEUED; i++)
		queued[i] = add(c);
	/* It waits for both. */
	*gates[0] = 1;
	jobs_see_end(c, jobs[0], "DONE");
	for (uint32_t i = 0; i < 2 * QUEUED; i++)
		ck_assert_int_eq(fk_outcome(c, queued[i], NULL, NULL), FK_PENDING);
	ck_assert_uint_eq(store->starts, 1);
	*gates[1] = 1;
	jobs_see_end(c, jobs[1], "DONE");
	kept_ready(&d, store);
	ck_assert_int_eq(WEXITSTATUS(store->status), MANAGER_EXIT_RESTART);
	for (uint32_t i = 0; i < 2 * QUEUED; i++)
		jobs_see_end(c, queued[i], "DONE");
	ck_assert_int_eq(fk_close(c), 0);
	kept_stop(&d, store);
}
END_TEST

START_TEST(jobs_beyond_the_time_limit_are_LOST_or_run_again)
{
	volatile uint8_t *gates[2];
	fk_job jobs[2];
	fk_client *c;

	store = kept_start(&d, "--workers=2", "--stop-timeout=50ms", NULL);
	c = daemon_open(&d);
	jobs[0] = jobs_hold(c, 0, &gates[0]);
	jobs[1] = jobs_hold(c, FK_IDEMPOTENT, &gates[1]);
	DAEMON_AWAIT(jobs_running(&d, NULL) == 2);
	/* No job is a suspect for the end of its pool. */
	for (uint32_t i = 0; i < 3; i++) {
		restart();
		kept_ready(&d, store);
		DAEMON_AWAIT(jobs_running(&d, NULL) == 1);
	}
	jobs_see_end(c, jobs[0], "LOST");
	*gates[1] = 1;
	jobs_see_end(c, jobs[1], "DONE");
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_int_eq(fk_close(c), 0);
	kept_stop(&d, store);
}
END_TEST

START_TEST(second_signal_ends_at_once_and_a_stop_stops)
{
	volatile uint8_t *gate;
	fk_client *c;
	fk_job job, queued;

	store = kept_start(&d, "--workers=1", "--stop-timeout=1000s", NULL);
	c = daemon_open(&d);
	job = jobs_hold(c, FK_IDEMPOTENT, &gate);
	DAEMON_AWAIT(jobs_running(&d, NULL) == 1);
	ck_assert_int_eq(kill(d.manager, SIGUSR2), 0);
	DAEMON_AWAIT(daemon_logged(&d, "SIGUSR2: restarting", ""));
	restart();
	kept_ready(&d, store);
	DAEMON_AWAIT(jobs_running(&d, NULL) == 1);
	queued = add(c);
	ck_assert_int_eq(kill(d.manager, SIGUSR2), 0);
	ck_assert_int_eq(kill(d.manager, SIGTERM), 0);
	DAEMON_AWAIT(daemon_logged(&d, "SIGTERM: stopping", ""));
	settle(c);
	*gate = 1;
	jobs_see_end(c, job, "DONE");
	jobs_see_end(c, queued, "CANCELLED");
	DAEMON_AWAIT(store->service == 0);
	ck_assert_int_eq(store->status, 0);
	ck_assert_uint_eq(store->n, 0);
	ck_assert_uint_ge(store->barriers, 1);
	ck_assert_int_eq(fk_close(c), 0);
	kept_ended(&d, store);
}
END_TEST

START_TEST(changed_memory_sizes_lose_nothing)
{
	volatile uint8_t *gate;
	fk_client *c;
	fk_job jobs[3];

	store = kept_start(&d, kept_configure(&d, "memory-max = 600M\nstop-timeout = 1000s\n"),
			   "--workers=1", NULL);
	c = daemon_open(&d);
	jobs[0] = jobs_hold(c, 0, &gate);
	DAEMON_AWAIT(jobs_running(&d, NULL) == 1);
	jobs[1] = add(c);
	(void)kept_configure(&d, "memory-max = 500M\n");
	ck_assert_int_eq(kill(d.manager, SIGUSR2), 0);
	DAEMON_AWAIT(daemon_logged(&d, "SIGUSR2: restarting", ""));
	jobs[2] = add(c);
	*gate = 1;
	for (uint32_t i = 0; i < ARRAY_SIZE(jobs); i++)
		jobs_see_end(c, jobs[i], "DONE");
	kept_ready(&d, store);
	ck_assert_int_eq(WEXITSTATUS(store->status), MANAGER_EXIT_RESTART);
	ck_assert(!daemon_logged(&d, "disconnected", ""));
	ck_assert_int_eq(fk_close(c), 0);
	kept_stop(&d, store);
}
END_TEST

START_TEST(twenty_restarts_under_load_lose_nothing)
{
	_Atomic uint64_t *ended = daemon_share(CLIENTS * sizeof(*ended));
	struct oracle_verdict v;
	pid_t pids[CLIENTS];
	struct oracle o;

	store = kept_start(&d, "--workers=2", "--stop-timeout=1000s", NULL);
	oracle_init(&o, d.directory);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		pids[i] = daemon_fork(i % 2 ? OTHER_UID : DAEMON_UID);
		if (pids[i] == 0)
			_exit(oracle_serve(&o, d.socket, &ended[i]));
	}
	for (uint32_t i = 0; i <= RESTARTS; i++) {
		oracle_await_each(ended, CLIENTS);
		if (i == RESTARTS)
			break;
		restart();
		kept_ready(&d, store);
	}
	atomic_store(&o.shared->stop, 1);
	for (uint32_t i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(daemon_reap(pids[i]), 0);
	ck_assert_uint_eq(store->starts, RESTARTS + 1);
	ck_assert_msg(oracle_judge(&o, &v), "%s; the log is %s", v.wrong, d.log);
	ck_assert_uint_eq(v.outcomes[FK_DONE], v.submitted);
	ck_assert_uint_eq(v.again, 0);
	oracle_fini(&o);
	kept_stop(&d, store);
}
END_TEST

CHECK_MAIN("planned")
