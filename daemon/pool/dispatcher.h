/* SPDX-License-Identifier: MIT */
/*
 * dispatcher.h - the thread that ensures that waiting jobs are started
 *
 * It sleeps on its wake word on the board. A client that finds every worker busy wakes it, as does
 * a worker that becomes busy and leaves jobs waiting while no worker searches. While jobs wait, it
 * comes back every DISPATCHER_TICK, and its word is LOOKING, so that a flood of jobs does not wake
 * it for each. It need not come back if all waiting jobs are queued, and no worker must soon yield
 * to one of them, or they are long. Then that worker checks in time itself (time_slice.c); if it
 * must check now, it gets a preempt request first. Such a worker reads the rings, too. So the
 * dispatcher dozes, and clients whose jobs can wait do not wake it (shm/wake.h, W9).
 *
 * Each time it ensures that a worker comes. It wakes a sleeper. Or it makes preempt requests if the
 * rings have words, or if running jobs have a worse claim than a queued one (preemption.c). A
 * worker with a request checks at its next fork, and if the claim still holds, suspends its
 * continuation and starts the queued job. Each time the next DISPATCHER_PREEMPTS workers get a
 * request, so that one in a long leaf delays nothing. Jobs in the root deque of a worker that does
 * not start them are taken back, and wait for the first worker that comes. If no worker takes jobs
 * off the rings for a tick, it does so itself, so that their deadlines and cancels are seen
 * (deadline.h). If no job is started for DISPATCHER_DOUBT ticks it wakes all workers without a job,
 * whatever their words on the board are: a task may have overwritten them (shm/wake.h, W12).
 *
 * It also
 * - checks workers whose jobs are to end and do not (hang_detector.h),
 * - resumes fibers that wait for a time (timer.c),
 * - creates threads of workers (worker_thread.h, LATE WORKERS),
 * - releases dead clients, and gives freed memory back if no worker does,
 * - ends the pool when all jobs have ended after PROTO_POOL_STOP, or all running ones after
 *   PROTO_POOL_HALT.
 * It makes at most DISPATCHER_ROUNDS passes in a tick.
 *
 * Threads: process.c starts its thread. Others wake it by pool_wake_dispatcher().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/limits.h"

struct pool;

/* Used by its own thread only. */
struct dispatcher {
	uint64_t roots[LIMIT_WORKERS]; /* jobs that each worker had started at the last check */
	uint64_t drained;	       /* jobs that workers had taken off the rings by then */
	uint64_t looked_ns;	       /* time of that check */
	uint32_t waited;	       /* checks since a job was started, with jobs waiting */
	uint32_t next_worker;	       /* next to get a preempt request */
	uint32_t collected;	       /* number of times that it took jobs off the rings */
	uint64_t clean_at;	       /* when it handles freed memory; 0: there is none */
	uint64_t cleaned;	       /* parts given back by the last check */
	uint64_t rounds_since;	       /* start of the current tick */
	uint32_t rounds;	       /* number of passes in it */
};

/* One pass: checks, and sleeps until the next check, or until it is woken. */
void dispatcher_attend(struct pool *pool);

/* The thread: ends the pool when it has drained after PROTO_POOL_STOP or _HALT. */
void *dispatcher_main(void *pool);
