/* SPDX-License-Identifier: MIT */
/*
 * fiber.c - a fiber parks, is woken once, and leaves nothing behind
 * (daemon/fiber/park_word.h, daemon/fiber/wait_counter.h)
 *
 * THE PROGRAM
 *   A stack is a flag that a thread is on it, and a place for registers. Each thread is a worker:
 *   it runs a fiber until that leaves its stack, and then acts as the loop does. A thread that
 *   makes a fiber runnable resumes it at once.
 *   Fiber F waits for a counter that its children count down as they end. Then it joins them: it
 *   frees their stacks, its node and the counter, whose memory is overwritten. The rest depends on
 *   the instance:
 *	JOIN      two children end
 *	DEADLINE  one ends; F's wait has a deadline, whose timer fires, and once more, too late
 *	CANCEL    one ends; F is cancelled
 *	ALONE     no thread counts down; F is cancelled
 *	IO        one ends; F waits for I/O as well, whose result is written onto its stack
 *	HELD      one ends; F waits held, and is cancelled
 *	SHARED    one ends; fiber G waits for the same counter, in memory that stays one; F frees it
 *	LEAVES    the same, and G's wait has a deadline
 *	FREED     one of two ends; F waits for that, and frees the counter, G waits for both
 *	LEVELS    two end, one after the other; F waits for the first, G for both
 *   After a deadline, a cancellation or I/O, F waits once more, held, for its children.
 *
 * WHAT MUST BE TRUE
 *   Each fiber is resumed once, and never on a stack that is in use. A resumed fiber sees the
 *   writes of the fibers that it waited for, which have left their stacks. A late waker loses, a
 *   held wait ends by the counter, and the result of I/O is visible. No thread accesses a node or a
 *   counter that was freed.
 *
 * MUTANTS of the word
 *   MUTANT_LEFT          the loop marks LEFT in two steps
 *   MUTANT_DELIVER       a waker marks DONE in two steps
 *   MUTANT_CLAIM         a waker claims, or cancels, in two steps
 *   MUTANT_BEGIN         a park begins in two steps
 *   MUTANT_STAY          a fiber stays in two steps
 *   MUTANT_CANCEL        cancel looks for a park, and marks the fiber afterwards
 *   MUTANT_PARK_RELEASE  its steps only acquire
 *   MUTANT_PARK_ACQUIRE  its steps only release
 * 	MUTANT_PARK_LOOK     the cancel bit is read relaxed
 *   MUTANT_WHY           cancel releases nothing
 * and of its users
 *   MUTANT_VISIBLE       a fiber is marked as parked before it has left its stack
 *   MUTANT_READY         it continues though a waker has not delivered
 *   MUTANT_LATE          I/O delivers before it writes the result
 *   MUTANT_UNCLAIMED     I/O writes the result though it has lost
 *   MUTANT_GENERATION    a late timer takes the generation from the word
 *   MUTANT_WAITS         the wait for the children is not held
 * MUTANTS of the counter
 *   MUTANT_LOCK          the lock is taken in two steps
 * 	MUTANT_BLIND         the lock is taken whatever the new value is
 *   MUTANT_LEVEL         the word does not say that a fiber waits
 * 	MUTANT_FALL          the value falls before its waiters are taken off
 *   MUTANT_EARLY         they are woken before the lock is given back
 *   MUTANT_NODE          the next one is read after a node was given back
 *   MUTANT_OFF           a node is marked as off before its waiter is claimed
 *   MUTANT_FINI          a counter is freed with its waiters
 *   MUTANT_DOWN          a count down releases nothing
 *   MUTANT_UNLOCK        the lock is given back relaxed
 *   MUTANT_MARK          a node is marked as off relaxed
 *   MUTANT_LOOK          the value is read relaxed, and the lock taken
 * 	MUTANT_SEEN          a waiter reads relaxed that its node is off
 * and of its users
 *   MUTANT_UNHOOK        a waiter that something else has woken leaves its node in the list
 *   MUTANT_FINISH        a child counts down before it has left its stack
 *   MUTANT_RESULT        a child counts down before its result is written
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <threads.h>

#include "tests/model/model.h"

#ifdef MODEL_ONCE
#define thrd_yield() ((void)0)
#endif

/* ------------------------------------------------------------------------ mutants of the word */

/* The functions of the headers, with orders that a mutant has chosen, or in two steps. */
#define MODEL_HELPER static inline __attribute__((unused))
MODEL_HELPER bool model_cas(_Atomic uint64_t *word, uint64_t *old, uint64_t value, int two_steps,
			    memory_order order)
{
	bool is;

	if (!two_steps && order == memory_order_relaxed)
		return atomic_compare_exchange_weak_explicit(word, old, value, memory_order_relaxed,
							     memory_order_relaxed);
	if (!two_steps)
		return atomic_compare_exchange_weak_explicit(word, old, value, memory_order_acq_rel,
							     memory_order_acquire);
	is = atomic_load_explicit(word, memory_order_acquire) == *old;
	model_stumble();
	if (is)
		atomic_store_explicit(word, value, memory_order_release);
	else
		*old = atomic_load_explicit(word, memory_order_acquire);
	return is;
}

MODEL_HELPER uint64_t model_or(_Atomic uint64_t *word, uint64_t bits, int two_steps)
{
	uint64_t old;

	if (!two_steps)
		return atomic_fetch_or_explicit(word, bits, memory_order_acq_rel);
	old = atomic_load_explicit(word, memory_order_acquire);
	model_stumble();
	atomic_store_explicit(word, old | bits, memory_order_release);
	return old;
}

MODEL_HELPER uint64_t model_load(const void *object, size_t size, memory_order order)
{
	if (size == sizeof(uint32_t))
		return order == memory_order_relaxed
			     ? atomic_load_explicit((const _Atomic uint32_t *)object,
						    memory_order_relaxed)
			     : atomic_load_explicit((const _Atomic uint32_t *)object,
						    memory_order_acquire);
	return order == memory_order_relaxed
		     ? atomic_load_explicit((const _Atomic uint64_t *)object, memory_order_relaxed)
		     : atomic_load_explicit((const _Atomic uint64_t *)object, memory_order_acquire);
}

MODEL_HELPER void model_store(void *object, size_t size, uint64_t value, memory_order order)
{
	_Atomic uint32_t *small = object;
	_Atomic uint64_t *word = object;

	if (size == sizeof(uint32_t) && order == memory_order_relaxed)
		atomic_store_explicit(small, (uint32_t)value, memory_order_relaxed);
	else if (size == sizeof(uint32_t))
		atomic_store_explicit(small, (uint32_t)value, memory_order_release);
	else if (order == memory_order_relaxed)
		atomic_store_explicit(word, value, memory_order_relaxed);
	else
		atomic_store_explicit(word, value, memory_order_release);
}

#if defined(MUTANT_LEFT)
#define MODEL_OR_SPLIT FIBER_PARK_LEFT
#elif defined(MUTANT_DELIVER)
#define MODEL_OR_SPLIT FIBER_PARK_DONE
#elif defined(MUTANT_CLAIM)
#define MODEL_CAS_SPLIT(order, failed)                                                             \
	((order) == memory_order_acq_rel && (failed) == memory_order_relaxed)
#elif defined(MUTANT_BEGIN)
#define MODEL_CAS_SPLIT(order, failed) ((failed) == memory_order_acquire)
#elif defined(MUTANT_STAY)
#define MODEL_CAS_SPLIT(order, failed)                                                             \
	((order) == memory_order_acquire && (failed) == memory_order_relaxed)
#elif defined(MUTANT_PARK_RELEASE)
#define memory_order_acq_rel memory_order_acquire
#elif defined(MUTANT_PARK_ACQUIRE)
#define memory_order_acq_rel memory_order_release
#define memory_order_acquire memory_order_relaxed
#elif defined(MUTANT_PARK_LOOK)
#define memory_order_acquire memory_order_relaxed
#elif defined(MUTANT_CANCEL) || defined(MUTANT_WHY)
#define fiber_park_cancel fiber_park_cancel_of_the_header
#endif
#ifdef MODEL_OR_SPLIT
#undef atomic_fetch_or_explicit
#define atomic_fetch_or_explicit(word, bits, order) model_or(word, bits, (bits) == MODEL_OR_SPLIT)
#endif
#ifdef MODEL_CAS_SPLIT
#undef atomic_compare_exchange_weak_explicit
#define atomic_compare_exchange_weak_explicit(word, old, value, order, failed)                     \
	model_cas(word, old, value, MODEL_CAS_SPLIT(order, failed), order)
#endif

#include "daemon/fiber/park_word.h"

#undef memory_order_acq_rel
#undef memory_order_acquire
#if defined(MODEL_OR_SPLIT) || defined(MODEL_CAS_SPLIT)
/* The following steps are not split. */
#undef atomic_fetch_or_explicit
#define atomic_fetch_or_explicit(word, bits, order) model_or(word, bits, 0)
#undef atomic_compare_exchange_weak_explicit
#define atomic_compare_exchange_weak_explicit(word, old, value, order, failed)                     \
	model_cas(word, old, value, 0, order)
#endif

#ifdef MUTANT_CANCEL
#undef fiber_park_cancel
static inline enum fiber_wake fiber_park_cancel(struct fiber_park *park)
{
	uint64_t word = atomic_load_explicit(&park->word, memory_order_acquire);
	enum fiber_wake wake = FIBER_LOST;

	if (!(word & (FIBER_PARK_CLAIMED | FIBER_PARK_HELD)))
		wake = fiber_park_wake(park, word >> FIBER_PARK_GENERATION, FIBER_CANCEL);
	model_stumble();
	atomic_fetch_or_explicit(&park->word, FIBER_PARK_CANCELLED, memory_order_acq_rel);
	return wake;
}
#endif

#ifdef MUTANT_WHY
#undef fiber_park_cancel
static inline enum fiber_wake fiber_park_cancel(struct fiber_park *park)
{
	uint64_t word = atomic_load_explicit(&park->word, memory_order_acquire), bits;

	do {
		bits = FIBER_PARK_CANCELLED;
		if (!(word & (FIBER_PARK_CLAIMED | FIBER_PARK_HELD)))
			bits |= FIBER_PARK_CLAIMED | FIBER_PARK_DONE |
				(uint64_t)FIBER_CANCEL << FIBER_PARK_REASON;
	} while (!atomic_compare_exchange_weak_explicit(
		&park->word, &word, word | bits, memory_order_acquire, memory_order_acquire));
	if (!(bits & FIBER_PARK_CLAIMED))
		return FIBER_LOST;
	return word & FIBER_PARK_LEFT ? FIBER_RUN : FIBER_WON;
}
#endif

/* ---------------------------------------------------------------------- mutants of the counter */

#if defined(MUTANT_LOCK)
#define MODEL_COUNTER_CAS(word, old, value, order)                                                 \
	model_cas(word, old, value, (order) == memory_order_acquire, order)
#elif defined(MUTANT_BLIND)
static inline bool model_blind(_Atomic uint64_t *word)
{
	uint64_t old = atomic_load_explicit(word, memory_order_relaxed);

	model_stumble();
	do {
		if (old & 1)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(word, &old, old | 1, memory_order_acquire,
							memory_order_relaxed));
	return true;
}
#define MODEL_COUNTER_CAS(word, old, value, order)                                                 \
	((order) == memory_order_acquire ? model_blind(word)                                       \
					 : model_cas(word, old, value, 0, order))
#elif defined(MUTANT_DOWN)
#define MODEL_COUNTER_CAS(word, old, value, order)                                                 \
	model_cas(word, old, value, 0,                                                             \
		  (order) == memory_order_release ? memory_order_relaxed : (order))
#elif defined(MUTANT_LOOK)
#define MODEL_COUNTER_CAS(word, old, value, order)                                                 \
	model_cas(word, old, value, 0,                                                             \
		  (order) == memory_order_acquire ? memory_order_relaxed : (order))
#define MODEL_LOAD_RELAXED sizeof(uint64_t)
#elif defined(MUTANT_SEEN)
#define MODEL_LOAD_RELAXED sizeof(uint32_t)
#elif defined(MUTANT_UNLOCK)
#define MODEL_STORE(size, value, order) size, value, (size) == 8 ? memory_order_relaxed : (order)
#elif defined(MUTANT_MARK)
#define MODEL_STORE(size, value, order) size, value, (size) == 4 ? memory_order_relaxed : (order)
#elif defined(MUTANT_LEVEL)
#define MODEL_STORE(size, value, order)                                                            \
	size,                                                                                      \
		(size) == 8 ? (value) & ~((uint64_t)FIBER_COUNTER_MAX << FIBER_COUNTER_LEVEL)      \
			    : (value),                                                             \
		order
#elif defined(MUTANT_OFF)
/* The claim comes after the mark. */
#define fiber_park_claim(park, generation, reason)                                                 \
	(atomic_store_explicit(&node->hooked, 0, memory_order_release), model_stumble(),           \
	 fiber_park_claim(park, generation, reason))
#elif defined(MUTANT_FALL) || defined(MUTANT_EARLY)
#define fiber_counter_down fiber_counter_down_of_the_header
#elif defined(MUTANT_NODE)
#define fiber_counter_next fiber_counter_next_of_the_header
#elif defined(MUTANT_FINI)
#define fiber_counter_fini fiber_counter_fini_of_the_header
#endif
#ifdef MODEL_COUNTER_CAS
#undef atomic_compare_exchange_weak_explicit
#define atomic_compare_exchange_weak_explicit(word, old, value, order, failed)                     \
	MODEL_COUNTER_CAS(word, old, value, order)
#endif
#ifdef MODEL_LOAD_RELAXED
#undef atomic_load_explicit
#define atomic_load_explicit(object, order)                                                        \
	model_load(object, sizeof(*(object)),                                                      \
		   sizeof(*(object)) == MODEL_LOAD_RELAXED ? memory_order_relaxed : (order))
#endif
#ifdef MODEL_STORE
#undef atomic_store_explicit
#define atomic_store_explicit(object, value, order)                                                \
	model_store(object, MODEL_STORE(sizeof(*(object)), value, order))
#endif

#include "daemon/fiber/wait_counter.h"

#undef fiber_park_claim
#undef fiber_counter_down
#undef fiber_counter_next
#undef fiber_counter_fini

static void resume_park(struct fiber_park *park);

#if defined(MUTANT_FALL) || defined(MUTANT_EARLY)
static inline enum fiber_counter_result fiber_counter_down(struct fiber_counter_ref ref, uint32_t n,
							   struct fiber_counter_node **ret_woken)
{
	struct fiber_counter *counter = ref.counter;
	uint64_t word = fiber_counter_settled(counter, ref.generation);
#ifdef MUTANT_EARLY
	struct fiber_park *parks[2];
#endif

	if (fiber_counter_generation(word) != ref.generation)
		return FIBER_COUNTER_STALE;
#ifdef MUTANT_FALL
	while (!model_cas(&counter->word, &word, word - 2 * n, 0, memory_order_acq_rel))
		word = fiber_counter_settled(counter, ref.generation);
	word -= 2 * n;
	model_stumble();
	*ret_woken = NULL;
	if (fiber_counter_level(word) <= fiber_counter_value(word))
		return FIBER_COUNTER_OK;
	while (!fiber_counter_try(counter, word))
		word = fiber_counter_settled(counter, ref.generation);
	*ret_woken = fiber_counter_take(counter, fiber_counter_value(word), FIBER_COUNTER_REACHED);
	fiber_counter_unlock(counter, ref.generation, fiber_counter_value(word));
#else
	while (!fiber_counter_try(counter, word))
		word = fiber_counter_settled(counter, ref.generation);
	*ret_woken =
		fiber_counter_take(counter, fiber_counter_value(word) - n, FIBER_COUNTER_REACHED);
	for (uint32_t i = 0; i < 2; i++)
		parks[i] = fiber_counter_next(ret_woken);
	model_stumble();
	fiber_counter_unlock(counter, ref.generation, fiber_counter_value(word) - n);
	for (uint32_t i = 0; i < 2 && parks[i]; i++)
		resume_park(parks[i]);
#endif
	return FIBER_COUNTER_OK;
}
#endif

#ifdef MUTANT_NODE
static inline struct fiber_park *fiber_counter_next(struct fiber_counter_node **woken)
{
	while (*woken) {
		struct fiber_counter_node *node = *woken;
		bool runs = fiber_park_deliver(node->park);

		model_stumble();
		*woken = node->next;
		if (runs)
			return node->park;
	}
	return NULL;
}
#endif

#ifdef MUTANT_FINI
static inline enum fiber_counter_result fiber_counter_fini(struct fiber_counter_ref ref,
							   struct fiber_counter_node **ret_woken)
{
	uint64_t word = fiber_counter_settled(ref.counter, ref.generation);

	while (!fiber_counter_try(ref.counter, word))
		word = fiber_counter_settled(ref.counter, ref.generation);
	ref.counter->first = NULL;
	fiber_counter_unlock(ref.counter, ref.generation + 1, 0);
	*ret_woken = NULL;
	return FIBER_COUNTER_OK;
}
#endif

#ifdef MODEL_LOAD_RELAXED
#undef atomic_load_explicit
#define atomic_load_explicit(object, order) model_load(object, sizeof(*(object)), order)
#endif
#ifdef MODEL_STORE
#undef atomic_store_explicit
#define atomic_store_explicit(object, value, order)                                                \
	model_store(object, sizeof(*(object)), value, order)
#endif

/* ------------------------------------------------------------------------ the program */

#define MODEL_THREADS 3

enum kind {
	JOIN,
	DEADLINE,
	CANCEL,
	ALONE,
	IO,
	HELD,
	SHARED,
	LEAVES,
	FREED,
	LEVELS,
	KINDS,
};

#define RESULT	 UINT64_C(0x0123456789abcdef)
#define CONTEXT	 UINT64_C(0xfedcba9876543210)
#define SCRIBBLE 0xa5u

/* Not atomic, except its park: only the thread that has the fiber accesses it. */
struct fiber {
	struct fiber_park park; /* first: resume_park() */
	struct model *m;
	uint32_t value; /* value that it waits for */
	bool held;
	bool again; /* its second wait */
	bool hooked;
	uint32_t ended;
	/* its stack */
	bool on_stack;
	uint64_t context;
	uint64_t io;
	struct fiber_counter_node node;
};

struct child {
	bool on_stack;
	uint64_t result;
};

struct model {
	enum kind kind;
	struct fiber f, g;
	struct child children[2];
	struct fiber_counter counter;
	struct fiber_counter_ref ref, old;
	uint64_t why;	/* F was cancelled */
	uint64_t fired; /* its deadline */
	/* F's first park, once the timer, or the poller, has it. */
	_Atomic uint64_t armed;
};

/* Overwrites released memory field by field: a late access changes a field, or fails. */
static void scribble_word(uint64_t *word)
{
	*word = SCRIBBLE;
}

static void set_node(struct fiber_counter_node *node, uint32_t value)
{
	node->next = NULL;
	node->link = NULL;
	node->outcome = FIBER_COUNTER_OK;
	node->level = value;
	node->counter = NULL;
	node->park = NULL;
	node->generation = value;
	atomic_store_explicit(&node->hooked, value, memory_order_relaxed);
}

static void scribble_counter(struct fiber_counter *counter)
{
	counter->first = NULL;
	atomic_store_explicit(&counter->word, SCRIBBLE, memory_order_relaxed);
}

#define GONE "no thread touches what is gone"

static void check_word(const uint64_t *word)
{
	model_assert(*word == SCRIBBLE, GONE);
}

static void check_node(const struct fiber_counter_node *node)
{
	model_assert(!node->next && !node->link && !node->counter && !node->park &&
			     node->outcome == FIBER_COUNTER_OK && node->level == SCRIBBLE &&
			     node->generation == SCRIBBLE &&
			     atomic_load_explicit(&node->hooked, memory_order_relaxed) == SCRIBBLE,
		     GONE);
}

static void check_counter(const struct fiber_counter *counter)
{
	model_assert(!counter->first &&
			     atomic_load_explicit(&counter->word, memory_order_relaxed) == SCRIBBLE,
		     GONE);
}

/* F frees the counter's memory, not only the counter. */
static bool frees_memory(const struct model *m)
{
	return m->kind < SHARED;
}

static uint32_t children(const struct model *m)
{
	return m->kind == JOIN || m->kind == FREED || m->kind == LEVELS ? 2 : 1;
}

static void resume(struct fiber *fiber);

static void resume_all(struct fiber_counter_node *woken)
{
	for (struct fiber_park *park; (park = fiber_counter_next(&woken));)
		resume_park(park);
}

static void child_down(struct model *m)
{
	struct fiber_counter_node *woken = NULL;

	model_assert(fiber_counter_down(m->ref, 1, &woken) == FIBER_COUNTER_OK, "a child counts");
	resume_all(woken);
}

/* A child ends, on its stack; then the loop. */
static void child_ends(struct model *m, uint32_t i)
{
	struct child *child = &m->children[i];
	struct model *counts = m;

#ifdef MUTANT_RESULT
	child_down(counts);
	model_stumble();
	counts = NULL;
#endif
	child->result = RESULT;
#ifdef MUTANT_FINISH
	child_down(counts);
	model_stumble();
	counts = NULL;
#endif
	child->on_stack = false;
	if (counts)
		child_down(counts);
}

static void check_child(const struct model *m, uint32_t i)
{
	model_assert(m->children[i].result == RESULT, "a waiter sees the result");
	model_assert(!m->children[i].on_stack, "a stack that is freed was left");
}

/* The fiber leaves its function: the data on its stack is invalid. */
static void ends(struct fiber *fiber)
{
	struct model *m = fiber->m;
	struct fiber_counter_node *woken = NULL;

	set_node(&fiber->node, SCRIBBLE);
	scribble_word(&fiber->io);
	if (fiber == &m->f && frees_memory(m)) {
		scribble_counter(&m->counter);
	} else if (fiber == &m->f && m->kind != LEVELS) {
		model_assert(fiber_counter_fini(m->ref, &woken) == FIBER_COUNTER_OK, "it is freed");
		/* The memory is reused, and no other thread has access. */
		(void)fiber_counter_renew(&m->counter, 1);
	}
	if (fiber_park_cancelled(&fiber->park))
		model_assert(m->why == RESULT, "a cancelled fiber sees why");
	model_assert(!fiber->ended++, "a fiber ends once");
	resume_all(woken);
}

/* The counter has reached the value that this fiber waited for. */
static void reached(struct fiber *fiber)
{
	struct model *m = fiber->m;

	if (m->kind != ALONE)
		check_child(m, 0);
	if (children(m) == 2 && !fiber->value)
		check_child(m, 1);
	ends(fiber);
}

/* On its stack: waits for the counter. */
static void wait_for(struct fiber *fiber)
{
	struct model *m = fiber->m;
	uint64_t generation;

	fiber->hooked = false;
	set_node(&fiber->node, 0);
	fiber->io = 0;
	generation = fiber_park_begin(&fiber->park, fiber->held);
	if (!generation) {
		model_assert(m->kind == CANCEL || m->kind == ALONE,
			     "it is cancelled, and not held");
		model_assert(m->why == RESULT, "a cancelled fiber sees why");
		model_assert(!fiber->again, "the children are waited for");
		if (m->kind == ALONE) {
			ends(fiber);
			return;
		}
		fiber->held = fiber->again = true;
		wait_for(fiber);
		return;
	}
	if (fiber == &m->f && !fiber->held)
		atomic_store_explicit(&m->armed, generation, memory_order_release);
	model_stumble();
	switch (fiber_counter_hook(m->ref, fiber->value, &fiber->node, &fiber->park, generation)) {
	case FIBER_COUNTER_OK:
		fiber->hooked = true;
		break;
	case FIBER_COUNTER_REACHED:
		if (fiber_park_stay(&fiber->park)) {
			reached(fiber);
			return;
		}
#ifdef MUTANT_READY
		reached(fiber);
		return;
#else
		break;
#endif
	case FIBER_COUNTER_STALE:
		model_assert(fiber == &m->g && m->kind != LEVELS, "G alone comes too late");
		if (fiber_park_stay(&fiber->park)) {
			ends(fiber);
			return;
		}
		break;
	default:
		model_assert(0, "it is not hooked yet");
	}
	model_stumble();
	fiber->context = CONTEXT;
#ifdef MUTANT_VISIBLE
	if (fiber_park_left(&fiber->park)) {
		fiber->on_stack = false;
		resume(fiber);
		return;
	}
	model_stumble();
	fiber->on_stack = false;
#else
	fiber->on_stack = false;
	if (fiber_park_left(&fiber->park))
		resume(fiber);
#endif
}

static void resume_park(struct fiber_park *park)
{
	resume((struct fiber *)park);
}

/* The loop resumes it; then it is on its stack. */
static void resume(struct fiber *fiber)
{
	struct model *m = fiber->m;
	enum fiber_reason reason = fiber_park_reason(&fiber->park);

	model_assert(fiber_park_is_out(&fiber->park), "a resumed fiber is not parked");
	model_assert(!fiber->on_stack, "no fiber is resumed on a stack in use");
	model_assert(fiber->context == CONTEXT, "registers are saved, and taken up once");
	fiber->on_stack = true;
	fiber->context = 0;
	if (reason == FIBER_COUNTER) {
		model_assert(fiber->hooked, "the counter knows of it");
		if (fiber->node.outcome == FIBER_COUNTER_REACHED)
			reached(fiber);
		else
			ends(fiber);
		return;
	}
	model_assert(!fiber->held, "a held wait ends by the counter");
	model_stumble();
#ifndef MUTANT_UNHOOK
	if (fiber->hooked)
		fiber_counter_unhook(&fiber->node);
#endif
	set_node(&fiber->node, SCRIBBLE);
	if (reason == FIBER_DEADLINE && fiber == &m->f)
		model_assert(m->fired == RESULT, "a woken fiber sees what its waker did");
	if (reason == FIBER_CANCEL)
		model_assert(m->why == RESULT, "a cancelled fiber sees why");
	if (reason == FIBER_IO)
		model_assert(fiber->io == RESULT, "the result of I/O is there");
	if (fiber == &m->g || m->kind == ALONE) {
		ends(fiber);
		return;
	}
	fiber->again = true;
#ifndef MUTANT_WAITS
	fiber->held = true;
#endif
	wait_for(fiber);
}

static void run(struct fiber *fiber)
{
	fiber->on_stack = true;
	wait_for(fiber);
}

/* A timer, which fires twice: it does not know that it is no longer wanted. */
static void timer(struct model *m)
{
	uint64_t generation = atomic_load_explicit(&m->armed, memory_order_acquire);

	if (!generation)
		return;
	m->fired = RESULT;
	if (fiber_park_wake(&m->f.park, generation, FIBER_DEADLINE) == FIBER_RUN)
		resume(&m->f);
	model_stumble();
#ifdef MUTANT_GENERATION
	generation = atomic_load_explicit(&m->f.park.word, memory_order_acquire) >>
		     FIBER_PARK_GENERATION;
#endif
	model_assert(fiber_park_wake(&m->f.park, generation, FIBER_DEADLINE) == FIBER_LOST,
		     "a late waker loses");
}

static void cancel(struct model *m)
{
	enum fiber_wake wake;

	m->why = RESULT;
	wake = fiber_park_cancel(&m->f.park);
	model_assert(wake == FIBER_LOST || m->kind != HELD, "a held wait is not cancelled");
	if (wake == FIBER_RUN)
		resume(&m->f);
}

static void io(struct model *m)
{
	uint64_t generation = atomic_load_explicit(&m->armed, memory_order_acquire);

	if (!generation)
		return;
#ifdef MUTANT_LATE
	if (fiber_park_claim(&m->f.park, generation, FIBER_IO)) {
		if (fiber_park_deliver(&m->f.park))
			resume(&m->f);
		model_stumble();
		m->f.io = RESULT;
	}
#else
#ifdef MUTANT_UNCLAIMED
	m->f.io = RESULT;
#endif
	if (fiber_park_claim(&m->f.park, generation, FIBER_IO)) {
		model_stumble();
		m->f.io = RESULT;
		if (fiber_park_deliver(&m->f.park))
			resume(&m->f);
	}
#endif
}

/* G waits for F's counter, which is freed; this thread is its timer as well. */
static void guest(struct model *m)
{
	struct fiber_counter_node *woken = NULL;

	run(&m->g);
	model_stumble();
	if (m->kind == LEAVES && fiber_park_wake(&m->g.park, 1, FIBER_DEADLINE) == FIBER_RUN)
		resume(&m->g);
	model_assert(fiber_counter_down(m->old, 1, &woken) == FIBER_COUNTER_STALE, "it was freed");
}

static void fiber_init(struct model *m, struct fiber *fiber, uint32_t value)
{
	model_zero(fiber);
	fiber_park_init(&fiber->park);
	fiber->m = m;
	fiber->value = value;
}

static void set_ref(struct fiber_counter_ref *ref, struct fiber_counter_ref value)
{
	ref->counter = value.counter;
	ref->generation = value.generation;
}

static void model_init(struct model *m, uint32_t instance)
{
	struct fiber_counter_node *woken;

	m->kind = instance % KINDS;
	fiber_init(m, &m->f, m->kind == FREED || m->kind == LEVELS);
	fiber_init(m, &m->g, 0);
	m->f.held = m->kind == HELD;
	for (uint32_t i = 0; i < 2; i++) {
		m->children[i].on_stack = true;
		m->children[i].result = 0;
	}
	atomic_store_explicit(&m->armed, 0, memory_order_relaxed);
	m->why = m->fired = 0;
	set_ref(&m->old, fiber_counter_init(&m->counter, 0));
	(void)fiber_counter_fini(m->old, &woken);
	set_ref(&m->ref, fiber_counter_renew(&m->counter, children(m)));
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == 0) {
		run(&m->f);
	} else if (thread == 1) {
		if (m->kind != ALONE)
			child_ends(m, 0);
		if (m->kind == LEVELS)
			child_ends(m, 1);
	} else {
		switch (m->kind) {
		case JOIN:
			child_ends(m, 1);
			break;
		case DEADLINE:
			timer(m);
			break;
		case IO:
			io(m);
			break;
		case SHARED:
		case LEAVES:
		case FREED:
			guest(m);
			break;
		case LEVELS:
			run(&m->g);
			break;
		default:
			cancel(m);
		}
	}
}

static void model_check(struct model *m)
{
	uint64_t word = atomic_load_explicit(&m->counter.word, memory_order_relaxed);

	model_assert(m->f.ended == 1, "F is woken");
	check_node(&m->f.node);
	check_word(&m->f.io);
	if (m->kind == CANCEL || m->kind == ALONE || m->kind == HELD)
		model_assert(fiber_park_cancelled(&m->f.park), "a cancellation is not forgotten");
	if (frees_memory(m)) {
		check_counter(&m->counter);
		return;
	}
	model_assert(m->g.ended == 1, "G is woken");
	check_node(&m->g.node);
	model_assert(!m->counter.first && !fiber_counter_level(word), "no fiber waits any more");
	model_assert(fiber_counter_value(word) == (m->kind != LEVELS), "every child has counted");
}

#include "tests/model/run.h"
