/* SPDX-License-Identifier: MIT */
/*
 * counter.c - counters that authors use
 *
 * INVARIANTS
 *   I1. A counter may end when a wait for it may return: the thread that counts does not access it
 *       after it has released its lock.
 */
#include "daemon/fiber/counter.h"

#include "daemon/core/worker.h"
#include "daemon/fiber/ready.h"
#include "daemon/fiber/self.h"

_Static_assert(sizeof(struct fiber_counter) == offsetof(struct fk_counter, fk_kind), "it fits");
_Static_assert(FK_COUNTER_WORD_(7) == (UINT64_C(1) << FIBER_COUNTER_GENERATION |
				       UINT64_C(7) << FIBER_COUNTER_VALUE),
	       "a counter's first word");
_Static_assert(FK_COUNTER_MAX == FIBER_COUNTER_MAX, "a counter's limit");

/* Counts down, and resumes fibers that waited for the new value. w: see fiber_ready(). */
static enum fiber_counter_result fiber_count_down(struct worker *w, struct fk_counter *counter,
						  uint32_t n)
{
	struct fiber_counter_node *woken = NULL;
	enum fiber_counter_result result = fiber_counter_down(fiber_counter_of(counter), n, &woken);
	struct fiber_park *park;

	/* The counter may no longer exist. */
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
		fk_enter(&f->head.worker->engine.fk, 0);
		result = fiber_count_down(f->head.worker, counter, size);
		fk_enter(&f->head.worker->engine.fk, (uintptr_t)&f->head.frame);
	}
	return fiber_counter_error(result);
}
