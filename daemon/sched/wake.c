/* SPDX-License-Identifier: MIT */
#include "daemon/sched/wake.h"

#include "common/relaxed.h"
#include "daemon/core/lazy_policy.h"
#include "daemon/core/steal_policy.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/trace.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "shm/board.h"
#include "shm/wake.h"

/* Second part of a wake: the worker was removed from the group state, or is in a timed sleep. */
static void worker_rouse(struct pool *pool, uint32_t index, struct worker *waker)
{
	struct worker *w = &pool->workers[index];
	uint32_t value = wake_load(&w->board->wake);

	if (!wake_rests(value) || !pool_wake_word(&w->board->wake, &w->requests.bell, value))
		return;
	/* Relaxed: pool_wake_dispatcher() has the fence (worker_thread.h, T1). */
	if (unlikely(load_relaxed(&w->requests.absent)))
		pool_wake_dispatcher(pool);
	if (!waker)
		return;
	COUNT(waker, wakes);
	trace_wake(waker, index);
	if (w->group != waker->group)
		COUNT(waker, wakes_far);
}

/* Settles the wake debt by waking this thief. */
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

void worker_pass(struct worker *w)
{
	worker_settle(w, lazy_pass(&w->pool->idle.lazy, w->index));
}

/* Ensures that a worker of this group searches. False: all are busy. After a full fence. */
static bool worker_wake_in(struct pool *pool, struct lazy_group *group, uint32_t place,
			   struct worker *waker)
{
	uint32_t thief;

	if (lazy_spins(group))
		return true;
	thief = lazy_timed_sleeper(&pool->idle.lazy, group, place);
	if (thief == LAZY_NOBODY)
		thief = lazy_wake(&pool->idle.lazy, group, place);
	if (thief == LAZY_NOBODY)
		return false;
	worker_rouse(pool, thief, waker);
	return true;
}

static bool worker_wake_any(struct pool *pool)
{
	struct lazy *l = &pool->idle.lazy;
	/* Relaxed: only distributes the wakes. */
	uint32_t turn = add_relaxed(&pool->idle.turn, 1);

	for (uint32_t c = 0; c < l->n_groups; c++)
		if (lazy_spins(&l->groups[c]))
			return true;
	for (uint32_t c = 0; c < l->n_groups; c++)
		if (worker_wake_in(pool, &l->groups[(turn + c) % l->n_groups], 0, NULL))
			return true;
	return false;
}

bool worker_wake_one(struct pool *pool, struct worker *waker)
{
	struct lazy *l = &pool->idle.lazy;
	struct lazy_group *own;
	bool found;

	/* ORDER lazy/timed [L6]: full, the work comes before the reads of the group states. Pairs
	 * with the fences of workers that leave. */
	wake_published();
	if (!waker)
		return worker_wake_any(pool);
	own = worker_group(waker);
	found = worker_wake_in(pool, own, l->seats[waker->index].bit, waker);
	for (uint32_t i = 0; !found && i + 1 < l->n_groups; i++)
		found = worker_wake_in(pool, &l->groups[own->near[i]], 0, waker);
	worker_serve(waker);
	return found;
}

bool worker_wake_more(struct pool *pool)
{
	struct lazy *l = &pool->idle.lazy;
	uint32_t thief = LAZY_NOBODY;

	for (uint32_t c = 0; c < l->n_groups && thief == LAZY_NOBODY; c++)
		thief = lazy_wake(l, &l->groups[c], 0);
	if (thief == LAZY_NOBODY)
		return false;
	worker_rouse(pool, thief, NULL);
	return true;
}

void worker_wake(struct pool *pool, uint32_t index, struct worker *waker)
{
	/* ORDER lazy/timed [L6]: full, as in worker_wake_one(). */
	wake_published();
	if (!wake_rests(wake_load(&pool->workers[index].board->wake)))
		return;
	(void)lazy_rise(&pool->idle.lazy, index, LAZY_WOKEN);
	worker_rouse(pool, index, waker);
}

void worker_spread(struct worker *w)
{
	struct lazy *l = &w->pool->idle.lazy;

	for (uint32_t n = policy_spread(w->thief.victim_left, POLICY_SPREAD); n; n--) {
		uint32_t thief = lazy_wake(l, worker_group(w), l->seats[w->index].bit);

		if (thief == LAZY_NOBODY)
			return;
		worker_rouse(w->pool, thief, w);
		COUNT(w, wakes_extra);
	}
}
