/* SPDX-License-Identifier: MIT */
/*
 * chain: batches of jobs, and pools that die while they drain or run them: each job ends once, and
 * each group counts it once
 *
 * The sites where a pool is killed exist only with --enable-crash-sites (common/crash_site.h).
 * Without them only the other tests run.
 */

#include "client/lib/client.h"
#include "tests/support/jobs.h"
#define CHECK_TIMEOUT 240
#include "tests/support/check_unit.h"

#define JOBS 1024u

static struct daemon d;
static fk_client *c;
static struct fk_request requests[JOBS];
static int64_t numbers[JOBS][2];
static fk_job jobs[JOBS];

static void open_client(void)
{
	struct fk_open_options options = { .n_jobs = JOBS };

	ck_assert_msg(fk_open(d.socket, &options, &c) == 0, "%s", fk_error_text());
	for (uint32_t i = 0; i < JOBS; i++) {
		numbers[i][0] = i;
		numbers[i][1] = 1000;
		requests[i] = (struct fk_request){
			.task = jobs_task(c, "null:add"),
			.args = numbers[i],
			.size = 16,
		};
	}
}

static uint32_t count_of(fk_group group)
{
	return group_count(group_load(&c->groups[group & 0xffffu]));
}

#ifdef FK_CRASH_SITES
/* A chain of n jobs in one group, every other one idempotent; then a job and a chain that are
 * idempotent, as another worker may have begun them. begun: some were taken off the ring before the
 * walk in which the pool dies, and may run then; all are idempotent. */
static void die_in_a_walk(const char *site, uint32_t after, uint32_t n, bool begun)
{
	fk_group group;

	daemon_mine(&d, site, after);
	daemon_start(&d, "--workers=2", NULL);
	open_client();
	ck_assert_int_eq(fk_group_new(c, &group), 0);
	for (uint32_t i = 0; i < n + 4; i++)
		requests[i].options.flags = begun || i >= n || i % 2 ? FK_IDEMPOTENT : 0;
	for (uint32_t i = 0; i < n; i++)
		requests[i].options.group = group;
	ck_assert_int_eq(fk_submit_batch(c, requests, n, 0, jobs), 0);
	ck_assert_int_eq(fk_submit_batch(c, requests + n, 1, 0, jobs + n), 0);
	ck_assert_int_eq(fk_submit_batch(c, requests + n + 1, 3, 0, jobs + n + 1), 0);
	ck_assert_int_eq(fk_group_wait(c, group, FK_FOREVER), 0);
	/* Nothing is lost; and each record is reused at once. */
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < n + 4; i++) {
			jobs_see(c, jobs[i], i + 1000);
			if (!round)
				ck_assert_int_eq(fk_submit_batch(c, &requests[i], 1, 0, &jobs[i]),
						 0);
		}
	}
	ck_assert(!daemon_is_mined(&d));
	ck_assert_uint_eq(daemon_crashes(&d), 1);
	ck_assert_int_eq(fk_group_wait(c, group, FK_FOREVER), 0);
	DAEMON_AWAIT(count_of(group) == 0);
	ck_assert_uint_eq(daemon_counter(&d, "malformed_slots"), 0);
	ck_assert_uint_eq(daemon_counter(&d, "jobs_refused"), 0);
	jobs_end(&d, c);
}

START_TEST(each_job_of_a_chain_ends_once_wherever_the_pool_dies_in_its_walk)
{
	for (uint32_t after = 0; after < 5; after++) {
		die_in_a_walk("intake_step", after, 5, false);
		die_in_a_walk("intake_accepted", after, 5, false);
	}
	for (uint32_t after = 0; after < 2; after++) {
		die_in_a_walk("intake_walked", after, 5, after > 0);
		die_in_a_walk("intake_head", after, 5, after > 0);
	}
}
END_TEST

START_TEST(interrupted_walk_of_a_chain_is_resumed)
{
	die_in_a_walk("intake_accepted", 700, JOBS - 4, true);
	die_in_a_walk("intake_step", JOBS - 5, JOBS - 4, true);
	die_in_a_walk("intake_repointed", 0, JOBS - 4, true);
}
END_TEST
#endif

START_TEST(group_counts_each_job_once_for_any_outcome)
{
	union fk_value gates[2] = { { .buf = { NULL, 1 } }, { .buf = { NULL, 1 } } };
	fk_group group, other;

	daemon_start(&d, "--workers=3", NULL);
	open_client();
	ck_assert_int_eq(fk_group_new(c, &group), 0);
	/* One is lost, one runs again, one crashes, and the others had not started. */
	for (uint32_t i = 0; i < 40; i++) {
		requests[i].options.group = group;
		if (i > 2)
			continue;
		requests[i].task = jobs_task(c, i == 2 ? "crash:segv" : "crash:hold");
		requests[i].size = 0;
		requests[i].options.flags = i == 1 ? FK_IDEMPOTENT : 0;
		if (i == 2)
			continue;
		ck_assert_int_eq(fk_alloc(c, 1, &gates[i].buf.data), 0);
		*(uint8_t *)gates[i].buf.data = 0;
		requests[i].values = &gates[i];
		requests[i].size = 1;
	}
	ck_assert_int_eq(fk_submit_batch(c, &requests[0], 1, 0, &jobs[0]), 0);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 1);
	ck_assert_int_eq(fk_submit_batch(c, &requests[1], 1, 0, &jobs[1]), 0);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold") == 2);
	ck_assert_int_eq(fk_submit_batch(c, &requests[2], 38, 0, &jobs[2]), 0);
	ck_assert_int_eq(jobs_outcome(c, jobs[0], NULL), FK_LOST);
	/* Until here both kept their workers: only the crashing job had started. */
	*(uint8_t *)gates[1].buf.data = 1;
	ck_assert_int_eq(fk_group_wait(c, group, FK_FOREVER), 0);
	ck_assert_int_eq(jobs_outcome(c, jobs[1], NULL), FK_DONE);
	ck_assert_int_eq(jobs_outcome(c, jobs[2], NULL), FK_CRASHED);
	for (uint32_t i = 3; i < 40; i++)
		jobs_see(c, jobs[i], i + 1000);
	/* Not only is no job pending: the count is right, and the group's number is reused. */
	DAEMON_AWAIT(count_of(group) == 0);
	ck_assert_int_eq(fk_group_free(c, group), 0);
	ck_assert_int_eq(fk_group_new(c, &other), 0);
	ck_assert_uint_eq(other & 0xffffu, group & 0xffffu);
	ck_assert_int_eq(fk_release_batch(c, jobs, 3), 0);
	jobs_end(&d, c);
}
END_TEST

/* Returns a worker that runs a job of this client. */
static const struct board_running *our_worker(void)
{
	for (uint32_t i = 0; i < d.board->manager.n_workers; i++) {
		const struct board_running *worker = &d.board->running[i];

		if (atomic_load(&worker->job) / d.board->manager.jobs_max == c->id)
			return worker;
	}
	return NULL;
}

START_TEST(board_shows_whose_job_a_worker_runs)
{
	const struct board_running *worker = NULL;
	uint64_t before = clock_ns();
	uint32_t task = UINT32_MAX;
	fk_job job;

	daemon_start(&d, "--workers=2", NULL);
	open_client();
	ck_assert_ptr_null(our_worker());
	ck_assert_int_eq(fk_submit(c, jobs_task(c, "fib:fib"), 0, &job, INT64_C(60)), 0);
	/* For a thief as well as for the worker that started it. */
	DAEMON_AWAIT((worker = our_worker()) != NULL &&
		     (task = board_job_task(d.board, atomic_load(&worker->job))) < LIMIT_TASKS);
	ck_assert_str_eq(d.board->tasks[task].name, "fib:fib");
	ck_assert_uint_ge(atomic_load(&worker->since_ns), before);
	ck_assert_uint_le(atomic_load(&worker->since_ns), clock_ns());
	jobs_cancel(c, job);
	DAEMON_AWAIT(our_worker() == NULL);
	jobs_end(&d, c);
}
END_TEST

CHECK_MAIN("chain")
