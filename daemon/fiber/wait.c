/* SPDX-License-Identifier: MIT */
/*
 * wait.c - fibers wait for counters
 *
 * A wait is announced on the fiber's park word (park_word.h). Then the fiber's node goes into the
 * counter's list (wait_counter.h), and its link into the list that a cancel reads (parked.c). Then
 * it leaves its stack. All three are in the fiber's record, so the stack is not accessed until the
 * fiber is resumed. The waker that wins the park word resumes it (ready.c).
 *
 * INVARIANTS
 *   I1. A fiber itself removes its link and its node from their lists before its wait returns: the
 *       link under its shard's lock; the node under the counter's, unless the thread that counted
 *       has removed it. So no other thread has a pointer to them once the fiber is resumed, and its
 *       next wait can reuse them.
 */
#include <errno.h>

#include "common/clock.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/counter.h"
#include "daemon/fiber/parked.h"
#include "daemon/fiber/self.h"
#include "daemon/fiber/stuck.h"
#include "daemon/fiber/timer_heap.h"

/* The fiber has begun a park, but need not or cannot wait. */
static int fiber_stay(struct fiber *f, int r)
{
	if (!fiber_park_stay(&f->park))
		(void)fiber_rest(f);
	return r;
}

/* Parks until the counter is at most value, or until a time; FK_NEVER: no deadline. held: even if
 * the job ends. Returns 0, or the error, -ETIMEDOUT, -ENOMEM or, if the job ended, -ECANCELED. */
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
		COUNT(f->head.worker, fiber_timers);
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
	COUNT(f->head.worker, fiber_timeouts);
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
	/* The counter has usually reached the value already. */
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
	/* Another waiter may have freed the counter. */
	if (r == 0)
		return fiber_is_over(f) ? -ECANCELED : 0;
	if (r == -ETIMEDOUT && fiber_is_over(f))
		r = -ECANCELED;
	/* Not for the counter that counts this fiber: the others may wait for it. */
	if (r == -ECANCELED && counter->fk_kind == FIBER_COUNTS_FIBERS && f->counter != counter) {
		fiber_held_begin(f);
		if (fiber_wait(f, ref, value, FK_NEVER, true) == -ENOMEM)
			r = -ENOMEM;
		fiber_held_end(f);
	}
	return r;
}
