/* SPDX-License-Identifier: MIT */
/* io.h - fibers read, write, accept and poll */
#pragma once

struct fiber;
struct pool;

/* Returns 0, or a negative errno: there is no poller. */
int fiber_io_init(struct pool *pool);
void fiber_io_fini(struct pool *pool);

/* Ends the fiber's I/O operation early, with this error. The caller holds the lock of the list or
 * heap in which it found the fiber or its timer. */
void fiber_io_end(struct pool *pool, struct fiber *fiber, int error);
