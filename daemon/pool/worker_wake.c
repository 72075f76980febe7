/* SPDX-License-Identifier: MIT */
/*
 * worker_wake.c - how workers sleep, and who wakes them
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   worker_wake_one(), worker_wake(): any thread of the pool. worker_serve(), worker_spread(),
 *   worker_rest(): the worker itself.
 *
 * WHO IS AWAKE
 *   lazy.h has the census, the invariant L1 to L6 and the steps; spin.h how long a thief spins.
 *   worker.c and this file make the steps together with the words on the board (wake.h):
 *	busy -> look	word LOOKING, step
 *	look -> busy	step, word BUSY and full fence, then the charge: at once, or as duty at the
 *			first fork, through the attention that every fork looks at
 *	look -> sleep	word SLEEPING and full fence, step, then what lazy.h, L6 says about jobs; if
 *			the step is refused it naps for POLICY_NAP, counted as looking
 *	sleep -> look	a thread of the pool that wakes a worker makes the step, then changes its
 *			word and rings its bell (bell.h); a client wakes it by the word alone, and
 *			the worker makes the step itself
 *	look -> parked	word PARKED and full fence, step, then what there is for others is handed on
 *			to them, as by one that turns busy; awake again, it takes what only it may
 *   With the scheduler set to busy nobody sleeps unless it is parked: whoever looks in vain yields,
 *   and looks again.
 *
 * WHAT IT COSTS (tests/bench/bench_sleep.c)
 *   To wake somebody: the censuses of the cells up to the one that has somebody, the own one first;
 *   a step, and the system call. To go to sleep: a step, and a look at the own root deque. Neither
 *   grows with tenants or workers. The last looker of a cell reads the summary words of all tenants
 *   too, when it sleeps, naps, or turns busy, because clients can write nowhere else; a search
 *   reads those of DRAIN_GLANCE tenants at a time.
 */
#include "daemon/core/worker.h"

#include "common/clock.h"
#include "common/relaxed.h"
#include "daemon/core/bell.h"
#include "daemon/core/policy.h"
#include "daemon/core/pool_settings.h"
#include "daemon/core/stop.h"
#include "daemon/core/wakeup.h"
#include "daemon/pool/pool.h"
#include "daemon/core/trace.h"
#include "daemon/pool/worker_internal.h"
#include "shm/fence.h"
#include "shm/wake.h"

/* ------------------------------------------------------------------------ waking */

/* The rest of a wake: the worker was taken out of the census, or naps. */
static void worker_rouse(struct pool *pool, uint32_t index, struct worker *waker)
{
	struct worker *w = &pool->workers[index];
	uint32_t value = wake_load(&w->board->wake);

	if (!wake_rests(value) || !pool_wake_word(&w->board->wake, &w->requests.bell, value) ||
	    !waker)
		return;
	COUNT(waker, wakes);
	trace_wake(waker, index);
	if (w->group != waker->group)
		COUNT(waker, wakes_far);
}

/* A charge, which ends with the wake of this thief. */
static void worker_settle(struct worker *w, uint32_t thief)
{
	if (thief != LAZY_NOBODY)
		worker_rouse(w->pool, thief, w);
	lazy_mark(&w->pool->idle.lazy, LAZY_SETTLED, w->index);
}

void worker_serve(struct worker *w)
{
	worker_settle(w, lazy_pick(&w->pool->idle.lazy, w->index));
}

/* Was woken, and passes on what it may have been woken for. */
static void worker_pass(struct worker *w)
{
	worker_settle(w, lazy_pass(&w->pool->idle.lazy, w->index));
}

/* Sees to it that somebody in this cell looks. False: all are busy. After a full fence. */
static bool worker_wake_in(struct pool *pool, struct lazy_cell *cell, uint32_t place,
			   struct worker *waker)
{
	uint32_t thief;

	if (lazy_spins(cell))
		return true;
	thief = lazy_napper(&pool->idle.lazy, cell, place);
	if (thief == LAZY_NOBODY)
		thief = lazy_wake(&pool->idle.lazy, cell, place);
	if (thief == LAZY_NOBODY)
		return false;
	worker_rouse(pool, thief, waker);
	return true;
}

static bool worker_wake_any(struct pool *pool)
{
	struct lazy *l = &pool->idle.lazy;
	/* Relaxed: only spreads them. */
	uint32_t turn = add_relaxed(&pool->idle.turn, 1);

	for (uint32_t c = 0; c < l->n_cells; c++)
		if (lazy_spins(&l->cells[c]))
			return true;
	for (uint32_t c = 0; c < l->n_cells; c++)
		if (worker_wake_in(pool, &l->cells[(turn + c) % l->n_cells], 0, NULL))
			return true;
	return false;
}

bool worker_wake_one(struct pool *pool, struct worker *waker)
{
	struct lazy *l = &pool->idle.lazy;
	struct lazy_cell *own;
	bool found;

	/* ORDER lazy/naps [L6]: full, what there is to do comes before the look at the censuses.
	 * Pairs with the fences of those who leave. */
	wake_published();
	if (!waker)
		return worker_wake_any(pool);
	own = worker_cell(waker);
	found = worker_wake_in(pool, own, l->seats[waker->index].bit, waker);
	for (uint32_t i = 0; !found && i + 1 < l->n_cells; i++)
		found = worker_wake_in(pool, &l->cells[own->near[i]], 0, waker);
	worker_serve(waker);
	return found;
}

bool worker_wake_more(struct pool *pool)
{
	struct lazy *l = &pool->idle.lazy;
	uint32_t thief = LAZY_NOBODY;

	for (uint32_t c = 0; c < l->n_cells && thief == LAZY_NOBODY; c++)
		thief = lazy_wake(l, &l->cells[c], 0);
	if (thief == LAZY_NOBODY)
		return false;
	worker_rouse(pool, thief, NULL);
	return true;
}

void worker_wake(struct pool *pool, uint32_t index, struct worker *waker)
{
	/* ORDER lazy/naps [L6]: full, as in worker_wake_one(). */
	wake_published();
	if (!wake_rests(wake_load(&pool->workers[index].board->wake)))
		return;
	(void)lazy_rise(&pool->idle.lazy, index, LAZY_WOKEN);
	worker_rouse(pool, index, waker);
}

/* ------------------------------------------------------------------------ sleeping */

/* Awake again: the dispatcher may want to know. */
static void worker_call(struct pool *pool)
{
	/* ORDER park/wants [I2]: full, between the step out of its sleep and the look at what is
	 * wanted. Pairs with park_may_rest(). */
	fence_full();
	if (load_relaxed(&pool->park->wants) == PARK_CALL)
		park_call(pool);
}

void worker_spread(struct worker *w)
{
	struct lazy *l = &w->pool->idle.lazy;

	for (uint32_t n = policy_spread(w->thief.left, POLICY_SPREAD); n; n--) {
		uint32_t thief = lazy_wake(l, worker_cell(w), l->seats[w->index].bit);

		if (thief == LAZY_NOBODY)
			return;
		worker_rouse(w->pool, thief, w);
		COUNT(w, wakes_more);
	}
}

/* Waits while its word and its bell are these; how: TRACE_SLEEP ...; ns: at most, or 0. */
static void worker_wait(struct worker *w, uint32_t how, uint32_t value, uint32_t heard, uint64_t ns)
{
	struct stopwatch *rested = &w->pool->board->running[w->index].rested;
	uint64_t now = clock_ns();

	stopwatch_set(rested, true, now);
	trace_rest(w, how);
	/* ORDER starved/away [A2]: the full fence of wake_prepare() or wake_parked() stands between
	 * the end of its job and the look whether it is away. Pairs with starved_hurry(). */
	park_return(w);
	bell_wait(&w->board->wake, value, &w->requests.bell, heard, ns ? now + ns : 0);
	trace_awake(w, how);
	stopwatch_set(rested, false, clock_ns());
}

/* What it has to look at itself, before: its own root deque, and all jobs if nobody else does. */
bool worker_rest(struct worker *w)
{
	struct pool *pool = w->pool;
	struct lazy *l = &pool->idle.lazy;
	uint32_t heard = bell_heard(&w->requests.bell);
	uint32_t value = wake_prepare(&w->board->wake);
	enum lazy_rest rest = lazy_sleep(l, w->index);
	bool sleeps = rest == LAZY_SLEEPS;
	bool jobs;

	if (rest == LAZY_NAPS_CHARGED)
		worker_pass(w);
	if (!sleeps)
		lazy_nap(l, w->index);
	jobs = w->roots.own || deque_size(&w->roots.deque) || inbox_any(&w->inbox) ||
	       intake_mine(w) ||
	       ((!sleeps || !lazy_spins(worker_cell(w))) && worker_jobs_pending(pool));
	/* ORDER pool/settings [P1]: both after the full fence of wake_prepare(): who changes them
	 * wakes all that sleep after a full fence. Pairs with pool_wake_all(). */
	/* The stack for what it looked for may have come from what all workers keep. */
	if (stack_dirtied(&w->engine.cache))
		pool_wake_dispatcher(pool);
	if (!jobs && pool_is_lazy(pool) && !pool_ends(pool) && !worker_is_parked(w)) {
		if (sleeps)
			COUNT(w, sleeps);
		else
			COUNT(w, naps);
		worker_wait(w, sleeps ? TRACE_SLEEP : TRACE_NAP, value, heard,
			    sleeps ? 0 : POLICY_NAP);
	}
	wake_store(&w->board->wake, WAKE_LOOKING);
	if (!sleeps) {
		lazy_nap_over(l, w->index);
		return false;
	}
	if (!lazy_rise(l, w->index, LAZY_ROUSED))
		worker_pass(w);
	worker_call(pool);
	return true;
}

void worker_park(struct worker *w)
{
	struct pool *pool = w->pool;
	struct lazy *l = &pool->idle.lazy;
	uint32_t heard, value;
	bool mine;

	/* What is left of a batch. */
	intake_recall(pool, w);
	heard = bell_heard(&w->requests.bell);
	value = wake_parked(&w->board->wake);
	lazy_park(l, w->index);
	/* What others left to this one while it looked, or woke it for (lazy.h, L6, L7). */
	if (lazy_spins(worker_cell(w)) || !worker_jobs_pending(pool))
		worker_pass(w);
	else if (!worker_wake_one(pool, w))
		pool_wake_dispatcher(pool);
	if (stack_dirtied(&w->engine.cache))
		pool_wake_dispatcher(pool);
	mine = w->roots.own || inbox_any(&w->inbox) || intake_mine(w);
	/* ORDER pool/settings [P1]: after the full fence of wake_parked(), as in worker_rest(). */
	if (worker_is_parked(w) && !pool_ends(pool) && (!mine || !w->engine.stack)) {
		COUNT(w, parks);
		/* Without memory for a stack it comes again. */
		worker_wait(w, TRACE_PARK, value, heard, mine ? POLICY_NAP : 0);
	}
	wake_store(&w->board->wake, WAKE_LOOKING);
	if (!lazy_rise(l, w->index, LAZY_ROUSED))
		worker_pass(w);
	lazy_return(l, w->index);
	worker_call(pool);
}
