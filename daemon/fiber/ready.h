/* SPDX-License-Identifier: MIT */
/* ready.h - passes runnable fibers to workers */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/fiber/fiber_types.h"
#include "shm/limits.h"

/* The worker, which runs a fiber or the loop, but no frame, puts the fiber into its deque. */
void fiber_put(struct worker *worker, struct fiber *fiber);

/* Returns the worker that now runs the shared stack's fibers. w: any worker of its pool. */
struct worker *shared_stack_holder(const struct worker *w, const struct shared_stack *shared);

/* Makes a parked fiber runnable, whose wake the caller has won. w: the calling worker, or NULL. */
void fiber_ready(struct worker *w, struct fiber *fiber);

/* True if any worker may run this runnable fiber. */
bool fiber_goes_anywhere(const struct fk_frame *frame);

/* fiber_send() puts a runnable fiber into a worker's inbox; fiber_rouse() makes the worker check
 * it. */
void fiber_send(struct worker *to, struct fiber *fiber);
void fiber_rouse(struct worker *to);

/* The same for many fibers that no worker has woken: one call for each, then one for all. A batch
 * is initially all zero. */
struct fiber_batch {
	uint64_t workers[LIMIT_WORKERS / 64];
};
void fiber_ready_one(struct fiber_batch *batch, struct fiber *fiber);
void fiber_ready_all(struct pool *pool, const struct fiber_batch *batch);
