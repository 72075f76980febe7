/* SPDX-License-Identifier: MIT */
/*
 * alarm: a worker's timer: when it expires, when it repeats, and which thread is woken when no
 * timer is set any more. Before the workers start, this thread acts as a busy worker: it gets the
 * signals, which have no effect. check_time_slice.c tests the reasons for timers.
 */
#include "daemon/sched/slice_timer.h"

#include <signal.h>

#include "common/clock.h"
#include "daemon/core/preempt_request.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/pool/dispatcher.h"
#include "daemon/jobs/job_end.h"
#include "daemon/pool/slice_signal.h"
#include "tests/support/intake_rig.h"

#define LATER (3600 * NSEC_PER_SEC)

static uint64_t rings_at(const struct worker *w)
{
	return atomic_load(&w->slice_timer.at);
}

static void let_dispatcher_doze(struct pool *pool)
{
	(void)wake_dozing(&pool->board->dispatcher);
}

/* For a worker that does not fork the timer repeats, unless no job waits any more. */
static void ring_by_hand(struct pool *pool)
{
	struct worker *w = &pool->workers[0];

	slice_timer_begin(w);
	ck_assert_uint_eq(wake_state(wake_load(&w->board->wake)), WAKE_BUSY);
	slice_timer_ring(w);
	ck_assert_uint_ne(rings_at(w), 0);
	ck_assert(preempt_is_requested(w));
	w->slice_timer.asked = 0;
	slice_timer_ring(w);
	ck_assert_uint_eq(rings_at(w), 0);
	ck_assert(preempt_take_request(w));
	/* Nor for a worker that is not busy: it searches anyway. */
	wake_store(&w->board->wake, WAKE_LOOKING);
	slice_timer_ring(w);
	ck_assert_uint_eq(rings_at(w), 0);
	ck_assert(!preempt_is_requested(w));
	ck_assert_uint_eq(w->counters->slice_expirations, 3);
	wake_store(&w->board->wake, WAKE_BUSY);
	slice_timer_end(w);
}

START_TEST(alarm_repeats_for_a_worker_that_does_not_look_while_a_job_waits)
{
	by_hand(1, ring_by_hand);
}
END_TEST

static void set_by_hand(struct pool *pool)
{
	struct worker *w = &pool->workers[0];
	uint64_t now = clock_ns();

	slice_timer_begin(w);
	slice_timer_by(w, now + LATER, now);
	ck_assert_uint_eq(rings_at(w), now + LATER);
	slice_timer_by(w, now + LATER + 1, now);
	ck_assert_uint_eq(rings_at(w), now + LATER);
	slice_timer_by(w, now + LATER - 1, now);
	ck_assert_uint_eq(rings_at(w), now + LATER - 1);
	slice_timer_at(w, now + LATER + 1);
	ck_assert_uint_eq(rings_at(w), now + LATER + 1);
	ck_assert(!slice_timer_is_due(w));
	slice_timer_at(w, now);
	ck_assert(slice_timer_is_due(w));
	/* A time that has passed does not tell when the timer expires next. */
	slice_timer_by(w, now + LATER, now);
	ck_assert_uint_eq(rings_at(w), now + LATER);
	slice_timer_end(w);
	ck_assert_uint_eq(rings_at(w), 0);
}

START_TEST(others_set_the_timer_earlier_and_the_owner_later)
{
	by_hand(1, set_by_hand);
}
END_TEST

static struct worker *rung;

static void ring(int signo)
{
	(void)signo;
	slice_timer_ring(rung);
}

/* The timer expires while it is being set, and no job waits any more. */
static void cross_by_hand(struct pool *pool)
{
	struct sigaction act = { .sa_handler = ring }, old;
	struct worker *w = &pool->workers[0];

	rung = w;
	ck_assert_int_eq(sigaction(WORKER_SIGNAL, &act, &old), 0);
	slice_timer_begin(w);
	wake_store(&w->board->wake, WAKE_LOOKING);
	for (int i = 0; i < 1000; i++) {
		uint64_t rings = w->counters->slice_expirations, now = clock_ns();

		if (i % 2)
			slice_timer_at(w, now);
		else
			slice_timer_by(w, now, now);
		while (w->counters->slice_expirations == rings)
			sched_yield();
		/* The timer does not repeat, so none is set. */
		ck_assert_uint_eq(rings_at(w), 0);
		ck_assert(!slice_timers_set(pool));
	}
	slice_timer_end(w);
	ck_assert_int_eq(sigaction(WORKER_SIGNAL, &old, NULL), 0);
	wake_store(&w->board->wake, WAKE_BUSY);
}

START_TEST(alarm_that_rings_while_it_is_set_is_ignored)
{
	by_hand(1, cross_by_hand);
}
END_TEST

/* A client relies on the timers for a job, and this worker does not fork. */
static void leave_by_hand(struct pool *pool)
{
	struct worker *w = &pool->workers[0];
	uint32_t row = LAST;

	slice_timer_begin(w);
	words(0, 0);
	/* So the timer repeats. */
	atomic_store(&w->roots.preempted_jobs.n, 1);
	let_dispatcher_doze(pool);
	slice_timer_ring(w);
	ck_assert(!dispatcher_was_woken(pool));
	w->slice_timer.asked = 0;
	slice_timer_ring(w);
	ck_assert(dispatcher_was_woken(pool));
	ck_assert_uint_ne(rings_at(w), 0);
	ck_assert(preempt_take_request(w));
	atomic_store(&w->roots.preempted_jobs.n, 0);
	ck_assert(intake_drain(w, &row));
	job_drop(pool, row, JOB_CANCELLED, 0);
	slice_timer_end(w);
	wake_store(&pool->board->dispatcher, WAKE_LOOKING);
}

START_TEST(dispatcher_is_woken_for_a_ring_whose_worker_does_not_look)
{
	by_hand(1, leave_by_hand);
}
END_TEST

/* Two workers: the end of the last timer wakes a dozing dispatcher. */
static void end_by_hand(struct pool *pool)
{
	struct worker *w = &pool->workers[0], *other = &pool->workers[1];
	uint64_t now = clock_ns();

	slice_timer_begin(w);
	slice_timer_begin(other);
	ck_assert(!slice_timers_set(pool));
	slice_timer_by(w, now + LATER, now);
	slice_timer_by(other, now + LATER, now);
	ck_assert(slice_timers_set(pool));
	let_dispatcher_doze(pool);
	slice_timer_at(w, 0);
	ck_assert(slice_timers_set(pool));
	ck_assert(!dispatcher_was_woken(pool));
	slice_timer_at(other, 0);
	ck_assert(!slice_timers_set(pool));
	ck_assert(dispatcher_was_woken(pool));

	/* The same if the timer expires for a worker that is not busy. */
	slice_timer_by(other, now + LATER, now);
	let_dispatcher_doze(pool);
	wake_store(&other->board->wake, WAKE_LOOKING);
	slice_timer_ring(other);
	ck_assert(dispatcher_was_woken(pool));
	wake_store(&other->board->wake, WAKE_BUSY);

	/* A dispatcher that sleeps without relying on timers is not woken. */
	slice_timer_by(other, now + LATER, now);
	let_dispatcher_sleep(pool);
	slice_timer_at(other, 0);
	ck_assert(!dispatcher_was_woken(pool));
	slice_timer_end(w);
	slice_timer_end(other);
	wake_store(&pool->board->dispatcher, WAKE_LOOKING);
}

START_TEST(end_of_the_last_timer_wakes_a_dozing_dispatcher)
{
	by_hand(2, end_by_hand);
}
END_TEST

/* The dispatcher serves a worker whose timer cannot be set. */
static void lose_the_timer(struct pool *pool)
{
	struct worker *w = &pool->workers[0];
	uint64_t now = clock_ns();

	slice_timer_begin(w);
	/* From now on the kernel refuses it. */
	ck_assert_int_eq(timer_delete(w->slice_timer.timer), 0);
	let_dispatcher_sleep(pool);
	slice_timer_by(w, now + LATER, now);
	ck_assert(dispatcher_was_woken(pool));
	ck_assert_uint_eq(slice_timers_check(pool), now + LATER);
	/* The dispatcher does not doze then. */
	ck_assert(!slice_timers_set(pool));
	slice_timer_end(w);
	ck_assert_uint_eq(slice_timers_check(pool), 0);
	wake_store(&pool->board->dispatcher, WAKE_LOOKING);
}

START_TEST(dispatcher_serves_a_worker_whose_timer_cannot_be_set)
{
	by_hand(1, lose_the_timer);
}
END_TEST

CHECK_MAIN("alarm")
