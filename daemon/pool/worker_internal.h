/* SPDX-License-Identifier: MIT */
/* worker_internal.h - what worker.c has of worker_wake.c, on the worker itself */
#ifndef DAEMON_POOL_WORKER_INTERNAL_H
#define DAEMON_POOL_WORKER_INTERNAL_H

#include <stdbool.h>

#include "daemon/core/lazy.h"
#include "daemon/pool/pool.h"

static inline struct lazy_cell *worker_cell(struct worker *worker)
{
	return lazy_cell_of(&worker->pool->idle.lazy, worker->index);
}

/* Wakes a thief where a cell needs one, the own cell first. */
void worker_serve(struct worker *worker);

/* Slept or napped, and has stolen: others of its cell may come for what is left there. */
void worker_spread(struct worker *worker);

/* Sleeps, or naps if L1 (lazy.h) wants it awake. Returns after something may have changed; false:
 * after a nap. */
bool worker_rest(struct worker *worker);

/* Sleeps while it is parked and there is nothing that only this worker may do. What it leaves
 * behind is handed on before. */
void worker_park(struct worker *worker);

#endif
