/* SPDX-License-Identifier: MIT */
/*
 * aside.h - jobs that wait in a worker's deque below another, and how they take turns
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   strand*.c and worker.c, on the worker whose deque it is; aside_any() any thread. aside.c says
 *   how.
 */
#ifndef DAEMON_SCHED_ASIDE_H
#define DAEMON_SCHED_ASIDE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/worker_state.h"

#include "common/relaxed.h"

struct pool;
struct worker;

/* Owner: something is started that is no part of what its deque holds. */
void aside_start(struct worker *worker);

/* Owner: an entry of this job goes on. */
void aside_end(struct worker *worker, uint32_t row);

/* Owner: nothing is left in the deque. */
static inline void aside_clear(struct asides *asides)
{
	/* Relaxed: who reads it looks again. */
	if (load_relaxed(&asides->n))
		store_relaxed(&asides->n, 0);
}

/*
 * Owner, at attention: is there a job that has to go on in place of the one that runs? It has if it
 * has failed, and is to wind down; or, if the worker was asked to look, if it is behind by a turn.
 * Sets *ret_row to it.
 */
bool aside_claims(struct worker *worker, bool asked, uint32_t *ret_row);

/* Owner, while it runs nothing: moves what its deque has of this job, and of all that have failed,
 * to the newest end. */
void aside_bring_up(struct worker *worker, uint32_t row);

/* Does something wait here? A hint for other threads. */
static inline bool aside_any(struct asides *asides)
{
	return load_relaxed(&asides->n);
}

#endif
