/* SPDX-License-Identifier: MIT */
/*
 * intake: from the queues to the workers, in a whole pool: which worker gets a job, which jobs it
 * precedes, and what happens to jobs that do not start. check_ring_drain.c has the rings,
 * check_time_slice.c the threads that serve waiting jobs.
 */
#include "common/clock.h"
#include "common/util.h"
#include "daemon/jobs/attach.h"
#include "daemon/jobs/hang_detector.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/jobs/job_end.h"
#include "daemon/jobs/membership.h"
#include "daemon/jobs/pending.h"
#include "daemon/pool/work_search.h"
#include "tests/support/intake_rig.h"

START_TEST(queued_job_past_its_deadline_expires_and_does_not_run)
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
	ck_assert_uint_eq(rig_counter(&rig, jobs_failed) + rig_counter(&rig, jobs_dropped), 1);
	rig_stop(&rig);
}
END_TEST

/* The job that ends it is after it in the same batch, so no other worker can reach that job. */
START_TEST(later_job_of_a_batch_is_taken_back_and_runs_first)
{
	start(1);
	fill(0, "intake:await", 1);
	fill(1, "intake:set", LAST);
	publish(0, 0);
	rig_all_done(&rig, 0, 2);
	ck_assert_uint_ge(rig_counter(&rig, frames_suspended), 1);
	rig_stop(&rig);
}
END_TEST

/* Its worker never looks; the idle one takes half of the batch in one step, then the rest. */
START_TEST(later_jobs_of_a_batch_run_on_another_worker)
{
	start(2);
	fill(0, "intake:hold", 1);
	chain(1, 100, "intake:count", 0);
	publish(0, 0);
	rig_all_done(&rig, 1, 100);
	ck_assert_uint_eq(job_outcome(&rig.jobs[0]), JOB_PENDING);
	atomic_store(&flag, 1);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	rig_stop(&rig);
}
END_TEST

/* Returns the CPU time of both workers. */
static uint64_t both_had(void)
{
	return hang_cpu(&rig.pool->workers[0]) + hang_cpu(&rig.pool->workers[1]);
}

START_TEST(cpu_time_of_a_job_is_charged_to_its_client)
{
	struct board_client *board;
	uint64_t before, had;

	start(2);
	board = &rig.pool->board->clients[0];
	before = atomic_load(&board->cpu_ns);
	submit(0, "intake:await", 0);
	while (account_row(&rig.pool->workers[0].job.account) == ACCOUNT_NOBODY &&
	       account_row(&rig.pool->workers[1].job.account) == ACCOUNT_NOBODY)
		sched_yield();
	/* One worker searches in between, and sleeps. */
	had = both_had();
	while (both_had() < had + 10 * NSEC_PER_MSEC)
		sched_yield();
	submit(1, "intake:set", 0);
	rig_all_done(&rig, 0, 2);
	ck_assert_uint_ge(atomic_load(&board->cpu_ns) - before, NSEC_PER_MSEC);
	rig_stop(&rig);
}
END_TEST

/* Before the workers start: this thread is the only worker, busy, and no other worker searches. */
static void take_by_hand(struct pool *pool)
{
	struct worker *w = &pool->workers[0];
	uint32_t row = LAST;

	/* A single job wakes no other worker. */
	words(0, 0);
	let_dispatcher_sleep(pool);
	ck_assert(intake_drain(w, &row));
	ck_assert_uint_eq(row, 0);
	ck_assert_uint_eq(w->roots.deque.split, 0);
	ck_assert_uint_eq(pool->idle.root_words[0], 0);
	ck_assert(!dispatcher_was_woken(pool));
	job_drop(pool, row, JOB_CANCELLED, 0);

	/* For more jobs the dispatcher is woken. */
	words(1, 3);
	let_dispatcher_sleep(pool);
	ck_assert(intake_drain(w, &row));
	ck_assert_uint_eq(row, 1);
	ck_assert_uint_eq(deque_size(&w->roots.deque), 2);
	ck_assert(dispatcher_was_woken(pool));

	/* The worker runs that job: the later ones of the batch are taken back, and run first. */
	let_dispatcher_sleep(pool);
	w->job.row = row;
	ck_assert(intake_preempt(w));
	ck_assert_uint_eq(w->roots.preempted, row);
	ck_assert_uint_eq(deque_size(&w->roots.deque), 2);
	ck_assert(dispatcher_was_woken(pool));

	/* More jobs, to which the running one yields. */
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t taken, n;

		ck_assert_int_eq(deque_steal(&w->roots.deque, &taken, 1, &n), DEQUE_STOLEN);
		job_drop(pool, (uint32_t)taken, JOB_CANCELLED, 0);
	}
	words(4, 6);
	intake_collect(pool, 0);
	let_dispatcher_sleep(pool);
	ck_assert(intake_again(w, &row));
	ck_assert_uint_eq(row, 4);
	ck_assert_uint_eq(deque_size(&w->roots.deque), 2);
	ck_assert(dispatcher_was_woken(pool));
	job_drop(pool, 1, JOB_CANCELLED, 0);
	job_drop(pool, row, JOB_CANCELLED, 0);
	w->job.row = WORKER_NO_JOB;
	/* Each thread counts in the counters that it alone writes. */
	ck_assert_uint_eq(w->counters->drained, 4);
	ck_assert_uint_eq(w->counters->jobs_dropped, 0);
	ck_assert_uint_eq(pool->board->counters[BOARD_POOL].drained, 3);
	ck_assert_uint_eq(pool->board->counters[BOARD_POOL].jobs_dropped, 5);
	wake_store(&pool->board->dispatcher, WAKE_LOOKING);
}

START_TEST(surplus_jobs_taken_by_a_worker_are_run)
{
	rig_prepare = take_by_hand;
	start(1);
	rig_all_done(&rig, 5, 7);
	ck_assert_uint_eq(atomic_load(&ran), 2);
	rig_stop(&rig);
}
END_TEST

/* Before the workers start: this thread is worker 0 and searches for work. Worker 1 runs a job that
 * precedes all queued ones, and has published nothing. */
static void search_by_hand(struct pool *pool)
{
	struct worker *thief = &pool->workers[0], *victim = &pool->workers[1];
	uint64_t waits[] = { 0, 3600 * NSEC_PER_SEC, POLICY_ASK_MAX }, from;
	uint32_t row = LAST;

	for (uint32_t i = 0; i < ARRAY_SIZE(waits); i++) {
		thief->thief.ask_wait = waits[i];
		words(i, i);
		atomic_store(&pool->fair->behind, 1);
		ck_assert_int_eq(worker_find(thief, &row), WORKER_ROOT);
		ck_assert_uint_eq(row, i);
		job_drop(pool, row, JOB_CANCELLED, 0);
		/* Once per interval, not once per search. */
		ck_assert_uint_eq(thief->counters->steal_requests, 1 + i / 2);
		ck_assert_int_eq(!atomic_load(&victim->engine.fk.limit), i != 1);
		worker_take_request(victim);
		for (from = clock_ns(); clock_ns() < from + POLICY_ASK_MAX;)
			;
	}
	atomic_store(&pool->fair->behind, 0);
}

START_TEST(worker_with_a_queued_job_requests_the_work_that_goes_before_it)
{
	by_hand(2, search_by_hand);
}
END_TEST

/* Before the workers start: a client that leaves a full queue. */
static void leave_by_hand(struct pool *pool)
{
	words(0, 2 * INTAKE_CUT);
	intake_collect(pool, 0);
	ck_assert_uint_eq(fair_queued(pool->fair), 2 * INTAKE_CUT + 1);
	clients_gone(pool, 0, 1);
	/* A bounded number at a time, and again at once as long as there may be more. */
	ck_assert_int_eq(intake_release(pool), INTAKE_MORE);
	ck_assert_uint_eq(fair_queued(pool->fair), INTAKE_CUT + 1);
	ck_assert_int_eq(intake_release(pool), INTAKE_MORE);
	ck_assert_uint_eq(pool->clients.entries[0].state, CLIENT_DYING);
	ck_assert_int_eq(intake_release(pool), INTAKE_NONE);
	ck_assert_uint_eq(pool->clients.entries[0].state, CLIENT_NONE);
	ck_assert_uint_eq(pool->board->counters[BOARD_POOL].jobs_dropped, 2 * INTAKE_CUT + 1);
}

START_TEST(jobs_of_a_client_that_left_end_some_at_a_time_without_a_pause)
{
	by_hand(1, leave_by_hand);
}
END_TEST

/* A draining pool waits for jobs that a worker has taken or suspended. */
START_TEST(draining_pool_is_not_empty_before_the_last_job_has_ended)
{
	start(2);
	fill(0, "intake:hold", LAST);
	atomic_store(&fill(1, "intake:count", LAST)->place, STRICT(0));
	atomic_store(&fill(2, "intake:count", LAST)->place, STRICT(1));
	publish(0, 0);
	publish(1, 0);
	publish(2, 0);
	ck_assert(!intake_is_empty(rig.pool));
	while (!rig_counter(&rig, jobs_started))
		sched_yield();
	/* One of these two waits for the worker that holds. */
	while (rig_counter(&rig, jobs_done) < 1)
		sched_yield();
	ck_assert(!intake_is_empty(rig.pool));
	atomic_store(&flag, 1);
	rig_all_done(&rig, 0, 3);
	while (!intake_is_empty(rig.pool))
		sched_yield();
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("intake")
