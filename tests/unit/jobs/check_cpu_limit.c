/* SPDX-License-Identifier: MIT */
/*
 * cpu_limit - jobs end when they have used job-cpu-max, and no others do
 *
 * Nothing here measures time: an endless job ends as EXPIRED, or the test hangs. The test of the
 * bound has a virtual clock.
 */
#define CHECK_TIMEOUT 120

#include "daemon/jobs/cpu_limit.h"

#include <sched.h>
#include <stdlib.h>

#include "common/util.h"
#include "daemon/core/cpu_account.h"
#include "daemon/core/worker_state.h"
#include "daemon/pool/manager_requests.h"
#include "daemon/sched/fair_queue.h"
#include "daemon/sched/job_switch.h"
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

/* A pool without threads, whose workers change their jobs when the test says so. */
#define SIM_LIMIT (2 * NSEC_PER_SEC)
#define SIM_JOBS  64u

static struct {
	struct pool pool;
	struct fair fair;
	struct worker workers[4];
	uint64_t now;
} sim;

static void *sim_zeros(size_t align, size_t size)
{
	void *zeros = aligned_alloc(align, align_up(size, align));

	ck_assert_ptr_nonnull(zeros);
	return memset(zeros, 0, align_up(size, align));
}

static void sim_start(uint32_t workers)
{
	struct pool *pool = &sim.pool;

	memset(&sim, 0, sizeof(sim));
	pool->n_workers = workers;
	pool->workers = sim.workers;
	pool->fair = &sim.fair;
	pool->board = sim_zeros(_Alignof(struct board), sizeof(*pool->board));
	pool->arena = sim_zeros(_Alignof(struct arena),
				arena_rows_offset() + SIM_JOBS * sizeof(uint64_t));
	atomic_store(&pool->settings.job_cpu_max, SIM_LIMIT);
	ck_assert_int_eq(fair_init(&sim.fair, pool->board->clients, 1, SIM_JOBS, 1, workers), 0);
	for (uint32_t i = 0; i < workers; i++)
		fair_add_account(&sim.fair, i, 0, &sim.workers[i].job.account);
	sim.now = 5 * NSEC_PER_SEC;
}

static void sim_stop(void)
{
	fair_fini(&sim.fair);
	free(sim.pool.arena);
	free(sim.pool.board);
}

/* All workers run this job for this time. Returns true if a check has found it at its limit. */
static bool sim_run(uint32_t row, uint64_t ns)
{
	uint64_t end = sim.now + ns, next;
	uint32_t before;

	for (uint32_t i = 0; i < sim.pool.n_workers; i++) {
		struct account *account = &sim.workers[i].job.account;
		uint64_t used = account_close(account, sim.now, &before);

		if (before != ACCOUNT_NOBODY)
			fair_charge(&sim.fair, before, used, false);
		account_open(account, row, sim.now);
		intake_watch_cpu(&sim.pool, row);
	}
	for (;; sim.now = next) {
		next = cpu_limits_check(&sim.pool, sim.now);
		if (sim.fair.settled_at == sim.now && fair_used(&sim.fair, row) >= SIM_LIMIT)
			return true;
		if (next > end)
			break;
	}
	sim.now = end;
	return false;
}

/* Job 1 is preempted by fresh jobs, for turns of all lengths, some of which no check falls into. */
START_TEST(preempted_job_uses_no_more_than_the_limit_and_the_bound)
{
	static const uint64_t turns[] = { 2, 3, 5, 9, 150 };

	for (uint32_t i = 0; i < 4 * ARRAY_SIZE(turns); i++) {
		uint64_t turn = turns[i / 4] * NSEC_PER_MSEC;
		uint64_t pause = CPU_LIMIT_CHECK - turn % CPU_LIMIT_CHECK;
		uint32_t fresh = 1;

		sim_start(i % 4 + 1);
		(void)sim_run(1, 1700 * NSEC_PER_MSEC / sim.pool.n_workers);
		/* The old job's rest of the limit would end within it. */
		ck_assert(!sim_run(2, 400 * NSEC_PER_MSEC));
		do
			ck_assert(!sim_run(2 + fresh++ % 4, pause));
		while (!sim_run(1, turn));
		ck_assert_uint_le(fair_used(&sim.fair, 1),
				  SIM_LIMIT + sim.pool.n_workers * CPU_LIMIT_CHECK);
		sim_stop();
	}
}
END_TEST

CHECK_MAIN("cpu_limit")
