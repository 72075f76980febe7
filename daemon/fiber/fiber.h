/* SPDX-License-Identifier: MIT */
/*
 * fiber.h - fibers: C functions on their own stacks, among the frames of the workers
 *
 * The fibers' runtime. forkd/fiber.h is what authors see.
 *
 * fiber.c             a fiber's life: switched to, leaves, ends
 * self.c              the calling fiber, and how it leaves its stack
 * spawn.c             begins fibers; a frame begins a scope
 * create.c            records and stacks of fibers
 * ready.c             runnable fibers get to a worker
 * scope.c             how a scope begins and ends
 * parked.c            lists of fibers that wait; cancel.c, stuck.c: how such waits end early
 * counter.c           counters; wait.c, waits for them
 * timer_heap.c        timers; timer.c, waits for a time
 * io.c                waits for input and output
 * blocking_section.c  sections in which calls may block, on blocking threads
 * call_frame.c        fibers call tasks of frames
 * fiber_stack.c       their own stacks; shared_stack.c, shared ones; slab.c, memory for copies
 *
 * WORDS
 *   fiber frame: stands for a fiber in a deque. scope: a root fiber, and all that it and those have
 *   spawned. owner frame: runs a scope, and continues when all of it has ended. call frame: the
 *   parent of a task that a fiber calls. blocking thread: runs the sections that may block.
 */
#pragma once

struct fk_task;
struct pool;

/* After layout_make(). Returns 0, or a negative errno: there are no stacks, and tasks that are
 * fibers fail with that. fibers_fini() is to be called in both cases. Both: the pool's main thread,
 * before there are workers and after. */
int fibers_init(struct pool *pool);
void fibers_fini(struct pool *pool);

/* The task of each fiber frame. */
extern const struct fk_task fiber_task;
