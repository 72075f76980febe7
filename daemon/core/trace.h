/* SPDX-License-Identifier: MIT */
/*
 * trace.h - trace events and probes of workers
 *
 * Each traced place is one call, which makes an event (shm/trace.h), a probe (daemon/host/probe.h)
 * or both. Without a tracer, an event is a load of a word in a cache line that the worker has, and
 * a branch; a probe is a nop. None is on the path of a submission, or of a fork or join that does
 * not call the runtime.
 *
 * Threads: the worker concerned, outside of its signal handler. trace_begin(), trace_end(),
 * trace_fini(): the channel's thread.
 *
 * INVARIANTS
 *   I1. worker->trace is the worker's ring, or NULL. Its address never changes: the segment of the
 *       next tracer is mapped in place of the last one. So a thread that has read the pointer and
 *       writes late writes into a mapped segment: the last one, which is not read any more, or the
 *       next one, where the event is as valid as any.
 *   I2. Memory of the last segment is given back when it ends, except a page that a late writer
 *       touches again.
 *
 * If the tracer dies: the manager sends TRACE_END. If the pool dies:
 * daemon/manager/trace_subscribers.c.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker_state.h"
#include "shm/board.h"
#include "daemon/host/probe.h"
#include "daemon/core/worker.h"
#include "shm/ledger.h"
#include "shm/trace.h"

/* Writes an event of now, about a job or WORKER_NO_JOB. Not for hot paths. */
void trace_write(struct worker *worker, uint32_t kind, uint32_t row, uint32_t peer, uint64_t value);

/* Relaxed: see I1. */
static inline bool trace_is_on(const struct worker *w)
{
	return unlikely(load_relaxed(&w->trace) != NULL);
}

/* Returns the name of a row's task, empty if unknown: for probes. */
static inline const char *trace_name(const struct pool *pool, uint32_t row)
{
	uint32_t task = ledger_row(pool->arena, row).task;

	return task ? pool->board->tasks[task - 1].name : "";
}

static inline void trace_strand_begin(struct worker *w, uint32_t kind, uint32_t row, uint64_t value)
{
	PROBE(strand_begin, w->index, row);
	if (trace_is_on(w))
		trace_write(w, kind, row, 0, value);
}

/* A job begins; drained_ns: when it was taken off its ring. */
static inline void trace_root(struct worker *w, uint32_t row, uint64_t drained_ns)
{
	trace_strand_begin(w, TRACE_ROOT, row, drained_ns);
}

/* The job's task is about to run: job_name_task() has been called. waited: ns, in the queue. */
static inline void trace_task(struct worker *w, uint32_t client, uint32_t row, uint64_t waited)
{
	PROBE(job_start, w->index, client, row, trace_name(w->pool, row), waited);
	if (trace_is_on(w))
		trace_write(w, TRACE_TASK, row, 0, 0);
}

/* A job that a worker started has this outcome. ran: ns, since its start. */
static inline void trace_job_end(struct worker *w, uint32_t client, uint32_t row, uint32_t outcome,
				 int32_t code, uint64_t ran)
{
	PROBE(job_end, w->index, client, row, trace_name(w->pool, row), outcome, ran);
	if (trace_is_on(w))
		trace_write(w, TRACE_JOB_END, row, 0, trace_outcome(outcome, code));
}

/* Resumes a frame of the worker's job. */
static inline void trace_strand(struct worker *w)
{
	trace_strand_begin(w, TRACE_STRAND, w->job.row, 0);
}

static inline void trace_strand_end(struct worker *w)
{
	PROBE(strand_end, w->index);
	if (trace_is_on(w))
		trace_write(w, TRACE_STRAND_END, WORKER_NO_JOB, 0, 0);
}

/* Has stolen a continuation, which is the worker's job now. */
static inline void trace_steal(struct worker *w, const struct worker *victim)
{
	PROBE(steal, w->index, victim->index, w->job.row);
	if (trace_is_on(w))
		trace_write(w, TRACE_STEAL, w->job.row, victim->index, 0);
}

/* Begins to sleep, in this way: TRACE_SLEEP, TRACE_NAP, TRACE_PARK. */
static inline void trace_rest(struct worker *w, uint32_t how)
{
	PROBE(sleep, w->index, how);
	if (trace_is_on(w))
		trace_write(w, TRACE_REST, WORKER_NO_JOB, 0, how);
}

static inline void trace_awake(struct worker *w, uint32_t how)
{
	PROBE(awake, w->index, how);
	if (trace_is_on(w))
		trace_write(w, TRACE_AWAKE, WORKER_NO_JOB, 0, how);
}

/* Has woken the worker of this index. */
static inline void trace_wake(struct worker *w, uint32_t woken)
{
	PROBE(wake, w->index, woken);
	if (trace_is_on(w))
		trace_write(w, TRACE_WAKE, WORKER_NO_JOB, woken, 0);
}

/* From now on workers trace into this segment (borrowed). Returns 0 or a negative errno: no
 * trace. */
int trace_begin(struct pool *pool, int fd);

void trace_end(struct pool *pool);

/* After the last worker has ended. */
void trace_fini(struct pool *pool);
