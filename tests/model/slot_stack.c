/* SPDX-License-Identifier: MIT */
/*
 * slot_stack.c - a slot belongs to one job, and a thread that waits for slots gets them
 * (client/lib/slot_stack.h, client/lib/record_pool.c)
 *
 * THE PROGRAM
 *   Three threads take slots, write their plain fields and give them back, ROUNDS times each. If
 *   there are too few, a thread announces itself, checks again and sleeps, as records_take_slowly()
 *   does. In the first instance each needs one slot of two. In the second, the first thread needs
 *   two of three at once.
 *
 * WHAT MUST BE TRUE
 *   No two threads have a slot at the same time, and each sees the writes of the last owner. A
 *   thread that sleeps is woken if the slots that it needs are free.
 *
 * MUTANTS
 *   MUTANT_GIVE      slots are given back relaxed
 *   MUTANT_TAKE      slots are taken relaxed
 *   MUTANT_TAG       the head has no tag
 * 	MUTANT_ROOM      no fence between the slots and the check for waiters
 * 	MUTANT_ANNOUNCE  no fence between the announcement and the check of the stack
 * 	MUTANT_LOOK      a waiter reads the value to sleep on after it has checked the stack
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#include "shm/fence.h"

#if defined(MUTANT_GIVE)
#define memory_order_release memory_order_relaxed
#elif defined(MUTANT_TAKE)
#define memory_order_acquire memory_order_relaxed
#elif defined(MUTANT_TAG)
#undef atomic_compare_exchange_weak_explicit
#define atomic_compare_exchange_weak_explicit(object, old, value, order, failed)                   \
	__atomic_compare_exchange_n((uint64_t *)(object), old, (uint32_t)(value), 1, order, failed)
#endif

#include "client/lib/slot_stack.h"

#undef memory_order_release
#undef memory_order_acquire

#define MODEL_THREADS 3
#define SLOTS	      3u
#ifdef MODEL_ONCE
#define ROUNDS 1u
#else
#define ROUNDS 3u
#endif

struct model {
	struct client_slot slots[SLOTS];
	_Alignas(64) _Atomic uint64_t free;
	_Alignas(64) _Atomic uint32_t waiters;
	_Atomic uint32_t room;
	struct model_futex futex;
	uint32_t n;	  /* slots */
	uint32_t wants_0; /* of the first thread */
};

static void model_init(struct model *m, uint32_t instance)
{
	m->n = instance % 2 ? 3 : 2;
	m->wants_0 = instance % 2 ? 2 : 1;
	for (uint32_t i = 0; i < SLOTS; i++) {
		atomic_store_explicit(&m->slots[i].next, i + 1 < m->n ? i + 2 : 0,
				      memory_order_relaxed);
		m->slots[i].submitted_ns = 0;
	}
	atomic_store_explicit(&m->free, 1, memory_order_relaxed);
	atomic_store_explicit(&m->waiters, 0, memory_order_relaxed);
	atomic_store_explicit(&m->room, 0, memory_order_relaxed);
	model_futex_init(&m->futex);
}

/* records_push() */
static void give(struct model *m, uint32_t first, uint32_t last)
{
	slot_stack_push(&m->free, m->slots, first, last);
#ifndef MUTANT_ROOM
	fence_full();
#endif
	if (!atomic_load_explicit(&m->waiters, memory_order_relaxed))
		return;
	atomic_fetch_add_explicit(&m->room, 1, memory_order_relaxed);
	(void)model_wake(&m->futex);
}

/* records_take_slowly(). Returns -1 if it sleeps. */
static int take_slowly(struct model *m, uint32_t n, uint32_t thread)
{
	int index;

	atomic_fetch_add_explicit(&m->waiters, 1, memory_order_relaxed);
	do {
		uint32_t room = atomic_load_explicit(&m->room, memory_order_relaxed);

#ifndef MUTANT_ANNOUNCE
		fence_full();
#endif
		index = slot_stack_pop(&m->free, m->slots, n);
#ifdef MUTANT_LOOK
		model_stumble();
		room = atomic_load_explicit(&m->room, memory_order_relaxed);
#endif
		if (index < 0 && model_wait(&m->futex, &m->room, room, thread))
			return -1;
	} while (index < 0);
	atomic_fetch_sub_explicit(&m->waiters, 1, memory_order_relaxed);
	return index;
}

static void model_thread(struct model *m, uint32_t thread)
{
	uint32_t n = thread ? 1 : m->wants_0;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		int first = slot_stack_pop(&m->free, m->slots, n);
		uint32_t last;

		if (first < 0)
			first = take_slowly(m, n, thread);
		if (first < 0)
			return;
		last = (uint32_t)first;
		if (n == 2)
			last = atomic_load_explicit(&m->slots[first].next, memory_order_relaxed) -
			       1;
		model_assert(last < m->n, "what is taken are slots");
		/* Plain: this thread owns it. */
		m->slots[first].submitted_ns++;
		if (n == 2)
			m->slots[last].submitted_ns++;
		model_stumble();
		give(m, (uint32_t)first, last);
	}
}

static void model_check(struct model *m)
{
	uint32_t free = 0;

	for (uint32_t at = (uint32_t)atomic_load_explicit(&m->free, memory_order_relaxed);
	     at && free <= SLOTS; free++)
		at = atomic_load_explicit(&m->slots[at - 1].next, memory_order_relaxed);
	model_assert(free == m->n, "all slots are back, each once");
	model_assert(!m->futex.sleeping, "a thread that waits for slots is woken");
}

#include "tests/model/run.h"
