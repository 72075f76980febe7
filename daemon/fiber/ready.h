/* SPDX-License-Identifier: MIT */
/* ready.h - a fiber that is to go on gets to a worker */
#ifndef DAEMON_FIBER_READY_H
#define DAEMON_FIBER_READY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/fiber/fiber_types.h"
#include "shm/limits.h"

/* The worker has it in hand, and runs fibers or the loop, but no frame: it is to go on, here or on
 * whoever steals it. */
void fiber_put(struct worker *worker, struct fiber *fiber);

/* The worker that runs the shared stack's fibers now. w: any worker of its pool. */
struct worker *shared_stack_holder(const struct worker *w, const struct shared_stack *shared);

/* Has won the wake of a fiber that is parked: makes it go on. w: the worker that the caller is, or
 * NULL. */
void fiber_ready(struct worker *w, struct fiber *fiber);

/* Of a fiber that is to go on: any worker may run it. */
bool fiber_goes_anywhere(const struct fk_frame *face);

/* Puts a fiber that is to go on into a worker's inbox, and has that look there. */
void fiber_send(struct worker *to, struct fiber *fiber);
void fiber_rouse(struct worker *to);

/* The same of many that no worker has woken: each, and then all of them. A batch is all zero at
 * first. */
struct fiber_batch {
	uint64_t workers[LIMIT_WORKERS / 64];
};
void fiber_ready_one(struct fiber_batch *batch, struct fiber *fiber);
void fiber_ready_all(struct pool *pool, const struct fiber_batch *batch);

#endif
