/* SPDX-License-Identifier: MIT */
/*
 * slice_timer.c - a worker's own timer
 *
 * INVARIANTS
 *   I1. After the alarm the worker checks all jobs that it may have to yield to, with the lock of
 *       fair held. A busy worker with a preempt request does so at its next fork
 *       (strand_safepoint()). If it reaches no fork for SLICE_TIMER_AGAIN, the timer expires again,
 *       until the worker has checked. Then the handler finds the pending request. If jobs are
 *       queued, in a ring or on a root deque, it wakes the dispatcher, so that other workers check.
 *       If no job waits any more, the timer stays stopped until it is set again. A worker that is
 *       not busy searches for work, and finds any waiting job, or sleeps, and then it has no
 *       suspended jobs.
 *   I2. So no waiting job is forgotten. A thread that needs the worker to check writes the reason
 *       first, with the lock held, and then sets the alarm. An earlier alarm is kept: it has not
 *       expired, so the check that follows it sees the reason. If the alarm expires in between, the
 *       same check does. The owner may postpone the alarm because it has just checked: a reason
 *       written after that check sets the alarm again.
 *   I3. `at` is the time of the alarm, or a past time whose signal is on its way; or 0. It is
 *       written before the timer is set. The owner alone stops the timer, before it sets `at` to 0.
 *       So a handler in between, which clears or sets both, never leaves a time without a timer. It
 *       may leave a timer without a time, which expires without effect. If two threads set the
 *       alarm at once, it may expire at the later of the two times.
 *   I4. With an alarm set, the dispatcher may doze: clients put jobs into rings and wake no thread
 *       (shm/wake.h, W9). So an alarm is set again, to expire within FAIR_TURN_LONG, or
 *       slice_timer_over() is called when `at` is 0. In between, in slice_timer_ring(), other
 *       threads see 0, too: they wake the dispatcher without need, or it does not doze.
 */
#include "daemon/sched/slice_timer.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker_state.h"
#include "shm/board.h"
#include "daemon/core/worker.h"
#include "shm/wake.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

void slice_timer_init(struct worker *w)
{
	pthread_mutex_init(&w->slice_timer.lock, NULL);
}

void slice_timer_fini(struct worker *w)
{
	pthread_mutex_destroy(&w->slice_timer.lock);
}

bool slice_timers_set(struct pool *pool)
{
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		const struct slice_timer *a = &pool->workers[i].slice_timer;

		/* Relaxed: the callers have the fences. */
		if (load_relaxed(&a->at) && load_relaxed(&a->timed))
			return true;
	}
	return false;
}

void slice_timer_over(struct pool *pool)
{
	wake_alarm_over();
	if (wake_state(wake_load(&pool->board->dispatcher)) == WAKE_DOZING &&
	    !slice_timers_set(pool))
		pool_wake_dispatcher(pool);
}

void slice_timer_begin(struct worker *w)
{
	struct slice_timer *a = &w->slice_timer;
	struct sigevent event = {
		.sigev_notify = SIGEV_THREAD_ID,
		.sigev_signo = w->pool->signal,
		.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid),
	};
	bool timed = w->pool->signal && timer_create(CLOCK_MONOTONIC, &event, &a->timer) == 0;

	/* Relaxed at all reads: with the lock held, or on this thread; slice_timers_check() checks
	 * again. */
	pthread_mutex_lock(&a->lock);
	a->made = timed;
	store_relaxed(&a->timed, timed);
	pthread_mutex_unlock(&a->lock);
}

void slice_timer_end(struct worker *w)
{
	struct slice_timer *a = &w->slice_timer;

	pthread_mutex_lock(&a->lock);
	if (a->made)
		(void)timer_delete(a->timer);
	a->made = false;
	store_relaxed(&a->timed, false);
	store_relaxed(&a->at, 0);
	pthread_mutex_unlock(&a->lock);
}

static void slice_timer_stop(struct slice_timer *a)
{
	static const struct itimerspec never;

	if (load_relaxed(&a->timed))
		(void)timer_settime(a->timer, 0, &never, NULL);
	/* Relaxed, here and below: I2 and I3. */
	store_relaxed(&a->at, 0);
}

void slice_timer_set(struct worker *w, uint64_t at)
{
	struct slice_timer *a = &w->slice_timer;
	struct itimerspec time = { .it_value = clock_to_timespec(at) };

	store_relaxed(&a->at, at);
	if (load_relaxed(&a->timed) && timer_settime(a->timer, TIMER_ABSTIME, &time, NULL) == 0)
		return;
	/* If it cannot be set, it is not used from now on: the dispatcher takes over. */
	store_relaxed(&a->timed, false);
	pool_wake_dispatcher(w->pool);
}

void slice_timer_by(struct worker *w, uint64_t at, uint64_t now)
{
	uint64_t old = load_relaxed(&w->slice_timer.at);

	if (old > now && old <= at)
		return;
	pthread_mutex_lock(&w->slice_timer.lock);
	slice_timer_set(w, at);
	pthread_mutex_unlock(&w->slice_timer.lock);
}

void slice_timer_at(struct worker *w, uint64_t at)
{
	if (load_relaxed(&w->slice_timer.at) == at)
		return;
	pthread_mutex_lock(&w->slice_timer.lock);
	if (at)
		slice_timer_set(w, at);
	else
		slice_timer_stop(&w->slice_timer);
	pthread_mutex_unlock(&w->slice_timer.lock);
	if (!at)
		slice_timer_over(w->pool);
}
