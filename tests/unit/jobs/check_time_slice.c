/* SPDX-License-Identifier: MIT */
/*
 * intake_turn: which thread comes, and when, while all workers are busy and jobs wait, in a whole
 * pool. check_slice_timer.c has the alarms themselves.
 */
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

/* Before there are workers: this thread is the first one, and runs row 0, a long job, as its
 * client's jobs are. */
static struct worker *run_by_hand(struct pool *pool)
{
	struct worker *w = &pool->workers[0];
	uint32_t row = LAST;

	slice_timer_begin(w); /* this thread's: it takes the signal for nothing */
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
	/* or the worker is at an end. */
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

/* A queued job claims the worker by now. */
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
	/* Of one with a preempt request it is not known when it will look: it is not rung for again
	 * and again. */
	preempt_request(w);
	slice_timer_at(w, 0);
	now = clock_ns();
	ck_assert(intake_is_watched(pool, NULL, LAST));
	ck_assert_uint_ge(atomic_load(&w->slice_timer.at), now + FAIR_TURN_LONG);
	/* But if it has taken the request and not looked, the request says nothing. */
	worker_take_request(w);
	slice_timer_at(w, 0);
	ck_assert(intake_is_watched(pool, NULL, LAST));
	ck_assert_uint_le(atomic_load(&w->slice_timer.at), clock_ns() + FAIR_QUANTUM);
	ck_assert(preempt_take_request(w));
	/* For a short one the dispatcher is to come, as there may be many. */
	fair->clients[0].mean = 0;
	ck_assert(!intake_is_watched(pool, NULL, LAST));
	/* The worker has an alarm for it: an earlier look may have let the dispatcher sleep. */
	slice_timer_at(w, 0);
	ck_assert_uint_eq(intake_turn(w, NULL, 0, 0), 0);
	ck_assert_uint_ne(atomic_load(&w->slice_timer.at), 0);
	end_by_hand(w);
}

START_TEST(a_worker_that_is_to_make_way_for_a_long_job_is_rung_for_now)
{
	rig_prepare = claim_by_hand;
	start(1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	rig_stop(&rig);
}
END_TEST

/* The worker makes way for one of two, and starts that itself. */
static void make_way_by_hand(struct pool *pool)
{
	struct worker *w = run_by_hand(pool);

	words(1, 2);
	let_dispatcher_sleep(pool);
	pool->fair->clients[0].estimate = FAIR_BATCH; /* of which one is a batch */
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
	rig_prepare = make_way_by_hand;
	start(1);
	rig_all_done(&rig, 1, 3);
	rig_stop(&rig);
}
END_TEST

static uint32_t dispatcher_state(void)
{
	return wake_state(wake_load(&rig.pool->board->dispatcher));
}

/* Two jobs take turns on the only worker: the dispatcher dozes. The third one ends them. */
START_TEST(a_job_that_wakes_nobody_is_found_while_the_dispatcher_dozes)
{
	for (uint32_t round = 0; round < 20; round++) {
		start(1);
		for (uint32_t i = 0; i < 2; i++) {
			submit(i, "intake:await", 0);
		}
		while (rig_counter(&rig, roots) < 2)
			sched_yield();
		/* An alarm that rings at this moment is none. */
		while (dispatcher_state() != WAKE_DOZING) {
			pool_wake_dispatcher(rig.pool);
			sched_yield();
		}
		fill(2, "intake:set", LAST);
		leave(2, 0);
		rig_all_done(&rig, 0, 3);
#ifndef FK_SANITIZE_THREAD /* which keeps the last ring from a worker that sleeps */
		/* No alarm is set any more. */
		while (dispatcher_state() != WAKE_SLEEPING)
			sched_yield();
#endif
		rig_stop(&rig);
	}
}
END_TEST

CHECK_MAIN("intake_turn")
