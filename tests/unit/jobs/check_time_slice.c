/* SPDX-License-Identifier: MIT */
/* intake_turn: which thread serves waiting jobs, and when, while all workers are busy, in a whole
 * pool. check_slice_timer.c tests the timers. */
#include "common/clock.h"
#include "common/util.h"
#include "daemon/core/preempt_request.h"
#include "daemon/core/wakeup.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/pool/dispatcher.h"
#include "daemon/jobs/job_end.h"
#include "daemon/sched/slice_timer.h"
#include "daemon/sched/job_switch.h"
#include "tests/support/intake_rig.h"

#define LONG_JOB (100 * NSEC_PER_MSEC)
#define LATER	 (3600 * NSEC_PER_SEC)

/* Before the workers start: this thread is the first worker, and runs row 0, which is long, as its
 * client's jobs are. */
static struct worker *run_by_hand(struct pool *pool)
{
	struct worker *w = &pool->workers[0];
	uint32_t row = LAST;

	slice_timer_begin(w); /* this thread's timer; its signal has no effect here */
	pool->fair->clients[0].mean = LONG_JOB;
	words(0, 0);
	ck_assert(intake_drain(w, &row));
	ck_assert_uint_eq(row, 0);
	w->job.row = row;
	intake_account(w, row, false, clock_ns());
	return w;
}

static void end_by_hand(struct worker *w)
{
	struct pool *pool = w->pool;

	intake_account(w, WORKER_NO_JOB, false, clock_ns());
	w->job.row = WORKER_NO_JOB;
	/* The switches of this thread: the worker's own thread counts from 0. */
	w->job.slept = w->job.lost_cpu = 0;
	job_drop(pool, 0, JOB_CANCELLED, 0);
	(void)preempt_take_request(w);
	slice_timer_end(w);
	wake_store(&pool->board->dispatcher, WAKE_LOOKING);
}

static void leave_waiting_by_hand(struct pool *pool)
{
	struct worker *w = run_by_hand(pool);

	words(1, 1);
	let_dispatcher_sleep(pool);
	ck_assert(!intake_preempt(w));
	ck_assert(!dispatcher_was_woken(pool));
	ck_assert_uint_ne(atomic_load(&w->slice_timer.at), 0);
	ck_assert(intake_is_watched(pool, NULL, LAST));
	/* Not if there is one more in a ring, */
	words(2, 2);
	ck_assert(!intake_is_watched(pool, NULL, LAST));
	intake_collect(pool, 0);
	ck_assert(intake_is_watched(pool, NULL, LAST));
	/* or the worker's job has ended. */
	intake_account(w, WORKER_NO_JOB, false, clock_ns());
	ck_assert(!intake_is_watched(pool, NULL, LAST));
	end_by_hand(w);
}

START_TEST(job_that_can_wait_wakes_no_worker)
{
	rig_prepare = leave_waiting_by_hand;
	start(1);
	rig_all_done(&rig, 1, 3);
	rig_stop(&rig);
}
END_TEST

/* A queued job now has a better claim than the running one. */
static void claim_by_hand(struct pool *pool)
{
	struct worker *w = run_by_hand(pool);
	struct fair *fair = pool->fair;
	uint64_t now;

	words(1, 1);
	let_dispatcher_sleep(pool);
	ck_assert(!intake_preempt(w));
	/* A long one: */
	atomic_store(&fair->rows[0].used, LATER);
	slice_timer_at(w, 0);
	ck_assert(intake_is_watched(pool, NULL, LAST));
	ck_assert_uint_ne(atomic_load(&w->slice_timer.at), 0);
	ck_assert_uint_le(atomic_load(&w->slice_timer.at), clock_ns() + FAIR_QUANTUM);
	intake_tell(w, 0);
	ck_assert(!dispatcher_was_woken(pool));
	/* The worker has a preempt request, and it is not known when it will serve it. Its timer
	 * does not expire again and again. */
	preempt_request(w);
	slice_timer_at(w, 0);
	now = clock_ns();
	ck_assert(intake_is_watched(pool, NULL, LAST));
	ck_assert_uint_ge(atomic_load(&w->slice_timer.at), now + FAIR_TURN_LONG);
	/* If it has taken the request without a decision, the request proves nothing. */
	worker_take_request(w);
	slice_timer_at(w, 0);
	ck_assert(intake_is_watched(pool, NULL, LAST));
	ck_assert_uint_le(atomic_load(&w->slice_timer.at), clock_ns() + FAIR_QUANTUM);
	ck_assert(preempt_take_request(w));
	/* For a short job the dispatcher is responsible, as there may be many. */
	fair->clients[0].mean = 0;
	ck_assert(!intake_is_watched(pool, NULL, LAST));
	/* The worker sets its timer: an earlier pass may have let the dispatcher sleep. */
	slice_timer_at(w, 0);
	ck_assert_uint_eq(intake_turn(w, NULL, 0, 0), 0);
	ck_assert_uint_ne(atomic_load(&w->slice_timer.at), 0);
	end_by_hand(w);
}

START_TEST(timer_is_set_for_a_worker_that_must_yield_to_a_long_job)
{
	rig_prepare = claim_by_hand;
	start(1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	rig_stop(&rig);
}
END_TEST

/* The job yields to one of two, which the worker starts itself. */
static void yield_by_hand(struct pool *pool)
{
	struct worker *w = run_by_hand(pool);

	words(1, 2);
	let_dispatcher_sleep(pool);
	pool->fair->clients[0].estimate = FAIR_BATCH; /* so that one job is a batch */
	atomic_store(&pool->fair->rows[0].used, LATER);
	ck_assert(intake_preempt(w));
	ck_assert(worker_roots_pending(pool));
	ck_assert_uint_eq(fair_queued(pool->fair), 1);
	ck_assert(!dispatcher_was_woken(pool));
	ck_assert_uint_ne(atomic_load(&w->slice_timer.at), 0);
	w->roots.preempted = WORKER_NO_JOB;
	end_by_hand(w);
}

START_TEST(yield_to_a_queued_job_wakes_no_worker)
{
	rig_prepare = yield_by_hand;
	start(1);
	rig_all_done(&rig, 1, 3);
	rig_stop(&rig);
}
END_TEST

static uint32_t dispatcher_state(void)
{
	return wake_state(wake_load(&rig.pool->board->dispatcher));
}

/* Two jobs alternate on the only worker: the dispatcher dozes. The third job ends them. */
START_TEST(job_submitted_without_a_wake_is_found_while_the_dispatcher_dozes)
{
	for (uint32_t round = 0; round < 20; round++) {
		start(1);
		for (uint32_t i = 0; i < 2; i++) {
			submit(i, "intake:await", 0);
		}
		while (rig_counter(&rig, jobs_started) < 2)
			sched_yield();
		/* A timer that expires at this moment does not count. */
		while (dispatcher_state() != WAKE_DOZING) {
			pool_wake_dispatcher(rig.pool);
			sched_yield();
		}
		fill(2, "intake:set", LAST);
		leave(2, 0);
		rig_all_done(&rig, 0, 3);
#ifndef FK_SANITIZE_THREAD /* which delays the last signal to a sleeping worker */
		/* No timer is set any more. */
		while (dispatcher_state() != WAKE_SLEEPING)
			sched_yield();
#endif
		rig_stop(&rig);
	}
}
END_TEST

CHECK_MAIN("intake_turn")
