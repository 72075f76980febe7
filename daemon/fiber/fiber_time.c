/* SPDX-License-Identifier: MIT */
/*
 * fiber_time.c - fibers wait for a time
 *
 * WHAT IT IS
 *   A fiber that waits until some time has its timer in a heap, by the time at which it is to go
 *   on. The dispatcher looks at the heaps each time that it comes by, and sleeps no longer than
 *   until the first of them (fibers_check()): it sleeps until a time anyhow, so no thread and no
 *   timer of the kernel's is added. A heap, because most of these timers come to nothing, as that
 *   of a wait that has its counter in time: to set one and to clear it costs a few steps in memory,
 *   and a call of the kernel only for one that becomes the first.
 *   One heap for each FIBER_SHARDS-th worker, so that workers do not wait for each other's locks.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Fibers: fk_rt_fiber_sleep(), fiber_timer_set(), fiber_timer_clear(). The dispatcher:
 *   fibers_check().
 *
 *	fiber		set --> [heap] ------------------------------> clear, goes on
 *	dispatcher		   '-- due: out of it, wake (deadline) --^
 *
 * INVARIANTS
 *   I1. A timer is in a heap from when it is set until its fiber has cleared it, or the dispatcher
 *       has taken it out, which wakes its fiber under the lock of that heap. So nobody touches it
 *       once its fiber has cleared it, or has been woken by it and goes on.
 *   I2. Who sets one that becomes the first of its heap wakes the dispatcher; for another that one
 *       need not come earlier than it wanted to. What is set is published before the dispatcher's
 *       word is looked at, and the dispatcher looks at the heaps after it has announced its sleep
 *       (shm/wake.h).
 *   I3. A fiber does not go on before its time, unless it is woken for something else. How much
 *       later it does is up to the dispatcher, which slows down if there is too much for it.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A worker dies with the whole pool.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/relaxed.h"
#include "daemon/fiber/fiber.h"
#include "common/util.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/vheap.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/fiber/fiber_park.h"

#define FIBER_TIMERS 64u		 /* room for so many to begin with */
#define FIBER_DUE    64u		 /* that are taken between two locks */
#define FIBER_FAR    (UINT64_C(1) << 62) /* ns: 146 years; who waits longer waits for ever */

void fiber_times_init(struct fibers *all)
{
	for (uint32_t i = 0; i < FIBER_SHARDS; i++)
		pthread_mutex_init(&all->times[i].lock, NULL);
}

void fiber_times_fini(struct fibers *all)
{
	for (uint32_t i = 0; i < FIBER_SHARDS; i++) {
		free(all->times[i].heap.nodes);
		pthread_mutex_destroy(&all->times[i].lock);
	}
}

/* Lock held: says when the first one is due. */
static void fiber_times_tell(struct fiber_times *times)
{
	/* Relaxed: I2. */
	store_relaxed(&times->first_ns,
		      times->heap.n ? max(times->heap.nodes[0]->v, UINT64_C(1)) : 0);
}

/* Lock held: sees to it that there is room for one more. */
static int fiber_times_grow(struct fiber_times *times)
{
	uint32_t room = times->room ? 2 * times->room : FIBER_TIMERS;
	struct vheap_node **nodes;

	if (times->heap.n < times->room)
		return 0;
	nodes = realloc(times->heap.nodes, room * sizeof(struct vheap_node *));
	if (!nodes)
		return -ENOMEM;
	times->heap.nodes = nodes;
	times->room = room;
	return 0;
}

int fiber_timer_set(struct fiber *f, uint64_t generation, uint64_t at_ns)
{
	struct pool *pool = f->worker->pool;
	struct fiber_times *times = &pool->fibers->times[f->worker->index % FIBER_SHARDS];
	struct fiber_timer *timer = &f->waits.timer;
	bool first = false;
	int r;

	*timer = (struct fiber_timer){ .generation = generation, .times = times };
	timer->node.v = min(at_ns, clock_ns() + FIBER_FAR);
	pthread_mutex_lock(&times->lock);
	r = fiber_times_grow(times);
	if (r == 0) {
		timer->node.picked_at = times->n_set++;
		vheap_insert(&times->heap, &timer->node);
		first = times->heap.nodes[0] == &timer->node;
		fiber_times_tell(times);
	}
	pthread_mutex_unlock(&times->lock);
	if (first)
		pool_wake_dispatcher(pool);
	return r;
}

void fiber_timer_clear(struct fiber *f)
{
	struct fiber_timer *timer = &f->waits.timer;
	struct fiber_times *times = timer->times;

	pthread_mutex_lock(&times->lock);
	if (timer->node.place) {
		vheap_remove(&times->heap, &timer->node);
		fiber_times_tell(times);
	}
	pthread_mutex_unlock(&times->lock);
}

static struct fiber *fiber_of_timer(struct fiber_timer *timer)
{
	return container_of(timer, struct fiber, waits.timer);
}

/* Takes some that are due out of a heap. Returns those whose fibers the caller makes go on. */
static struct fiber_timer *fiber_times_due(struct pool *pool, struct fiber_times *times,
					   uint64_t now)
{
	struct fiber_timer *ready = NULL, **end = &ready;

	pthread_mutex_lock(&times->lock);
	for (uint32_t i = 0; i < FIBER_DUE && times->heap.n && times->heap.nodes[0]->v <= now;
	     i++) {
		struct fiber_timer *timer =
			container_of(times->heap.nodes[0], struct fiber_timer, node);
		struct fiber *f = fiber_of_timer(timer);

		vheap_remove(&times->heap, &timer->node);
		if (f->does_io) {
			fiber_io_end(pool, f, -ETIMEDOUT);
			continue;
		}
		/* Nobody else makes it go on then: its timer stays as it is. */
		if (fiber_park_wake(&f->park, timer->generation, FIBER_DEADLINE) == FIBER_RUN) {
			*end = timer;
			end = &timer->next;
		}
	}
	fiber_times_tell(times);
	pthread_mutex_unlock(&times->lock);
	return ready;
}

uint64_t fibers_check(struct pool *pool)
{
	uint64_t now = 0, next = 0;

	for (uint32_t i = 0; i < FIBER_SHARDS; i++) {
		struct fiber_times *times = &pool->fibers->times[i];
		uint64_t first;

		/* Relaxed: I2. What comes in meanwhile is not due: now stays what it was. */
		while ((first = load_relaxed(&times->first_ns))) {
			struct fiber_timer *timer;

			now = now ? now : clock_ns();
			if (first > now)
				break;
			timer = fiber_times_due(pool, times, now);
			while (timer) {
				struct fiber *f = fiber_of_timer(timer);

				timer = timer->next;
				fiber_ready(NULL, f);
			}
		}
		next = first && (!next || first < next) ? first : next;
	}
	return next;
}

/* Parks until then. Returns 0, or the error, -ECANCELED if the job was over first. */
static int fiber_sleep(struct fiber *f, uint64_t at_ns)
{
	uint64_t generation = fiber_park_begin(&f->park, false);
	int r;

	if (!generation)
		return -ECANCELED;
	r = fiber_timer_set(f, generation, at_ns);
	if (r < 0) {
		if (!fiber_park_stay(&f->park))
			(void)fiber_rest(f);
		return r;
	}
	r = fiber_rest(f) ? -ECANCELED : -ENOMEM;
	COUNT(f->worker, fiber_timers);
	if (fiber_park_reason(&f->park) == FIBER_DEADLINE)
		return 0;
	fiber_timer_clear(f);
	return r;
}

int fk_rt_fiber_sleep(uint64_t until_ns, bool from_now)
{
	struct fiber *f = fiber_self();
	uint64_t now = clock_ns();
	int r = -ECANCELED;

	if (!f)
		return -EPERM;
	if (from_now)
		until_ns = until_ns < FIBER_FAR ? now + until_ns : UINT64_MAX;
	if (until_ns <= now)
		return fk_rt_fiber_yield();
	fiber_wait_begin(f);
	if (!fiber_is_over(f))
		r = fiber_sleep(f, until_ns);
	fiber_wait_end(f);
	return fiber_is_over(f) ? -ECANCELED : r;
}
