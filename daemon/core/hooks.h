/* SPDX-License-Identifier: MIT */
/*
 * hooks.h - functions that the engine and fibers call in the directories above them
 *
 * pool_new() sets pool->hooks, once, before there are threads. A program that uses the engine alone
 * has its own table. Only slow paths call through it; no member is NULL. By default the calling
 * thread is the worker's own and holds no lock.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "daemon/core/pool_state.h"
#include "daemon/core/worker_state.h"

struct fault_thread;

struct pool_hooks {
	/* Wakes a sleeping worker, the nearest to waker, unless another one already searches for
	 * work; this settles waker's wake debt. False: no worker sleeps. waker: the calling
	 * worker. */
	bool (*wake_one)(struct pool *pool, struct worker *waker);

	/* Wakes the worker of this index if it sleeps. The work that it should find must be
	 * published before. waker: the calling worker, or NULL. Any thread of the pool; any lock of
	 * daemon/fiber may be held. */
	void (*wake)(struct pool *pool, uint32_t index, struct worker *waker);

	/* From now on the worker runs the job of this row, which is charged for its time;
	 * WORKER_NO_JOB: no job. Sets worker->job.row, and the ledger's word by a release store. */
	void (*set_job)(struct worker *worker, uint32_t row);

	/* The safepoint: the worker has a preempt request and is at a fork. True if queued jobs are
	 * to run before its own; they are on its root deque. */
	bool (*preempt)(struct worker *worker);

	/* The same for n jobs that wait in its deque, none of which may run before not_before,
	 * CLOCK_MONOTONIC, ns. Returns the row of the job to run first, or of the running job. In
	 * the latter case the worker gets a preempt request when that may change. */
	uint32_t (*turn)(struct worker *worker, const uint32_t *rows, uint32_t n,
			 uint64_t not_before);

	/* Sends the worker a preempt request at this time (CLOCK_MONOTONIC, ns) or earlier. now:
	 * the current time. */
	void (*preempt_by)(struct worker *worker, uint64_t at, uint64_t now);

	/* Fails the job that the worker runs with this code (not 0), unless it has an outcome. */
	void (*fail_job)(struct worker *worker, int code);

	/* Charges ns of CPU time outside of workers to the job of this row, which has not ended.
	 * Any thread of the pool. */
	void (*charge)(struct pool *pool, uint32_t row, uint64_t ns);

	/* Code of a job that is to end is running: it may hang. */
	void (*hang_expect)(struct pool *pool);

	/* Runs the loop of the worker on the present C stack, until the thread must end. */
	void (*loop)(struct worker *worker);

	/* held: ns since the job should have ended. Returns true if that is at least
	 * hang-timeout. If a debugger traces the pool, sets *held to 0 instead. Any thread of
	 * the pool; any lock of daemon/fiber may be held. */
	bool (*hang_is_reached)(struct pool *pool, uint64_t *held);
};

/* crash_handler.h. A pool in a program has none. */
struct crash_hooks {
	struct fault_thread *(*begin_thread)(const struct worker *worker,
					     struct fiber_head *const *fiber);
	void (*end_thread)(struct fault_thread *thread);
	/* Neither returns. */
	void (*hang)(struct pool *pool, uint32_t worker, uint32_t row, uint32_t generation,
		     uint64_t held_ns);
	void (*overflow)(struct worker *worker, const struct fiber_head *fiber);
};

/* A fiber has written below its stack. */
static inline void __attribute__((noreturn))
hooks_overflow(struct worker *worker, const struct fiber_head *fiber)
{
	if (worker->pool->crash)
		worker->pool->crash->overflow(worker, fiber);
	/* A fault like others. */
	(void)raise(SIGSEGV);
	abort();
}

static inline void worker_fail(struct worker *w, int code)
{
	w->pool->hooks->fail_job(w, code);
}
