/* SPDX-License-Identifier: MIT */
/* blocking_section.h - sections of fibers in which calls may block */
#pragma once

#include <stdint.h>

struct fiber;
struct fk_frame;
struct pool;
struct worker;

void blocking_threads_init(struct pool *pool);
/* Ends the threads, when there are no workers. */
void blocking_threads_fini(struct pool *pool);

/* In the loop: begins a section. Returns the frame to run next. */
struct fk_frame *fiber_block(struct worker *worker, struct fiber *fiber);

/* The job of this row has an outcome: removes its fibers from the queue. */
void fiber_blocks_cancel(struct pool *pool, uint32_t row);

/* Returns the fiber whose section the calling thread runs; NULL if it runs none.
 * Async-signal-safe. */
struct fiber *blocking_fiber(void);
