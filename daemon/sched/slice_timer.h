/* SPDX-License-Identifier: MIT */
/*
 * slice_timer.h - a worker's own timer: when it rings, the worker checks which job is to run
 *
 * Jobs that have begun take turns after milliseconds, and no other thread need come for that: the
 * timer sends WORKER_SIGNAL to the worker's own thread, whose handler makes a preempt request
 * (dispatcher.h), so that it looks at its next fork. A signal to a thread that runs is no context
 * switch. Where the kernel gives no timer, or does not set it, the dispatcher comes and makes the
 * request (slice_timers_check()). A worker that looks sees the rings, too. So as long as an alarm
 * is set the dispatcher dozes (shm/wake.h, W9), and the next one of a client's long jobs wakes no
 * thread.
 *
 * Threads: slice_timer_begin(), slice_timer_end(), slice_timer_at(), slice_timer_ring(): the
 * worker; the last one in the handler of WORKER_SIGNAL. slice_timer_by(): any thread of the pool.
 * slice_timers_check(), slice_timers_set(): the dispatcher. slice_timer.c says why none is lost.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct pool;
struct worker;

void slice_timer_init(struct worker *worker);
void slice_timer_fini(struct worker *worker);

/* The worker's thread has begun, or is about to end. */
void slice_timer_begin(struct worker *worker);
void slice_timer_end(struct worker *worker);

/* It rings at this time, or earlier. After what it is to look at was written with the lock of fair
 * held, or by the worker itself. now: the clock. */
void slice_timer_by(struct worker *worker, uint64_t at, uint64_t now);

/* Owner: it rings at this time, and not before; 0: not at all. With the lock of fair held, in which
 * it has looked at all that there is to look at. */
void slice_timer_at(struct worker *worker, uint64_t at);

/* Sets the timer to this time. Owner, or with the lock held. */
void slice_timer_set(struct worker *worker, uint64_t at);

/* A worker's alarm has become none (slice_timer.c, I4). */
void slice_timer_over(struct pool *pool);

/* One is set, by a timer: its worker looks at all rings soon, or wakes the dispatcher. */
bool slice_timers_set(struct pool *pool);
