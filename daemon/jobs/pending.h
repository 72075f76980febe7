/* SPDX-License-Identifier: MIT */
/* pending.h - whether jobs wait */
#pragma once

#include <stdbool.h>

struct pool;
struct worker;

/* True if any ring may hold a job, or a job is queued that any worker may start. After a full
 * fence: see wake.h. Reads a cache line for each tenant that has clients. */
bool intake_pending(struct pool *pool);

/* True if a job is queued that only this worker, or its group, may start. Owner. */
bool intake_mine(struct worker *worker);

/* Both, but only for DRAIN_SCAN_SOME tenants, different ones each time: for a worker that searches
 * repeatedly. */
bool intake_scan_some(struct worker *worker);

/* True if a pool that drains has no work left (clients.h, I2). */
bool intake_is_empty(struct pool *pool);

/* True if a job waits in a root deque, a ring or a queue. After a full fence: see shm/wake.h. */
bool worker_jobs_pending(struct pool *pool);
