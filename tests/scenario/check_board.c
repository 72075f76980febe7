/* SPDX-License-Identifier: MIT */
/* scenario: the board has correct figures of workers, clients and tasks while jobs run */
#include <unistd.h>

#include "daemon/core/cpu_account.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"

#define JOBS 5u

static struct daemon d;
static volatile uint8_t *gate_open;

static uint64_t cpu(const fk_client *c)
{
	return board_client_cpu(d.board, c->id, clock_ns());
}

static uint64_t busy(uint32_t worker)
{
	return stopwatch_read(&d.board->running[worker].busy, clock_ns());
}

static uint64_t asleep(uint32_t worker)
{
	return stopwatch_read(&d.board->running[worker].asleep, clock_ns());
}

static uint64_t loads(const char *task, uint64_t *ret_run_ns)
{
	int index = board_find_task(d.board, task);
	uint64_t jobs;

	ck_assert_int_ge(index, 0);
	board_task_load(d.board, (uint32_t)index, &jobs, ret_run_ns);
	return jobs;
}

/* A job keeps the only worker, and JOBS more are pending on the board. */
static fk_job fill(fk_client *c, fk_job *ret_jobs)
{
	fk_job gate = jobs_hold_one(&d, c, 0, &gate_open);

	for (uint32_t i = 0; i < JOBS; i++)
		ret_jobs[i] = jobs_submit(c, "fib:fib", 0, 10, 0);
	/* The dispatcher takes jobs that no worker takes. */
	DAEMON_AWAIT(board_client_pending(d.board, c->id) == 1 + JOBS);
	return gate;
}

/* If no job waits, the dispatcher settles the accounts every STARVED_TICK while a worker is awake.
 * So the board shows the time of a running job, and at most the time that its worker has worked. */
START_TEST(running_job_is_charged_to_its_client_and_its_worker)
{
	fk_client *c;
	fk_job gate;
	uint64_t before;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	ck_assert_uint_eq(cpu(c), 0);
	gate = jobs_hold(c, 0, &gate_open);
	for (uint32_t i = 0; i < 5; i++) {
		before = atomic_load(&d.board->clients[c->id].cpu_ns);
		DAEMON_AWAIT(atomic_load(&d.board->clients[c->id].cpu_ns) > before);
		ck_assert_uint_ge(cpu(c), before);
	}
	*gate_open = 1;
	jobs_see_end(c, gate, "DONE");
	/* Charged by now, and not more than that. */
	DAEMON_AWAIT(atomic_load(&d.board->running[0].job) == UINT32_MAX);
	before = busy(0);
	ck_assert_uint_gt(before, 3 * NSEC_PER_MSEC);
	ck_assert_uint_eq(cpu(c), atomic_load(&d.board->clients[c->id].cpu_ns));
	ck_assert_uint_le(cpu(c), before + ACCOUNT_STALE);
	ck_assert_uint_eq(busy(0), before);
	jobs_end(&d, c);
}
END_TEST

/* The sleep ends with the wake for a job, and another one begins after it. */
START_TEST(sleeping_worker_rests_and_one_with_a_job_does_not)
{
	fk_client *c;
	fk_job gate;
	uint64_t before;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	DAEMON_AWAIT(asleep(0) > NSEC_PER_MSEC);
	gate = jobs_hold_one(&d, c, 0, &gate_open);
	before = asleep(0);
	DAEMON_AWAIT(busy(0) > NSEC_PER_MSEC);
	ck_assert_uint_eq(asleep(0), before);
	*gate_open = 1;
	jobs_see_end(c, gate, "DONE");
	DAEMON_AWAIT(asleep(0) > before);
	jobs_end(&d, c);
}
END_TEST

START_TEST(jobs_are_pending_until_they_end_and_count_for_their_task)
{
	fk_job gate, jobs[JOBS];
	uint64_t run_ns = 0;
	fk_client *c;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	gate = fill(c, jobs);
	ck_assert_uint_eq(loads("fib:fib", &run_ns), 0);
	*gate_open = 1;
	for (uint32_t i = 0; i < JOBS; i++)
		jobs_see(c, jobs[i], 55);
	jobs_see_end(c, gate, "DONE");
	ck_assert_uint_eq(board_client_pending(d.board, c->id), 0);
	ck_assert_uint_eq(loads("fib:fib", &run_ns), JOBS);
	ck_assert_uint_gt(run_ns, 0);
	ck_assert_uint_eq(loads("crash:hold", &run_ns), 1);
	ck_assert_uint_gt(run_ns, 0);
	jobs_end(&d, c);
}
END_TEST

/* Running jobs are lost, and do not count as ended. */
START_TEST(queued_jobs_are_pending_in_the_next_pool)
{
	fk_job gate, jobs[JOBS];
	fk_client *c;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	gate = fill(c, jobs);
	(void)jobs_replace_pool(&d);
	jobs_see_end(c, gate, "LOST");
	for (uint32_t i = 0; i < JOBS; i++)
		jobs_see(c, jobs[i], 55);
	ck_assert_uint_eq(board_client_pending(d.board, c->id), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(connection_shows_the_weight_of_its_user)
{
	char option[64];
	fk_client *c;

	(void)snprintf(option, sizeof(option), "--user-weights=%u:350", geteuid());
	c = JOBS_BEGIN(&d, "--workers=1", option, NULL);
	ck_assert_uint_eq(atomic_load(&d.board->clients[c->id].user_weight), 350);
	jobs_end(&d, c);
}
END_TEST

CHECK_MAIN("board")
