/* SPDX-License-Identifier: MIT */
/*
 * slow_path.h - running strands: the slow paths of tasks
 *
 * Threads: the rest of the pool, on the worker concerned. engine_internal.h says what is in which
 * file, and the ownership.
 */
#pragma once

#include "daemon/core/worker.h"

/* The runtime goes on from here, called by a task: the signal handler keeps out. Returns
 * the worker. */
static inline struct worker *strand_enter(struct fk_worker *fk)
{
	fk_enter(fk, 0);
	return worker_of(fk);
}

/* Where strands that end in another way than by a return come back to: in the function that is the
 * worker's loop, which must not return while strands run. True after a jump. */
#ifdef WORKER_LIBC_JUMP
#define STRAND_SET(worker)  _setjmp((worker)->engine.jump)
#define STRAND_JUMP(worker) longjmp((worker)->engine.jump, 1)
#else
#define STRAND_SET(worker)  __builtin_setjmp((worker)->engine.jump)
#define STRAND_JUMP(worker) __builtin_longjmp((worker)->engine.jump, 1)
#endif

/* slow_path.c */

/*
 * Owner, in the loop: resumes a frame, or lets it wind down if its job has failed. It may return by
 * STRAND_JUMP. The frame to be run next is engine.unwind or engine.next then; neither: none is.
 */
void strand_run(struct worker *worker, struct fk_frame *frame);

/* Owner: another strand begins. With fuzz_seed each has a limit of its own. */
void strand_fuzz_limit(struct worker *worker);

/* ownership.c */

/* Sees to it that the worker has an empty stack to run on. False if the arena is full. */
bool strand_own_stack(struct worker *worker);

/* A new stacklet on top of the worker's, for size bytes. False: the job has failed. */
bool strand_push_stacklet(struct worker *worker, char *sp, size_t size);

/* Takes the worker's top stacklet off, which is empty. Returns the sp below it. */
char *strand_pop_stacklet(struct worker *worker);

/* Makes a stolen frame (or one set aside) ready to be resumed by this worker. */
void strand_adopt(struct worker *worker, struct fk_frame *frame);

/* Owner: takes back what is public of its deque. True if there was something. */
bool strand_reclaim(struct worker *worker);

/* Owner, in the loop: the newest entry of its own deque, to be resumed, or NULL. */
struct fk_frame *strand_pop_own(struct worker *worker);

/* safepoint.c */

/* In a signal handler on the worker's thread: makes the work public that stands behind the leaf it
 * runs. */
void strand_publish_from_signal(struct worker *worker);

/* task_failure.c */

/* A module's author has broken a rule of forkd/task.h: the job of this task, which runs, fails. */
void strand_misused(struct worker *worker, const struct fk_task *task, const char *how);

/* self_steal.c */

#define STRAND_DELAYED UINT64_C(1) /* with a frame: a child that pool->mode.late_children delays */

/* Owner, which runs nothing: puts all of its deque, of which nothing is public, where force_steals
 * puts what it takes. */
void strand_self_steal_all(struct worker *worker);

/* Owner, in the loop: the newest frame that force_steals took off its deque, or NULL. */
struct fk_frame *strand_pop_self_stolen(struct worker *worker);
