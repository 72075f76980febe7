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
