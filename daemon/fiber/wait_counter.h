/* SPDX-License-Identifier: MIT */
/*
 * wait_counter.h - a counter that fibers wait on until it has come down to a value
 *
 * One word, and a list of waiters. A fiber that ends counts it down; each waiter gives the value
 * down to which it waits. Waiting is a park (daemon/fiber/park_word.h) of a fiber, or of a frame
 * that has such a word; wait-for-counter is the one way to wait for others in Ramesh and
 * Chowdhury's M:N runtime.
 *
 * Threads: fiber_counter_hook(), fiber_counter_unhook(): the waiter. The rest: any worker. A fiber
 * that ends is counted down by the loop, after the switch: its waiter may free its stack.
 *
 * THE WORD
 *   { generation:13, level:25, value:25, lock:1 }. level is 1 more than the highest value that is
 *   waited for, 0 without waiters. So one CAS counts down as long as no waiter is to be woken. A
 *   thread that wakes, hooks or unhooks holds the lock, which is a bit of the word: as long as it
 *   is set the rest of the word stays, and the holder's last store changes both. The list is in the
 *   order of the values waited for, the highest first, so those to be woken are its head. The lock
 *   is held for a few steps for each that is woken, and for each with a higher value that a new
 *   waiter passes.
 *   The generation is odd while the counter lives, and each user has it in a struct
 *   fiber_counter_ref; memory of zeros is a counter that was freed.
 *
 * THE NODE
 *   A waiter's place in the list. It is the waiter's memory, and must keep its address and its
 *   bytes as long as it is parked: its own stack will do, or its descriptor, but not a shared stack
 *   that it is copied out of. The same holds for a counter.
 *   hooked: it is in the list. The thread that takes it off stores 0 last.
 *
 * 	waiter  hook --(parks)--> woken by the counter: its node is off, it touches neither
 * 				  by another one, or it stayed: unhook, before its memory goes
 * 	down    lock; for each that is to be woken: take off; claim: won: onto its own list;
 * 		lost: hooked = 0; unlock with the new value; fiber_counter_next(): deliver each
 *
 * INVARIANTS
 *   I1. No waiter sleeps through it. A node goes into the list only with the lock taken by a CAS on
 *       a word whose value is above what it waits for, and the unlock stores its level. So the
 *       thread that brings the value down that far comes later, sees the level, and takes the node
 *       off.
 *   I2. A thread that sees the value sees what those did that brought it there. Each down releases;
 *       changes of the word are read-modify-writes, or the store that unlocks, whose lock has
 *       acquired. A waiter sees the value (acquire), or is claimed after the lock.
 *   I3. The new value comes with the last touch of the counter by the thread that counts down: the
 *       CAS, or the store that unlocks. What it wakes it delivers afterwards, off a list of nodes
 *       that are not in the counter any more. Before that step its own share is still in the value.
 *       So: a counter whose value is 0, if each down has its share in it (that is what it is for),
 *       is touched by no down any more; and a waiter that was woken, or has seen 0 in a word that
 *       is not locked, may free it and its memory at once.
 *   I4. A node is touched by the holder of the lock while hooked is 1, and after a claim that has
 *       won until its deliver (park_word.h, I4: the waiter does not run before). If the claim is
 *       lost, hooked = 0 is the last touch. So: a waiter that was woken by the counter, or has seen
 *       hooked at 0 (acquire), owns its node; and one that was woken by something else leaves only
 *       after that, by fiber_counter_unhook().
 *   I5. A waiter that was woken by the counter does not touch the counter. One that was woken by
 *       something else and finds hooked at 1 takes the lock.
 *
 * WHEN IT MAY BE FREED, AND MISTAKES
 *   Its memory may go when its value was seen, or waited for, as 0 (I3), and there is no other
 *   waiter. Others that wait held, and without a deadline, may have been woken by the same step:
 *   they do not touch it (I5). If another one may leave by a deadline or a cancellation, the memory
 *   must stay a counter until that has left (I5); fiber_counter_fini() is enough for the others
 *   then.
 *   Each mistake is a result for its caller, with which a task can be failed, as long as the memory
 *   is a counter, freed or not; the runtime must have counters in memory that stays. None of them
 *   stops a worker or touches what is not a counter.
 * 	wait, count or free after free		FIBER_COUNTER_STALE, by the generation, which comes
 * 						again after 4096 uses of that memory
 * 	free while others wait			they are woken, and FIBER_COUNTER_STALE is their
 * 						node's outcome
 * 	wait once more after it was reached	FIBER_COUNTER_REACHED at once: that is allowed
 * 	two fibers wait for one counter		both are woken: that is allowed
 * 	wait with a node that is hooked		FIBER_COUNTER_TWICE, the first wait goes on
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
	FIBER_COUNTER_REACHED, /* the value is not above what was waited for */
	FIBER_COUNTER_STALE,   /* this counter was freed */
	FIBER_COUNTER_TWICE,   /* the node is in a list */
	FIBER_COUNTER_RANGE,   /* below 0, or above FIBER_COUNTER_MAX */
};

struct fiber_counter_node;

struct fiber_counter {
	_Atomic uint64_t word;
	struct fiber_counter_node *first; /* of the holder of the lock */
};

/* A counter in one of its lives. */
struct fiber_counter_ref {
	struct fiber_counter *counter;
	uint32_t generation;
};

/* All zero before its first use. */
struct fiber_counter_node {
	/* of the holder of the counter's lock, while hooked; then of the claimer of the waiter */
	struct fiber_counter_node *next;
	struct fiber_counter_node **link;  /* what points to it */
	enum fiber_counter_result outcome; /* if the counter has woken it: REACHED or STALE */
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

/* A worker has the lock: soon over. */
static inline void fiber_counter_pause(uint32_t *spins)
{
	if (++*spins % 64)
		fence_pause();
	else
		thrd_yield();
}

/* Waits until it is not locked, unless it is of another generation. Returns the word; what that
 * says is acquired. */
static inline uint64_t fiber_counter_settled(struct fiber_counter *counter, uint32_t generation)
{
	uint32_t spins = 0;

	for (;;) {
		/* ORDER counter/down [F3]: acquire, the value comes with what was done to bring it
		 * there. Pairs with fiber_counter_down() and fiber_counter_unlock(). */
		uint64_t word = atomic_load_explicit(&counter->word, memory_order_acquire);

		if (!(word & FIBER_COUNTER_LOCK) || fiber_counter_generation(word) != generation)
			return word;
		fiber_counter_pause(&spins);
	}
}

/* Takes the lock if the word is this one, which is not locked. */
static inline bool fiber_counter_try(struct fiber_counter *counter, uint64_t word)
{
	/* ORDER counter/lock [F4]: acquire, the list as the last holder left it.
	 * ORDER counter/down [F3]: acquire, and what all have done that counted down (I2). Pairs
	 * with fiber_counter_unlock() and fiber_counter_down(). */
	return atomic_compare_exchange_weak_explicit(&counter->word, &word,
						     word | FIBER_COUNTER_LOCK,
						     memory_order_acquire, memory_order_relaxed);
}

/* The holder's last touch of the counter. */
static inline void fiber_counter_unlock(struct fiber_counter *counter, uint32_t generation,
					uint32_t value)
{
	uint32_t level = counter->first ? counter->first->level : 0;

	/* ORDER counter/lock [F4]: release, the list.
	 * ORDER counter/down [F3]: release, what this one did, and with its acquire what others
	 * did. Pairs with fiber_counter_try() and fiber_counter_settled(). */
	atomic_store_explicit(&counter->word, fiber_counter_word(generation, level, value),
			      memory_order_release);
}

/* Holder: takes off those that wait for this value or a higher one. Returns those that it has won,
 * the one that has waited longest for the highest value first. */
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
			/* Relaxed: its waiter does not run before it is delivered. */
			store_relaxed(&node->hooked, 0);
		} else {
			/* ORDER counter/off [F5]: release, the last touch of the node. Pairs with
			 * fiber_counter_unhook(). Proof: I4. */
			atomic_store_explicit(&node->hooked, 0, memory_order_release);
		}
	}
	return woken;
}

/* ------------------------------------------------------------------------ its life */

/* Fresh memory becomes a counter. value: up to FIBER_COUNTER_MAX. */
static inline struct fiber_counter_ref fiber_counter_init(struct fiber_counter *counter,
							  uint32_t value)
{
	counter->first = NULL;
	/* Relaxed: the generation is handed on by something that releases. */
	store_relaxed(&counter->word, fiber_counter_word(1, 0, value));
	return (struct fiber_counter_ref){ counter, 1 };
}

/* One that was freed lives again, in its next generation; late ones may still look at it. */
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

/*
 * Frees a counter: FIBER_COUNTER_OK, or STALE if that was done. Those that wait are woken, with the
 * outcome STALE: *ret_woken is for fiber_counter_next().
 */
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

/* n more are to come; before they can end. FIBER_COUNTER_OK, STALE or RANGE. */
static inline enum fiber_counter_result fiber_counter_up(struct fiber_counter_ref ref, uint32_t n)
{
	for (;;) {
		uint64_t word = fiber_counter_settled(ref.counter, ref.generation);

		if (fiber_counter_generation(word) != ref.generation)
			return FIBER_COUNTER_STALE;
		if (n > FIBER_COUNTER_MAX - fiber_counter_value(word))
			return FIBER_COUNTER_RANGE;
		/* Relaxed, and in the chain of read-modify-writes (I2): it passes on what others
		 * have released. What hands it on to be counted down releases it. */
		if (atomic_compare_exchange_weak_explicit(
			    &ref.counter->word, &word, word + ((uint64_t)n << FIBER_COUNTER_VALUE),
			    memory_order_relaxed, memory_order_relaxed))
			return FIBER_COUNTER_OK;
	}
}

/*
 * n of them have ended: FIBER_COUNTER_OK, STALE or RANGE. If OK, *ret_woken is for
 * fiber_counter_next(); the counter may be gone.
 */
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
		/* ORDER counter/down [F3]: release, what has ended comes before, with this value or
		 * a lower one. Pairs with fiber_counter_settled() and fiber_counter_try(). Proof:
		 * I2. */
		if (atomic_compare_exchange_weak_explicit(&counter->word, &word, next,
							  memory_order_release,
							  memory_order_relaxed)) {
			*ret_woken = NULL;
			return FIBER_COUNTER_OK;
		}
	}
}

/*
 * Delivers to those that were woken, up to the first one that the caller makes runnable, which it
 * returns; NULL after the last one. *woken: of fiber_counter_down() or fiber_counter_fini().
 */
static inline struct fiber_park *fiber_counter_next(struct fiber_counter_node **woken)
{
	while (*woken) {
		struct fiber_park *park = (*woken)->park;

		*woken = (*woken)->next;
		/* The node is the waiter's again. */
		if (fiber_park_deliver(park))
			return park;
	}
	return NULL;
}

/* ------------------------------------------------------------------------ waiting */

/* Has it come down to this value? FIBER_COUNTER_OK if it has not, REACHED or STALE. */
static inline enum fiber_counter_result fiber_counter_look(struct fiber_counter_ref ref,
							   uint32_t value)
{
	uint64_t word = fiber_counter_settled(ref.counter, ref.generation);

	if (fiber_counter_generation(word) != ref.generation)
		return FIBER_COUNTER_STALE;
	return fiber_counter_value(word) <= value ? FIBER_COUNTER_REACHED : FIBER_COUNTER_OK;
}

/*
 * The waiter, which has begun a park of this generation: it is to be woken when the counter has
 * come down to this value. FIBER_COUNTER_OK: it is hooked. REACHED, STALE or TWICE: it is not, and
 * need not park.
 */
static inline enum fiber_counter_result
fiber_counter_hook(struct fiber_counter_ref ref, uint32_t value, struct fiber_counter_node *node,
		   struct fiber_park *park, uint64_t generation)
{
	struct fiber_counter *counter = ref.counter;
	struct fiber_counter_node **link = &counter->first;

	/* Relaxed: its own, if it is not hooked. */
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
		/* Relaxed: its waiter reads it, or the holder of the lock. */
		store_relaxed(&node->hooked, 1);
		fiber_counter_unlock(counter, ref.generation, fiber_counter_value(word));
		return FIBER_COUNTER_OK;
	}
}

/*
 * The waiter, once it runs again, if something other than the counter has ended its park: takes its
 * node off. After it the node is its own, and may be freed.
 */
static inline void fiber_counter_unhook(struct fiber_counter_node *node)
{
	struct fiber_counter *counter = node->counter;
	uint32_t spins = 0;

	/* ORDER counter/off [F5]: acquire, the thread that has taken it off is done. Pairs with
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
