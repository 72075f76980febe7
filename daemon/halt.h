/* SPDX-License-Identifier: MIT */
/*
 * daemon/halt.h - the end of a pool that leaves what is queued to the next one
 *
 * WHAT IT IS
 *   A planned restart (PROTO_POOL_HALT): jobs that run continue to their end, and none is started.
 *   What is QUEUED, or is in a ring, stays so: the next pool finds it (requeue.h), under the
 *   next manager. Or the manager takes the halt back (PROTO_POOL_RESUME), because jobs run for too
 *   long: then the rows that workers have declined return to the queues of this pool.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   halt_begin(), halt_end(): the channel's thread. halt_declines(), halt_decline(): workers, with
 *   a row in hand. halt_is_over(): the dispatcher.
 *
 * INVARIANTS
 *   I1. A row that a worker has in hand during a halt is started, or it is in the list of declined
 *       rows: halt_decline() decides under the lock of fair, and under the same lock halt_end()
 *       ends the halt and empties the list. So no row is left behind when the pool stays.
 *   I2. Each halt has another number. What the dispatcher has seen counts for one number only.
 *   I3. A pool ends or stays, and both sides agree: pool->stop leaves POOL_DRAINING of this halt
 *       once, by a compare-and-swap of the dispatcher (POOL_ENDING) or of the channel's thread
 *       (POOL_RUNNING, before halt_end()).
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
	_Atomic uint32_t on; /* the number of the halt, 0: there is none */
	uint32_t n;	     /* halts so far; the channel's thread */
	uint32_t declined;   /* the last one's row + 1, 0: none; with the lock of fair: I1 */
	/* the dispatcher's */
	uint32_t of;			   /* the halt that all of this is of */
	uint64_t seen[LIMIT_WORKERS / 64]; /* a bit for each worker that starts nothing any more */
	uint32_t client;		   /* where the look at the rows stands */
	uint32_t job;
};

/* No job is started from now on. */
void halt_begin(struct pool *pool);

/* Jobs are started again, those that were declined among them. After halt_begin(). */
void halt_end(struct pool *pool);

/* True if no row is to be started: halt_decline() decides. */
static inline bool halt_declines(const struct halt *halt)
{
	/* ORDER halt/busy [Q1]: relaxed, the full fence is that of wake_busy(). Pairs with
	 * halt_is_seen(). */
	return atomic_load_explicit(&halt->on, memory_order_relaxed);
}

/* Takes a row that a worker has in hand, if halt_declines() still holds. False: it does not, and
 * the worker starts the row. */
bool halt_decline(struct pool *pool, uint32_t row);

/* True if all that ran has ended. After halt_begin(). */
bool halt_is_over(struct pool *pool);

#endif
