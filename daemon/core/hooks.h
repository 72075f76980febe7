/* SPDX-License-Identifier: MIT */
/*
 * hooks.h - what the engine and fibers need of the directories above them
 *
 * pool_new() sets pool->hooks, once, before there are threads. A program that uses the engine alone
 * has a table of its own. Slow paths only call through it; nothing in it is NULL. Unless a hook
 * says otherwise, the calling thread is the worker's own, and holds no lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/pool_state.h"
#include "daemon/core/worker_state.h"

struct pool_hooks {
	/* Wakes a worker that rests, the nearest to waker, unless another one looks for work
	 * already; this settles waker's duty. False: all are busy. waker: the calling worker. */
	bool (*wake_one)(struct pool *pool, struct worker *waker);

	/* Wakes the worker of this index if it rests. What it is to find was published before.
	 * waker: the calling worker, or NULL. Any thread of the pool; any lock of daemon/fiber may
	 * be held. */
	void (*wake)(struct pool *pool, uint32_t index, struct worker *waker);

	/* The worker runs the job of this row from now on, which is charged for its time, or none:
	 * WORKER_NO_JOB. Sets worker->job.row, and the ledger's word by a release store. */
	void (*set_job)(struct worker *worker, uint32_t row);

	/* The safepoint: the worker has a preempt request, and is at a fork. True if queued jobs go
	 * before the job that it runs: they are on its root deque. */
	bool (*preempt)(struct worker *worker);

	/* The same for n jobs that wait in its deque, of which none may run before not_before,
	 * CLOCK_MONOTONIC, ns. Returns the row of the one that goes first, or that of the job that
	 * runs; if so, the worker gets a preempt request when that may change. */
	uint32_t (*turn)(struct worker *worker, const uint32_t *rows, uint32_t n,
			 uint64_t not_before);

	/* The worker gets a preempt request at this time (CLOCK_MONOTONIC, ns) or earlier. now: the
	 * clock. */
	void (*preempt_by)(struct worker *worker, uint64_t at, uint64_t now);

	/* The job that the worker runs fails with this code (not 0), unless it has an outcome. */
	void (*fail_job)(struct worker *worker, int code);

	/* The job of this row, which has not ended, has used ns of CPU time outside of workers. Any
	 * thread of the pool. */
	void (*charge)(struct pool *pool, uint32_t row, uint64_t ns);

	/* Code of a job that is to end runs: it may hang. */
	void (*hang_expect)(struct pool *pool);

	/* held: how long a job that is to end has not done so, ns. True if that is hang-timeout or
	 * more; if a debugger traces the pool, *held becomes 0 instead. Any thread of the pool;
	 * any lock of daemon/fiber may be held. */
	bool (*hang_is_reached)(struct pool *pool, uint64_t *held);
};

/* hooks->fail_job(), for the job that the worker runs. */
static inline void worker_fail(struct worker *w, int code)
{
	w->pool->hooks->fail_job(w, code);
}
