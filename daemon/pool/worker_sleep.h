/* SPDX-License-Identifier: MIT */
/* worker_sleep.h - how a worker sleeps, on the worker itself */
#pragma once

#include <stdbool.h>

struct worker;

/* Sleeps; for a limited time if L1 (lazy_policy.h) requires it to be awake. Returns when something
 * may have changed; false: after a timed sleep. */
bool worker_rest(struct worker *worker);

/* The worker's thread begins after the worker was woken (worker_thread.h, T4). */
void worker_arrive(struct worker *worker);

/* The dispatcher: the worker was woken, but its thread cannot be created (worker_thread.h, T3). It
 * passes on its debt, and is offline. */
void worker_stay_absent(struct worker *worker);

/* Sleeps while it is offline and there is no work that only this worker may do. Before that it
 * passes on its other work. */
void worker_park(struct worker *worker);
