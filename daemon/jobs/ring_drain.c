/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/ring_drain.h"

#include "common/clock.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/placement.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/clients.h"
#include "daemon/core/worker_state.h"
#include "daemon/jobs/deadline.h"
#include "daemon/sched/fair_queue.h"
#include "shm/board.h"
#include "shm/job.h"
#include "shm/limits.h"
#include "shm/ring.h"
#include "shm/tenant.h"
#include "daemon/jobs/job_end.h"
#include "daemon/core/worker.h"
#include "shm/ledger.h"

/* Returns the bits of a tenant's summary that belong to rings: clients can set others. */
static uint64_t drain_summary(struct pool *pool, struct tenant_segment *tenant, uint32_t word)
{
	uint32_t rings = min(pool->n_workers - 64 * word, 64u);

	return load_relaxed(&tenant->summary[word]) & UINT64_MAX >> (64 - rings);
}

static uint32_t drain_summary_words(struct pool *pool)
{
	return (pool->n_workers + 63) / 64;
}

static bool drain_tenant_pending(struct pool *pool, uint32_t slot)
{
	struct tenant_segment *tenant = clients_segment(pool, slot);

	for (uint32_t k = 0; tenant && k < drain_summary_words(pool); k++)
		if (drain_summary(pool, tenant, k))
			return true;
	return false;
}

bool drain_rings_pending(struct pool *pool)
{
	for (uint32_t k = 0; k < CLIENTS_WORDS; k++)
		for (uint64_t left = clients_tenants(pool, k); left; left &= left - 1)
			if (drain_tenant_pending(pool, 64 * k + (uint32_t)__builtin_ctzll(left)))
				return true;
	return false;
}

/* Returns all tenants that have clients now. */
static void drain_all_tenants(struct pool *pool, uint64_t ret_bits[CLIENTS_WORDS])
{
	for (uint32_t k = 0; k < CLIENTS_WORDS; k++)
		ret_bits[k] = clients_tenants(pool, k);
}

/* Removes and returns the next of these tenants after slot, cyclically; LIMIT_TENANTS if none is
 * left. */
static uint32_t drain_next_tenant(uint64_t bits[CLIENTS_WORDS], uint32_t slot)
{
	uint32_t from = (slot + 1) % LIMIT_TENANTS;

	for (uint32_t i = 0; i <= CLIENTS_WORDS; i++) {
		uint32_t k = (from / 64 + i) % CLIENTS_WORDS;
		uint64_t left = i == 0 ? bits[k] & UINT64_MAX << from % 64 : bits[k];

		if (left) {
			bits[k] &= ~(left & -left);
			return 64 * k + (uint32_t)__builtin_ctzll(left);
		}
	}
	return LIMIT_TENANTS;
}

bool drain_scan_some(struct worker *w)
{
	uint64_t bits[CLIENTS_WORDS];

	drain_all_tenants(w->pool, bits);
	for (uint32_t i = 0; i < DRAIN_SCAN_SOME; i++) {
		uint32_t slot = drain_next_tenant(bits, w->roots.scan_next);

		if (slot == LIMIT_TENANTS)
			return false;
		w->roots.scan_next = slot;
		if (drain_tenant_pending(w->pool, slot))
			return true;
	}
	return false;
}

bool drain_is_empty(struct pool *pool)
{
	if (drain_rings_pending(pool))
		return false;
	for (uint32_t t = 0; t < LIMIT_TENANTS; t++)
		for (uint32_t i = 0; clients_segment(pool, t) && i < pool->n_workers; i++)
			/* ORDER ring/consumer [R3]: acquire: a consumer that has left has counted
			 * its rows. Pairs with ledger_ring_leave(). */
			if (atomic_load_explicit(&pool->arena->rings[t][i].consumer,
						 memory_order_acquire))
				return false;
	return true;
}

static bool drain_spent(const struct drain *drain)
{
	return drain->steps >= DRAIN_STEPS || drain->share >= DRAIN_SHARE;
}

static void drain_step(struct drain *drain, uint32_t n)
{
	drain->steps += n;
	drain->share += n;
}

static void drain_link(struct drain *drain, uint32_t row, uint32_t weight, uint32_t place)
{
	struct fair *fair = drain->pool->fair;
	uint32_t client = row / drain->pool->jobs_max;

	fair_prepare(fair, row, weight, place);
	drain->placed |= place > FAIR_NOWHERE;
	if (drain->n++) {
		fair->rows[drain->last].next = row + 1;
		drain->mixed |= client != drain->client;
	} else {
		drain->first = row;
		drain->client = client;
	}
	drain->last = row;
}

/* Returns where a job may be started, by its record's place (shm/job.h): FAIR_*. */
static uint32_t drain_place(struct pool *pool, uint32_t place)
{
	uint32_t index = job_place_index(place), kind = job_place_kind(place);
	uint32_t at = FAIR_NOWHERE;

	if (!place)
		return FAIR_ANYWHERE;
	if (kind == JOB_PLACE_WORKER && pool_worker_at(pool, index)) {
		at = FAIR_WORKER(index);
	} else if (kind == JOB_PLACE_NODE) {
		uint32_t group = pool_group_on(pool, index);

		if (group < pool->n_groups)
			at = FAIR_GROUP(group);
	}
	return at == FAIR_NOWHERE || job_place_strict(place) ? at : FAIR_ANYWHERE;
}

/* The job's deadline, CLOCK_MONOTONIC, ns; 0: it has none. A job that the next pool admits again
 * keeps the time at which it was accepted. */
static uint64_t drain_deadline(struct pool *pool, struct job *job, uint32_t row)
{
	uint64_t own = load_relaxed(&job->deadline_ns);
	uint64_t usual = load_relaxed(&clients_of(pool, row)->default_deadline);

	return own || !usual ? own : load_relaxed(&job->drained_ns) + usual;
}

void drain_admit(struct drain *drain, struct job *job, uint32_t row, uint32_t generation)
{
	struct pool *pool = drain->pool;
	uint64_t deadline = drain_deadline(pool, job, row);
	uint32_t place = load_relaxed(&job->place);

	if (deadline)
		drain->earlier |= deadline_add(pool, row, generation, deadline);
	/* The pool that got the cancel message may have died. Relaxed: this thread holds the row,
	 * and deadline_watch() has a lock. */
	if (unlikely(job_is_unwanted(job, generation)))
		store_relaxed(&pool->rows.cancels[row], generation);
	if (job_is_cancelled(pool, row, generation))
		deadline_watch(pool, row, generation);
	drain_link(drain, row, load_relaxed(&job->weight), drain_place(pool, place));
}

/* Takes a job off a ring: makes its row QUEUED, or refuses it. The walk holds a use of the client.
 * Returns true if the row was accepted. */
static bool drain_accept(struct drain *drain, struct client_entry *client, uint32_t index,
			 uint64_t now)
{
	struct pool *pool = drain->pool;
	struct job *job = &client->jobs[index];
	uint32_t slot = clients_slot(&pool->clients, client);
	uint32_t row = slot * pool->jobs_max + index;
	_Atomic uint64_t *word = &arena_rows(pool->arena)[row];
	uint64_t expected = load_relaxed(word);
	uint32_t generation = load_relaxed(&job->generation) & JOB_GEN_MASK;
	uint32_t flags = load_relaxed(&job->flags);
	struct ledger_row row_new = {
		.generation = generation,
		.state = LEDGER_QUEUED,
		.flags = flags & JOB_IDEMPOTENT ? LEDGER_FLAG_IDEMPOTENT : 0,
	};

	/* Tries again if the row was freed in the meantime (job_free_row()). Two rings may hold the
	 * same record: the second of the two words finds it QUEUED. */
	do {
		struct ledger_row old = ledger_unpack(expected);
		/* A row may be FINISHING for another generation: the client has seen that outcome,
		 * but the worker has not freed the row yet. */
		bool free = old.state == LEDGER_FREE || old.state == LEDGER_FINISHING;

		if (!free || old.generation == generation) {
			/* Submitted twice (ledger.h, I3). */
			add_relaxed(&pool->board->clients[slot].refused, 1);
			COUNT(drain, jobs_refused);
			return false;
		}
		/* ORDER cancel/accept [V2]: seq_cst, before drain_admit() reads the cancel mark.
		 * Pairs with job_cancel(). */
	} while (!atomic_compare_exchange_weak_explicit(
		word, &expected, ledger_pack(row_new), memory_order_seq_cst, memory_order_relaxed));
	store_relaxed(&job->drained_ns, now);
	drain_admit(drain, job, row, generation);
	return true;
}

/* Walks, or continues to walk, the chain of one word. Adds to *accepted. False: the walk is not
 * finished. Rows are counted in active when the walk ends: until then none can be ended. */
static bool drain_walk(struct drain *drain, uint32_t tenant, struct ring_chain *chain,
		       uint32_t payload, uint64_t now, uint32_t *accepted)
{
	uint32_t slot = ring_payload_client(payload);
	struct client_entry *client = clients_get(drain->pool, slot);
	bool more = false;
	uint32_t n = 0;

	/* If a word has changed since, only its writer is harmed. */
	if (!chain->next || chain->payload != payload)
		*chain = (struct ring_chain){ .payload = payload,
					      .next = ring_payload_job(payload) + 1,
					      .left = client ? client->n_jobs : 0 };
	if (!client || client->tenant != tenant ||
	    (client->generation & 31u) != ring_payload_gen(payload)) {
		COUNT(drain, malformed_slots);
		chain->next = 0;
	}
	while (chain->next && !more) {
		uint32_t index = chain->next - 1;

		if (index >= client->n_jobs || !chain->left) {
			COUNT(drain, malformed_slots);
			chain->next = 0;
			break;
		}
		/* Read before the job can end and its record be reused (job.h, I2). */
		chain->next = load_relaxed(&client->jobs[index].next);
		chain->left--;
		drain_step(drain, 1);
		FK_CRASH(intake_step);
		n += drain_accept(drain, client, index, now);
		FK_CRASH(intake_accepted);
		more = drain_spent(drain);
	}
	*accepted += n;
	/* Relaxed: for display. None of them has ended yet. */
	if (n)
		add_relaxed(&drain->pool->board->clients[slot].accepted, n);
	/* One row takes over the walk's own use. */
	if (n > 1)
		add_relaxed(&client->active, n - 1);
	else if (client && !n)
		clients_put(drain->pool, client);
	return !chain->next;
}

/* Takes words from one ring, within the limits of this drain. */
static void drain_ring(struct drain *drain, uint32_t tenant_slot, struct tenant_segment *tenant,
		       uint32_t index)
{
	struct pool *pool = drain->pool;
	struct ledger_ring *side = &pool->arena->rings[tenant_slot][index];
	struct ring_chain *chain = &clients_chains(pool, tenant_slot)[index];
	struct ring *ring = &tenant->rings[index];
	uint32_t payload = 0, accepted = 0, before = drain->steps;
	uint64_t head, now = 0;

	if (!ledger_ring_hold(side, drain->consumer))
		return;
	tenant_clear(tenant, index);
	head = load_relaxed(&side->head);
	/* Every word counts: a client may write words faster than they are read. */
	while (!drain_spent(drain)) {
		enum ring_status status = ring_peek(ring, head, &payload);
		uint32_t steps = drain->steps;

		if (status == RING_EMPTY) {
			if (ring_is_astray(ring, head))
				drain_step(drain, DRAIN_MEND);
			status = ring_skip(ring, head);
			if (status == RING_EMPTY)
				break;
			if (status == RING_OK) {
				drain_step(drain, 1);
				continue;
			}
		}
		if (status == RING_GARBAGE) {
			COUNT(drain, malformed_slots);
			drain_step(drain, 1);
			continue;
		}
		if (!now)
			now = clock_ns();
		if (status == RING_OK &&
		    !drain_walk(drain, tenant_slot, chain, payload, now, &accepted)) {
			/* The records that were taken may be reused before the next pool, which
			 * knows the chain only by this word, walks it. */
			chain->payload = (payload & ~0xffffu) | ((chain->next - 1) & 0xffffu);
			ring_repoint(ring, head, chain->payload);
			FK_CRASH(intake_repointed);
			break;
		}
		if (drain->steps == steps)
			drain_step(drain, 1);
		/* ORDER ledger/head [L1]: release, the rows are QUEUED before the head moves (I1).
		 * Pairs with clients_passed(); the manager reads after the pool's death. */
		FK_CRASH(intake_walked);
		atomic_store_explicit(&side->head, ++head, memory_order_release);
		FK_CRASH(intake_head);
		if (status == RING_OK)
			ring_consume(ring, head - 1);
	}
	if (drain_spent(drain)) {
		drain->more = true;
		tenant_mark(tenant, index);
	}
	if (accepted)
		COUNT_ADD(drain, drained, accepted);
	if (accepted && index + 1 != drain->consumer)
		COUNT_ADD(drain, drained_for_others, accepted);
	if (drain->steps - before > accepted)
		fair_waste(pool->fair, tenant_slot,
			   (drain->steps - before - accepted) * DRAIN_STEP_NS);
	ledger_ring_leave(side);
}

/* Takes words from a tenant's marked rings, beginning with ring first. */
static void drain_tenant(struct drain *drain, uint32_t slot, uint32_t first)
{
	struct tenant_segment *tenant = clients_segment(drain->pool, slot);
	uint32_t words = drain_summary_words(drain->pool);
	uint64_t from = UINT64_MAX << first % 64;

	drain->share = 0;
	for (uint32_t i = 0; tenant && i <= words; i++) {
		uint32_t k = (first / 64 + i) % words;
		uint64_t bits = drain_summary(drain->pool, tenant, k);

		/* The word of the first ring is processed twice. */
		bits &= i == 0 ? from : i == words ? ~from : UINT64_MAX;
		for (; bits && !drain_spent(drain); bits &= bits - 1)
			drain_ring(drain, slot, tenant, 64 * k + (uint32_t)__builtin_ctzll(bits));
	}
}

void drain_rings(struct drain *drain)
{
	struct pool *pool = drain->pool;
	uint32_t ring = (drain->round & 1 ? drain->round / 2 : drain->home) % pool->n_workers;
	uint32_t slot = drain->round % LIMIT_TENANTS;
	uint64_t bits[CLIENTS_WORDS];
	uint32_t n;

	do {
		n = drain->n;
		drain->more = false;
		drain_all_tenants(pool, bits);
		while (drain->steps < DRAIN_STEPS &&
		       (slot = drain_next_tenant(bits, slot)) < LIMIT_TENANTS)
			drain_tenant(drain, slot, ring);
		slot = drain->round % LIMIT_TENANTS;
	} while (drain->more && drain->n > n && drain->steps < DRAIN_STEPS);
}

struct drain drain_of(struct worker *w)
{
	return (struct drain){
		.pool = w->pool,
		.counters = w->counters,
		.consumer = w->index + 1,
		.home = w->index,
		.round = w->index + w->roots.drains++,
	};
}
