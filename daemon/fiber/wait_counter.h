/* SPDX-License-Identifier: MIT */
/*
 * wait_counter.h - a counter that fibers wait on until it has reached a value
 *
 * One word, and a list of waiters. A fiber that ends decrements it; each waiter names the value
 * that it waits for. Waiting is a park (daemon/fiber/park_word.h) of a fiber, or of a frame that
 * has such a word. Wait-for-counter is the only way to wait for others in Ramesh and Chowdhury's
 * M:N runtime.
 *
 * Threads: fiber_counter_hook(), fiber_counter_unhook(): the waiter. The rest: any worker. The loop
 * counts down for a fiber that ends, after the switch, because its waiter may free its stack.
 *
 * THE WORD
 *   { generation:13, level:25, value:25, lock:1 }. level is 1 more than the highest value that is
 *   waited for, 0 without waiters. So one CAS counts down as long as no waiter must be woken. A
 *   thread that wakes, hooks or unhooks holds the lock, which is a bit of the word. While it is set
 *   the rest of the word does not change; the holder's last store changes both. The list is ordered
 *   by the values waited for, the highest first, so the waiters to wake are at its head. The lock
 *   is held for a few steps for each woken waiter, and for each with a higher value that a new
 *   waiter passes. The generation is odd while the counter lives, and each user has it in a struct
 *   fiber_counter_ref. Zeroed memory is a freed counter.
 *
 * THE NODE
 *   A waiter's place in the list, in the waiter's memory. Its address and bytes must not change
 *   while the waiter is parked: its own stack or its descriptor will do, but not a shared stack
 *   that it is copied out of. The same holds for a counter. hooked: it is in the list. The thread
 *   that removes it stores 0 last.
 *
 * 	waiter  hook --(parks)--> woken by the counter: its node is off, it accesses neither
 * 				  woken otherwise, or stayed: unhook, before its memory is freed
 * 	down    lock; for each waiter to wake: remove; claim: won: to a private list;
 * 		lost: hooked = 0; unlock with the new value; fiber_counter_next(): deliver each
 *
 * INVARIANTS
 *   I1. No wake is lost. A node goes into the list only under the lock. The lock is taken by a CAS
 *       on a word whose value is above the awaited one. The unlock stores its level. So the thread
 *       that brings the value down that far comes later, sees the level, and removes the node.
 *   I2. A thread that sees the value sees the work of the threads that brought it there. Each down
 *       releases; changes of the word are read-modify-writes, or the store that unlocks, whose lock
 *       has acquired. A waiter sees the value (acquire), or is claimed after the lock.
 *   I3. The thread that counts down stores the new value with its last access to the counter: the
 *       CAS, or the store that unlocks. It delivers to woken waiters afterwards, from a list of
 *       nodes that are not in the counter any more. Before that its own share is still in the
 *       value. So if each down has its share in the value, a counter with value 0 is accessed by no
 *       down. A waiter that was woken, or has seen 0 in an unlocked word, may free it at once.
 *   I4. A node is accessed by the holder of the lock while hooked is 1, and after a successful
 *       claim until its deliver (park_word.h, I4: the waiter does not run before). After a lost
 *       claim, hooked = 0 is the last access. So a waiter that was woken by the counter, or has
 *       seen hooked at 0 (acquire), owns its node. A waiter that was woken otherwise leaves only
 *       after that, by fiber_counter_unhook().
 *   I5. A waiter that was woken by the counter does not access the counter. A waiter that was woken
 *       otherwise and finds hooked at 1 takes the lock.
 *
 * WHEN IT MAY BE FREED, AND MISTAKES
 *   Its memory may be freed if there is no other waiter, and the value was read as 0 or a wait for
 *   0 returned (I3). Other waiters that are held, and without a deadline, may have been woken by
 *   the same step: they do not access it (I5). If another waiter may leave by a deadline or a
 *   cancellation, the memory must stay a counter until it has left (I5); for that
 *   fiber_counter_fini() is enough. Each mistake is a result for its caller, which can fail the
 *   task, as long as the memory is a counter, freed or not: the runtime must keep counters in
 *   permanent memory. No mistake stops a worker or accesses other memory.
 * 	wait, count or free after free		FIBER_COUNTER_STALE, by the generation, which
 * 						repeats after 4096 uses of that memory
 * 	free while others wait			they are woken, and FIBER_COUNTER_STALE is their
 * 						node's outcome
 * 	wait again after it was reached		FIBER_COUNTER_REACHED at once: allowed
 * 	two fibers wait for one counter		both are woken: allowed
 * 	wait with a node that is hooked		FIBER_COUNTER_TWICE, the first wait continues
 * 	count below 0, or above the maximum	FIBER_COUNTER_RANGE, the value stays
 *   A fiber that waits for its own count waits until its deadline, or is cancelled.
 *
 * Compiles with C11 alone: tests/model/fiber.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <threads.h>

#include "common/relaxed.h"
#include "daemon/fiber/park_word.h"
#include "shm/fence.h"

#define FIBER_COUNTER_LOCK	 UINT64_C(1)
#define FIBER_COUNTER_BITS	 25
#define FIBER_COUNTER_MAX	 ((UINT32_C(1) << FIBER_COUNTER_BITS) - 1)
#define FIBER_COUNTER_VALUE	 1			      /* shift */
#define FIBER_COUNTER_LEVEL	 (1 + FIBER_COUNTER_BITS)     /* shift */
#define FIBER_COUNTER_GENERATION (1 + 2 * FIBER_COUNTER_BITS) /* shift */

enum fiber_counter_result {
	FIBER_COUNTER_OK,      /* counted; hooked */
	FIBER_COUNTER_REACHED, /* the value is not above the one waited for */
	FIBER_COUNTER_STALE,   /* this counter was freed */
	FIBER_COUNTER_TWICE,   /* the node is in a list */
	FIBER_COUNTER_RANGE,   /* below 0, or above FIBER_COUNTER_MAX */
};

struct fiber_counter_node;

struct fiber_counter {
	_Atomic uint64_t word;
	struct fiber_counter_node *first; /* of the holder of the lock */
};

/* A counter in one of its generations. */
struct fiber_counter_ref {
	struct fiber_counter *counter;
	uint32_t generation;
};

/* All zero before its first use. */
struct fiber_counter_node {
	/* the holder of the counter's lock, while hooked; then the claimer of the waiter */
	struct fiber_counter_node *next;
	struct fiber_counter_node **link;  /* the pointer to this node */
	enum fiber_counter_result outcome; /* if woken by the counter: REACHED or STALE */
	/* constant while hooked */
	uint32_t level;
	struct fiber_counter *counter;
	struct fiber_park *park;
	uint64_t generation; /* of the park */
	/* the holder of the lock writes, the waiter reads */
	_Atomic uint32_t hooked;
};

static inline uint32_t fiber_counter_value(uint64_t word)
{
	return word >> FIBER_COUNTER_VALUE & FIBER_COUNTER_MAX;
}

static inline uint32_t fiber_counter_level(uint64_t word)
{
	return word >> FIBER_COUNTER_LEVEL & FIBER_COUNTER_MAX;
}

static inline uint32_t fiber_counter_generation(uint64_t word)
{
	return (uint32_t)(word >> FIBER_COUNTER_GENERATION);
}

static inline uint64_t fiber_counter_word(uint32_t generation, uint32_t level, uint32_t value)
{
	return (uint64_t)generation << FIBER_COUNTER_GENERATION |
	       (uint64_t)level << FIBER_COUNTER_LEVEL | (uint64_t)value << FIBER_COUNTER_VALUE;
}

/* Another worker has the lock, briefly. */
static inline void fiber_counter_pause(uint32_t *spins)
{
	if (++*spins % 64)
		fence_pause();
	else
		thrd_yield();
}

/* Waits until the word is not locked, unless its generation differs. Returns the word, acquired. */
static inline uint64_t fiber_counter_settled(struct fiber_counter *counter, uint32_t generation)
{
	uint32_t spins = 0;

	for (;;) {
		/* ORDER counter/down [F3]: acquire, the work that brought the value there. Pairs
		 * with fiber_counter_down() and fiber_counter_unlock(). */
		uint64_t word = atomic_load_explicit(&counter->word, memory_order_acquire);

		if (!(word & FIBER_COUNTER_LOCK) || fiber_counter_generation(word) != generation)
			return word;
		fiber_counter_pause(&spins);
	}
}

/* Takes the lock if the word is this one, which must be unlocked. */
static inline bool fiber_counter_try(struct fiber_counter *counter, uint64_t word)
{
	/* ORDER counter/lock [F4]: acquire, the list as the last holder left it.
	 * ORDER counter/down [F3]: acquire, and the work of all that counted down (I2). Pairs with
	 * fiber_counter_unlock() and fiber_counter_down(). */
	return atomic_compare_exchange_weak_explicit(&counter->word, &word,
						     word | FIBER_COUNTER_LOCK,
						     memory_order_acquire, memory_order_relaxed);
}

/* The holder's last access to the counter. */
static inline void fiber_counter_unlock(struct fiber_counter *counter, uint32_t generation,
					uint32_t value)
{
	uint32_t level = counter->first ? counter->first->level : 0;

	/* ORDER counter/lock [F4]: release, the list.
	 * ORDER counter/down [F3]: release, this thread's work and, with its acquire, that of
	 * others. Pairs with fiber_counter_try() and fiber_counter_settled(). */
	atomic_store_explicit(&counter->word, fiber_counter_word(generation, level, value),
			      memory_order_release);
}

/* Holder: removes waiters for this value or a higher one. Returns those that it has claimed; the
 * first one waits for the highest value, and has waited longest for it. */
static inline struct fiber_counter_node *
fiber_counter_take(struct fiber_counter *counter, uint32_t value, enum fiber_counter_result outcome)
{
	struct fiber_counter_node *woken = NULL, *node;

	while ((node = counter->first) && node->level > value) {
		counter->first = node->next;
		if (node->next)
			node->next->link = &counter->first;
		if (fiber_park_claim(node->park, node->generation, FIBER_COUNTER)) {
			node->outcome = outcome;
			node->next = woken;
			woken = node;
			/* Relaxed: its waiter does not run before deliver. */
			store_relaxed(&node->hooked, 0);
		} else {
			/* ORDER counter/off [F5]: release, the last access to the node. Pairs with
			 * fiber_counter_unhook(). Proof: I4. */
			atomic_store_explicit(&node->hooked, 0, memory_order_release);
		}
	}
	return woken;
}

/* ------------------------------------------------------------------------ life of a counter */

/* Makes a counter of fresh memory. value: up to FIBER_COUNTER_MAX. */
static inline struct fiber_counter_ref fiber_counter_init(struct fiber_counter *counter,
							  uint32_t value)
{
	counter->first = NULL;
	/* Relaxed: an operation that releases passes the generation on. */
	store_relaxed(&counter->word, fiber_counter_word(1, 0, value));
	return (struct fiber_counter_ref){ counter, 1 };
}

/* Reuses a freed counter, in its next generation; late threads may still read it. */
static inline struct fiber_counter_ref fiber_counter_renew(struct fiber_counter *counter,
							   uint32_t value)
{
	uint32_t spins = 0;

	for (;;) {
		/* Relaxed: the CAS orders. */
		uint64_t word = load_relaxed(&counter->word);
		uint32_t generation =
			fiber_counter_generation(word + (UINT64_C(1) << FIBER_COUNTER_GENERATION));

		if (!(word & FIBER_COUNTER_LOCK) && fiber_counter_try(counter, word)) {
			fiber_counter_unlock(counter, generation, value);
			return (struct fiber_counter_ref){ counter, generation };
		}
		fiber_counter_pause(&spins);
	}
}

/* Frees a counter: FIBER_COUNTER_OK, or STALE if it was freed before. Waiters are woken, with the
 * outcome STALE: pass *ret_woken to fiber_counter_next(). */
static inline enum fiber_counter_result fiber_counter_fini(struct fiber_counter_ref ref,
							   struct fiber_counter_node **ret_woken)
{
	for (;;) {
		uint64_t word = fiber_counter_settled(ref.counter, ref.generation);

		if (fiber_counter_generation(word) != ref.generation)
			return FIBER_COUNTER_STALE;
		if (!fiber_counter_try(ref.counter, word))
			continue;
		*ret_woken = fiber_counter_take(ref.counter, 0, FIBER_COUNTER_STALE);
		fiber_counter_unlock(ref.counter, ref.generation + 1, 0);
		return FIBER_COUNTER_OK;
	}
}

/* ------------------------------------------------------------------------ counting */

/* Adds n, before they can end. FIBER_COUNTER_OK, STALE or RANGE. */
static inline enum fiber_counter_result fiber_counter_up(struct fiber_counter_ref ref, uint32_t n)
{
	for (;;) {
		uint64_t word = fiber_counter_settled(ref.counter, ref.generation);

		if (fiber_counter_generation(word) != ref.generation)
			return FIBER_COUNTER_STALE;
		if (n > FIBER_COUNTER_MAX - fiber_counter_value(word))
			return FIBER_COUNTER_RANGE;
		/* Relaxed, but in the chain of read-modify-writes (I2): it passes on what others
		 * have released. The caller passes the count on by an operation that releases. */
		if (atomic_compare_exchange_weak_explicit(
			    &ref.counter->word, &word, word + ((uint64_t)n << FIBER_COUNTER_VALUE),
			    memory_order_relaxed, memory_order_relaxed))
			return FIBER_COUNTER_OK;
	}
}

/* Subtracts n that have ended: FIBER_COUNTER_OK, STALE or RANGE. If OK, pass *ret_woken to
 * fiber_counter_next(); the counter may no longer exist. */
static inline enum fiber_counter_result fiber_counter_down(struct fiber_counter_ref ref, uint32_t n,
							   struct fiber_counter_node **ret_woken)
{
	struct fiber_counter *counter = ref.counter;

	for (;;) {
		uint64_t word = fiber_counter_settled(counter, ref.generation), next;
		uint32_t value = fiber_counter_value(word) - n;

		if (fiber_counter_generation(word) != ref.generation)
			return FIBER_COUNTER_STALE;
		if (fiber_counter_value(word) < n)
			return FIBER_COUNTER_RANGE;
		if (fiber_counter_level(word) > value) {
			if (!fiber_counter_try(counter, word))
				continue;
			*ret_woken = fiber_counter_take(counter, value, FIBER_COUNTER_REACHED);
			fiber_counter_unlock(counter, ref.generation, value);
			return FIBER_COUNTER_OK;
		}
		next = word - ((uint64_t)n << FIBER_COUNTER_VALUE);
		/* ORDER counter/down [F3]: release, the work that has ended comes before this value
		 * or a lower one. Pairs with fiber_counter_settled() and fiber_counter_try().
		 * Proof: I2. */
		if (atomic_compare_exchange_weak_explicit(&counter->word, &word, next,
							  memory_order_release,
							  memory_order_relaxed)) {
			*ret_woken = NULL;
			return FIBER_COUNTER_OK;
		}
	}
}

/* Delivers to woken waiters, up to the first one that the caller must make runnable, which it
 * returns; NULL after the last one. *woken: set by fiber_counter_down() or fiber_counter_fini(). */
static inline struct fiber_park *fiber_counter_next(struct fiber_counter_node **woken)
{
	while (*woken) {
		struct fiber_park *park = (*woken)->park;

		*woken = (*woken)->next;
		/* From here on the waiter owns the node. */
		if (fiber_park_deliver(park))
			return park;
	}
	return NULL;
}

/* ------------------------------------------------------------------------ waiting */

/* FIBER_COUNTER_OK if the counter is above this value, REACHED or STALE. */
static inline enum fiber_counter_result fiber_counter_look(struct fiber_counter_ref ref,
							   uint32_t value)
{
	uint64_t word = fiber_counter_settled(ref.counter, ref.generation);

	if (fiber_counter_generation(word) != ref.generation)
		return FIBER_COUNTER_STALE;
	return fiber_counter_value(word) <= value ? FIBER_COUNTER_REACHED : FIBER_COUNTER_OK;
}

/* The waiter, which has begun a park of this generation: adds its node, to be woken when the
 * counter has reached this value. FIBER_COUNTER_OK: it is hooked. REACHED, STALE or TWICE: it is
 * not, and need not park. */
static inline enum fiber_counter_result
fiber_counter_hook(struct fiber_counter_ref ref, uint32_t value, struct fiber_counter_node *node,
		   struct fiber_park *park, uint64_t generation)
{
	struct fiber_counter *counter = ref.counter;
	struct fiber_counter_node **link = &counter->first;

	/* Relaxed: the waiter owns it, if it is not hooked. */
	if (load_relaxed(&node->hooked))
		return FIBER_COUNTER_TWICE;
	for (;;) {
		uint64_t word = fiber_counter_settled(counter, ref.generation);

		if (fiber_counter_generation(word) != ref.generation)
			return FIBER_COUNTER_STALE;
		if (fiber_counter_value(word) <= value)
			return FIBER_COUNTER_REACHED;
		if (!fiber_counter_try(counter, word))
			continue;
		node->counter = counter;
		node->park = park;
		node->generation = generation;
		node->level = value + 1;
		while (*link && (*link)->level > node->level)
			link = &(*link)->next;
		node->next = *link;
		node->link = link;
		if (node->next)
			node->next->link = &node->next;
		*link = node;
		/* Relaxed: read by its waiter, or by the holder of the lock. */
		store_relaxed(&node->hooked, 1);
		fiber_counter_unlock(counter, ref.generation, fiber_counter_value(word));
		return FIBER_COUNTER_OK;
	}
}

/* The waiter, when it runs again, if its park was not ended by the counter: removes its node. Then
 * the waiter owns the node, and may free it. */
static inline void fiber_counter_unhook(struct fiber_counter_node *node)
{
	struct fiber_counter *counter = node->counter;
	uint32_t spins = 0;

	/* ORDER counter/off [F5]: acquire, the thread that has removed the node is done. Pairs with
	 * fiber_counter_take(). */
	while (atomic_load_explicit(&node->hooked, memory_order_acquire)) {
		/* Relaxed: the CAS orders. */
		uint64_t word = load_relaxed(&counter->word);

		if (word & FIBER_COUNTER_LOCK || !fiber_counter_try(counter, word)) {
			fiber_counter_pause(&spins);
			continue;
		}
		/* Relaxed: the lock orders. */
		if (load_relaxed(&node->hooked)) {
			*node->link = node->next;
			if (node->next)
				node->next->link = node->link;
			store_relaxed(&node->hooked, 0);
		}
		fiber_counter_unlock(counter, fiber_counter_generation(word),
				     fiber_counter_value(word));
		return;
	}
}
