/* SPDX-License-Identifier: MIT */
/*
 * kill: clients that are killed at any instruction, a daemon that is stopped, and one that is
 * killed
 *
 * The first test kills 300 clients; 3,000 in a build with crash sites and without a sanitizer; and
 * $KILLS if that is set: `make soak-kill`.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "tests/support/counts.h"
#include "tests/support/daemon.h"
#include "tests/support/oracle.h"
#define CHECK_TIMEOUT 550
#include "tests/support/check_unit.h"

/* Memory shared by the test and its client processes. */
struct shared {
	_Atomic uint64_t good;	    /* correct results of the survivor */
	_Atomic uint64_t submitted; /* by the victim */
	_Atomic uint32_t slot;	    /* of the victim; NOWHERE before it has one */
	_Atomic uint32_t stop;
};

#define NOWHERE UINT32_MAX

static struct shared *shared;
static struct daemon d;
static struct oracle o;

static void setup(void)
{
	shared = daemon_share(sizeof(*shared));
}

static uint64_t seed = 88172645463325252u;

static uint64_t draw(uint64_t n)
{
	return xorshift64(&seed) % n;
}

/* Submits and checks until it is told to stop; exits with 1 on an error. */
static void survivor(void)
{
	fk_client *c = NULL;
	int64_t n = 0;

	if (fk_open(d.socket, NULL, &c) < 0)
		_exit(2);
	for (int64_t i = 0; !atomic_load(&shared->stop); i++) {
		int64_t wanted = i % 16 ? i + 7 : 610;
		int r = i % 16 ? fk_call(c, "null:add", &n, i, INT64_C(7))
			       : fk_call(c, "fib:fib", &n, INT64_C(15));

		if (r < 0 || n != wanted) {
			(void)fprintf(stderr, "survivor: %s, %" PRId64 " for %" PRId64 "\n",
				      fk_strerror(r), n, wanted);
			_exit(1);
		}
		atomic_fetch_add(&shared->good, 1);
	}
	(void)fk_close(c);
}

/* The last victim's slot is free shortly. */
static fk_client *open_victim(void)
{
	fk_client *c = NULL;

	while (fk_open(d.socket, NULL, &c) < 0)
		(void)poll(NULL, 0, 1);
	atomic_store(&shared->slot, c->id);
	return c;
}

/* Ends a victim that cannot continue, with an exit status that fails the test. */
static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	(void)fprintf(stderr, "victim %d: %s: %s\n", (int)getpid(), what, fk_strerror(r));
	_exit(2);
}

/* Submits as fast as it can until it is killed; it waits only for room. */
static void victim(void)
{
	fk_client *c = open_victim();
	const fk_task *add, *fib, *text;
	fk_job jobs[200];

	must(fk_task_find(c, "null:add", &add), "its task");
	must(fk_task_find(c, "fib:fib", &fib), "its task");
	must(fk_task_find(c, "bytes:text", &text), "its task");
	for (uint32_t i = 0;; i++) {
		uint32_t k = i % ARRAY_SIZE(jobs);
		int r;

		if (i >= ARRAY_SIZE(jobs)) {
			must(fk_wait(c, jobs[k], FK_FOREVER), "a wait");
			must(fk_release(c, jobs[k]), "a release");
		}
		if (i % 8 == 0)
			r = fk_submit(c, fib, FK_WAIT_ROOM, &jobs[k], INT64_C(12));
		else if (i % 8 == 1)
			r = fk_submit(c, text, FK_WAIT_ROOM, &jobs[k], "some text", INT64_C(2));
		else
			r = fk_submit(c, add, FK_WAIT_ROOM, &jobs[k], INT64_C(1), INT64_C(2));
		must(r, "a submission");
		atomic_fetch_add(&shared->submitted, 1);
	}
}

/* The same with few jobs, whose runs are counted: chains, in a group, and single ones. */
static void counted_victim(void)
{
	fk_client *c = open_victim();
	struct oracle_job jobs[2][8];
	fk_group groups[2];

	for (uint32_t i = 0; i < 2; i++)
		must(fk_group_new(c, &groups[i]), "a group");
	for (uint32_t i = 0;; i++) {
		uint32_t n = i % 2 ? 1 : ARRAY_SIZE(jobs[0]);

		must(oracle_submit(&o, c, n, i % 4 ? NULL : groups, FK_WAIT_ROOM, jobs[i % 2]),
		     "a submission");
		for (uint32_t k = 0; i && k < (n == 1 ? ARRAY_SIZE(jobs[0]) : 1); k++)
			must(oracle_end(&o, c, &jobs[(i - 1) % 2][k]), "an end");
		atomic_fetch_add(&shared->submitted, n);
	}
}

/* Times that the manager took to notice each death. */
struct notices {
	uint64_t *ns;
	uint32_t n;
};

static void print_notices(struct notices *notices)
{
	uint32_t n = notices->n;

	ck_assert_uint_gt(n, 0);
	qsort(notices->ns, n, sizeof(notices->ns[0]), daemon_compare_u64);
	printf("%" PRIu32 " deaths noticed: p50 %" PRIu64 " us, p99 %" PRIu64 " us, worst %" PRIu64
	       " us\n",
	       n, notices->ns[n / 2] / NSEC_PER_USEC, notices->ns[n * 99ull / 100] / NSEC_PER_USEC,
	       notices->ns[n - 1] / NSEC_PER_USEC);
}

/* Starts the victim of a round and kills it: one in four at a random time from its start on, while
 * it connects, or later. Others are killed shortly after they have submitted a number of jobs. */
static void kill_one(uint32_t round, struct notices *notices)
{
	bool counted = round % 8 == 0, early = round % 4 == 1;
	uint64_t moment = clock_ns() + draw(early ? 2 * NSEC_PER_MSEC : 50 * NSEC_PER_USEC);
	uint64_t until = draw(counted ? 40 : 500), start;
	uint32_t slot;
	pid_t pid;

	atomic_store(&shared->submitted, 0);
	atomic_store(&shared->slot, NOWHERE);
	pid = daemon_client(counted ? counted_victim : victim, DAEMON_UID);
	if (!early)
		DAEMON_AWAIT_BUSY(atomic_load(&shared->submitted) > until || daemon_has_ended(pid));
	while (clock_ns() < moment)
		;
	start = clock_ns();
	daemon_kill_client(pid);
	if (counted)
		oracle_note_killed(&o, pid);
	slot = atomic_load(&shared->slot);
	if (slot != NOWHERE) {
		const struct board_client *client = &d.board->clients[slot];

		DAEMON_AWAIT(atomic_load(&client->left_ns) > start);
		notices->ns[notices->n++] = atomic_load(&client->left_ns) - start;
	}
}

/* $KILLS, which make soak sets; otherwise as many as a check has time for. */
static uint32_t n_kills(void)
{
	const char *text = getenv("KILLS");

	if (text)
		return (uint32_t)strtoul(text, NULL, 10);
#if defined(FK_CRASH_SITES) && !defined(FK_SANITIZE)
	return 3000;
#else
	return 300;
#endif
}

START_TEST(client_killed_while_it_submits_never_blocks_another)
{
	uint32_t rounds = n_kills();
	struct notices notices = { .ns = calloc(rounds, sizeof(uint64_t)) };
	struct counts before, quarter = { 0 }, after;
	int64_t manager = 0, pool = 0;
	struct oracle_verdict v;
	fk_client *late[2];
	pid_t other;

	setup();
	ck_assert_ptr_nonnull(notices.ns);
	/* The watcher, the survivor, and slots for the next victims. */
	daemon_start(&d, "--workers=2", "--clients-max=4", NULL);
	oracle_init(&o, d.directory);
	other = daemon_client(survivor, DAEMON_UID);
	DAEMON_AWAIT(atomic_load(&shared->good) > 0);
	before = counts_read(&d);
	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t seen;

		kill_one(i, &notices);
		seen = atomic_load(&shared->good);
		DAEMON_AWAIT(atomic_load(&shared->good) > seen + 1);
		if (i == rounds / 4) {
			manager = daemon_pss(d.manager);
			pool = daemon_pss(daemon_pool(&d));
			quarter = counts_read(&d);
		}
	}
	/* Their jobs, their slots and their memory are released. */
	DAEMON_AWAIT(atomic_load(&d.board->manager.clients) == 2);
	counts_await(&d, &before);
	after = counts_read(&d);
	ck_assert_uint_le(after.manager.maps, quarter.manager.maps + 8);
	ck_assert_uint_le(after.pool.maps, quarter.pool.maps + 8);
	for (int i = 0; i < 2; i++)
		DAEMON_AWAIT(fk_open(d.socket, NULL, &late[i]) == 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(fk_close(late[i]), 0);
	print_notices(&notices);
	printf("%" PRIu32 " clients killed, %" PRIu64
	       " right results of the others; PSS of the manager %" PRId64 " -> %" PRId64
	       " kB, of the pool %" PRId64 " -> %" PRId64 " kB\n",
	       rounds, atomic_load(&shared->good), manager, daemon_pss(d.manager), pool,
	       daemon_pss(daemon_pool(&d)));
	if (!daemon_sanitized()) {
		/* The end of the last clients changes both for a while. */
		DAEMON_AWAIT(daemon_pss(d.manager) < manager + 1024);
		DAEMON_AWAIT(daemon_pss(daemon_pool(&d)) < pool + 512);
	}
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	atomic_store(&shared->stop, 1);
	ck_assert_int_eq(daemon_reap(other), 0);
	/* Each job that was taken off a ring was started, or dropped; each started job has
	 * ended. */
	DAEMON_AWAIT(daemon_counter(&d, "jobs_started") ==
		     daemon_counter(&d, "jobs_done") + daemon_counter(&d, "jobs_failed"));
	DAEMON_AWAIT(daemon_counter(&d, "drained") ==
		     daemon_counter(&d, "jobs_started") + daemon_counter(&d, "jobs_dropped"));
	ck_assert_msg(oracle_judge(&o, &v), "%s", v.wrong);
	ck_assert_uint_eq(v.outcomes[FK_LOST] + v.outcomes[FK_CANCELLED] + v.again, 0);
	printf("of the %" PRIu64 " jobs that were counted %" PRIu64 " were seen to end, %" PRIu64
	       " have run\n",
	       v.submitted, v.outcomes[FK_DONE], v.runs);
	oracle_fini(&o);
	free(notices.ns);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* A client that waits for a long leaf, and reports the result by its exit status. */
static int64_t leaf_ms;

static void waiter(void)
{
	fk_client *c = NULL;
	const fk_task *task;
	fk_job job;
	int r;

	if (fk_open(d.socket, NULL, &c) < 0 || fk_task_find(c, "crash:hang", &task) < 0 ||
	    fk_submit_packed(c, task, &leaf_ms, sizeof(leaf_ms), 0, &job) < 0)
		_exit(100);
	r = fk_wait(c, job, FK_FOREVER);
	if (r < 0)
		_exit(r == -ECONNRESET ? 50 : 101);
	_exit(fk_outcome(c, job, NULL, NULL));
}

START_TEST(stop_lets_running_and_queued_jobs_finish)
{
	pid_t pids[6];

	setup();
	daemon_start(&d, "--workers=2", "--stop-timeout=60s", NULL);
	leaf_ms = 300;
	/* One job runs certainly; another one may run, and others may not be submitted yet. */
	pids[0] = daemon_client(waiter, DAEMON_UID);
	DAEMON_AWAIT(daemon_counter(&d, "jobs_started") == 1);
	for (size_t i = 1; i < ARRAY_SIZE(pids); i++)
		pids[i] = daemon_client(waiter, DAEMON_UID);
	/* The first client may have left. */
	DAEMON_AWAIT(atomic_load(&d.board->manager.accepted) == 1 + ARRAY_SIZE(pids));
	ck_assert_int_eq(kill(d.manager, SIGTERM), 0);
	ck_assert_int_eq(daemon_wait(&d), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		int status = daemon_reap(pids[i]);

		/* A job submitted by then is run. Later submissions get an error. */
		ck_assert_msg(status == FK_DONE || status == FK_CANCELLED || status == 50,
			      "client %zu: %d", i, status);
		ck_assert(i > 0 || status == FK_DONE);
	}
}
END_TEST

START_TEST(jobs_beyond_the_stop_deadline_are_cancelled_and_the_client_returns)
{
	pid_t a, b;

	setup();
	daemon_start(&d, "--workers=1", "--stop-timeout=300ms", NULL);
	leaf_ms = 120000;
	a = daemon_client(waiter, DAEMON_UID);
	DAEMON_AWAIT(daemon_counter(&d, "jobs_started") == 1);
	b = daemon_client(waiter, DAEMON_UID);
	DAEMON_AWAIT(atomic_load(&d.board->manager.clients) == 3);
	ck_assert_int_eq(kill(d.manager, SIGTERM), 0);
	ck_assert_int_eq(daemon_wait(&d), 0);
	ck_assert_int_eq(daemon_reap(a), FK_CANCELLED);
	/* Queued; or it was too late, and found that the daemon had ended. */
	a = daemon_reap(b);
	ck_assert_msg(a == FK_CANCELLED || a == 50, "%d", (int)a);
}
END_TEST

START_TEST(clients_that_wait_for_a_killed_daemon_return_with_an_error)
{
	pid_t pids[3];
	uint64_t start_ns;
	uint32_t told = 0;

	setup();
	daemon_start(&d, "--workers=2", NULL);
	leaf_ms = 3600000; /* a wait for the job would not return in time */
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		pids[i] = daemon_client(waiter, DAEMON_UID);
	DAEMON_AWAIT(daemon_counter(&d, "jobs_started") == 2);
	DAEMON_AWAIT(atomic_load(&d.board->manager.clients) == 1 + ARRAY_SIZE(pids));
	start_ns = clock_ns();
	/* The segments stay as long as a client has them: first the ends of the clients are
	 * checked. */
	ck_assert_int_eq(kill(d.manager, SIGKILL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		int status = daemon_reap(pids[i]);

		/* The two whose jobs ran waited; the third may not have received WELCOME yet. */
		ck_assert_msg(status == 50 || status == 100, "client %zu: %d", i, status);
		told += status == 50;
	}
	ck_assert_uint_ge(told, 2);
	printf("told after %" PRIu64 " ms\n", (clock_ns() - start_ns) / NSEC_PER_MSEC);
	daemon_kill(&d);
}
END_TEST

START_TEST(client_of_a_killed_daemon_gets_errors_and_can_be_closed)
{
	fk_client *c;
	const fk_task *task;
	int64_t args[2] = { 1, 2 };
	int r = 0;

	setup();
	daemon_start(&d, "--workers=1", NULL);
	c = daemon_open(&d);
	ck_assert_int_eq(fk_task_find(c, "null:add", &task), 0);
	ck_assert_int_eq(kill(d.manager, SIGKILL), 0);
	/* The pool may run a few more before it ends. */
	while (r == 0) {
		fk_job job;

		r = fk_submit_packed(c, task, args, sizeof(args), FK_WAIT_ROOM, &job);
		if (r == 0)
			r = fk_wait(c, job, FK_FOREVER);
		if (r == 0)
			ck_assert_int_eq(fk_release(c, job), 0);
	}
	ck_assert_int_eq(r, -ECONNRESET);
	ck_assert_int_eq(fk_close(c), 0);
	daemon_kill(&d);
}
END_TEST

CHECK_MAIN("kill")
