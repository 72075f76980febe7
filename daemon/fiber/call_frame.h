/* SPDX-License-Identifier: MIT */
/* call_frame.h - C functions, of fibers and of tasks with frames, call tasks that have frames */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct fiber;
struct fk_frame;
struct fk_task;
struct fk_worker;
struct worker;

/* In the loop: calls the fiber's task. Returns the frame to run next. */
struct fk_frame *fiber_call(struct worker *worker, struct fiber *fiber);

/*
 * Runs a task, called by a C function that runs on this worker, and waits for its end: from a fiber
 * by fk_rt_fiber_call(), otherwise by nested_run(), whose results it returns.
 * worker: worker_self(). size: bytes of the result.
 */
int nested_call(struct worker *worker,
		void (*enter)(struct fk_worker *w, char *sp, void *result, const void *args),
		const struct fk_task *task, void *result, size_t size, const void *args);

/*
 * Returns true if the caller is a fiber on a shared stack, and a word of the arguments is an
 * address on it: while the task runs, the data of another fiber may be there.
 * args, size: the arguments of a task, and their bytes.
 */
bool nested_shares_stack(const struct worker *worker, const void *args, size_t size);

/* True if the job of this worker has an outcome: the call above returns -ECANCELED. */
bool nested_is_over(struct worker *worker);

/*
 * True if a C function that a task has called may call the functions of a parallel call in turn,
 * without nested_call(): the worker is the only one, and takes requests in between.
 * False if it runs a fiber, a request waits, the job has an outcome, or the stack is long. NULL is
 * allowed.
 */
bool nested_is_alone(struct worker *worker);
