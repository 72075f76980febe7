/* SPDX-License-Identifier: MIT */
/*
 * slice_timer.h - a worker's own timer, which makes it check which job is to run
 *
 * Jobs that have begun alternate after milliseconds, without another thread. The timer sends
 * the pool's signal to the worker's own thread. The handler makes a preempt request
 * (dispatcher.h), so that the worker checks at its next fork. A signal to a running thread is no
 * context switch. If the pool has no signal (worker_signal.h), or the kernel provides no timer, or
 * cannot set it, the dispatcher makes the request
 * (slice_timers_check()). A worker that checks reads the rings, too. So while an alarm is set the
 * dispatcher dozes (shm/wake.h, W9), and a client's next long job wakes no thread.
 *
 * Threads: slice_timer_begin(), slice_timer_end(), slice_timer_at(), slice_timer_ring(): the
 * worker; the last one in the signal's handler. slice_timer_by(): any thread of the pool.
 * slice_timers_check(), slice_timers_set(): the dispatcher. slice_timer.c proves that no alarm is
 * lost.
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

/* Called when the worker's thread begins, or is about to end. */
void slice_timer_begin(struct worker *worker);
void slice_timer_end(struct worker *worker);

/* Sets the alarm to this time, or keeps an earlier one. Call it after writing the reason with the
 * lock of fair held, or on the worker itself. now: the clock. */
void slice_timer_by(struct worker *worker, uint64_t at, uint64_t now);

/* Owner: sets the alarm to this time, even if later; 0: stops it. With the lock of fair held, under
 * which it has checked everything. */
void slice_timer_at(struct worker *worker, uint64_t at);

/* Sets the timer to this time. Owner, or with the lock held. */
void slice_timer_set(struct worker *worker, uint64_t at);

/* A worker's alarm was stopped (slice_timer.c, I4). */
void slice_timer_over(struct pool *pool);

/* True if a worker has a working alarm: it will check all rings soon, or wake the dispatcher. */
bool slice_timers_set(struct pool *pool);
