/* SPDX-License-Identifier: MIT */
/*
 * slice_signal.h - what happens when the alarm of a worker rings
 *
 * slice_timer_is_due(), slice_timer_ring(): the worker, in the handler of WORKER_SIGNAL.
 * slice_timers_check(): the dispatcher. daemon/sched/slice_timer.c has the invariants.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;
struct worker;

/* Owner: its time has come. Of two signals the kernel, or ThreadSanitizer, may deliver one, and
 * that may be another's. */
bool slice_timer_is_due(struct worker *worker);

/* The handler of the signal: a preempt request to its own worker. */
void slice_timer_ring(struct worker *worker);

/* Rings for workers without timers. Returns when to come back, 0 for never. */
uint64_t slice_timers_check(struct pool *pool);
