/* SPDX-License-Identifier: MIT */
/* io.h - fibers read, write, accept and poll */
#pragma once

struct fiber;
struct pool;

/* 0, or a negative errno: there is no poller. */
int fiber_io_init(struct pool *pool);
void fiber_io_fini(struct pool *pool);

/* What the fiber waits for, if it is I/O, ends early, with this error. The caller holds the lock of
 * the list or the heap in which it has found the fiber or its timer. */
void fiber_io_end(struct pool *pool, struct fiber *fiber, int error);
