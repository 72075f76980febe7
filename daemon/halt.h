/* SPDX-License-Identifier: MIT */
/*
 * daemon/halt.h - the end of a pool that leaves what is queued to the next one
 *
 * WHAT IT IS
 *   A planned restart (PROTO_POOL_HALT): jobs that run go on to their end, and none is started.
 *   What is QUEUED, or stands in a ring, stays so: the next pool finds it (requeue.h), under the
 *   next manager.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   halt_begin(): the channel's thread. halt_declines(): workers, with a row in hand.
 *   halt_is_over(): the dispatcher.
 *
 * WHY IT IS OVER
 *   A worker with a row in hand is BUSY on the board, with a full fence before it asks
 *   halt_declines() (wake_busy()), or goes from job to job and asks each time. So one that was seen
 *   not to be BUSY, after a full fence that follows halt_begin(), has started nothing since, and
 *   never will. When all were seen so, no row becomes RUNNING any more, and each that was RUNNING
 *   is looked at until it is not: what has been passed needs no second look.
 */
#ifndef DAEMON_HALT_H
#define DAEMON_HALT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/limits.h"

struct pool;

struct halt {
	_Atomic bool on;
	/* the dispatcher's */
	uint64_t seen[LIMIT_WORKERS / 64]; /* a bit for each worker that starts nothing any more */
	uint32_t client;		   /* where the look at the rows stands */
	uint32_t job;
};

/* No job is started from now on. */
void halt_begin(struct pool *pool);

/* True if this row is not to be started: it is nobody's then. */
static inline bool halt_declines(const struct halt *halt)
{
	/* ORDER halt/busy [Q1]: relaxed, the full fence is that of wake_busy(). Pairs with
	 * halt_is_seen(). */
	return atomic_load_explicit(&halt->on, memory_order_relaxed);
}

/* True if all that ran has ended. After halt_begin(). */
bool halt_is_over(struct pool *pool);

#endif
