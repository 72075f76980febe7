/* SPDX-License-Identifier: MIT */
/*
 * shutdown.h - the end of a pool that leaves what is queued to the next one
 *
 * A planned restart (PROTO_POOL_HALT): jobs that run continue to their end, and none is started.
 * What is QUEUED, or is in a ring, stays so: the next pool finds it (queue_recovery.h), under the
 * next manager. Or the manager takes the halt back (PROTO_POOL_RESUME), because jobs run for too
 * long: then this pool starts what is queued again.
 *
 * Threads: shutdown_begin(), shutdown_end(): the channel's thread. shutdown_declines(): workers,
 * with a row in hand. shutdown_is_over(): the dispatcher.
 *
 * INVARIANTS
 *   I1. A row that waits stays in the queues during a halt: they give out none (fair_hold()). A row
 *       that a worker has in hand is started, or returns to them: intake_decline() decides under
 *       the lock of fair, under which the halt begins and ends. So a row that waits can be cut out
 *       at any time, and none is left behind when the pool stays.
 *   I2. Each halt has another number. What the dispatcher has seen counts for one number only.
 *   I3. A pool ends or stays, and both sides agree: pool->stop leaves POOL_DRAINING of this halt
 *       once, by a compare-and-swap of the dispatcher (POOL_ENDING) or of the channel's thread
 *       (POOL_RUNNING, before shutdown_end()).
 *
 * WHY IT IS OVER
 *   A worker with a row in hand is BUSY on the board, with a full fence before it asks
 *   shutdown_declines() (wake_busy()), or goes from job to job and asks each time. So one that was
 *   seen not to be BUSY, after a full fence that follows shutdown_begin(), has started nothing
 *   since, and never will. When all were seen so, no row becomes RUNNING any more, and each that
 *   was RUNNING is looked at until it is not: what has been passed needs no second look.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/limits.h"

struct pool;

struct shutdown {
	_Atomic uint32_t on; /* the number of the halt, 0: there is none */
	uint32_t n;	     /* halts so far; the channel's thread */
	/* the dispatcher's */
	uint32_t of;			   /* the halt that all of this is of */
	uint64_t seen[LIMIT_WORKERS / 64]; /* a bit for each worker that starts nothing any more */
	uint32_t client;		   /* where the look at the rows stands */
	uint32_t job;
};

/* True if no row is to be started: intake_decline() decides. */
static inline bool shutdown_declines(const struct shutdown *s)
{
	/* ORDER halt/busy [Q1]: relaxed, the full fence is that of wake_busy(). Pairs with
	 * shutdown_is_seen(). */
	return load_relaxed(&s->on);
}

/* True if all that ran has ended. After shutdown_begin(). */
bool shutdown_is_over(struct pool *pool);
