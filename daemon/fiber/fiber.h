/* SPDX-License-Identifier: MIT */
/*
 * fiber.h - fibers: C functions on their own stacks, among the frames of the workers
 *
 * The runtime of fibers. forkd/fiber.h is the interface for authors.
 *
 * fiber.c             how fibers are switched to, leave their stacks and end
 * self.c              the calling fiber, and how it leaves its stack
 * spawn.c             begins fibers; a frame begins a scope
 * create.c            records and stacks of fibers
 * ready.c             passes runnable fibers to workers
 * scope.c             how a scope begins and ends
 * parked.c            lists of waiting fibers; cancel.c, stuck.c: end waits early
 * counter.c           counters; wait.c, waits for them
 * timer_heap.c        timers; timer.c, waits for a time
 * io.c                waits for input and output
 * blocking_section.c  sections in which calls may block, on blocking threads
 * call_frame.c        fibers call tasks that have frames
 * fiber_stack.c       their own stacks; shared_stack.c, shared ones; slab.c, memory for copies
 *
 * WORDS
 *   fiber frame: represents a fiber in a deque. scope: a root fiber, and all fibers that it and
 *   they have spawned. owner frame: runs a scope, and continues when all of it has ended. call
 *   frame: the parent of a task that a fiber calls. blocking thread: runs sections that may block.
 */
#pragma once

struct fk_task;
struct pool;

/* Frees what fibers_reserve() (create.h) has made, if it was called. The pool's main thread, after
 * the workers. */
void fibers_fini(struct pool *pool);

/* Task of all fiber frames. */
extern const struct fk_task fiber_task;
