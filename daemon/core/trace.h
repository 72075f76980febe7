/* SPDX-License-Identifier: MIT */
/*
 * trace.h - events and probes of what a worker does
 *
 * The places where something is told: each is one call there, and an event (shm/trace.h), a probe
 * (daemon/host/probe.h) or both here. Without a tracer, an event is a load of a word in a line that
 * the worker has, and a branch; a probe is a nop. None is on the way of a fork or a join that needs
 * no runtime, or of a submission.
 *
 * Threads: the worker concerned, outside of its signal handler. trace_begin(), trace_end(),
 * trace_fini(): the channel's thread.
 *
 * INVARIANTS
 *   I1. worker->trace is the worker's ring, or NULL. It is always the same address: the segment of
 *       the next tracer's is mapped in the place of the last one's. So a thread that has read it in
 *       time and writes late writes into a segment that is mapped: the last one's, which is not
 *       read any more, or the next one's, where the event is as good as any.
 *   I2. Memory of the last one's goes back when it ends, except the page that a late writer has
 *       made again.
 *
 * If a peer dies: the tracer: the manager says TRACE_END. The pool:
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

/* Writes an event of now, about a job or WORKER_NO_JOB. In no hot place. */
void trace_write(struct worker *worker, uint32_t kind, uint32_t row, uint32_t peer, uint64_t value);

/* Relaxed: see I1. */
static inline bool trace_is_on(const struct worker *w)
{
	return unlikely(load_relaxed(&w->trace) != NULL);
}

/* The name of a row's task, empty if that is not known: for probes. */
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

/* Begins with a job, which was taken off its ring at that time. */
static inline void trace_root(struct worker *w, uint32_t row, uint64_t drained_ns)
{
	trace_strand_begin(w, TRACE_ROOT, row, drained_ns);
}

/* Its task is about to run: job_name_task() is done. waited: ns, in the queue. */
static inline void trace_task(struct worker *w, uint32_t client, uint32_t row, uint64_t waited)
{
	PROBE(job_start, w->index, client, row, trace_name(w->pool, row), waited);
	if (trace_is_on(w))
		trace_write(w, TRACE_TASK, row, 0, 0);
}

/* A job that a worker took up has this outcome. ran: ns, since it was taken up. */
static inline void trace_job_end(struct worker *w, uint32_t client, uint32_t row, uint32_t outcome,
				 int32_t code, uint64_t ran)
{
	PROBE(job_end, w->index, client, row, trace_name(w->pool, row), outcome, ran);
	if (trace_is_on(w))
		trace_write(w, TRACE_JOB_END, row, 0, trace_outcome(outcome, code));
}

/* Goes on with a frame of the worker's job. */
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

/* Has taken a continuation, which is the worker's job now. */
static inline void trace_steal(struct worker *w, const struct worker *victim)
{
	PROBE(steal, w->index, victim->index, w->job.row);
	if (trace_is_on(w))
		trace_write(w, TRACE_STEAL, w->job.row, victim->index, 0);
}

/* Sleeps now, in this way: TRACE_SLEEP, TRACE_NAP, TRACE_PARK. */
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

/* Has woken this one. */
static inline void trace_wake(struct worker *w, uint32_t woken)
{
	PROBE(wake, w->index, woken);
	if (trace_is_on(w))
		trace_write(w, TRACE_WAKE, WORKER_NO_JOB, woken, 0);
}

/* From now on workers write what they do into this segment (borrowed). Returns 0 or a negative
 * errno: they do not. */
int trace_begin(struct pool *pool, int fd);

/* It is not read any more. */
void trace_end(struct pool *pool);

/* After the last worker has ended. */
void trace_fini(struct pool *pool);
