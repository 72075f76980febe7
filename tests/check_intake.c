/* SPDX-License-Identifier: MIT */
/* check_intake.c - from ring to root deque, in a whole pool: chains, deadlines, batches */
#include <stdio.h>
#include <string.h>

#include <forkd/task.h>

#include "common/clock.h"
#include "common/util.h"
#include "shm/futex.h"
#include "shm/wake.h"
#define CHECK_TIMEOUT 60
#include "tests/check_unit.h"
#include "tests/rig.h"

#define LAST UINT32_MAX

static struct rig rig;
static _Atomic uint64_t ran;
static _Atomic uint32_t flag;

FK_TASK(fk_void, count, (), )
{
	atomic_fetch_add(&ran, 1);
	FK_LEAF();
}
FK_BODY(count)
{
	FK_RETURN();
}
FK_END(count)

FK_TASK(fk_void, set, (), )
{
	atomic_fetch_add(&ran, 1);
	atomic_store(&flag, 1);
	FK_LEAF();
}
FK_BODY(set)
{
	FK_RETURN();
}
FK_END(set)

/* Forks until a queued job has set the flag. */
FK_TASK(fk_void, await, (), )
FK_NO_LEAF(await)
{
	while (!atomic_load(&flag)) {
		FK_FORK_VOID(count);
		FK_JOIN();
	}
	FK_RETURN();
}
FK_END(await)

/* Keeps its worker, and looks at nothing, until the flag is set. */
FK_TASK(fk_void, hold, (), )
{
	while (!atomic_load(&flag))
		;
	FK_LEAF();
}
FK_BODY(hold)
{
	FK_RETURN();
}
FK_END(hold)

FK_EXPORT(count, "-> ", 0, "Counts that it ran")
FK_EXPORT(set, "-> ", 0, "Sets the flag")
FK_EXPORT(await, "-> ", 0, "Forks until the flag is set")
FK_EXPORT(hold, "-> ", 0, "Waits for the flag")
FK_MODULE(intake, "What check_intake runs")

static void start(uint32_t workers)
{
	atomic_store(&ran, 0);
	atomic_store(&flag, 0);
	rig_start(&rig, workers, &fk_module, false);
}

/* Fills a record; next: the chain's next one, or LAST. */
static struct job *fill(uint32_t index, const char *task, uint32_t next)
{
	struct job *job = &rig.jobs[index];
	int t = board_find_task(rig.pool->board, task);

	ck_assert_int_ge(t, 0);
	rig.generation[index]++;
	atomic_store(&job->task, (uint32_t)t);
	atomic_store(&job->task_hash, rig.pool->board->tasks[t].hash);
	atomic_store(&job->generation, rig.generation[index]);
	atomic_store(&job->args_size, 0);
	atomic_store(&job->deadline_ns, 0);
	atomic_store(&job->weight, 0);
	atomic_store(&job->next, next == LAST ? 0 : next + 1);
	atomic_store(&job->state, job_state(rig.generation[index], JOB_PENDING));
	return job;
}

/* One word for a ring. */
static void publish(uint32_t index, uint32_t ring)
{
	uint64_t position;

	while (ring_push(&rig.tenant->rings[ring], ring_payload(0, 1, index), &position) != RING_OK)
		sched_yield();
	tenant_mark(rig.tenant, ring);
	wake_published();
	if (!worker_wake_one(rig.pool, NULL))
		pool_wake_dispatcher(rig.pool);
}

static uint64_t refused(void)
{
	return rig_counter(&rig, refused);
}

START_TEST(a_chain_of_all_records_is_one_word_and_each_runs_once)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers);
		for (uint32_t round = 1; round <= 20; round++) {
			/* Against their order in the table; weights of all kinds. */
			for (uint32_t i = 0; i < RIG_JOBS; i++)
				atomic_store(&fill(i, "intake:count", i ? i - 1 : LAST)->weight,
					     i * i * i);
			publish(RIG_JOBS - 1, round % workers);
			for (uint32_t i = 0; i < RIG_JOBS; i++)
				ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
			ck_assert_uint_eq(atomic_load(&ran), round * RIG_JOBS);
		}
		ck_assert_uint_eq(refused(), 0);
		ck_assert_uint_eq(rig_counter(&rig, garbage), 0);
		ck_assert_uint_eq(rig_counter(&rig, drained), 20 * RIG_JOBS);
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(a_walk_goes_on_where_it_was_left)
{
	start(1);
	/* The first words use up some of the steps of a drain, so the chain takes two. */
	atomic_store(&flag, 0);
	fill(0, "intake:hold", LAST);
	publish(0, 0);
	while (!rig_counter(&rig, roots))
		sched_yield();
	for (uint32_t i = 1; i < 100; i++) {
		fill(i, "intake:count", LAST);
		publish(i, 0);
	}
	for (uint32_t i = 100; i < RIG_JOBS; i++)
		fill(i, "intake:count", i + 1 < RIG_JOBS ? i + 1 : LAST);
	publish(100, 0);
	/* A second time, as a client that is up to no good: each is refused, and nothing else. */
	publish(100, 0);
	atomic_store(&flag, 1);
	for (uint32_t i = 0; i < RIG_JOBS; i++)
		ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
	fill(0, "intake:count", LAST);
	publish(0, 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	ck_assert_uint_eq(atomic_load(&ran), RIG_JOBS);
	ck_assert_uint_eq(refused(), RIG_JOBS - 100);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_chain_that_is_a_ring_ends)
{
	start(1);
	fill(0, "intake:count", 1);
	fill(1, "intake:count", 2);
	fill(2, "intake:count", 0);
	fill(3, "intake:count", 3);
	publish(0, 0);
	publish(3, 0);
	fill(4, "intake:count", LAST);
	publish(4, 0);
	for (uint32_t i = 0; i < 5; i++)
		ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
	ck_assert_uint_eq(atomic_load(&ran), 5);
	/* As many steps as there are records, each. */
	ck_assert_uint_eq(refused(), RIG_JOBS - 3 + RIG_JOBS - 1);
	ck_assert_uint_eq(rig_counter(&rig, garbage), 2);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_chain_that_leads_nowhere_ends_there)
{
	static const uint32_t nowhere[] = { RIG_JOBS, RIG_JOBS + 1, 0x7fffffff, UINT32_MAX - 1 };

	start(1);
	for (uint32_t i = 0; i < ARRAY_SIZE(nowhere); i++) {
		fill(0, "intake:count", 1);
		fill(1, "intake:count", nowhere[i]);
		publish(0, 0);
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	}
	fill(0, "intake:count", LAST);
	publish(0, 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	ck_assert_uint_eq(rig_counter(&rig, garbage), ARRAY_SIZE(nowhere));
	rig_stop(&rig);
}
END_TEST

START_TEST(chains_that_share_records_run_each_once)
{
	start(2);
	for (uint32_t round = 0; round < 50; round++) {
		for (uint32_t i = 0; i < 100; i++)
			fill(i, "intake:count", i < 99 ? i + 1 : LAST);
		publish(0, 0);
		publish(50, 1);
		for (uint32_t i = 0; i < 100; i++)
			ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
		/* Both words are off the rings. */
		while (intake_pending(rig.pool))
			sched_yield();
	}
	ck_assert_uint_eq(atomic_load(&ran), 50 * 100);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_queued_job_past_its_deadline_expires_and_does_not_run)
{
	struct job *late, *early;

	start(1);
	late = fill(0, "intake:count", LAST);
	atomic_store(&late->deadline_ns, 1);
	publish(0, 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_EXPIRED);
	early = fill(1, "intake:count", LAST);
	atomic_store(&early->deadline_ns, UINT64_MAX);
	publish(1, 0);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	ck_assert_uint_eq(atomic_load(&ran), 1);
	ck_assert_uint_eq(rig_counter(&rig, jobs_failed), 1);
	rig_stop(&rig);
}
END_TEST

/* The job that ends it stands behind it in the same batch: nobody else can come to it. */
START_TEST(a_job_behind_another_of_its_batch_is_taken_back_and_goes_before_it)
{
	start(1);
	fill(0, "intake:await", 1);
	fill(1, "intake:set", LAST);
	publish(0, 0);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	ck_assert_uint_ge(rig_counter(&rig, moved), 1);
	rig_stop(&rig);
}
END_TEST

/* Its worker never looks; the idle one takes half of the batch in one step, then the rest. */
START_TEST(jobs_behind_one_that_keeps_its_worker_go_to_another)
{
	start(2);
	fill(0, "intake:hold", 1);
	for (uint32_t i = 1; i < 100; i++)
		fill(i, "intake:count", i < 99 ? i + 1 : LAST);
	publish(0, 0);
	for (uint32_t i = 1; i < 100; i++)
		ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
	ck_assert_uint_eq(job_outcome(&rig.jobs[0]), JOB_PENDING);
	atomic_store(&flag, 1);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	rig_stop(&rig);
}
END_TEST

START_TEST(what_a_job_used_is_charged_to_its_client)
{
	struct board_client *board;
	uint64_t before;

	start(2);
	board = &rig.pool->board->clients[0];
	before = atomic_load(&board->cpu_ns);
	fill(0, "intake:await", LAST);
	publish(0, 0);
	while (account_row(&rig.pool->workers[0].account) == ACCOUNT_NOBODY &&
	       account_row(&rig.pool->workers[1].account) == ACCOUNT_NOBODY)
		sched_yield();
	/* A whole job of one worker, by the clock that both have. */
	uint64_t from = clock_ns();

	while (clock_ns() < from + NSEC_PER_MSEC)
		sched_yield();
	fill(1, "intake:set", LAST);
	publish(1, 0);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	ck_assert_uint_ge(atomic_load(&board->cpu_ns) - before, NSEC_PER_MSEC);
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("intake", a_chain_of_all_records_is_one_word_and_each_runs_once,
	   a_walk_goes_on_where_it_was_left, a_chain_that_is_a_ring_ends,
	   a_chain_that_leads_nowhere_ends_there, chains_that_share_records_run_each_once,
	   a_queued_job_past_its_deadline_expires_and_does_not_run,
	   a_job_behind_another_of_its_batch_is_taken_back_and_goes_before_it,
	   jobs_behind_one_that_keeps_its_worker_go_to_another,
	   what_a_job_used_is_charged_to_its_client)
