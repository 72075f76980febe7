/* SPDX-License-Identifier: MIT */
/*
 * join_counter.h - the split join counter
 *
 * The join of Nowa (Schmaus, Pfeiffer, Schröder-Preikschat and Nolte, 2021) and libfork. The worker
 * that resumes a frame's stolen continuation counts steals, without atomics, because that is one
 * strand at a time. joins starts at 0. Each child that ends after a steal decrements it, and the
 * parent adds steals at its join.
 *
 * Threads: the worker on which the child ended, or on which the parent reached its join.
 *
 * INVARIANTS
 *   I1. Exactly one call of a scope returns true. Before the parent has added steals, the counter
 *       is below 0 after any child. Afterwards it is the number of children that have not ended,
 *       and reaches 0 once, by the last child or by the parent itself.
 *   I2. The thread that gets true sees all that the children and the parent did before their calls,
 *       and owns the frame.
 *
 * Compiles with C11 alone: tests/model/join_counter.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A child has ended: its result is stored, and its parent's stacklet returned. True: continue with
 * the parent. False: the frame may no longer exist. */
static inline bool join_child(_Atomic int32_t *joins)
{
	/* ORDER join/count [N1]: release, the child's work comes before; acquire, the last child
	 * sees the work of all others. Pairs with itself and join_parent(). */
	return atomic_fetch_sub_explicit(joins, 1, memory_order_acq_rel) == 1;
}

/* The parent is at its join. True: all children have ended; continue. False: the last child resumes
 * the frame, which may already run on another worker. */
static inline bool join_parent(_Atomic int32_t *joins, uint32_t steals)
{
	int32_t n = (int32_t)steals;

	/* ORDER join/count [N1]: release, the last child sees the frame as this strand leaves it;
	 * acquire, the work of the children. Pairs with join_child(). */
	return atomic_fetch_add_explicit(joins, n, memory_order_acq_rel) + n == 0;
}
