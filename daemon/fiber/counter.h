/* SPDX-License-Identifier: MIT */
/* counter.h - counters that authors use, by wait_counter.h */
#pragma once

#include <errno.h>
#include <stdint.h>

#include "daemon/fiber/fiber_types.h"

#define FIBER_COUNTS_FIBERS UINT64_C(0) /* fk_kind: FK_COUNTER */
#define FIBER_COUNTS_ANY    UINT64_C(1) /* FK_COUNTER_OF() */

/* Authors' counters have one generation. */
static inline struct fiber_counter_ref fiber_counter_of(struct fk_counter *counter)
{
	return (struct fiber_counter_ref){ (struct fiber_counter *)(void *)counter, 1 };
}

static inline int fiber_counter_error(enum fiber_counter_result result)
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

/* A fiber is spawned with this counter. Returns 0; -EINVAL if it does not count fibers; -ERANGE. */
int fiber_counter_begin(struct fk_counter *counter);
/* The fiber has ended, or was not spawned. */
void fiber_counter_end(struct worker *worker, struct fk_counter *counter);
