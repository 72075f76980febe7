/* SPDX-License-Identifier: MIT */
/* timer_heap.h - the timers of fibers that wait for a time */
#pragma once

#include <stdint.h>

#include "daemon/fiber/fiber_types.h"

#define FIBER_FAR (UINT64_C(1) << 62) /* ns: 146 years; a longer wait never ends */

static inline struct fiber *fiber_of_timer(struct fiber_timer *timer)
{
	return container_of(timer, struct fiber, waits.timer);
}

void fiber_times_fini(struct fibers *fibers);

/* Lock held: stores when the first timer is due. */
void fiber_times_set_first(struct fiber_times *times);

/* In the fiber, which has begun a park of this generation: wakes it at this time at the latest, for
 * FIBER_DEADLINE; or ends its I/O then, if it does some. Returns 0 or -ENOMEM. */
int fiber_timer_set(struct fiber *fiber, uint64_t generation, uint64_t at_ns);

/* In the fiber, when it is resumed: removes its timer. Not needed if the timer has woken it. */
void fiber_timer_clear(struct fiber *fiber);
