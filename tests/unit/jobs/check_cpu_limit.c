/* SPDX-License-Identifier: MIT */
/*
 * cpu_limit - jobs end when they have used job-cpu-max, and no others do
 *
 * Nothing here measures time: an endless job ends as EXPIRED, or the test hangs.
 */
#define CHECK_TIMEOUT 120

#include "daemon/jobs/cpu_limit.h"

#include <sched.h>

#include "daemon/core/cpu_account.h"
#include "daemon/pool/manager_requests.h"
#include "daemon/sched/fair_queue.h"
#include "shm/ledger.h"
#include "tests/support/check_unit.h"
#include "tests/support/quiet.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

static struct rig rig;

FK_MODULE(t, "test tasks")

static void start(uint32_t workers, const char *limit)
{
	atomic_store(&tasks_reached, 0);
	atomic_store(&tasks_opened, 0);
	rig_start(&rig, workers, &fk_module, false);
	ck_assert_int_eq(pool_set(rig.pool, "job-cpu-max", limit), 0);
}

static void stop(void)
{
	quiet(&rig);
	rig_stop(&rig);
}

static void submit(uint32_t job, const char *task, int64_t n)
{
	rig_submit(&rig, job, task, &n, sizeof(n));
}

static void expires(uint32_t job)
{
	ck_assert_uint_eq(rig_wait(&rig, job), JOB_EXPIRED);
	ck_assert_int_eq(atomic_load(&rig.jobs[job].code), JOB_CPU_EXCEEDED);
}

/* Each time all threads of the pool may sleep before the job. */
START_TEST(endless_jobs_end_at_the_limit)
{
	for (uint32_t workers = 1; workers <= 4; workers += 3) {
		start(workers, "5ms");
		for (uint32_t i = 0; i < 10; i++) {
			submit(1, "t:flat", 0);
			expires(1);
		}
		for (uint32_t job = 1; job <= 3; job++)
			submit(job, "t:flat", 0);
		for (uint32_t job = 1; job <= 3; job++)
			expires(job);
		stop();
	}
}
END_TEST

START_TEST(jobs_below_the_limit_have_their_results)
{
	start(2, "1000s");
	for (uint32_t i = 0; i < 50; i++) {
		submit(1, "t:fib", 15);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
		ck_assert_int_eq(*(int64_t *)rig.jobs[1].result, 610);
	}
	/* A row that is used again begins at 0: it would need these many limits. */
	ck_assert_int_eq(pool_set(rig.pool, "job-cpu-max", "10ms"), 0);
	submit(1, "t:flat", 0);
	expires(1);
	ck_assert_int_eq(pool_set(rig.pool, "job-cpu-max", "1000s"), 0);
	submit(1, "t:fib", 15);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	stop();
}
END_TEST

START_TEST(limit_that_is_set_while_a_job_runs_ends_it)
{
	start(2, "0");
	for (uint32_t i = 0; i < 10; i++) {
		ck_assert_int_eq(pool_set(rig.pool, "job-cpu-max", i % 2 ? "1000s" : "0"), 0);
		submit(1, "t:flat", 0);
		while (ledger_row(rig.pool->arena, 1).state != LEDGER_RUNNING)
			sched_yield();
		ck_assert_uint_eq(job_outcome(&rig.jobs[1]), JOB_PENDING);
		ck_assert_int_eq(pool_set(rig.pool, "job-cpu-max", "1ms"), 0);
		expires(1);
	}
	stop();
}
END_TEST

/* A job that has an outcome keeps it, while it uses more. */
START_TEST(cancelled_job_over_the_limit_is_CANCELLED)
{
	start(1, "0");
	submit(1, "t:held", 7);
	while (!atomic_load(&tasks_reached))
		sched_yield();
	rig_cancel(&rig, 1);
	ck_assert_int_eq(pool_set(rig.pool, "job-cpu-max", "1ns"), 0);
	while (!atomic_load(&rig.pool->cpu_limit.watched))
		sched_yield();
	atomic_store(&tasks_opened, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_CANCELLED);
	stop();
}
END_TEST

START_TEST(dispatcher_checks_while_a_job_runs_and_no_longer)
{
	/* The last check comes when four workers could have used 4 s. */
	start(4, "4s");
	for (uint32_t i = 0; i < 2; i++) {
		submit(1, "t:held", 7);
		while (!atomic_load(&rig.pool->cpu_limit.watched))
			sched_yield();
		atomic_store(&tasks_opened, 1);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
		while (atomic_load(&rig.pool->cpu_limit.watched))
			sched_yield();
		atomic_store(&tasks_opened, 0);
	}
	stop();
}
END_TEST

CHECK_MAIN("cpu_limit")
