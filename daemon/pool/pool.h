/* SPDX-License-Identifier: MIT */
/* pool.h - the parts of a pool, and the functions that the engine calls in it */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "daemon/core/pool_state.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/jobs/deadline.h"
#include "daemon/jobs/hang_detector.h"
#include "daemon/jobs/starved.h"
#include "daemon/pool/dispatcher.h"
#include "daemon/sched/cpu_parking.h"
#include "daemon/sched/fair_queue.h"

/* A pool with the private parts of its directories. */
struct pool_whole {
	struct fair fair;
	struct park park;
	struct deadlines deadlines;
	struct starved starved;
	struct dispatcher dispatcher;
	struct pool pool;
	struct fibers fibers;
	struct hangs hangs;
};

/* Returns a zeroed pool with its parts; NULL: no memory. pool_delete() frees it, but nothing that
 * it refers to. */
struct pool *pool_new(void);
void pool_delete(struct pool *pool);

/* Allocates the data of each row of the ledger. Returns 0 or -ENOMEM. */
int pool_make_rows(struct pool *pool);
void pool_free_rows(struct pool *pool);

/* Starts the threads: worker(struct worker *) for the first n workers, dispatcher(pool). The other
 * workers are late: worker_thread.h. Returns 0 or a negative errno; workers with a thread have
 * started then. */
int pool_start_threads(struct pool *pool, void *(*worker)(void *), void *(*dispatcher)(void *),
		       uint32_t n, pthread_t *ret_dispatcher);

/* Waits for the ends of all workers that have started. The dispatcher has ended, or never began. */
void pool_join_workers(struct pool *pool);

/* Frees a pool and all that it refers to. After all threads have ended. Modules stay loaded. */
void pool_free(struct pool *pool);
