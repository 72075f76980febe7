/* SPDX-License-Identifier: MIT */
/*
 * slice_signal.c - handles the signal of a worker's slice timer: a preempt request to the worker
 *
 * The invariants I1 to I4 are those of daemon/sched/slice_timer.c. In a pool without a signal
 * (worker_signal.h) slice_timers_check() does all of it.
 */
#include "daemon/pool/slice_signal.h"

#include "common/clock.h"
#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/preempt_request.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker.h"
#include "daemon/engine/preempted.h"
#include "daemon/jobs/pending.h"
#include "daemon/sched/slice_timer.h"
#include "daemon/sched/fair_queue.h"
#include "shm/fence.h"
#include "shm/wake.h"

/* Repeated if a worker with a preempt request has not reached a fork. */
#define SLICE_TIMER_AGAIN (2 * NSEC_PER_MSEC)

/* Sends the worker a preempt request; one that is not busy checks anyway. Returns when to check
 * again. */
static uint64_t slice_timer_preempt(struct worker *w, uint64_t now)
{
	struct fair *fair = w->pool->fair;
	/* A signal to a victim that arrives at the same time also calls this. */
	bool still = preempt_is_requested(w) && now - w->slice_timer.asked >= SLICE_TIMER_AGAIN / 2;

	if (wake_state(wake_load(&w->board->wake)) != WAKE_BUSY)
		return 0;
	/* Also if requested before: the worker takes the request while it unwinds a job, and does
	 * not check. */
	preempt_request(w);
	if (!still) {
		w->slice_timer.asked = now;
		return now + SLICE_TIMER_AGAIN;
	}
	/* ORDER wake/ring [A1]: full, between `at`, which has passed, and the check for waiting
	 * jobs. Pairs with wake_published(), wake_prepare() and wake_dozing(): a thread that reads
	 * that `at` has queued its job before (I2). */
	fence_full();
	if (worker_jobs_pending(w->pool))
		pool_wake_dispatcher(w->pool);
	return fair_queued(fair) || fair_placed(fair) || preempted_any(&w->roots.preempted_jobs)
		     ? now + FAIR_TURN_LONG
		     : 0;
}

bool slice_timer_is_due(struct worker *w)
{
	uint64_t at = load_relaxed(&w->slice_timer.at);

	return at && at <= clock_ns();
}

void slice_timer_ring(struct worker *w)
{
	uint64_t again;

	COUNT(w, slice_expirations);
	store_relaxed(&w->slice_timer.at, 0);
	again = slice_timer_preempt(w, clock_ns());
	/* Without the lock, which this thread may hold. */
	if (again)
		slice_timer_set(w, again);
	else
		slice_timer_over(w->pool);
}

uint64_t slice_timers_check(struct pool *pool)
{
	uint64_t now = clock_ns(), next = 0;

	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[i];
		struct slice_timer *a = &w->slice_timer;
		uint64_t at = load_relaxed(&a->at);

		if (load_relaxed(&a->timed) || !at)
			continue;
		pthread_mutex_lock(&a->lock);
		at = load_relaxed(&a->at);
		if (at && at <= now) {
			at = slice_timer_preempt(w, now);
			store_relaxed(&a->at, at);
		}
		pthread_mutex_unlock(&a->lock);
		next = at && (!next || at < next) ? at : next;
	}
	return next;
}
