/* SPDX-License-Identifier: MIT */
/*
 * dispatcher.h - the thread that sees to it that waiting jobs are started
 *
 * Sleeps on its wake word on the board. A client that finds every worker busy wakes it, as does a
 * worker that becomes busy and leaves jobs waiting while no worker looks. As long as jobs wait, it
 * comes by itself, every DISPATCHER_TICK; its word says LOOKING then, so that a flood does not wake
 * it for each job. It need not where all that waits are queued jobs which no worker is to make way
 * for soon, or long ones: then that worker looks by itself when it is time (time_slice.c); where
 * that is now, it gets a preempt request first. A worker that will look sees the rings, too: so the
 * dispatcher dozes meanwhile, and clients whose jobs can wait do not wake it (shm/wake.h, W9). Each
 * time it sees to it that a worker comes: wakes a sleeper; or makes preempt requests if there are
 * words in the rings, which one has to take off, or if they run jobs that have a worse claim than a
 * queued one (preemption.c). A worker with a request looks at its next fork, and if it is still so,
 * sets its continuation aside and starts the queued job. Each time the next DISPATCHER_PREEMPTS of
 * them are summoned, so that one in a long leaf delays nothing. Jobs in the root deque of a worker
 * that does not come to them are taken back, and wait among all others for the first worker that
 * comes. Where no worker takes anything off the rings for a tick, all of them in long leaves, it
 * does that itself: so deadlines and cancels of what is there are seen (deadline.h). If no job is
 * started for DISPATCHER_DOUBT ticks it wakes all workers that run none, whatever their words on
 * the board say: a task may have written over those (shm/wake.h, W12). It looks at workers whose
 * jobs are to end, and do not (hang_detector.h), and has fibers go on that wait for a time
 * (timer.c). It also releases dead clients, gives freed memory back if no worker does, and ends the
 * pool once all is done after PROTO_POOL_STOP, or all that runs after PROTO_POOL_HALT. It comes
 * DISPATCHER_ROUNDS times a tick at most.
 *
 * Threads: process.c starts its thread. Others wake it by pool_wake_dispatcher().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/limits.h"

struct pool;

/* Its own thread's. */
struct dispatcher {
	uint64_t roots[LIMIT_WORKERS]; /* root tasks each worker had started at the last look */
	uint64_t drained;	       /* jobs that workers had taken off the rings by then */
	uint64_t looked_ns;	       /* when that was */
	uint32_t waited;	       /* looks since one was started, with jobs waiting */
	uint32_t next_worker;	       /* to get a preempt request */
	uint32_t collected;	       /* times that it took jobs off the rings */
	uint64_t clean_at;	       /* when it looks after freed memory; 0: there is none */
	uint64_t cleaned;	       /* pieces of it that were given back by the last time */
	uint64_t rounds_since;	       /* when the tick began in which it has come ... */
	uint32_t rounds;	       /* ... so many times */
};

/* One round: looks, and sleeps until it has to look again, or is woken. */
void dispatcher_attend(struct pool *pool);

/* The thread: until the pool has drained after PROTO_POOL_STOP or _HALT, which it ends. */
void *dispatcher_main(void *pool);
