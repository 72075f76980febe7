/* SPDX-License-Identifier: MIT */
/*
 * worker_sleep.c - how workers sleep; sched/wake.c wakes them
 *
 * STATES OF A WORKER
 *   lazy_policy.h has the group states, the invariants L1 to L7 and the transitions; spin_policy.h
 *   decides how long a thief spins. work_search.c, sched/wake.c and this file make the transitions
 *   together with the words on the board (shm/wake.h):
 * 	busy -> look	word LOOKING, transition
 * 	look -> busy	transition, word BUSY and full fence, then the wake debt: at once, or at the
 * 			first fork, by a request
 * 	look -> sleep	word SLEEPING and full fence, transition, then the check for jobs of
 * 			lazy_policy.h, L6; if the transition is refused, it sleeps for
 * 			POLICY_TIMED_SLEEP, counted as looking
 * 	sleep -> look	a thread of the pool that wakes a worker makes the transition, then changes
 * 			its word and rings its bell (bell.h); a client wakes it by the word alone,
 * 			and the worker makes the transition itself
 * 	absent -> look	a worker that was woken has its thread: the transition of a sleeper, then
 * 			busy without work, as all workers begin (worker_thread.h, LATE WORKERS)
 * 	look -> offline	word PARKED and full fence, transition, then work for others is passed
 * 			on as by a worker that becomes busy; awake again, it takes work that only
 * 			it may do
 *   With scheduler = busy only offline workers sleep: a worker that searches in vain yields, and
 *   searches again.
 *
 * COST (tests/bench/bench_sleep.c)
 *   Waking a worker: the states of the groups up to the one that has a sleeper, its own first; a
 *   transition, and the system call. Going to sleep: a transition, and a check of its root deque.
 *   Neither grows with the number of tenants or workers. The last searcher of a group also reads
 *   the summary words of all tenants when it leaves, because clients can write only there; a search
 *   reads those of DRAIN_SCAN_SOME tenants at a time.
 */
#include "daemon/pool/worker_sleep.h"

#include "common/clock.h"
#include "common/relaxed.h"
#include "daemon/core/bell.h"
#include "daemon/core/deque.h"
#include "daemon/core/mailbox.h"
#include "daemon/core/lazy_policy.h"
#include "daemon/core/steal_policy.h"
#include "daemon/core/pool_settings.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/stacklet.h"
#include "daemon/core/stop.h"
#include "daemon/core/trace.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/jobs/pending.h"
#include "daemon/sched/cpu_parking.h"
#include "daemon/sched/wake.h"
#include "shm/board.h"
#include "shm/fence.h"
#include "shm/stopwatch.h"
#include "shm/trace.h"
#include "shm/wake.h"

/* The worker is awake again: wakes the dispatcher if it waits for that. */
static void worker_call(struct pool *pool)
{
	/* ORDER park/wants [I2]: full, between the transition out of its sleep and the read of
	 * wants. Pairs with park_may_rest(). */
	fence_full();
	if (load_relaxed(&pool->park->wants) == PARK_CALL)
		park_call(pool);
}

/* Waits while its word and its bell have these values; how: TRACE_SLEEP ...; ns: maximum, 0:
 * none. */
static void worker_wait(struct worker *w, uint32_t how, uint32_t value, uint32_t heard, uint64_t ns)
{
	struct stopwatch *asleep = &w->pool->board->running[w->index].asleep;
	uint64_t now = clock_ns();

	stopwatch_set(asleep, true, now);
	trace_rest(w, how);
	/* ORDER starved/away [A2]: the full fence of wake_prepare() or wake_parked() is between the
	 * end of its job and the read of away. Pairs with starved_hurry(). */
	park_return(w);
	bell_wait(&w->board->wake, value, &w->requests.bell, heard, ns ? now + ns : 0);
	trace_awake(w, how);
	stopwatch_set(asleep, false, clock_ns());
}

/* The worker is awake after a sleep, or after it was absent. */
static void worker_get_up(struct worker *w)
{
	wake_store(&w->board->wake, WAKE_LOOKING);
	if (!lazy_rise(&w->pool->idle.lazy, w->index, LAZY_ROUSED))
		worker_pass(w);
	worker_call(w->pool);
}

void worker_arrive(struct worker *w)
{
	/* ORDER worker/absent [T5]: release, the handle of the thread, which was written before it
	 * began. Pairs with starved_rests(). */
	atomic_store_explicit(&w->requests.absent, false, memory_order_release);
	stopwatch_set(&w->pool->board->running[w->index].asleep, false, clock_ns());
	worker_get_up(w);
	lazy_return(&w->pool->idle.lazy, w->index);
	/* As other workers begin (worker_init()). */
	lazy_turn_busy(&w->pool->idle.lazy, w->index);
}

/* Before it sleeps, the worker checks its own root deque, and all jobs if no other worker does. */
bool worker_rest(struct worker *w)
{
	struct pool *pool = w->pool;
	struct lazy *l = &pool->idle.lazy;
	uint32_t heard = bell_heard(&w->requests.bell);
	uint32_t value = wake_prepare(&w->board->wake);
	enum lazy_rest rest = lazy_sleep(l, w->index);
	bool sleeps = rest == LAZY_SLEEPS;
	bool jobs;

	if (rest == LAZY_TIMED_INDEBTED)
		worker_pass(w);
	if (!sleeps)
		lazy_timed_sleep(l, w->index);
	jobs = w->roots.placed_job || deque_size(&w->roots.deque) || inbox_any(&w->inbox) ||
	       intake_mine(w) ||
	       ((!sleeps || !lazy_spins(worker_group(w))) && worker_jobs_pending(pool));
	/* ORDER pool/settings [P1]: both after the full fence of wake_prepare(): a thread that
	 * changes them wakes all sleepers after a full fence. Pairs with pool_wake_all(). */
	/* The stack for its search may have come from the caches of all workers. */
	if (stack_dirtied(&w->engine.cache))
		pool_wake_dispatcher(pool);
	if (!jobs && pool_is_lazy(pool) && !pool_ends(pool) && !worker_is_parked(w)) {
		if (sleeps)
			COUNT(w, sleeps);
		else
			COUNT(w, timed_sleeps);
		worker_wait(w, sleeps ? TRACE_SLEEP : TRACE_NAP, value, heard,
			    sleeps ? 0 : POLICY_TIMED_SLEEP);
	}
	if (!sleeps) {
		wake_store(&w->board->wake, WAKE_LOOKING);
		lazy_timed_sleep_end(l, w->index);
		return false;
	}
	worker_get_up(w);
	return true;
}

/* look -> offline. Returns the new word. */
static uint32_t worker_go_offline(struct worker *w)
{
	struct pool *pool = w->pool;
	uint32_t value = wake_parked(&w->board->wake);

	lazy_park(&pool->idle.lazy, w->index);
	/* Work that others left to this worker while it searched, or woke it for (lazy_policy.h,
	 * L6, L7). */
	if (lazy_spins(worker_group(w)) || !worker_jobs_pending(pool))
		worker_pass(w);
	else if (!worker_wake_one(pool, w))
		pool_wake_dispatcher(pool);
	return value;
}

void worker_stay_absent(struct worker *w)
{
	(void)lazy_rise(&w->pool->idle.lazy, w->index, LAZY_ROUSED);
	(void)worker_go_offline(w);
}

void worker_park(struct worker *w)
{
	struct pool *pool = w->pool;
	struct lazy *l = &pool->idle.lazy;
	uint32_t heard, value;
	bool mine;

	/* Returns the rest of a batch. */
	intake_recall(pool, w);
	heard = bell_heard(&w->requests.bell);
	value = worker_go_offline(w);
	if (stack_dirtied(&w->engine.cache))
		pool_wake_dispatcher(pool);
	mine = w->roots.placed_job || inbox_any(&w->inbox) || intake_mine(w);
	/* ORDER pool/settings [P1]: after the full fence of wake_parked(), as in worker_rest(). */
	if (worker_is_parked(w) && !pool_ends(pool) && (!mine || !w->engine.stack)) {
		COUNT(w, offline_sleeps);
		/* Without memory for a stack it tries again. */
		worker_wait(w, TRACE_PARK, value, heard, mine ? POLICY_TIMED_SLEEP : 0);
	}
	wake_store(&w->board->wake, WAKE_LOOKING);
	if (!lazy_rise(l, w->index, LAZY_ROUSED))
		worker_pass(w);
	lazy_return(l, w->index);
	worker_call(pool);
}
