/* SPDX-License-Identifier: MIT */
/*
 * pool_sites: a pool that dies at each of its sites of common/crash_site.def
 *
 * Two clients of different uids have jobs of all kinds, and the actions of a third client reach the
 * site. tests/support/oracle.h checks that each job ended once, and in the right way; idempotent
 * jobs are DONE in the end. The next pool serves all of them. Built with --enable-crash-sites only.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/crash_site.h"
#include "common/util.h"
#include "tests/support/daemon.h"
#include "tests/support/oracle.h"
#include "tests/support/sites.h"
#define CHECK_TIMEOUT 240
#include "tests/support/check_unit.h"

#define OTHER_UID   65531u
#define VISITOR_UID 65533u
#define VISITORS    1000u
#define BATCH	    1000u
#define BYTES	    4096u

/* Memory shared by the test and its client processes. */
struct shared {
	_Atomic uint64_t ended[2]; /* jobs of the first two clients */
	_Atomic uint64_t rounds;   /* of the third client */
};

static struct shared *shared;
static struct daemon d;
static struct oracle o;

/* ------------------------------------------------------------------------ the third client */

static fk_client *c;
static bool twice; /* two pools die: even an idempotent job may be lost */

static void must(int r)
{
	if (r >= 0)
		return;
	(void)fprintf(stderr, "the third client: %s\n", fk_strerror(r));
	_exit(2);
}

static void must_be(bool right, const char *what)
{
	if (right)
		return;
	(void)fprintf(stderr, "the third client: %s\n", what);
	_exit(3);
}

static fk_job submit(const char *name, unsigned int flags, int64_t n)
{
	const union fk_value value = { .i64 = n };
	const fk_task *task;
	fk_job job;

	must(fk_task_find(c, name, &task));
	must(fk_submit_values(c, task, &value, 1, flags | FK_WAIT_ROOM, &job));
	return job;
}

/* Waits for a job, whose outcome must be one of two. */
static int end(fk_job job, int one, int other)
{
	int outcome;

	must(fk_wait(c, job, FK_FOREVER));
	outcome = fk_outcome(c, job, NULL, NULL);
	must_be(outcome == one || outcome == other || (twice && outcome == FK_LOST),
		fk_outcome_name(outcome));
	must(fk_release(c, job));
	return outcome;
}

/* Jobs like those of the first two clients reach the site; most are idempotent. */
static void submit_many(void)
{
	struct oracle_job jobs[64];

	must(oracle_submit(&o, c, ARRAY_SIZE(jobs), NULL, FK_WAIT_ROOM | FK_IDEMPOTENT, jobs));
	for (uint32_t i = 0; i < ARRAY_SIZE(jobs); i++)
		must_be(oracle_end(&o, c, &jobs[i]) == FK_DONE, "an idempotent job is not done");
}

/* It sleeps until one of them has ended, again and again. */
static void wait_for_any(void)
{
	struct oracle_job jobs[64];
	fk_job handles[64];
	uint32_t n = ARRAY_SIZE(jobs);

	must(oracle_submit(&o, c, n, NULL, FK_WAIT_ROOM | FK_IDEMPOTENT, jobs));
	for (uint32_t i = 0; i < n; i++)
		handles[i] = jobs[i].job;
	while (n) {
		size_t i;

		must(fk_wait_any(c, handles, n, FK_FOREVER, &i));
		must_be(fk_poll(c, handles[i]) == 1, "a job that has ended has not");
		handles[i] = handles[--n];
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(jobs); i++)
		must_be(oracle_end(&o, c, &jobs[i]) == FK_DONE, "an idempotent job is not done");
}

/* A job with continuations to steal during all of its time. */
static void fork_often(void)
{
	fk_job lost = submit("crash:spin", 0, 2), again = submit("crash:spin", FK_IDEMPOTENT, 2);

	(void)end(lost, FK_DONE, FK_LOST);
	(void)end(again, FK_DONE, FK_DONE);
}

/* More jobs than workers, each longer than a time slice; and short ones that preempt them. */
static void take_turns(void)
{
	fk_job jobs[4];

	for (uint32_t i = 0; i < ARRAY_SIZE(jobs); i++)
		jobs[i] = submit("crash:spin", i % 2 ? FK_IDEMPOTENT : 0, 20);
	for (uint32_t i = 0; i < ARRAY_SIZE(jobs); i++)
		(void)end(jobs[i], FK_DONE, i % 2 ? FK_DONE : FK_LOST);
}

static void go_to_and_fro(void)
{
	fk_job lost = submit("count:go", 0, 50), again = submit("count:go", FK_IDEMPOTENT, 50);
	int64_t n = 0;

	(void)end(lost, FK_DONE, FK_LOST);
	must(fk_wait(c, again, FK_FOREVER));
	must(fk_result(c, again, &n, sizeof(n)));
	must_be(n == 50, "it came back from elsewhere");
	must(fk_release(c, again));
}

/* Endless jobs: some run, some are queued. */
static void cancel(void)
{
	fk_job jobs[6];

	for (uint32_t i = 0; i < ARRAY_SIZE(jobs); i++)
		jobs[i] = submit("crash:spin", i % 2 ? FK_IDEMPOTENT : 0, 3600000);
	(void)poll(NULL, 0, 1);
	for (uint32_t i = ARRAY_SIZE(jobs); i--;)
		must(fk_cancel(c, jobs[i]));
	for (uint32_t i = 0; i < ARRAY_SIZE(jobs); i++)
		(void)end(jobs[i], FK_CANCELLED, FK_LOST);
}

/* If a pool dies while it writes back, bytes of both kinds remain. */
static void change_buffers(void)
{
	struct fk_buffer b = { .size = BYTES };
	const fk_task *task;
	fk_job job;

	must(fk_task_find(c, "bytes:invert", &task));
	must(fk_alloc(c, b.size, &b.data));
	memset(b.data, 1, b.size);
	must(fk_submit(c, task, FK_WAIT_ROOM, &job, b));
	if (end(job, FK_DONE, FK_LOST) == FK_DONE)
		for (size_t i = 0; i < b.size; i++)
			must_be(((unsigned char *)b.data)[i] == 0xfe, "a byte is not inverted");
	must(fk_free(c, b.data));
}

/* Long jobs without continuations, and after them more jobs than one worker takes at once. */
static void wait_in_queues(void)
{
	static struct fk_request requests[BATCH];
	static fk_job jobs[BATCH];
	static const int64_t args[2] = { 40, 2 };
	fk_job long_ones[2];
	const fk_task *add;

	must(fk_task_find(c, "null:add", &add));
	for (uint32_t i = 0; i < BATCH; i++)
		requests[i] = (struct fk_request){
			.task = add,
			.args = args,
			.size = sizeof(args),
			.options.flags = i % 2 ? FK_IDEMPOTENT : 0,
		};
	for (uint32_t i = 0; i < ARRAY_SIZE(long_ones); i++)
		long_ones[i] = submit("crash:hang", 0, 3);
	must(fk_submit_batch(c, requests, BATCH, FK_WAIT_ROOM, jobs));
	for (uint32_t i = 0; i < BATCH; i++)
		(void)end(jobs[i], FK_DONE, i % 2 ? FK_DONE : FK_LOST);
	for (uint32_t i = 0; i < ARRAY_SIZE(long_ones); i++)
		(void)end(long_ones[i], FK_DONE, FK_LOST);
}

static void visitor(void)
{
	const int64_t hour = 3600000;
	const fk_task *task;
	int64_t n = 0;
	fk_job job;
	int r;

	must(fk_open(d.socket, NULL, &c));
	r = fk_call(c, "null:add", &n, INT64_C(40), INT64_C(2));
	must_be(r < 0 || n == 42, "a sum");
	/* Jobs that it leaves are dropped. */
	must(fk_task_find(c, "crash:spin", &task));
	must(fk_submit_packed(c, task, &hour, sizeof(hour), 0, &job));
}

/* Uids that connect once and leave: some are kept, the tenants of others are removed. */
static void have_visitors(void)
{
	static uint32_t visits;
	uint32_t uid = VISITOR_UID - visits++ % VISITORS;

	must_be(daemon_reap(daemon_client(visitor, uid)) == 0, "a visitor");
}

/* Once: then it is loaded. */
static void load_a_module(void)
{
	static bool loaded;
	char from[4096], text[1024];
	const char *top = getenv("top_builddir");

	(void)snprintf(from, sizeof(from), "%s/tests/support/modules/later/.libs/join000.so",
		       top ? top : ".");
	if (!loaded)
		must_be(daemon_ctl(&d, text, sizeof(text), "modules", "load", from, NULL) == 0,
			"a module");
	loaded = true;
	submit_many();
}

struct row {
	enum crash_site site;
	uint32_t after; /* passes before the crash, so that other jobs run */
	void (*act)(void);
	bool killed; /* the pool before it is killed */
};

#define SITE(site, after, act)                                                                     \
	{                                                                                          \
		CRASH_AT_##site, after, act, false                                                 \
	}
#define NEXT(site, act)                                                                            \
	{                                                                                          \
		CRASH_AT_##site, 0, act, true                                                      \
	}

static const struct row rows[] = {
	SITE(intake_step, 200, submit_many),	   SITE(intake_accepted, 200, submit_many),
	SITE(intake_repointed, 1, wait_in_queues), SITE(intake_walked, 100, submit_many),
	SITE(intake_head, 100, submit_many),	   SITE(record_copying, 2, change_buffers),
	SITE(queue_linked, 5, wait_in_queues),	   SITE(queue_picked, 50, submit_many),
	SITE(roots_published, 5, wait_in_queues),  SITE(roots_taken, 100, submit_many),
	SITE(roots_stolen, 1, wait_in_queues),	   SITE(roots_recalled, 0, wait_in_queues),
	NEXT(requeue_found, wait_in_queues),	   NEXT(requeue_pushed, wait_in_queues),
	SITE(job_running, 200, submit_many),	   SITE(job_begun, 200, submit_many),
	SITE(job_loaded, 200, submit_many),	   SITE(job_copied, 2, change_buffers),
	SITE(job_finishing, 200, submit_many),	   SITE(job_finishing, 300, submit_many),
	SITE(job_timed, 200, submit_many),	   SITE(job_ended, 20, submit_many),
	SITE(job_watched, 1, wait_for_any),	   SITE(job_told, 200, submit_many),
	SITE(job_counted, 1, submit_many),	   SITE(job_woken, 200, submit_many),
	SITE(job_freed, 200, submit_many),	   SITE(job_dropping, 1, cancel),
	SITE(job_cancelling, 1, cancel),	   SITE(abort_put, 1, cancel),
	SITE(strand_publishing, 5, fork_often),	   SITE(strand_published, 5, fork_often),
	SITE(steal_taken, 5, fork_often),	   SITE(steal_adopted, 5, fork_often),
	SITE(join_child, 5, fork_often),	   SITE(join_last, 5, fork_often),
	SITE(join_waiting, 5, fork_often),	   SITE(unwind_dropped, 1, cancel),
	SITE(preempted_put, 1, take_turns),	   SITE(preempted_moved, 1, take_turns),
	SITE(preempted_taken, 1, take_turns),	   SITE(mail_put, 5, go_to_and_fro),
	SITE(mail_taken, 5, go_to_and_fro),	   SITE(client_shown, 4, have_visitors),
	SITE(client_dying, 1, have_visitors),	   SITE(client_unmapped, 1, have_visitors),
	SITE(client_released, 1, have_visitors),   SITE(tenant_closed, 1, have_visitors),
	SITE(tenant_unmapped, 1, have_visitors),   SITE(module_joined, 0, load_a_module),
	SITE(channel_queued, 6, have_visitors),	   SITE(channel_sent, 6, have_visitors),
};

static _Noreturn void third(const struct row *row)
{
	struct fk_open_options options = { .n_jobs = 2 * BATCH };

	twice = row->killed;
	if (row->act != have_visitors)
		must(fk_open(d.socket, &options, &c));
	while (!atomic_load(&o.shared->stop)) {
		row->act();
		atomic_fetch_add(&shared->rounds, 1);
	}
	if (c)
		must(fk_close(c));
	_exit(0);
}

/* ------------------------------------------------------------------------ the test */

static uint64_t all_ended(void)
{
	return atomic_load(&shared->ended[0]) + atomic_load(&shared->ended[1]) +
	       atomic_load(&shared->rounds);
}

/* They may have ended, which is found when they are reaped. */
static void see_all_go_on(const pid_t pids[3])
{
	uint64_t rounds = atomic_load(&shared->rounds);

	for (uint32_t i = 0; i < 2; i++) {
		uint64_t seen = atomic_load(&shared->ended[i]);

		DAEMON_AWAIT(atomic_load(&shared->ended[i]) > seen + 16 ||
			     daemon_has_ended(pids[i]));
	}
	DAEMON_AWAIT(atomic_load(&shared->rounds) > rounds + 1 || daemon_has_ended(pids[2]));
}

/* Kills the pool until the next one reaches the site, because of jobs that were left. Returns the
 * number of kills. */
static uint64_t kill_until_reached(const char *site, const pid_t pids[3])
{
	uint64_t before = daemon_crashes(&d), n = 0;

	do {
		see_all_go_on(pids);
		daemon_mine(&d, site, 0);
		ck_assert_int_eq(kill(daemon_pool(&d), SIGKILL), 0);
		n++;
		DAEMON_AWAIT(daemon_crashes(&d) >= before + n);
		see_all_go_on(pids);
	} while (daemon_is_mined(&d));
	return n;
}

static void die_there(const struct row *row)
{
	const char *site = crash_rows[row->site].name;
	struct oracle_verdict v;
	uint64_t deaths = 1;
	pid_t pids[3];

	shared = daemon_share(sizeof(*shared));
	daemon_mine(&d, site, row->after);
	if (row->killed)
		daemon_unmine(&d);
	daemon_start(&d, "--workers=2", "--jobs-max=2048", "--log-level=warning", NULL);
	oracle_init(&o, d.directory);
	for (uint32_t i = 0; i < 2; i++) {
		pids[i] = daemon_fork(i ? OTHER_UID : DAEMON_UID);
		if (pids[i] == 0)
			_exit(oracle_serve(&o, d.socket, &shared->ended[i]));
	}
	pids[2] = daemon_fork(DAEMON_UID);
	if (pids[2] == 0)
		third(row);
	if (row->killed)
		deaths += kill_until_reached(site, pids);
	DAEMON_AWAIT_AMID(!daemon_is_mined(&d), all_ended());
	DAEMON_AWAIT(daemon_crashes(&d) == deaths);
	see_all_go_on(pids);
	atomic_store(&o.shared->stop, 1);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_msg(daemon_reap(pids[i]) == 0, "%s: client %u", site, i);
	ck_assert_uint_eq(daemon_crashes(&d), deaths);
	ck_assert_msg(oracle_judge(&o, &v), "%s: %s; the log is %s", site, v.wrong, d.log);
	ck_assert_uint_eq(v.outcomes[FK_CANCELLED] + v.refused + v.orphans, 0);
	/* A job under which two pools died is LOST. */
	ck_assert_msg(v.lost_idempotent == 0 || row->killed, "%s: an idempotent job is lost", site);
	oracle_fini(&o);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

START_TEST(each_job_ends_once_if_the_pool_dies_at_any_site)
{
	const char *only = getenv("SITE");

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *site = crash_rows[rows[i].site].name;

		if (only && !streq(only, site))
			continue;
		/* Its modules have constructors, so that none can be loaded into a running pool. */
		if (daemon_sanitized() && rows[i].act == load_a_module)
			continue;
		/* All are of one uid then. */
		if (geteuid() != 0 && !strncmp(site, "tenant_", strlen("tenant_"))) {
			printf("left out: %s: only root has clients of other uids\n", site);
			continue;
		}
		/* The last name printed is the one that failed. */
		printf("%s\n", site);
		die_there(&rows[i]);
	}
}
END_TEST

START_TEST(every_site_of_the_pool_is_tried)
{
	SITES_CHECK(CRASH_POOL, rows);
}
END_TEST

CHECK_MAIN("pool_sites")
