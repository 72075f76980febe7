/* SPDX-License-Identifier: MIT */
/*
 * shared_stack.h - stacks that many fibers share: one runs there, the others' bytes are copied out
 *
 * A shared stack is a guarded stack of FIBER_SHARED_STACK bytes, on which fibers of FK_STACK_SHARED
 * run. There is one for each worker, its home. A fiber gets its shared stack when it begins, and
 * returns to it each time that it is resumed, because its stack contains addresses. The used part
 * of the stack is copied to a block of that size (slab.h) only when another fiber needs the shared
 * stack. So a waiting fiber costs its record and the used part of its stack; while it runs it may
 * use the whole shared stack.
 *
 * 	shared stack		its fibers, all run by its holder
 * 	| bytes of F  |	  resident F: runs, or was the last that ran
 * 	|             |	  G: bytes in G->copy.room, waits
 * 	|             |	  H: the same, and is in the holder's inbox: resumed next
 * 	'-------------'	  guard
 *
 * 	F leaves --> shared_stack_keep(): reserves room for its bytes; if none, F continues at once
 * 	G is resumed --> shared_stack_take(); shared_stack_enter(): F's bytes out, G's bytes in
 *
 * THE HOLDER
 *   A shared stack has one holder, the only worker that runs its fibers. That is its home, unless
 *   its home is offline (cpu_parking.h): then another worker replaces it. A woken fiber is put into
 *   the holder's inbox. A fiber that has not begun has no shared stack; it is in deques like any
 *   other, and may be stolen. A fiber that has begun may be in a deque, too, when it is preempted
 *   (strand_safepoint()); a thief that takes it there sends it to the holder.
 *
 * Threads: workers, in the loop, and shared_stacks_ready() from fibers that spawn.
 *
 * INVARIANTS
 *   I1. Only the holder changes `holder`, in its loop, while no fiber runs on the shared stack.
 *       Only the holder accesses the shared stack's bytes, `resident`, and the copies of its
 *       fibers. The next holder sees all that (ORDER shared_stack/holder [B7]).
 *   I2. A shared stack moves as a whole, with all its fibers, wherever they wait, and without a
 *       search. A worker that has one of them and is not the holder sends it to the holder, and
 *       `holder` is read again there. So none is stuck with an offline worker: mail wakes that
 *       worker, which takes it, passes the shared stack on, and sends the fiber after it.
 *   I3. A fiber that has begun and does not run is resident, or its bytes are in its copy. Its copy
 *       is large enough whenever other threads may see it (shared_stack_keep() comes before), so it
 *       can always be copied out: resuming a fiber needs no memory, and never fails.
 *   I4. Data of a waiting fiber that other threads need is in its record: its park word, its timer,
 *       its node, its call. If an author passes memory on the stack to others, that is refused
 *       where it can be detected: fiber_on_shared_stack().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct fiber;
struct worker;

#define FIBER_SHARED_STACK ((size_t)256 << 10) /* bytes of a shared stack */

/* Makes the shared stacks, once. Returns 0 or a negative errno: see fiber_stack_get(). */
int shared_stacks_ready(struct worker *worker);

/* In the loop: true if the worker may run this fiber. False: it was sent to the worker that may. */
bool shared_stack_take(struct worker *worker, struct fiber *fiber);

/* The same worker, next: makes the fiber resident. True: the fiber has not begun, and must begin
 * there (fiber_begin_on()). */
bool shared_stack_enter(struct worker *worker, struct fiber *fiber);

/* The same worker, when the fiber has left its stack: reserves room for its bytes. False: there is
 * none, and the fiber must continue before any other of the shared stack. */
bool shared_stack_keep(struct worker *worker, struct fiber *fiber);

/* The fiber has ended. */
void shared_stack_leave(struct worker *worker, struct fiber *fiber);

/* The worker continues with a frame, which may take long: ensures that its inbox is served in
 * time. */
void shared_stacks_wait(struct worker *worker);
