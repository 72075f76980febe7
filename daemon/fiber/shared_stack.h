/* SPDX-License-Identifier: MIT */
/*
 * shared_stack.h - stacks that many fibers share: one runs there, the others' bytes are copied out
 *
 * A shared stack is a stack of FIBER_SHARED_STACK bytes, guarded, on which fibers of
 * FK_STACK_SHARED run. There is one for each worker, its home. A fiber gets its shared stack when
 * it begins, and comes back to it each time that it is resumed, for what is on its stack has
 * addresses. The used part of the stack is copied to a block of that size (slab.h) when another
 * fiber needs the shared stack, and not before. So a fiber that waits costs its record and what is
 * on its stack; while it runs it may use all of the shared stack.
 *
 * 	shared stack		fibers of it, all in the hands of its holder
 * 	| bytes of F  |	  resident F: runs, or was the last that ran
 * 	|             |	  G: bytes in G->copy.room, waits
 * 	|             |	  H: the same, and is in the holder's inbox: resumed next
 * 	'-------------'	  guard
 *
 * 	F leaves --> shared_stack_keep(): there is room for its bytes, or it continues at once
 * 	G is resumed --> shared_stack_take(); shared_stack_enter(): F's bytes out, G's bytes in
 *
 * THE HOLDER
 *   A shared stack has one holder, the only worker that runs its fibers. That is its home, unless
 *   its home is parked (cpu_parking.h): then another worker stands in. A fiber that is woken is put
 *   into the holder's inbox. A fiber that has not begun has no shared stack; it is in deques as any
 *   other, and is stolen. One that has begun may get into a deque, too, when it is preempted
 *   (strand_safepoint()); a thief that takes it there sends it to the holder.
 *
 * Threads: workers, in the loop, and shared_stacks_ready() from fibers that spawn.
 *
 * INVARIANTS
 *   I1. Only the holder changes `holder`, in its loop, while no fiber runs on the shared stack; and
 *       only it accesses the shared stack's bytes, `resident`, and the copies of its fibers. The
 *       next holder sees all that (ORDER shared_stack/holder [B7]).
 *   I2. A shared stack moves as a whole, with all its fibers, wherever they wait: none of them is
 *       searched. A worker that has one of them and is not the holder sends it there, and `holder`
 *       is read again wherever it arrives. So none is stuck with a worker that is parked: mail
 *       wakes it, it takes that, gives the shared stack away, and sends the fiber after it.
 *   I3. A fiber that has begun and does not run is resident, or its bytes are in its copy. It has a
 *       copy that is large enough whenever others may see it (shared_stack_keep() comes before
 *       that), so that it can always be moved out: to run a fiber needs no memory, and never fails.
 *   I4. What other threads need of a fiber that waits is in its record: its park word, its timer,
 *       its node, what it has called. Memory on the stack that an author passes to others is
 *       refused where it can be seen: fiber_on_shared_stack().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct fiber;
struct worker;

#define FIBER_SHARED_STACK ((size_t)256 << 10) /* bytes of a stack that is shared */

/* Makes the shared stacks, once. Returns 0 or a negative errno: see fiber_stack_get(). */
int shared_stacks_ready(struct worker *worker);

/* In the loop: may the worker run this fiber? False: it was sent to the worker that may. */
bool shared_stack_take(struct worker *worker, struct fiber *fiber);

/* The same worker, next: the shared stack has the fiber's bytes. True: there are none yet, and the
 * fiber is to begin there (fiber_begin_on()). */
bool shared_stack_enter(struct worker *worker, struct fiber *fiber);

/* The same worker, when the fiber has left its stack: room for what is on it. False: there is none,
 * and the fiber is to go on before any other of the shared stack. */
bool shared_stack_keep(struct worker *worker, struct fiber *fiber);

/* The fiber has ended. */
void shared_stack_leave(struct worker *worker, struct fiber *fiber);

/* The worker continues with a frame, which may take long: its inbox gets a turn then. */
void shared_stacks_wait(struct worker *worker);
