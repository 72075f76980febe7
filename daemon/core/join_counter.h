/* SPDX-License-Identifier: MIT */
/*
 * join_counter.h - the split join counter
 *
 * The join of Nowa (Schmaus, Pfeiffer, Schröder-Preikschat and Nolte, 2021) and libfork. steals of
 * a frame is counted by the worker that resumes its stolen continuation, plainly, for that is one
 * strand at a time. joins starts at 0; each child that ends after the paths have parted counts it
 * down, and the parent, at its join, adds steals.
 *
 * Threads: the worker on which the child ended, or the parent came to its join.
 *
 * INVARIANTS
 *   I1. Exactly one call of a scope says true: before the parent has added steals the counter is
 *       below 0 after any child; after it, it is the number of children that have not ended, and
 *       the step to 0 is made once, by the last child or by the parent itself.
 *   I2. The thread that gets true sees everything that all children and the parent did before their
 *       calls, and owns the frame.
 *
 * Compiles with C11 alone: tests/model/join_counter.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A child has ended; its result is stored, and its parent's stack given back. True: go on with the
 * parent. False: the frame may be gone. */
static inline bool join_child(_Atomic int32_t *joins)
{
	/* ORDER join/count [N1]: release, what the child did comes before; acquire, the last sees
	 * what all others did. Pairs with itself and join_parent(). */
	return atomic_fetch_sub_explicit(joins, 1, memory_order_acq_rel) == 1;
}

/* The parent is at its join. True: all have ended, go on. False: the last child goes on with the
 * frame, which may run elsewhere by now. */
static inline bool join_parent(_Atomic int32_t *joins, uint32_t steals)
{
	int32_t n = (int32_t)steals;

	/* ORDER join/count [N1]: release, the last child sees the frame as this strand leaves it;
	 * acquire, what the children did. Pairs with join_child(). */
	return atomic_fetch_add_explicit(joins, n, memory_order_acq_rel) + n == 0;
}
