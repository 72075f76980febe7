/* SPDX-License-Identifier: MIT */
/* stuck.h - fibers that wait for each other's end */
#pragma once

#include <stdint.h>

struct fiber;
struct pool;

/* The fiber, whose job is over, waits for others' ends, from begin to end. */
void fiber_held_begin(struct fiber *fiber);
void fiber_held_end(struct fiber *fiber);

/* Ends waits of fibers whose jobs are over and that wait for each other's end. The dispatcher.
 * Returns when to come back, 0: there is no need. */
uint64_t fibers_look(struct pool *pool);
