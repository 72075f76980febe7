/* SPDX-License-Identifier: MIT */
#include "daemon/starved.h"

#include "daemon/hang.h"
#include "daemon/park.h"
#include "daemon/pool.h"
#include "daemon/worker.h"
#include "shm/wake.h"

/* A pool of many workers is looked at less often: each look reads each clock. */
#define STARVED_WORKERS 64u

static bool starved_rests(const struct worker *w)
{
	return wake_rests(wake_load(&w->board->wake));
}

/* One look at all workers. Returns whether one of them is awake. */
static bool starved_look(struct pool *pool)
{
	_Atomic uint64_t *count = &pool->board->counters[BOARD_POOL].starved;
	bool awake = false;

	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[i];
		bool rests = starved_rests(w);

		awake |= !rests;
		if (!starved_judge(&pool->starved.cpu[i], rests ? STARVED_UNKNOWN : hang_cpu(w)))
			continue;
		/* Relaxed: a statistic, and this thread's own. */
		atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
				      memory_order_relaxed);
		(void)worker_wake_more(pool);
		park_loosen(pool, i);
	}
	return awake;
}

uint64_t starved_check(struct pool *pool, uint64_t now)
{
	struct starved *s = &pool->starved;

	if (now < s->next)
		return s->next;
	s->interval = starved_look(pool) ? STARVED_TICK * (1 + pool->n_workers / STARVED_WORKERS)
					 : min(2 * s->interval, STARVED_SELDOM);
	s->next = now + s->interval;
	return s->next;
}
