/* SPDX-License-Identifier: MIT */
/* halt - a pool that finishes running jobs, and leaves queued ones to the next pool */
#define CHECK_TIMEOUT 60

#include "daemon/core/shutdown.h"

#include <check.h>
#include <sched.h>

#include "daemon/core/wakeup.h"
#include "daemon/jobs/ring_drain.h"
#include "daemon/jobs/job_hold.h"
#include "shm/ledger.h"
#include "tests/support/check_unit.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

#define QUEUED 20u
#define TREE   20

FK_MODULE(t, "test tasks")

static struct rig rig;

/* Starts n jobs that run until tasks_opened. */
static void start(uint32_t workers, uint32_t n, const char *task)
{
	int64_t arg = 1;

	rig_start(&rig, workers, &fk_module, false);
	for (uint32_t i = 0; i < n; i++)
		rig_submit(&rig, i, task, &arg, sizeof(arg));
	while (atomic_load(&tasks_reached) < n)
		sched_yield();
}

static void queue(uint32_t first)
{
	int64_t arg = TREE;

	for (uint32_t i = first; i < first + QUEUED; i++)
		rig_submit(&rig, i, "t:fib", &arg, sizeof(arg));
}

static bool is_left(uint32_t job)
{
	uint32_t state = ledger_row(rig.pool->arena, job).state;

	return job_outcome(&rig.jobs[job]) == JOB_PENDING &&
	       (state == LEDGER_FREE || state == LEDGER_QUEUED);
}

static void wait_until_over(void)
{
	while (!shutdown_is_over(rig.pool))
		sched_yield();
}

static void not_over(void)
{
	for (uint32_t i = 0; i < 1000; i++) {
		ck_assert(!shutdown_is_over(rig.pool));
		sched_yield();
	}
}

START_TEST(running_jobs_end_and_queued_jobs_stay)
{
	start(2, 2, "t:held");
	queue(2);
	shutdown_begin(rig.pool);
	not_over();
	atomic_store(&tasks_opened, 1);
	wait_until_over();
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_uint_eq(job_outcome(&rig.jobs[i]), JOB_DONE);
	for (uint32_t i = 2; i < 2 + QUEUED; i++)
		ck_assert(is_left(i));
	/* The queued jobs stay queued. */
	queue(2 + QUEUED);
	rig_stop(&rig);
}
END_TEST

/* As long as the dispatcher runs, some worker looks at all rings. */
static void wait_until_idle(void)
{
	while (atomic_load(&rig.pool->idle.lazy.active) || drain_rings_pending(rig.pool))
		sched_yield();
}

START_TEST(idle_pool_that_halts_starts_nothing)
{
	start(2, 0, "t:held");
	shutdown_begin(rig.pool);
	queue(0);
	wait_until_over();
	wait_until_idle();
	for (uint32_t i = 0; i < QUEUED; i++)
		ck_assert(is_left(i));
	ck_assert_uint_eq(rig_counter(&rig, jobs_started), 0);
	ck_assert(shutdown_is_over(rig.pool));
	rig_stop(&rig);
}
END_TEST

START_TEST(forking_jobs_continue_on_all_workers_to_their_end)
{
	uint32_t done = 0, left = 0;

	/* Each of them is suspended for jobs that were submitted later. */
	start(2, 3, "t:until");
	queue(3);
	shutdown_begin(rig.pool);
	queue(3 + QUEUED);
	not_over();
	atomic_store(&tasks_opened, 1);
	wait_until_over();
	wait_until_idle();
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_uint_eq(job_outcome(&rig.jobs[i]), JOB_DONE);
	for (uint32_t i = 3; i < 3 + 2 * QUEUED; i++) {
		if (is_left(i))
			left++;
		else if (job_outcome(&rig.jobs[i]) == JOB_DONE)
			done++;
	}
	ck_assert_uint_eq(done + left, 2 * QUEUED);
	ck_assert_uint_ge(left, QUEUED);
	ck_assert_uint_eq(rig_counter(&rig, jobs_started), 3 + done);
	rig_stop(&rig);
}
END_TEST

START_TEST(declined_jobs_run_when_the_halt_is_revoked)
{
	int64_t arg = 1;

	start(2, 0, "t:held");
	shutdown_begin(rig.pool);
	for (uint32_t i = 0; i < QUEUED; i++)
		rig_submit(&rig, i, "t:held", &arg, sizeof(arg));
	wait_until_over();
	wait_until_idle();
	ck_assert_uint_eq(rig_counter(&rig, jobs_started), 0);
	shutdown_end(rig.pool);
	pool_wake_dispatcher(rig.pool);
	/* They run, and the later jobs wait. */
	while (rig_counter(&rig, jobs_started) < 2)
		sched_yield();
	shutdown_begin(rig.pool);
	/* The dispatcher's observations during the first halt do not count. */
	not_over();
	atomic_store(&tasks_opened, 1);
	wait_until_over();
	shutdown_end(rig.pool);
	pool_wake_dispatcher(rig.pool);
	for (uint32_t i = 0; i < QUEUED; i++)
		while (job_outcome(&rig.jobs[i]) == JOB_PENDING)
			sched_yield();
	for (uint32_t i = 0; i < QUEUED; i++)
		ck_assert_uint_eq(job_outcome(&rig.jobs[i]), JOB_DONE);
	ck_assert_uint_eq(rig_counter(&rig, jobs_started), QUEUED);
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("halt")
