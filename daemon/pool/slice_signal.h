/* SPDX-License-Identifier: MIT */
/*
 * slice_signal.h - handles the expiry of a worker's slice timer
 *
 * slice_timer_is_due(), slice_timer_ring(): the worker, in the handler of the pool's signal.
 * slice_timers_check(): the dispatcher. daemon/sched/slice_timer.c has the invariants.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;
struct worker;

/* Owner: true if the alarm's time has come. Of two signals the kernel, or ThreadSanitizer, may
 * deliver only one, which may have another reason. */
bool slice_timer_is_due(struct worker *worker);

/* Called by the signal handler: sends a preempt request to its own worker. */
void slice_timer_ring(struct worker *worker);

/* Does the same for workers without timers. Returns when to call again, 0: never. */
uint64_t slice_timers_check(struct pool *pool);
