/* SPDX-License-Identifier: MIT */
/* ready.h - runnable fibers get to a worker */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/fiber/fiber_types.h"
#include "shm/limits.h"

/* The worker, which runs a fiber or the loop, but no frame, puts it into its deque. */
void fiber_put(struct worker *worker, struct fiber *fiber);

/* The worker that runs the shared stack's fibers now. w: any worker of its pool. */
struct worker *shared_stack_holder(const struct worker *w, const struct shared_stack *shared);

/* The caller has won the wake of a parked fiber. w: the worker that the caller is, or NULL. */
void fiber_ready(struct worker *w, struct fiber *fiber);

/* True if any worker may run this runnable fiber. */
bool fiber_goes_anywhere(const struct fk_frame *frame);

/* Puts a runnable fiber into a worker's inbox; has the worker look there. */
void fiber_send(struct worker *to, struct fiber *fiber);
void fiber_rouse(struct worker *to);

/* The same for many that no worker has woken: each, then all. A batch is all zero at first. */
struct fiber_batch {
	uint64_t workers[LIMIT_WORKERS / 64];
};
void fiber_ready_one(struct fiber_batch *batch, struct fiber *fiber);
void fiber_ready_all(struct pool *pool, const struct fiber_batch *batch);
