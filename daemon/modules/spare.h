/* SPDX-License-Identifier: MIT */
/*
 * modules/spare.h - memory of a leaf, kept for the next leaf of the job
 *
 * A shelf of pointers in the frame of a task. A leaf takes one, or makes one if there is none, and
 * puts it back. So contexts of libraries and buffers are made once for each worker that helps, not
 * for each leaf, and are bound to no thread.
 *
 * Threads: leaves of one job, on any worker; the task that has the shelf, before and after them.
 *
 * INVARIANTS
 *   I1. A pointer belongs to the shelf or to one leaf; an exchange transfers it.
 *   I2. No leaf keeps one across a fork, so all are on the shelf when the leaves have ended.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define SPARE_MAX 32u /* the rest is freed, and allocated again */

struct spare {
	_Atomic(void *) slots[SPARE_MAX];
};

/* Returns NULL if there is none. */
static inline void *spare_take(struct spare *spare)
{
	for (unsigned i = 0; i < SPARE_MAX; i++) {
		void *one;

		/* Relaxed: a hint. */
		if (!atomic_load_explicit(&spare->slots[i], memory_order_relaxed))
			continue;
		/* ORDER spare_take/spare_give [M1]: acquire, the accesses of the last leaf. Pairs
		 * with the release in spare_give(). Proof: I1. */
		one = atomic_exchange_explicit(&spare->slots[i], NULL, memory_order_acquire);
		if (one)
			return one;
	}
	return NULL;
}

/* Returns false if there is no room: the caller frees it. */
static inline bool spare_give(struct spare *spare, void *one)
{
	for (unsigned i = 0; i < SPARE_MAX; i++) {
		void *none = NULL;

		/* ORDER spare_take/spare_give [M1]: release, pairs with the acquire in
		 * spare_take(). Proof: I1. */
		if (atomic_compare_exchange_strong_explicit(&spare->slots[i], &none, one,
							    memory_order_release,
							    memory_order_relaxed))
			return true;
	}
	return false;
}
