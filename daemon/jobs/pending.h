/* SPDX-License-Identifier: MIT */
/* pending.h - whether jobs wait */
#pragma once

#include <stdbool.h>

struct pool;
struct worker;

/* True if any ring may hold a job, or one is queued that any worker may start. After a full fence:
 * see wake.h. Reads a line for each tenant that has clients. */
bool intake_pending(struct pool *pool);

/* True if a job is queued that only this worker may start, or only its group. Owner. */
bool intake_mine(struct worker *worker);

/* Both, but of the tenants only DRAIN_SCAN_SOME, others each time: for one that looks again. */
bool intake_scan_some(struct worker *worker);

/* True if no work is left for a pool that drains (clients.h, I2). */
bool intake_is_empty(struct pool *pool);

/* True if a queued job waits in a root deque, a ring or a queue. After a full fence: see
 * shm/wake.h. */
bool worker_jobs_pending(struct pool *pool);
