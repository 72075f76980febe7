/* SPDX-License-Identifier: MIT */
/*
 * slow_path.h - running strands: the slow paths of tasks
 *
 * Threads: the rest of the pool, on the worker concerned. engine_internal.h lists the files and the
 * rules of ownership.
 */
#pragma once

#include "common/sanitizer.h"
#include "daemon/core/worker.h"

/* Enters the runtime from a task: until fk_enter() the signal handler does nothing. Returns the
 * worker. */
static inline struct worker *strand_enter(struct fk_worker *fk)
{
	fk_enter(fk, 0);
	return worker_of(fk);
}

/* Sets the place to which strands that end without a return jump: in the function that runs them,
 * which must not return while they run. True after a jump. */
#ifdef WORKER_LIBC_JUMP
#define STRAND_SET(worker)  _setjmp((worker)->engine.jump->buf)
#define STRAND_JUMP(worker) longjmp((worker)->engine.jump->buf, 1)
#else
#define STRAND_SET(worker) __builtin_setjmp((worker)->engine.jump->buf)
#define STRAND_JUMP(worker)                                                                        \
	(__asan_handle_no_return ? __asan_handle_no_return() : (void)0,                            \
	 __builtin_longjmp((worker)->engine.jump->buf, 1))
#endif

/* slow_path.c */

/*
 * Owner, in the loop: resumes a frame, or unwinds it if its job has failed. May return by
 * STRAND_JUMP. Then engine.unwind or engine.next is the frame to run next; neither: there is none.
 */
void strand_run(struct worker *worker, struct fk_frame *frame);

/* Owner: a new strand begins. With fuzz_seed each strand has its own limit. */
void strand_fuzz_limit(struct worker *worker);

/* ownership.c */

/* Ensures that the worker has an empty stack to run on. False: the arena is full. */
bool strand_own_stack(struct worker *worker);

/* Puts a new stacklet for size bytes on top of the worker's. False: the job has failed. */
bool strand_push_stacklet(struct worker *worker, char *sp, size_t size);

/* Removes the worker's empty top stacklet. Returns the sp below it. */
char *strand_pop_stacklet(struct worker *worker);

/* Prepares a stolen or suspended frame for resumption by this worker. */
void strand_adopt(struct worker *worker, struct fk_frame *frame);

/* Owner: takes back the public entries of its deque. True if there were any. */
bool strand_reclaim(struct worker *worker);

/* Owner, in the loop: pops the newest entry of its own deque, to be resumed, or NULL. */
struct fk_frame *strand_pop_own(struct worker *worker);

/* safepoint.c */

/* In a signal handler on the worker's thread: publishes the entries below the running leaf. */
void strand_publish_from_signal(struct worker *worker);

/* task_failure.c */

/* A module has broken a rule of forkd/task.h: fails the job of this running task. */
void strand_misused(struct worker *worker, const struct fk_task *task, const char *how);

/* self_steal.c */

#define STRAND_DELAYED UINT64_C(1) /* flag on a frame: a child that late_children delays */

/* Owner, between strands: moves all entries of its deque, none of which is public, to the
 * self-stolen ones. */
void strand_self_steal_all(struct worker *worker);

/* Owner, in the loop: pops the newest self-stolen frame, or NULL. */
struct fk_frame *strand_pop_self_stolen(struct worker *worker);
