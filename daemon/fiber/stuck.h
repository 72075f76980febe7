/* SPDX-License-Identifier: MIT */
/* stuck.h - fibers that wait for each other's end */
#pragma once

#include <stdint.h>

struct fiber;
struct pool;

/* From begin to end the fiber, whose job has an outcome, waits for others to end. */
void fiber_held_begin(struct fiber *fiber);
void fiber_held_end(struct fiber *fiber);

/* Ends waits of fibers whose jobs have an outcome and that wait for each other's end. The
 * dispatcher. Returns the time of the next call, 0: none needed. */
uint64_t fibers_look(struct pool *pool);
