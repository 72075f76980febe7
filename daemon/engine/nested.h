/* SPDX-License-Identifier: MIT */
/* nested.h - C functions that tasks call run tasks again; the C stacks of a worker */
#pragma once

#include <stdbool.h>

struct fk_task;
struct fk_worker;
struct worker;

/* C stacks of a worker at most, its thread's own one not counted. */
#define NESTED_LOOPS 64u

/*
 * Called by a C function that a task on this worker, not a fiber, has called: runs a task with
 * these arguments, and returns when it and all that it has forked have ended. Other workers may
 * take part. In the meantime this worker may run anything.
 * worker: worker_self(). enter: NAME__enter of forkd/task.h. result: gets the result of the task.
 * Returns 0 or a negative errno. Unless it is -ECANCELED, the task has not begun:
 *   -ECANCELED  the job was cancelled, has expired or has failed; *result is undefined
 *   -EPERM      the worker runs no job
 *   -ENOTSUP    the pool measures a profile
 *   -ENOMEM     there is no memory for the task's stack, for the job or at all, or NESTED_LOOPS
 *               is reached
 */
int nested_run(struct worker *worker,
	       void (*enter)(struct fk_worker *w, char *sp, void *result, const void *args),
	       const struct fk_task *task, void *result, const void *args);

/* The worker's thread, before its loop: all below here is for the loop's stack. */
void nested_begin(struct worker *worker, void *here);

/* The worker's thread, after its loop: frees all other stacks. */
void nested_end(struct worker *worker);

/* In the loop: true if it may return, and the thread end. Otherwise it must search again; it may
 * have waited for a nested call in the meantime. */
bool nested_may_stop(struct worker *worker);
