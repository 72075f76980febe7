/* SPDX-License-Identifier: MIT */
/*
 * shutdown.h - the end of a pool that leaves its queued jobs to the next one
 *
 * A planned restart (PROTO_POOL_HALT): running jobs continue to their end, and none is started.
 * Rows that are QUEUED, and words in rings, stay: the next pool finds them (queue_recovery.h),
 * under the next manager. If running jobs take too long, the manager may cancel the halt
 * (PROTO_POOL_RESUME). Then this pool starts queued jobs again.
 *
 * Threads: shutdown_begin(), shutdown_end(): the channel's thread. shutdown_declines(): workers,
 * with a row in hand. shutdown_is_over(): the dispatcher.
 *
 * INVARIANTS
 *   I1. A waiting row stays in the queues during a halt: they hand out none (fair_hold()). A row
 *       that a worker has in hand is started or returns to the queues: intake_decline() decides
 *       under the lock of fair, under which the halt begins and ends. So a waiting row can be
 *       removed at any time, and none is lost if the pool stays.
 *   I2. Each halt has its own number. The dispatcher's observations count for one number only.
 *   I3. Both sides agree whether a pool ends or stays: pool->stop leaves POOL_DRAINING of this halt
 *       once, by a compare-and-swap of the dispatcher (POOL_ENDING) or of the channel's thread
 *       (POOL_RUNNING, before shutdown_end()).
 *
 * WHY THE HALT IS COMPLETE
 *   A worker with a row in hand is BUSY on the board. It makes a full fence before it calls
 *   shutdown_declines() (wake_busy()), or calls it again before each further job. So a worker that
 *   was seen not BUSY, after a full fence that follows shutdown_begin(), has started no job since
 *   and never will. When all were seen so, no row becomes RUNNING any more. Each row that was
 *   RUNNING is checked until it is not, and needs no second check.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/limits.h"

struct pool;

struct shutdown {
	_Atomic uint32_t on; /* number of the halt, 0: none */
	uint32_t n;	     /* halts so far; the channel's thread */
	/* the dispatcher's */
	uint32_t of;			   /* the halt that the members below describe */
	uint64_t seen[LIMIT_WORKERS / 64]; /* a bit for each worker that will start no job */
	uint32_t client;		   /* current position in the rows */
	uint32_t job;
};

/* True if no row may be started: intake_decline() decides. */
static inline bool shutdown_declines(const struct shutdown *s)
{
	/* ORDER halt/busy [Q1]: relaxed, the full fence is that of wake_busy(). Pairs with
	 * shutdown_is_seen(). */
	return load_relaxed(&s->on);
}

/* True if all running jobs have ended. After shutdown_begin(). */
bool shutdown_is_over(struct pool *pool);
