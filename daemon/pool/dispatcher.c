/* SPDX-License-Identifier: MIT */
#include "daemon/pool/dispatcher.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <time.h>

#include "common/clock.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/cpu_account.h"
#include "daemon/core/manager_channel.h"
#include "daemon/core/shutdown.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/stacklet.h"
#include "daemon/core/stop.h"
#include "daemon/core/preempt_request.h"
#include "daemon/core/worker_state.h"
#include "daemon/jobs/cpu_limit.h"
#include "daemon/jobs/deadline.h"
#include "daemon/jobs/hang_detector.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/jobs/pending.h"
#include "daemon/sched/slice_timer.h"
#include "daemon/core/bell.h"
#include "daemon/jobs/job_cancel.h"
#include "daemon/jobs/ring_drain.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/timer.h"
#include "daemon/fiber/stuck.h"
#include "daemon/jobs/membership.h"
#include "daemon/jobs/placed_jobs.h"
#include "daemon/jobs/starved.h"
#include "daemon/pool/slice_signal.h"
#include "daemon/pool/worker_thread.h"
#include "daemon/sched/fair_queue.h"
#include "daemon/sched/cpu_parking.h"
#include "daemon/sched/wake.h"
#include "shm/board.h"
#include "shm/ledger.h"
#include "shm/limits.h"
#include "shm/proto.h"
#include "shm/wake.h"

#define DISPATCHER_TICK	    (200 * NSEC_PER_USEC)
#define DISPATCHER_ROUNDS   16u /* maximum number in a tick */
#define DISPATCHER_CLEAN    (10 * NSEC_PER_MSEC)
#define DISPATCHER_PREEMPTS 2u	/* at a time: one of two is not in a long leaf and has a CPU */
#define DISPATCHER_PATIENCE 2u	/* ticks that a job waits for searching workers */
#define DISPATCHER_DOUBT    50u /* ticks without a start after which words are not trusted */

/* Progress of the workers since the last check with waiting jobs. */
struct dispatcher_view {
	bool drained;			    /* a worker has taken jobs off the rings */
	uint64_t moved[LIMIT_WORKERS / 64]; /* a bit for each worker that has started a job */
};

static void dispatcher_look(struct pool *pool, uint64_t now, struct dispatcher_view *ret_view)
{
	struct dispatcher *d = pool->dispatcher;
	uint64_t drained = 0;
	bool started = false;

	d->looked_ns = now;
	*ret_view = (struct dispatcher_view){ .drained = false };
	/* Relaxed: statistics. */
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct board_counters *c = pool->workers[i].counters;
		uint64_t roots = load_relaxed(&c->jobs_started);
		bool moved = roots != d->roots[i];

		drained += load_relaxed(&c->drained);
		ret_view->moved[i / 64] |= (uint64_t)moved << i % 64;
		started |= moved;
		d->roots[i] = roots;
	}
	ret_view->drained = drained != d->drained;
	d->drained = drained;
	d->waited = started ? 1 : d->waited + 1;
}

/* Sends preempt requests to the next workers whose job must yield to a queued one; or to the next
 * ones, if a ring must be read. A worker that is not busy is not affected. */
static void dispatcher_preempt_some(struct pool *pool)
{
	struct fair *fair = pool->fair;
	uint32_t next = pool->dispatcher->next_worker, requested = 0;
	bool rings = drain_rings_pending(pool);

	if (!rings && !fair_queued(fair) && !fair_placed(fair))
		return;
	fair_lock(fair);
	for (uint32_t i = 0; i < pool->n_workers && requested < DISPATCHER_PREEMPTS; i++) {
		uint32_t at = (next + i) % pool->n_workers;
		uint32_t row = account_row(&pool->workers[at].job.account);

		if (!rings && (row == ACCOUNT_NOBODY || !fair_claims(fair, at, row, FAIR_QUANTUM)))
			continue;
		if (row == ACCOUNT_NOBODY && worker_is_parked(&pool->workers[at]))
			continue;
		preempt_request(&pool->workers[at]);
		pool->dispatcher->next_worker = at + 1;
		requested++;
	}
	fair_unlock(fair);
}

/* Wakes all workers without a job, whatever their words and group states are, because a task may
 * have overwritten them. */
static void dispatcher_rouse(struct pool *pool)
{
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[i];

		if (account_row(&w->job.account) == ACCOUNT_NOBODY && !worker_is_parked(w))
			bell_ring(&w->board->wake, &w->requests.bell);
	}
}

/* True if jobs wait, but workers will check when one of them must run. Workers that must check now
 * get preempt requests. */
static bool dispatcher_may_rest(struct pool *pool, enum intake_left left)
{
	if (left != INTAKE_NONE || load_relaxed(&pool->stop) ||
	    !intake_is_watched(pool, NULL, ACCOUNT_NOBODY))
		return false;
	dispatcher_preempt_some(pool);
	return true;
}

/* Ensures that waiting jobs are started. Returns the ns until it must check again. */
static uint64_t dispatcher_dispatch(struct pool *pool)
{
	struct dispatcher *d = pool->dispatcher;
	struct fair *fair = pool->fair;
	bool waiting = worker_jobs_pending(pool), placed = fair_placed(fair);
	enum intake_left left = intake_release(pool);
	uint64_t again = left == INTAKE_MORE ? 0 : DISPATCHER_TICK;
	uint64_t now = clock_ns();
	struct dispatcher_view view;
	bool fresh;

	/* The comparison of running jobs is as old as the last settlement; and jobs that run for
	 * hours must be charged (cpu_account.h). */
	fair_lock(fair);
	fair_settle_sometimes(fair, now);
	fair_unlock(fair);
	if (!waiting && !placed)
		return left || load_relaxed(&pool->stop) ? again : ACCOUNT_SETTLE_MAX;
	if (placed)
		intake_wake_places(pool, NULL);
	if (dispatcher_may_rest(pool, left))
		return ACCOUNT_SETTLE_MAX;
	/* Workers are judged once in a tick; in between only jobs of dead clients are ended. */
	if (!again && now < d->looked_ns + DISPATCHER_TICK)
		return again;
	fresh = now >= d->looked_ns + 2 * DISPATCHER_TICK;
	dispatcher_look(pool, now, &view);
	if (waiting && d->waited % DISPATCHER_DOUBT == 0)
		dispatcher_rouse(pool);
	/* A searching worker may repeatedly find strands of a running job to steal. */
	if (waiting && worker_wake_one(pool, NULL) && d->waited <= DISPATCHER_PATIENCE && !placed)
		return again;
	/* The searching workers have started no job: they may get no CPU (starved.h). */
	if (waiting && d->waited > DISPATCHER_PATIENCE)
		(void)worker_wake_more(pool);
	/* All are busy, or about to search. After a pause the dispatcher need not come again if the
	 * remaining jobs can wait. */
	if ((fresh || !view.drained) && drain_rings_pending(pool)) {
		intake_collect(pool, d->collected++);
		if (dispatcher_may_rest(pool, left))
			return ACCOUNT_SETTLE_MAX;
	}
	for (uint32_t i = 0; i < pool->n_workers; i++)
		if (!(view.moved[i / 64] >> i % 64 & 1))
			intake_recall(pool, &pool->workers[i]);
	dispatcher_preempt_some(pool);
	return again;
}

/* Returns the earlier of two times, where 0 is never. */
static uint64_t dispatcher_earlier(uint64_t a, uint64_t b)
{
	return !a || !b ? a | b : min(a, b);
}

/* Ensures that freed memory is given back: workers do it before they sleep (idle_trim.h). If none
 * has since the last call, wakes one, and gives a part back itself, rarely enough not to slow down
 * workers. */
static void dispatcher_clean(struct pool *pool)
{
	struct dispatcher *d = pool->dispatcher;
	uint64_t now = clock_ns();

	if (!stack_arena_dirty(pool->stacks)) {
		d->clean_at = 0;
		return;
	}
	if (d->clean_at && now < d->clean_at)
		return;
	if (d->clean_at && d->cleaned == stack_arena_cleaned(pool->stacks)) {
		worker_wake_one(pool, NULL);
		stack_arena_clean(pool->stacks);
	}
	d->cleaned = stack_arena_cleaned(pool->stacks);
	d->clean_at = now + DISPATCHER_CLEAN;
}

/* Answers the manager's ping, which tests both this thread and the channel's, and whether earlier
 * messages have taken effect. */
static void dispatcher_answer(struct pool *pool)
{
	struct proto_pool pong = { .head = { PROTO_MAGIC, PROTO_POOL_PONG } };

	/* Relaxed: the dispatcher is woken after it is set. */
	if (!load_relaxed(&pool->pinged))
		return;
	/* ORDER pool/pinged [Q4]: acquire, the answer follows the work of the channel's thread.
	 * Pairs with channel_dispatch(). */
	pong.task_hash = atomic_exchange_explicit(&pool->pinged, 0, memory_order_acquire);
	channel_tell(pool, &pong);
}

/* Ends jobs whose deadline has passed, resumes fibers whose timer has expired, and sends requests
 * to workers without a timer. Checks for hanging jobs, freed memory and CPUs. Returns when it must
 * come back, at most again ns from now. */
static uint64_t dispatcher_next(struct pool *pool, uint64_t again)
{
	uint64_t next = dispatcher_earlier(deadlines_check(pool), slice_timers_check(pool));
	uint64_t now, cpus;

	next = dispatcher_earlier(next, fibers_check(pool));
	next = dispatcher_earlier(next, fibers_look(pool));
	next = dispatcher_earlier(next, cpu_limits_check(pool, clock_ns()));
	next = dispatcher_earlier(next, hangs_check(pool));
	next = dispatcher_earlier(next, workers_start(pool));
	dispatcher_clean(pool);
	dispatcher_answer(pool);
	next = dispatcher_earlier(next, pool->dispatcher->clean_at);
	now = clock_ns();
	cpus = park_look(pool, now);
	next = dispatcher_earlier(next, cpus);
	/* If all workers sleep, they need no CPU. */
	if (cpus)
		next = dispatcher_earlier(next, starved_check(pool, now));
	return dispatcher_earlier(next, clock_ns() + again);
}

/* Limits wakeups: any client can wake the dispatcher repeatedly, and each time it would preempt a
 * worker, because its priority is higher. */
static void dispatcher_slow_down(struct dispatcher *d)
{
	struct timespec rest = { .tv_nsec = DISPATCHER_TICK };
	uint64_t now = clock_ns();

	if (now - d->rounds_since < DISPATCHER_TICK) {
		if (++d->rounds < DISPATCHER_ROUNDS)
			return;
		(void)nanosleep(&rest, NULL);
		now = clock_ns();
	}
	d->rounds_since = now;
	d->rounds = 0;
}

void dispatcher_attend(struct pool *pool)
{
	_Atomic uint32_t *word = &pool->board->dispatcher;
	_Atomic uint64_t *rounds = &pool->board->counters[BOARD_POOL].dispatcher_passes;
	_Atomic uint32_t *bell = &pool->arena->bell;
	uint32_t heard = bell_heard(bell), value = wake_load(word);
	uint64_t again = dispatcher_dispatch(pool);

	/* Relaxed: only this thread writes. */
	store_relaxed(rounds, load_relaxed(rounds) + 1);

	if (again == ACCOUNT_SETTLE_MAX) {
		bool dozes = slice_timers_set(pool);

		value = dozes ? wake_dozing(word) : wake_prepare(word);
		again = dispatcher_dispatch(pool);
		/* No worker checks for jobs that clients leave to the alarms: wake.h, W9. */
		if (dozes && !slice_timers_set(pool))
			again = 0;
	}
	/* It comes back without being woken. */
	if (again < ACCOUNT_SETTLE_MAX) {
		wake_store(word, WAKE_LOOKING);
		value = wake_load(word);
	}
	bell_wait(word, value, bell, heard, dispatcher_next(pool, again));
	wake_store(word, WAKE_LOOKING);
	if (again)
		dispatcher_slow_down(pool->dispatcher);
}

/* True if a draining pool has no work left, or none that it must do. */
static bool dispatcher_is_done(struct pool *pool)
{
	return shutdown_declines(&pool->shutdown) ? shutdown_is_over(pool) : intake_is_empty(pool);
}

/* True if the pool drains and is done: it ends then, and cannot resume any more (shutdown.h,
 * I3). */
static bool dispatcher_ends(struct pool *pool)
{
	/* ORDER pool/stop [Q2]: acquire, so that a shutdown is seen. Pairs with channel_drain(). */
	uint32_t stop = atomic_load_explicit(&pool->stop, memory_order_acquire);

	/* Relaxed: pool_stop_workers() has the fence. */
	return stop >= POOL_DRAINING && dispatcher_is_done(pool) &&
	       atomic_compare_exchange_strong_explicit(&pool->stop, &stop, POOL_ENDING,
						       memory_order_relaxed, memory_order_relaxed);
}

void *dispatcher_main(void *arg)
{
	struct pool *pool = arg;

	pthread_setname_np(pthread_self(), "forkd-dispatch");
	prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
	(void)sem_post(&pool->started);
	/* While the pool drains, the word is LOOKING: a thread that finds SLEEPING would wake
	 * repeatedly until the dispatcher has woken, which at the end never happens. */
	while (!dispatcher_ends(pool))
		dispatcher_attend(pool);
	pool_stop_workers(pool);
	channel_shut(pool);
	return NULL;
}
