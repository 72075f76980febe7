/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Purpose
 *   The plain deque of Chase and Lev (SPAA 2005), with which bench_deque compares
 *   daemon/core/deque.h. The orders are those that Lê, Pop, Cohen and Zappa Nardelli proved (PPoPP
 *   2013). The ring does not grow: a push into a full one is refused.
 *
 * Threads
 *   chase_lev_push() and chase_lev_pop(): the owner. chase_lev_steal(): any thread.
 *
 * Invariants
 *   I1. top only grows, and the thread that moves it from i to i + 1 has taken item i: thieves by a
 *       CAS, the owner by a CAS as well if the item is the last one.
 *   I2. Two fences have one total order: the owner's, between its store of bottom and its load of
 *       top, and the thief's, between its loads of top and bottom. So owner and thief cannot both
 *       take the last item: one of their CASes fails.
 */

#define CHASE_LEV_SIZE (UINT64_C(1) << 20) /* a power of 2 */

struct chase_lev {
	_Alignas(64) _Atomic int64_t top;    /* thieves and owner write */
	_Alignas(64) _Atomic int64_t bottom; /* the owner writes */
	_Atomic uint64_t *items;	     /* CHASE_LEV_SIZE of them */
};

static inline _Atomic uint64_t *chase_lev_item(struct chase_lev *deque, int64_t i)
{
	return &deque->items[(uint64_t)i % CHASE_LEV_SIZE];
}

/* Returns false if there is no room. */
static inline bool chase_lev_push(struct chase_lev *deque, uint64_t item)
{
	int64_t b = atomic_load_explicit(&deque->bottom, memory_order_relaxed); /* owner-only */
	/* ORDER chase/lev [L1]: acquire, the thief has read its item before its place is used
	 * again. Pairs with the CAS in chase_lev_steal(). */
	int64_t t = atomic_load_explicit(&deque->top, memory_order_acquire);

	if (b - t >= (int64_t)CHASE_LEV_SIZE)
		return false;
	atomic_store_explicit(chase_lev_item(deque, b), item, memory_order_relaxed);
	/* ORDER chase/lev [L2]: release, a reader of bottom sees the item. Pairs with the load in
	 * chase_lev_steal(). */
	atomic_store_explicit(&deque->bottom, b + 1, memory_order_release);
	return true;
}

/* Returns false if the deque is empty. */
static inline bool chase_lev_pop(struct chase_lev *deque, uint64_t *ret_item)
{
	int64_t b = atomic_load_explicit(&deque->bottom, memory_order_relaxed) - 1;
	bool taken = true;
	int64_t t;

	atomic_store_explicit(&deque->bottom, b, memory_order_relaxed);
	/* ORDER chase/lev [L3]: seq_cst. Pairs with the fence in chase_lev_steal(). Proof: I2. */
	atomic_thread_fence(memory_order_seq_cst);
	t = atomic_load_explicit(&deque->top, memory_order_relaxed);
	if (t > b) {
		atomic_store_explicit(&deque->bottom, b + 1, memory_order_relaxed);
		return false;
	}
	*ret_item = atomic_load_explicit(chase_lev_item(deque, b), memory_order_relaxed);
	if (t == b) {
		/* ORDER chase/lev [L1]: seq_cst, as in the proof: one of those that want the last
		 * item. Pairs with the CAS in chase_lev_steal(). */
		taken = atomic_compare_exchange_strong_explicit(
			&deque->top, &t, t + 1, memory_order_seq_cst, memory_order_relaxed);
		atomic_store_explicit(&deque->bottom, b + 1, memory_order_relaxed);
	}
	return taken;
}

/* Returns false if the deque is empty, or another thread was faster. */
static inline bool chase_lev_steal(struct chase_lev *deque, uint64_t *ret_item)
{
	/* ORDER chase/lev [L1]: acquire. Pairs with the CAS of another thief. */
	int64_t t = atomic_load_explicit(&deque->top, memory_order_acquire);

	/* ORDER chase/lev [L3]: seq_cst. Pairs with the fence in chase_lev_pop(). Proof: I2. */
	atomic_thread_fence(memory_order_seq_cst);
	/* ORDER chase/lev [L2]: acquire. Pairs with the release in chase_lev_push(). */
	int64_t b = atomic_load_explicit(&deque->bottom, memory_order_acquire);

	if (t >= b)
		return false;
	*ret_item = atomic_load_explicit(chase_lev_item(deque, t), memory_order_relaxed);
	/* ORDER chase/lev [L1]: seq_cst, as in the proof. Pairs with chase_lev_pop() and
	 * chase_lev_push(). */
	return atomic_compare_exchange_strong_explicit(&deque->top, &t, t + 1, memory_order_seq_cst,
						       memory_order_relaxed);
}
