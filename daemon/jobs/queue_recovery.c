/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/queue_recovery.h"

#include "common/clock.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "daemon/jobs/ring_drain.h"
#include "daemon/core/pool_state.h"
#include "daemon/sched/fair_queue.h"
#include "shm/board.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/ring.h"

void requeue_find(struct pool *pool, uint32_t slot)
{
	struct client_entry *c = &pool->clients.entries[slot];
	struct board_client *board = &pool->board->clients[slot];
	uint32_t first = slot * pool->jobs_max;
	struct drain drain = { .pool = pool };

	for (uint32_t i = 0; i < c->n_jobs; i++) {
		struct ledger_row row = ledger_row(pool->arena, first + i);

		if (row.state != LEDGER_QUEUED)
			continue;
		add_relaxed(&c->active, 1);
		drain_admit(&drain, &c->jobs[i], first + i, row.generation);
	}
	/* Jobs that were running belong to the last pool. Relaxed: for display, and no other thread
	 * uses them yet. */
	store_relaxed(&board->accepted, (uint32_t)load_relaxed(&board->jobs) + drain.n);
	c->requeued = drain.first;
	c->n_requeued = c->to_settle = drain.n;
}

void requeue_place_ring(struct pool *pool, uint32_t tenant, struct ring *ring,
			struct ledger_ring *side)
{
	uint64_t head = load_relaxed(&side->head);
	struct client_entry *client;
	uint32_t payload, slot, first, next;

	if (ring_peek(ring, head, &payload) != RING_OK)
		return;
	slot = ring_payload_client(payload);
	client = &pool->clients.entries[slot];
	if (slot >= pool->clients_max || client->tenant != tenant ||
	    (client->generation & 31u) != ring_payload_gen(payload))
		return;
	first = next = ring_payload_job(payload) + 1;
	for (; next && next <= client->n_jobs && client->to_settle; client->to_settle--) {
		struct job *job = &client->jobs[next - 1];
		uint32_t at = slot * pool->jobs_max + next - 1;
		struct ledger_row row = ledger_row(pool->arena, at);
		uint32_t generation = load_relaxed(&job->generation);

		if (row.state != LEDGER_QUEUED || row.generation != (generation & JOB_GEN_MASK))
			break;
		next = load_relaxed(&job->next);
	}
	if (next == first)
		return;
	if (next && next <= client->n_jobs) {
		ring_repoint(ring, head, (payload & ~0xffffu) | (next - 1));
		return;
	}
	/* ORDER ledger/head [L1]: release, as in drain_ring(). */
	atomic_store_explicit(&side->head, head + 1, memory_order_release);
	ring_consume(ring, head);
}

void requeue_push(struct pool *pool, uint32_t slot)
{
	struct client_entry *client = &pool->clients.entries[slot];

	if (!client->n_requeued)
		return;
	FK_CRASH(requeue_found);
	fair_lock(pool->fair);
	fair_push(pool->fair, client->requeued, client->n_requeued, clock_ns());
	fair_unlock(pool->fair);
	FK_CRASH(requeue_pushed);
	client->n_requeued = client->to_settle = 0;
}
