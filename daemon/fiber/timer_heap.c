/* SPDX-License-Identifier: MIT */
/*
 * timer_heap.c - the timers of fibers that wait for a time
 *
 * A fiber that waits until some time has its timer in a heap, by that time. Most of these timers
 * never expire, such as those of waits whose counter is in time. So setting and clearing a timer
 * must be cheap: a few steps in memory, and a system call only for a timer that becomes the first.
 * Each FIBER_SHARDS-th worker has its own heap, so that workers do not contend for locks.
 *
 * 	fiber		set --> [heap] ------------------------------> clear, continues
 * 	dispatcher		   '-- due: out of it, wake (deadline) --^
 *
 * INVARIANTS
 *   I1. A timer is in a heap from its setting until its fiber has cleared it or the dispatcher has
 *       taken it out. The dispatcher wakes the fiber under the lock of that heap. So no other
 *       thread accesses it once its fiber has cleared it, or was woken by it and is resumed.
 *   I2. A fiber whose timer becomes the first of its heap wakes the dispatcher; any other timer is
 *       later than the next check. The timer is published before the dispatcher's word is read, and
 *       the dispatcher reads the heaps after it has announced its sleep (shm/wake.h).
 */
#include "daemon/fiber/timer_heap.h"

#include <errno.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/relaxed.h"
#include "daemon/core/worker.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/wakeup.h"

#define FIBER_TIMERS 64u /* initial capacity of a heap */

void fiber_times_fini(struct fibers *all)
{
	for (uint32_t i = 0; i < FIBER_SHARDS; i++)
		free(all->times[i].heap.nodes);
}

void fiber_times_set_first(struct fiber_times *times)
{
	/* Relaxed: I2. */
	store_relaxed(&times->first_ns,
		      times->heap.n ? max(times->heap.nodes[0]->v, UINT64_C(1)) : 0);
}

/* Lock held: makes room for one more timer. */
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
	struct pool *pool = f->head.worker->pool;
	struct fiber_times *times = &pool->fibers->times[f->head.worker->index % FIBER_SHARDS];
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
		fiber_times_set_first(times);
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
		fiber_times_set_first(times);
	}
	pthread_mutex_unlock(&times->lock);
}
