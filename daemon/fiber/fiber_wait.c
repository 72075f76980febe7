/* SPDX-License-Identifier: MIT */
/*
 * fiber_wait.c - fibers wait for counters, and go on
 *
 * WHAT IT IS
 *   A wait is announced on the fiber's park word (fiber_park.h); then the fiber's node goes into
 *   the counter's list (fiber_counter.h), and its link into the list of those that a cancel looks
 *   for (fiber_family.c); then it leaves its stack. All three stand in the fiber's own record, not
 *   on its stack, of which nobody needs a byte until the fiber goes on. Who wakes it, and is the
 *   one that does, makes it go on: in its own deque if it runs a fiber, or none; else in the inbox
 *   of a worker: code of frames owns the newest entry of the deque, and other threads have none.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Fibers; the loop, for a fiber that has ended; fk_counter_add() any code of tasks.
 *
 * INVARIANTS
 *   I1. What a fiber has put into lists it takes out of them itself, before its wait returns: a
 *       link, under its shard's lock; a node, under the counter's, unless who counted has.
 *       So nobody has a pointer to them once the fiber goes on, and its next wait has them anew.
 *   I2. A counter has ended when a wait for it may return: nobody touches it any more after its
 *       lock was released by who has counted.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A worker dies with the whole pool.
 */
#include <errno.h>

#include "common/clock.h"
#include "daemon/core/hooks.h"
#include "daemon/fiber/fiber.h"
#include "common/util.h"
#include "daemon/core/inbox.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/fiber/fiber_berth.h"
#include "daemon/fiber/fiber_counter.h"
#include "daemon/fiber/fiber_park.h"
#include "shm/board.h"
#include "daemon/engine/strand_internal.h"
#include "shm/wake.h"

#define FIBER_COUNTS_FIBERS UINT64_C(0) /* fk_kind: FK_COUNTER */
#define FIBER_COUNTS_ANY    UINT64_C(1) /* FK_COUNTER_OF() */

_Static_assert(sizeof(struct fiber_counter) == offsetof(struct fk_counter, fk_kind), "it fits");
_Static_assert(FK_COUNTER_WORD_(7) == (UINT64_C(1) << FIBER_COUNTER_GENERATION |
				       UINT64_C(7) << FIBER_COUNTER_VALUE),
	       "a counter's first word");
_Static_assert(FK_COUNTER_MAX == FIBER_COUNTER_MAX, "a counter's limit");

/* Authors' counters live once. */
static struct fiber_counter_ref fiber_counter_of(struct fk_counter *counter)
{
	return (struct fiber_counter_ref){ (struct fiber_counter *)(void *)counter, 1 };
}

/* What authors are told. */
static int fiber_counter_error(enum fiber_counter_result result)
{
	switch (result) {
	case FIBER_COUNTER_OK:
	case FIBER_COUNTER_REACHED:
		return 0;
	case FIBER_COUNTER_RANGE:
		return -ERANGE;
	case FIBER_COUNTER_STALE:
	case FIBER_COUNTER_TWICE:
		return -EINVAL;
	}
	__builtin_unreachable();
}

/* ------------------------------------------------------------------------ going on */

/* Who is to have a fiber that no worker has woken: who holds its berth, if it has one; else the one
 * it was on, unless that is busy and another is not. */
static struct worker *fiber_host(struct fiber *f)
{
	struct pool *pool = f->worker->pool;
	struct worker *busy = NULL;

	if (f->copy.berth)
		return fiber_berth_holder(f->worker, f->copy.berth);
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[(f->worker->index + i) % pool->n_workers];

		if (worker_is_parked(w))
			continue;
		if (wake_state(wake_load(&w->board->wake)) != WAKE_BUSY)
			return w;
		busy = busy ? busy : w;
	}
	return busy ? busy : f->worker;
}

bool fiber_goes_anywhere(const struct fk_frame *face)
{
	return !container_of(face, struct fiber, face)->copy.berth;
}

void fiber_send(struct worker *to, struct fiber *f)
{
	fk_set_site(&f->face, FK_PARTED | FK_MOVED);
	inbox_put(&to->inbox, &f->face);
}

void fiber_rouse(struct worker *to)
{
	to->pool->hooks->wake(to->pool, to->index, NULL);
	worker_ask(to);
}

void fiber_ready(struct worker *w, struct fiber *f)
{
	struct worker *to;

	if (w && !f->copy.berth) {
		fiber_put(w, f);
		return;
	}
	to = fiber_host(f);
	fiber_send(to, f);
	/* To its own it comes by itself. */
	if (to != w)
		fiber_rouse(to);
}

void fiber_ready_one(struct fiber_batch *batch, struct fiber *f)
{
	struct worker *to = fiber_host(f);

	fiber_send(to, f);
	batch->workers[to->index / 64] |= UINT64_C(1) << to->index % 64;
}

void fiber_ready_all(struct pool *pool, const struct fiber_batch *batch)
{
	for (uint32_t i = 0; i < pool->n_workers; i++)
		if (batch->workers[i / 64] >> i % 64 & 1)
			fiber_rouse(&pool->workers[i]);
}

/* ------------------------------------------------------------------------ counting */

/* Counts down, and makes those go on that have waited for it. w: see fiber_ready(). */
static enum fiber_counter_result fiber_count_down(struct worker *w, struct fk_counter *counter,
						  uint32_t n)
{
	struct fiber_counter_node *woken = NULL;
	enum fiber_counter_result result = fiber_counter_down(fiber_counter_of(counter), n, &woken);
	struct fiber_park *park;

	/* The counter may be gone. */
	while ((park = fiber_counter_next(&woken)))
		fiber_ready(w, container_of(park, struct fiber, park));
	return result;
}

int fiber_counter_begin(struct fk_counter *counter)
{
	if (counter->fk_kind != FIBER_COUNTS_FIBERS)
		return -EINVAL;
	return fiber_counter_error(fiber_counter_up(fiber_counter_of(counter), 1));
}

void fiber_counter_end(struct worker *w, struct fk_counter *counter)
{
	(void)fiber_count_down(w, counter, 1);
}

int fk_rt_counter_add(struct fk_counter *counter, int32_t n)
{
	uint32_t size = n < 0 ? -(uint32_t)n : (uint32_t)n;
	struct fiber *f = fiber_self();
	enum fiber_counter_result result;

	if (counter->fk_kind != FIBER_COUNTS_ANY)
		return -EINVAL;
	if (n >= 0) {
		result = fiber_counter_up(fiber_counter_of(counter), size);
	} else if (!f) {
		result = fiber_count_down(NULL, counter, size);
	} else {
		fk_enter(&f->worker->engine.fk, 0);
		result = fiber_count_down(f->worker, counter, size);
		fk_enter(&f->worker->engine.fk, (uintptr_t)&f->face);
	}
	return fiber_counter_error(result);
}

/* ------------------------------------------------------------------------ waiting */

/* The fiber has begun a park, and what it wanted to wait for is there, or cannot be waited for. */
static int fiber_stay(struct fiber *f, int r)
{
	if (!fiber_park_stay(&f->park))
		(void)fiber_rest(f);
	return r;
}

/* Parks until the counter is at value or below, or until a time; FK_NEVER: without one. held:
 * whatever becomes of the job. Returns 0, or the error, -ETIMEDOUT, -ENOMEM or, if it was over,
 * -ECANCELED. */
static int fiber_wait(struct fiber *f, struct fiber_counter_ref ref, uint32_t value,
		      uint64_t until_ns, bool held)
{
	struct fiber_counter_node *node = &f->waits.node;
	uint64_t generation = fiber_park_begin(&f->park, held);
	bool timed = until_ns != FK_NEVER;
	enum fiber_counter_result result;
	enum fiber_reason reason;
	bool rested = true;
	int r;

	if (!generation)
		return -ECANCELED;
	*node = (struct fiber_counter_node){ .hooked = 0 };
	r = timed ? fiber_timer_set(f, generation, until_ns) : 0;
	if (r < 0)
		return fiber_stay(f, r);
	result = fiber_counter_hook(ref, value, node, &f->park, generation);
	if (result != FIBER_COUNTER_OK)
		r = fiber_stay(f, fiber_counter_error(result));
	else
		rested = fiber_rest(f);
	reason = fiber_park_reason(&f->park);
	if (timed) {
		COUNT(f->worker, fiber_timers);
		if (reason != FIBER_DEADLINE)
			fiber_timer_clear(f);
	}
	if (result != FIBER_COUNTER_OK)
		return r;
	if (reason == FIBER_COUNTER)
		return fiber_counter_error(node->outcome);
	fiber_counter_unhook(node);
	if (!rested)
		return -ENOMEM;
	if (reason != FIBER_DEADLINE)
		return -ECANCELED;
	COUNT(f->worker, fiber_timeouts);
	return -ETIMEDOUT;
}

int fk_rt_counter_wait(struct fk_counter *counter, uint32_t value, uint64_t until_ns)
{
	struct fiber_counter_ref ref = fiber_counter_of(counter);
	enum fiber_counter_result result;
	struct fiber *f = fiber_self();
	int r = -ECANCELED;

	if (!f)
		return -EPERM;
	if (counter->fk_kind > FIBER_COUNTS_ANY ||
	    fiber_on_shared_stack(f, counter, sizeof(*counter)))
		return -EINVAL;
	/* It is there already, for the most part, where fibers were stolen and have ended. */
	result = fiber_counter_look(ref, value);
	if (result != FIBER_COUNTER_OK) {
		r = fiber_counter_error(result);
	} else if (until_ns != FK_NEVER && until_ns <= clock_ns()) {
		r = -ETIMEDOUT;
	} else {
		fiber_wait_begin(f);
		if (!fiber_is_over(f))
			r = fiber_wait(f, ref, value, until_ns, false);
		fiber_wait_end(f);
	}
	/* The counter may be gone: another one that waited for it goes on, too. */
	if (r == 0)
		return fiber_is_over(f) ? -ECANCELED : 0;
	if (r == -ETIMEDOUT && fiber_is_over(f))
		r = -ECANCELED;
	/* They will not take long. Not for more of them: they may wait for this one. */
	if (r == -ECANCELED && counter->fk_kind == FIBER_COUNTS_FIBERS && f->counter != counter) {
		fiber_held_begin(f);
		if (fiber_wait(f, ref, value, FK_NEVER, true) == -ENOMEM)
			r = -ENOMEM;
		fiber_held_end(f);
	}
	return r;
}
