/* SPDX-License-Identifier: MIT */
/*
 * park_word.h - how a fiber parks, and is woken once
 *
 * One word for each fiber, and the steps of the threads that change it: the fiber itself, the loop
 * of the worker that it ran on, and wakers: a thread that counts a counter down
 * (daemon/fiber/wait_counter.h), a timer, the poller, a cancel. Stacks and queues are the caller's:
 * it makes the fiber runnable if it is told to. A frame that waits may have such a word as well.
 * The race to avoid, known from every runtime with its own stacks (Ramesh and Chowdhury's M:N
 * runtime of fibers among them): another worker can resume a fiber as soon as it is visibly parked,
 * so it must not be visible before it has left its stack, and its registers are saved; and a fiber
 * that ends must neither free its stack nor wake the fiber that will free it, as long as it runs
 * there. So both are done by the loop, after the switch.
 *
 * Threads: fiber_park_begin(), fiber_park_stay(), fiber_park_reason(): the fiber, on its own stack.
 * fiber_park_left(): the loop, after the switch that saved the fiber's registers, on its own stack.
 * fiber_park_claim(), fiber_park_deliver(), fiber_park_wake(), fiber_park_cancel(),
 * fiber_park_holds(): any thread of the pool. fiber_park_init(): the maker of the fiber.
 *
 * THE WORD
 *   { generation:48, reason:8, flags:8 }. The generation counts parks. The flags of a park:
 * 	CLAIMED  a waker has won, and reason says why; all others lose
 * 	DONE     that waker has delivered: what it had to write for the fiber is written
 * 	LEFT     the fiber has left its stack
 * 	HELD     a cancel does not wake it (a fiber that waits for users of its stack)
 *   and one of the fiber: CANCELLED, which stays. All of the first three: OUT, the park is over,
 *   the fiber runs or is to run. So it is from its beginning on, and while it yields or ends: these
 *   need no step here, the loop makes it runnable, or ends it, after the switch.
 *
 * 	fiber   OUT --begin--> going: generation + 1, no flag --(registers, switch)-->
 * 	loop        --left---> LEFT: parked; or LEFT|CLAIMED|DONE: OUT, the loop makes it runnable
 * 	waker       --claim--> CLAIMED --deliver--> DONE: if LEFT was there: OUT, the waker makes it
 * 			       runnable; else the loop will. wake: both in one step
 *
 *   Between claim and deliver the waker may write where the fiber will read, also on its stack: a
 *   result, a node. Without a claim it touches nothing but the word.
 *
 * THE FIBER'S WAY
 * 	generation = fiber_park_begin(park, held);	0: it is cancelled, and does not park
 * 	give { park, generation } to the counter, the timer, the ring; if one of them returns that
 * 	there is nothing to wait for: fiber_park_stay(), and if that is true, no switch
 * 	switch to the loop;				the loop: if (fiber_park_left(park)) push
 * 	fiber_park_reason(park);			resumed: which waker has won
 * 	take back what it gave: the node off its counter, the timer out of its heap
 *   A timer that is on its way by then holds { park, generation } as two values, wakes, loses, and
 *   has left nothing behind.
 *
 * INVARIANTS
 *   I1. Of a park exactly one waker wins. CLAIMED is put in by a CAS on a word that has the waker's
 *       generation and not the flag; it goes only with the next park, which has another generation.
 *       So a waker of an earlier park loses, whatever the fiber does by then.
 *   I2. It becomes runnable once for each park. LEFT and DONE are put in once each, by
 *       read-modify-writes of one word, so one of the two is the later one and finds the other: the
 *       thread that made that step makes it runnable, and no other. fiber_park_stay() puts in the
 *       missing flags only if no waker is between claim and deliver, so that no other thread is
 *       left to find anything; the fiber itself continues then.
 *   I3. No thread resumes it before it has left its stack, and before the waker has delivered: OUT
 *       comes with the later of the two steps. It sees what both did before: each step releases,
 *       the later one acquires, and hands it on through the queue.
 *   I4. After claim, only the winner may touch what is the fiber's, and that until deliver: up to
 *       then the fiber does not run, by I3, so its stack is there. Deliver is the winner's last
 *       touch of anything of the fiber's, except to make it runnable.
 *   I5. No cancellation is lost: CANCELLED, and the claim of a park, are one step on the word that
 *       begin changes by its own step. If cancel comes first, begin sees it; if begin comes first,
 *       cancel sees the park.
 *   I6. The owner alone begins a park, from OUT; only cancel changes the word while it is OUT.
 *
 * WHAT THE CALLER OWES
 *   No thread has { park, generation } any more when the fiber ends: the word goes with it, and the
 *   next fiber there begins with generation 0 again. So before its wait returns, the fiber itself
 *   takes back what it gave, under the lock under which others look at it: its node (wait.c, I1),
 *   its timer (timer_heap.c, I1), the link by which a cancel finds it (cancel.c, I2). A waker that
 *   comes without such a lock would need the word to stay. 2^48 parks of a fiber are some years:
 *   the generation does not come again while a waker is late.
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
	FIBER_STAYED, /* it was not: fiber_park_stay() */
	FIBER_COUNTER,
	FIBER_DEADLINE,
	FIBER_IO,
	FIBER_CANCEL,
};

enum fiber_wake {
	FIBER_LOST, /* another one was first, or it is over */
	FIBER_WON,  /* the loop that it is leaving to makes it runnable */
	FIBER_RUN,  /* the caller makes it runnable */
};

struct fiber_park {
	_Atomic uint64_t word;
};

/* Once for the memory: it is OUT. */
static inline void fiber_park_init(struct fiber_park *park)
{
	store_relaxed(&park->word, FIBER_PARK_OUT);
}

/* Neither going nor parked: it runs, or is to run. For assertions where it is resumed. */
static inline bool fiber_park_is_out(struct fiber_park *park)
{
	/* Relaxed: the worker that resumes it has it from a queue. */
	return (load_relaxed(&park->word) & FIBER_PARK_OUT) == FIBER_PARK_OUT;
}

/* Fiber: it was cancelled. */
static inline bool fiber_park_cancelled(struct fiber_park *park)
{
	/* ORDER fiber/cancel [F2]: acquire, it sees why. Pairs with fiber_park_cancel(). */
	return atomic_load_explicit(&park->word, memory_order_acquire) & FIBER_PARK_CANCELLED;
}

/*
 * Fiber, which is OUT: announces that it will park. held: to be cancelled does not wake it.
 * Returns the generation for its wakers, or 0 if it is cancelled, and not held: it is
 * OUT as before.
 */
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
		/* ORDER fiber/cancel [F2]: acquire, for where it fails, as above. Pairs with
		 * fiber_park_cancel(). Proof: I5. It releases nothing: a waker gets the park
		 * from something that does, and a cancel touches the word alone. */
	} while (!atomic_compare_exchange_weak_explicit(
		&park->word, &word, next, memory_order_acquire, memory_order_acquire));
	return next >> FIBER_PARK_GENERATION;
}

/*
 * Fiber, after begin, before it switches: it need not park. True: it is OUT and goes on;
 * fiber_park_reason() returns the winner. False: a waker has not delivered yet; it has to switch.
 */
static inline bool fiber_park_stay(struct fiber_park *park)
{
	/* Relaxed: the CAS orders. */
	uint64_t word = load_relaxed(&park->word);

	do {
		if ((word & FIBER_PARK_OUT) == FIBER_PARK_CLAIMED)
			return false;
		/* ORDER fiber/leave [F1]: acquire, what the winner has written. Pairs with
		 * fiber_park_deliver() and fiber_park_wake(). */
	} while (!atomic_compare_exchange_weak_explicit(&park->word, &word, word | FIBER_PARK_OUT,
							memory_order_acquire,
							memory_order_relaxed));
	return true;
}

/* Loop, after the switch out of a fiber that has begun a park. True: it is to run, the caller makes
 * it runnable. False: it is parked, and may run elsewhere by now. */
static inline bool fiber_park_left(struct fiber_park *park)
{
	/* ORDER fiber/leave [F1]: release, its registers and its stack come before; acquire, what
	 * the winner has written. Pairs with fiber_park_deliver() and fiber_park_wake(). Proof: I2,
	 * I3. */
	return atomic_fetch_or_explicit(&park->word, FIBER_PARK_LEFT, memory_order_acq_rel) &
	       FIBER_PARK_DONE;
}

/* Puts bits into the word of a park that is not claimed. Returns the word before, 0 if it is not
 * this park's, or claimed. */
static inline uint64_t fiber_park_take(struct fiber_park *park, uint64_t generation, uint64_t bits)
{
	/* Relaxed: a stale value fails, and a loser reads nothing. */
	uint64_t word = load_relaxed(&park->word);

	do {
		if (word >> FIBER_PARK_GENERATION != generation || word & FIBER_PARK_CLAIMED)
			return 0;
		/* ORDER fiber/leave [F1]: acquire, the fiber's registers and stack, if it has left;
		 * release, if this delivers, what the winner has written. Pairs with
		 * fiber_park_left() and fiber_park_stay(). */
	} while (!atomic_compare_exchange_weak_explicit(
		&park->word, &word, word | bits, memory_order_acq_rel, memory_order_relaxed));
	return word;
}

/*
 * A waker of this generation, first step. True: it has won, writes what it has for the fiber, and
 * calls fiber_park_deliver(). False: it lost, and touches nothing.
 */
static inline bool fiber_park_claim(struct fiber_park *park, uint64_t generation,
				    enum fiber_reason reason)
{
	return fiber_park_take(park, generation,
			       FIBER_PARK_CLAIMED | (uint64_t)reason << FIBER_PARK_REASON) != 0;
}

/* Winner, second step. True: the caller makes the fiber runnable. False: it may run by now. */
static inline bool fiber_park_deliver(struct fiber_park *park)
{
	/* ORDER fiber/leave [F1]: release, what the winner has written; acquire, the fiber's
	 * registers and stack. Pairs with fiber_park_left() and fiber_park_stay(). Proof: I2,
	 * I3. */
	return atomic_fetch_or_explicit(&park->word, FIBER_PARK_DONE, memory_order_acq_rel) &
	       FIBER_PARK_LEFT;
}

/* Both steps in one, for a waker that has nothing to write. */
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

/* Marks the fiber as cancelled, for good, and wakes it out of a park that is not held. FIBER_LOST:
 * it is in none; it sees the mark when it begins one. */
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

/* Any thread: the generation of a park that is held, left and not claimed; 0: it is in none. */
static inline uint64_t fiber_park_holds(struct fiber_park *park)
{
	/* ORDER fiber/leave [F1]: acquire, what the fiber waits for. Pairs with
	 * fiber_park_left(). */
	uint64_t word = atomic_load_explicit(&park->word, memory_order_acquire);
	uint64_t flags = word & (FIBER_PARK_OUT | FIBER_PARK_HELD);

	return flags == (FIBER_PARK_LEFT | FIBER_PARK_HELD) ? word >> FIBER_PARK_GENERATION : 0;
}

/* Fiber: what has ended its last park. */
static inline enum fiber_reason fiber_park_reason(struct fiber_park *park)
{
	/* Relaxed: it is OUT, so the reason stays (I6). */
	return (enum fiber_reason)(load_relaxed(&park->word) >> FIBER_PARK_REASON & 0xffu);
}
