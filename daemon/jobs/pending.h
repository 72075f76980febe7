/* SPDX-License-Identifier: MIT */
/* pending.h - whether jobs wait */
#ifndef DAEMON_JOBS_PENDING_H
#define DAEMON_JOBS_PENDING_H

#include <stdbool.h>

struct pool;

/* True if a queued job waits in a root deque, a ring or a queue. After a full fence: see
 * shm/wake.h. */
bool worker_jobs_pending(struct pool *pool);

#endif
