/* SPDX-License-Identifier: MIT */
/* io.h - fibers read, write, accept and poll */
#pragma once

struct fiber;
struct pool;

/* Makes the poller, unless there is one. Returns 0, or a negative errno: there is none, and will be
 * none. The first fiber that must wait calls it; call it earlier if the pool will be sandboxed. Any
 * thread of the pool. */
int fiber_io_start(struct pool *pool);
/* When no fiber runs any more. */
void fiber_io_fini(struct pool *pool);

/* Ends the fiber's I/O operation early, with this error. The caller holds the lock of the list or
 * heap in which it found the fiber or its timer. */
void fiber_io_end(struct pool *pool, struct fiber *fiber, int error);
