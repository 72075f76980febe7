/* SPDX-License-Identifier: MIT */
#include "daemon/core/shutdown.h"

#include <string.h>

#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/clients.h"
#include "daemon/core/worker_state.h"
#include "shm/board.h"
#include "shm/ledger.h"
#include "shm/wake.h"

/* Starts over for a new halt: I2. */
static void shutdown_look_at(struct shutdown *s)
{
	/* Relaxed: this thread has seen pool->stop, which is set later. */
	uint32_t on = load_relaxed(&s->on);

	if (s->of == on)
		return;
	s->of = on;
	s->client = s->job = 0;
	memset(s->seen, 0, sizeof(s->seen));
}

/* True if no worker will start another job. */
static bool shutdown_is_seen(struct pool *pool)
{
	uint64_t *seen = pool->shutdown.seen;
	bool all = true;

	/* ORDER halt/busy [Q1]: full, between shutdown_begin(), which this thread has seen, and the
	 * reads of the words. Pairs with shutdown_declines(). */
	wake_published();
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		if (wake_state(wake_load(&pool->workers[i].board->wake)) != WAKE_BUSY)
			seen[i / 64] |= UINT64_C(1) << i % 64;
		all &= seen[i / 64] >> i % 64 & 1;
	}
	return all;
}

/* True if no row of this client is running, from the current position on. */
static bool shutdown_has_passed(struct pool *pool, const struct client_entry *client)
{
	struct shutdown *s = &pool->shutdown;

	for (; s->job < client->n_jobs; s->job++) {
		uint32_t row = s->client * pool->jobs_max + s->job;
		uint32_t state = ledger_row(pool->arena, row).state;

		if (state != LEDGER_FREE && state != LEDGER_QUEUED)
			return false;
	}
	return true;
}

bool shutdown_is_over(struct pool *pool)
{
	struct shutdown *s = &pool->shutdown;

	shutdown_look_at(s);
	if (!shutdown_is_seen(pool))
		return false;
	for (; s->client < pool->clients_max; s->client++) {
		struct client_entry *client = &pool->clients.entries[s->client];
		/* ORDER client/active [K2]: acquire, as intake_release() has it: a thread that has
		 * a number of jobs here. */
		uint32_t state = atomic_load_explicit(&client->state, memory_order_acquire);

		if (state != CLIENT_NONE && !shutdown_has_passed(pool, client))
			return false;
		s->job = 0;
	}
	return true;
}
