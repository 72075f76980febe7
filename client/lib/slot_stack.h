/* SPDX-License-Identifier: MIT */
/*
 * slot_stack.h - the stack of client/lib/record_pool.c: its head and its links
 *
 * The head is { tag:32, index + 1:32 }. Each change increments the tag (record_pool.c, I1, I2).
 * Any number of threads of one process may call these functions.
 *
 * Compiles with C11 alone: tests/model/slot_stack.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"

struct client_slot {
	_Atomic uint16_t next;	      /* the free list's next slot + 1 */
	_Atomic uint16_t result_size; /* bytes */
	_Atomic uint32_t options;     /* CLIENT_OPTIONS | number, or 0 */
	_Atomic uint64_t generation;  /* 48 bits, of the slot's job or, if it is free, its next job;
				       * CLIENT_UNUSED before the first: submit_first() */
	_Atomic(void *) memory;	      /* args_pack(), or NULL; NULL in the stack */
	_Atomic uint64_t submitted_ns;
};

_Static_assert(sizeof(struct client_slot) == 32, "two slots share a cache line");

/*
 * Takes n slots, linked by next. Returns the index of the first, or -1 if the stack has fewer.
 * Inline: a submission takes one slot on its hot path.
 */
static inline __attribute__((always_inline)) int
slot_stack_pop(_Atomic uint64_t *stack, struct client_slot *slots, uint32_t n)
{
	/* ORDER slots/give [C1]: acquire, so that next and the last owner's writes are seen. Pairs
	 * with the release in slot_stack_push(). All changes of the head are read-modify-writes,
	 * so the head synchronizes with every earlier slot_stack_push(). */
	uint64_t head = atomic_load_explicit(stack, memory_order_acquire);

	for (;;) {
		uint32_t at = (uint32_t)head; /* + 1 */
		uint32_t taken = 0;
		uint64_t now;

		/* Relaxed: may be stale, then the tag has changed (I2). */
		for (; taken < n && at; taken++)
			at = load_relaxed(&slots[at - 1].next);
		if (taken == n) {
			/* ORDER slots/give [C1]: acquire, as above, for the retry. */
			if (atomic_compare_exchange_weak_explicit(
				    stack, &head, ((head >> 32) + 1) << 32 | at,
				    memory_order_acquire, memory_order_acquire))
				return (int)((uint32_t)head - 1);
			continue;
		}
		/* Too few slots, if the stack has not changed during the walk.
		 * ORDER slots/give [C1]: acquire, as above, for the retry. */
		now = atomic_load_explicit(stack, memory_order_acquire);
		if (now == head)
			return -1;
		head = now;
	}
}

/* Gives a chain back, from first to last. */
static inline void slot_stack_push(_Atomic uint64_t *stack, struct client_slot *slots,
				   uint32_t first, uint32_t last)
{
	uint64_t head = load_relaxed(stack);
	uint64_t next;

	do {
		store_relaxed(&slots[last].next, (uint16_t)head);
		next = ((head >> 32) + 1) << 32 | (first + 1);
		/* ORDER slots/give [C1]: release, next and the slots' fields are written before.
		 * Pairs with the acquires in slot_stack_pop(). */
	} while (!atomic_compare_exchange_weak_explicit(stack, &head, next, memory_order_release,
							memory_order_relaxed));
}
