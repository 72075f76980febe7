/* SPDX-License-Identifier: MIT */
/*
 * park_word.h - how a fiber parks, and is woken once
 *
 * One word for each fiber, and the transitions by the threads that change it: the fiber itself, the
 * loop of its worker, and wakers. A waker is a thread that counts a counter down
 * (daemon/fiber/wait_counter.h), a timer, the poller, or a cancel. The caller manages stacks and
 * queues: it makes the fiber runnable if the result says so. A waiting frame may have such a word
 * as well.
 *
 * The race to avoid, known from every runtime with its own stacks (such as Ramesh and Chowdhury's
 * M:N runtime of fibers): another worker can resume a fiber as soon as it is visibly parked. So a
 * fiber must become visible as parked only after its registers are saved and it has left its stack.
 * And a fiber that ends must neither free its stack nor wake the fiber that will free it while it
 * runs there. So the loop does both, after the switch.
 *
 * Threads: fiber_park_begin(), fiber_park_stay(), fiber_park_reason(): the fiber, on its own stack.
 * fiber_park_left(): the loop, on its own stack, after the switch has saved the fiber's registers.
 * fiber_park_claim(), fiber_park_deliver(), fiber_park_wake(), fiber_park_cancel(),
 * fiber_park_holds(): any thread of the pool. fiber_park_init(): the creator of the fiber.
 *
 * THE WORD
 *   { generation:48, reason:8, flags:8 }. The generation counts parks. The flags of a park:
 * 	CLAIMED  a waker has won, and reason says why; all others lose
 * 	DONE     that waker has delivered: all that it writes for the fiber is written
 * 	LEFT     the fiber has left its stack
 * 	HELD     a cancel does not wake it (a fiber that waits for users of its stack)
 *   and one of the fiber: CANCELLED, which stays. All of the first three: OUT, the park has ended,
 *   and the fiber runs or is runnable. So it is from the start, and while it yields or ends: these
 *   need no transition here, because the loop makes it runnable, or ends it, after the switch.
 *
 * 	fiber   OUT --begin--> going: generation + 1, no flag --(registers, switch)-->
 * 	loop        --left---> LEFT: parked; or LEFT|CLAIMED|DONE: OUT, the loop makes it runnable
 * 	waker       --claim--> CLAIMED --deliver--> DONE: if LEFT was there: OUT, the waker makes it
 * 			       runnable; else the loop will. wake: both in one step
 *
 *   Between claim and deliver the waker may write data that the fiber will read, also on its stack:
 *   a result, a node. Without a claim it accesses only the word.
 *
 * USE BY A FIBER
 * 	generation = fiber_park_begin(park, held);	0: it is cancelled, and does not park
 * 	give { park, generation } to the counter, the timer, the ring; if one of them says that
 * 	there is nothing to wait for: fiber_park_stay(), and if that is true, no switch
 * 	switch to the loop;				the loop: if (fiber_park_left(park)) push
 * 	fiber_park_reason(park);			resumed: which waker has won
 * 	take back what it gave: the node off its counter, the timer out of its heap
 *   A timer that has just expired then holds { park, generation } as two values, wakes, loses, and
 *   leaves nothing behind.
 *
 * INVARIANTS
 *   I1. Each park has exactly one winner. CLAIMED is set by a CAS on a word that has the waker's
 *       generation and not the flag. Only the next park, which has another generation, clears it.
 *       So a waker of an earlier park loses, whatever the fiber does by then.
 *   I2. The fiber becomes runnable once for each park. LEFT and DONE are set once each, by
 *       read-modify-writes of one word, so the later one finds the other flag: the thread that made
 *       it makes the fiber runnable, and no other. fiber_park_stay() sets the missing flags only if
 *       no waker is between claim and deliver, so no other thread can find both; the fiber itself
 *       continues then.
 *   I3. No thread resumes the fiber before it has left its stack and the waker has delivered: OUT
 *       is set by the later of the two transitions. It sees all earlier stores of both: each
 *       transition releases, the later one acquires, and passes them on through the queue.
 *   I4. After claim, only the winner may access the fiber's data, and only until deliver: until
 *       then the fiber does not run, by I3, so its stack exists. Deliver is the winner's last
 *       access, except to make the fiber runnable.
 *   I5. No cancellation is lost: setting CANCELLED and claiming a park are one transition of the
 *       word that begin changes, too. If cancel is first, begin sees it; if begin is first, cancel
 *       sees the park.
 *   I6. Only the owner begins a park, from OUT; only cancel changes the word while it is OUT.
 *
 * DUTIES OF THE CALLER
 *   When the fiber ends, no thread may still have { park, generation }: the word is freed with it,
 *   and the next fiber there begins with generation 0 again. So before its wait returns, the fiber
 *   itself removes what it gave to others, under the lock under which they read it: its node
 *   (wait.c, I1), its timer (timer_heap.c, I1), the link by which a cancel finds it (cancel.c, I2).
 *   A waker without such a lock would need the word to stay. 2^48 parks of a fiber take some years:
 *   the generation does not repeat while a waker is late.
 *
 * Compiles with C11 alone: tests/model/fiber.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"

#define FIBER_PARK_LEFT	      0x01u
#define FIBER_PARK_DONE	      0x02u
#define FIBER_PARK_CLAIMED    0x04u
#define FIBER_PARK_OUT	      (FIBER_PARK_LEFT | FIBER_PARK_DONE | FIBER_PARK_CLAIMED)
#define FIBER_PARK_HELD	      0x08u
#define FIBER_PARK_CANCELLED  0x10u
#define FIBER_PARK_REASON     8	 /* shift */
#define FIBER_PARK_GENERATION 16 /* shift */

/* Why a fiber was woken. */
enum fiber_reason {
	FIBER_STAYED, /* not woken: fiber_park_stay() */
	FIBER_COUNTER,
	FIBER_DEADLINE,
	FIBER_IO,
	FIBER_CANCEL,
};

enum fiber_wake {
	FIBER_LOST, /* another waker was first, or the park has ended */
	FIBER_WON,  /* the loop makes it runnable, when the fiber has left */
	FIBER_RUN,  /* the caller makes it runnable */
};

struct fiber_park {
	_Atomic uint64_t word;
};

/* Initializes the word: OUT. */
static inline void fiber_park_init(struct fiber_park *park)
{
	store_relaxed(&park->word, FIBER_PARK_OUT);
}

/* True if it neither parks nor is parked: it runs or is runnable. For assertions when it is
 * resumed. */
static inline bool fiber_park_is_out(struct fiber_park *park)
{
	/* Relaxed: the worker that resumes it got it from a queue. */
	return (load_relaxed(&park->word) & FIBER_PARK_OUT) == FIBER_PARK_OUT;
}

/* Fiber: true if it was cancelled. */
static inline bool fiber_park_cancelled(struct fiber_park *park)
{
	/* ORDER fiber/cancel [F2]: acquire, it sees why. Pairs with fiber_park_cancel(). */
	return atomic_load_explicit(&park->word, memory_order_acquire) & FIBER_PARK_CANCELLED;
}

/* Fiber, which is OUT: announces that it will park. held: a cancel does not wake it. Returns the
 * generation for its wakers, or 0 if it is cancelled and not held; then it stays OUT. */
static inline uint64_t fiber_park_begin(struct fiber_park *park, bool held)
{
	/* ORDER fiber/cancel [F2]: acquire, as in fiber_park_cancelled(). */
	uint64_t word = atomic_load_explicit(&park->word, memory_order_acquire);
	uint64_t next;

	do {
		if (word & FIBER_PARK_CANCELLED && !held)
			return 0;
		next = ((word >> FIBER_PARK_GENERATION) + 1) << FIBER_PARK_GENERATION;
		next |= word & FIBER_PARK_CANCELLED;
		if (held)
			next |= FIBER_PARK_HELD;
		/* ORDER fiber/cancel [F2]: acquire, for a failure, as above. Pairs with
		 * fiber_park_cancel(). Proof: I5. Releases nothing: a waker gets the park by an
		 * operation that releases, and a cancel accesses only the word. */
	} while (!atomic_compare_exchange_weak_explicit(
		&park->word, &word, next, memory_order_acquire, memory_order_acquire));
	return next >> FIBER_PARK_GENERATION;
}

/* Fiber, after begin, before it switches: it need not park. True: it is OUT and continues;
 * fiber_park_reason() returns the winner. False: a waker has not delivered yet; it must switch. */
static inline bool fiber_park_stay(struct fiber_park *park)
{
	/* Relaxed: the CAS orders. */
	uint64_t word = load_relaxed(&park->word);

	do {
		if ((word & FIBER_PARK_OUT) == FIBER_PARK_CLAIMED)
			return false;
		/* ORDER fiber/leave [F1]: acquire, the winner's data. Pairs with
		 * fiber_park_deliver() and fiber_park_wake(). */
	} while (!atomic_compare_exchange_weak_explicit(&park->word, &word, word | FIBER_PARK_OUT,
							memory_order_acquire,
							memory_order_relaxed));
	return true;
}

/* Loop, after the switch out of a fiber that has begun a park. True: the caller makes it runnable.
 * False: it is parked, and may already run on another worker. */
static inline bool fiber_park_left(struct fiber_park *park)
{
	/* ORDER fiber/leave [F1]: release, its registers and its stack come before; acquire, the
	 * winner's data. Pairs with fiber_park_deliver() and fiber_park_wake(). Proof: I2, I3. */
	return atomic_fetch_or_explicit(&park->word, FIBER_PARK_LEFT, memory_order_acq_rel) &
	       FIBER_PARK_DONE;
}

/* Sets bits in the word of a park that is not claimed. Returns the word before, 0 if it belongs to
 * another park or is claimed. */
static inline uint64_t fiber_park_take(struct fiber_park *park, uint64_t generation, uint64_t bits)
{
	/* Relaxed: a stale value fails, and a loser reads nothing. */
	uint64_t word = load_relaxed(&park->word);

	do {
		if (word >> FIBER_PARK_GENERATION != generation || word & FIBER_PARK_CLAIMED)
			return 0;
		/* ORDER fiber/leave [F1]: acquire, the fiber's registers and stack, if it has left;
		 * release, if this delivers, the winner's data. Pairs with fiber_park_left() and
		 * fiber_park_stay(). */
	} while (!atomic_compare_exchange_weak_explicit(
		&park->word, &word, word | bits, memory_order_acq_rel, memory_order_relaxed));
	return word;
}

/* A waker of this generation, first step. True: it has won, writes its data for the fiber, and
 * calls fiber_park_deliver(). False: it has lost, and must not access the fiber. */
static inline bool fiber_park_claim(struct fiber_park *park, uint64_t generation,
				    enum fiber_reason reason)
{
	return fiber_park_take(park, generation,
			       FIBER_PARK_CLAIMED | (uint64_t)reason << FIBER_PARK_REASON) != 0;
}

/* Winner, second step. True: the caller makes the fiber runnable. False: it may run by now. */
static inline bool fiber_park_deliver(struct fiber_park *park)
{
	/* ORDER fiber/leave [F1]: release, the winner's data; acquire, the fiber's registers and
	 * stack. Pairs with fiber_park_left() and fiber_park_stay(). Proof: I2, I3. */
	return atomic_fetch_or_explicit(&park->word, FIBER_PARK_DONE, memory_order_acq_rel) &
	       FIBER_PARK_LEFT;
}

/* Both steps in one, for a waker without data to write. */
static inline enum fiber_wake fiber_park_wake(struct fiber_park *park, uint64_t generation,
					      enum fiber_reason reason)
{
	uint64_t before = fiber_park_take(park, generation,
					  FIBER_PARK_CLAIMED | FIBER_PARK_DONE |
						  (uint64_t)reason << FIBER_PARK_REASON);

	if (!before)
		return FIBER_LOST;
	return before & FIBER_PARK_LEFT ? FIBER_RUN : FIBER_WON;
}

/* Marks the fiber as cancelled, permanently, and wakes it from a park that is not held. FIBER_LOST:
 * it is not in one; it sees the mark when it begins one. */
static inline enum fiber_wake fiber_park_cancel(struct fiber_park *park)
{
	/* Relaxed: the CAS orders. */
	uint64_t word = load_relaxed(&park->word);
	uint64_t bits;

	do {
		bits = FIBER_PARK_CANCELLED;
		if (!(word & (FIBER_PARK_CLAIMED | FIBER_PARK_HELD)))
			bits |= FIBER_PARK_CLAIMED | FIBER_PARK_DONE |
				(uint64_t)FIBER_CANCEL << FIBER_PARK_REASON;
		/* ORDER fiber/cancel [F2]: release, the fiber sees why; acquire, with begin. Pairs
		 * with fiber_park_begin() and fiber_park_cancelled(). Proof: I5.
		 * ORDER fiber/leave [F1]: the same, as in fiber_park_take(). */
	} while (!atomic_compare_exchange_weak_explicit(
		&park->word, &word, word | bits, memory_order_acq_rel, memory_order_relaxed));
	if (!(bits & FIBER_PARK_CLAIMED))
		return FIBER_LOST;
	return word & FIBER_PARK_LEFT ? FIBER_RUN : FIBER_WON;
}

/* Any thread: returns the generation of a park that is held, left and not claimed; 0: none. */
static inline uint64_t fiber_park_holds(struct fiber_park *park)
{
	/* ORDER fiber/leave [F1]: acquire, the fiber's wait. Pairs with fiber_park_left(). */
	uint64_t word = atomic_load_explicit(&park->word, memory_order_acquire);
	uint64_t flags = word & (FIBER_PARK_OUT | FIBER_PARK_HELD);

	return flags == (FIBER_PARK_LEFT | FIBER_PARK_HELD) ? word >> FIBER_PARK_GENERATION : 0;
}

/* Fiber: returns why its last park ended. */
static inline enum fiber_reason fiber_park_reason(struct fiber_park *park)
{
	/* Relaxed: it is OUT, so the reason stays (I6). */
	return (enum fiber_reason)(load_relaxed(&park->word) >> FIBER_PARK_REASON & 0xffu);
}
