/* SPDX-License-Identifier: MIT */
/*
 * fiber.h - fibers: C functions on stacks of their own, among the frames of the workers
 *
 * The fibers' runtime. forkd/fiber.h is what authors see.
 *
 * fiber.c          a fiber's life: switched to, leaves, ends
 * self.c           what it asks for itself, and how it leaves its stack
 * spawn.c          begins others; a frame begins a scope
 * create.c         records and stacks of fibers
 * ready.c          what is to go on gets to a worker
 * scope.c   what belongs together: how it begins and ends
 * parked.c         lists of those that wait; cancel.c, stuck.c: how such waits end early
 * counter.c        counters; wait.c, waits for them
 * timer_heap.c     timers; timer.c, waits for a time
 * io.c       waits for input and output
 * blocking_section.c    sections in which calls may block, on threads of their own
 * frame_bridge.c     fibers run frames
 * fiber_stack.c    stacks of their own; shared_stack.c, those that they share; slab.c,
 *                  memory for what they leave of these
 *
 * WORDS
 *   face: the frame by which a fiber stands in a deque. scope: a root fiber, and all that it and
 *   those have spawned. front: the frame that runs a scope, and goes on when all of it has ended.
 *   bridge: the frame that is the parent of what a fiber calls. shared stack: a stack that fibers
 *   share. side thread: one beside the workers, for a section that may block.
 */
#ifndef DAEMON_FIBER_FIBER_H
#define DAEMON_FIBER_FIBER_H

struct fk_task;
struct pool;

/* After layout_make(). Returns 0, or a negative errno: there are no stacks, and tasks that are
 * fibers fail with that. fibers_fini() is to be called in both cases. Both: the pool's main thread,
 * before there are workers and after. */
int fibers_init(struct pool *pool);
void fibers_fini(struct pool *pool);

/* The task of each fiber's face. */
extern const struct fk_task fiber_task;

#endif
