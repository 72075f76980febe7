/* SPDX-License-Identifier: MIT */
/* worker_sleep.h - how a worker sleeps, on the worker itself */
#pragma once

#include <stdbool.h>

struct worker;

/* Sleeps; for a limited time if L1 (lazy_policy.h) wants it awake. Returns after something may have
 * changed; false: after a timed sleep. */
bool worker_rest(struct worker *worker);

/* Sleeps while it is parked and there is nothing that only this worker may do. What it leaves
 * behind is handed on before. */
void worker_park(struct worker *worker);
