/* SPDX-License-Identifier: MIT */
/*
 * timer.c - fibers wait for a time
 *
 * The dispatcher checks the heaps (timer_heap.c) in each pass, and sleeps no longer than until the
 * first timer (fibers_check()). So neither a thread nor a kernel timer is needed. A fiber is not
 * resumed before its time, unless something else wakes it. The delay depends on the dispatcher,
 * which slows down under load.
 */
#include "daemon/fiber/timer.h"

#include <errno.h>

#include "common/clock.h"
#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/io.h"
#include "daemon/fiber/parked.h"
#include "daemon/fiber/ready.h"
#include "daemon/fiber/self.h"
#include "daemon/fiber/timer_heap.h"

#define FIBER_DUE 64u /* maximum number of timers taken in one lock period */

/* Takes some due timers out of a heap. Returns those whose fibers the caller must resume. */
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
		/* No other thread resumes it then, so its timer stays valid. */
		if (fiber_park_wake(&f->park, timer->generation, FIBER_DEADLINE) == FIBER_RUN) {
			*end = timer;
			end = &timer->next;
		}
	}
	fiber_times_set_first(times);
	pthread_mutex_unlock(&times->lock);
	return ready;
}

uint64_t fibers_check(struct pool *pool)
{
	uint64_t now = 0, next = 0;

	for (uint32_t i = 0; i < FIBER_SHARDS; i++) {
		struct fiber_times *times = &pool->fibers->times[i];
		uint64_t first;

		/* Relaxed: timer_heap.c, I2. Timers set later are not due, because now is
		 * constant. */
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

/* Parks until a time. Returns 0, or the error: -ECANCELED if the job got an outcome first. */
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
	COUNT(f->head.worker, fiber_timers);
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
