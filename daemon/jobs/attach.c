/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/attach.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/manager_channel.h"
#include "daemon/core/mapping.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/clients.h"
#include "daemon/core/wakeup.h"
#include "daemon/jobs/abort.h"
#include "daemon/jobs/import.h"
#include "daemon/jobs/tenant_unmap.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/limits.h"
#include "shm/proto.h"
#include "shm/ring.h"
#include "shm/segment.h"
#include "shm/tenant.h"

static void clients_set_tables(struct pool *pool)
{
	struct clients *all = &pool->clients;
	uint64_t n = pool->n_workers;

	all->chains = sparse_table(&all->tables, LIMIT_TENANTS * n, sizeof(*all->chains));
	all->tails = sparse_table(&all->tables, pool->clients_max * n, sizeof(*all->tails));
}

int clients_init(struct pool *pool)
{
	struct clients *all = &pool->clients;
	int r;

	pthread_mutex_init(&all->count_lock, NULL);
	/* Pages that no tenant or client needs are never touched. */
	clients_set_tables(pool);
	r = sparse_map(&all->tables);
	if (r == 0)
		clients_set_tables(pool);
	return r;
}

void clients_fini(struct pool *pool)
{
	struct clients *all = &pool->clients;

	pthread_mutex_destroy(&all->count_lock);
	for (uint32_t i = 0; i < LIMIT_TENANTS; i++)
		segment_unmap(all->tenants[i].base, all->tenants[i].size);
	for (uint32_t i = 0; i < pool->clients_max; i++) {
		segment_unmap(all->entries[i].segment, all->entries[i].segment_size);
		imports_release(&all->entries[i]);
	}
	sparse_unmap(&all->tables);
}

static int clients_map(struct attach_source source, void **ret_base, uint64_t *ret_size)
{
	void *base;
	uint64_t size;
	int r;

	if (source.base) {
		*ret_base = source.base;
		*ret_size = source.size;
		return 0;
	}
	if (source.fd < 0)
		return -EMFILE;
	r = segment_map(source.fd, SEGMENT_ANY, SEGMENT_WRITE, 0, &base, &size);
	if (r < 0)
		return r;
	r = layout_withhold(base, size, true);
	if (r < 0) {
		segment_unmap(base, size);
		return r;
	}
	*ret_base = base;
	*ret_size = size;
	return 0;
}

int clients_map_tenant(struct pool *pool, uint32_t slot, struct attach_source source,
		       struct tenant_segment **ret_segment)
{
	void *base;
	uint64_t size;
	int r = clients_map(source, &base, &size);

	if (r < 0)
		return r;
	if (size < tenant_segment_size(pool->n_workers))
		r = -EBADMSG;
	if (r == 0)
		r = unmap_settle(pool, slot, &base, size);
	if (r < 0) {
		segment_unmap(base, size);
		return r;
	}
	*ret_segment = base;
	return 0;
}

void clients_show_tenant(struct pool *pool, uint32_t slot, struct tenant_segment *segment)
{
	unmap_open(pool, slot);
	/* ORDER tenant/known [T1]: release, after the fields; pairs with clients_segment(). */
	atomic_store_explicit(&pool->clients.tenants[slot].segment, segment, memory_order_release);
}

/* Changes the number of a tenant's clients by n. The channel's thread and the dispatcher. */
static void clients_count_client(struct pool *pool, uint32_t slot, int n)
{
	_Atomic uint64_t *word = &pool->clients.peopled[slot / 64];
	uint64_t bit = UINT64_C(1) << slot % 64;

	/* The lock makes count and bit change together. */
	pthread_mutex_lock(&pool->clients.count_lock);
	pool->clients.tenants[slot].n_clients += (uint32_t)n;
	/* ORDER tenant/known [T1]: release, pairs with clients_tenants(). */
	if (pool->clients.tenants[slot].n_clients)
		atomic_fetch_or_explicit(word, bit, memory_order_release);
	else
		atomic_fetch_and_explicit(word, ~bit, memory_order_release);
	pthread_mutex_unlock(&pool->clients.count_lock);
}

int clients_map_client(struct pool *pool, uint32_t slot, uint32_t generation, uint32_t tenant,
		       uint32_t n_jobs, struct attach_source source)
{
	struct client_entry *client = &pool->clients.entries[slot];
	/* These numbers come from the manager; the client can change those in the segment. */
	uint64_t heap_offset = client_segment_heap_offset(n_jobs);
	void *base;
	uint64_t size;
	int r = clients_map(source, &base, &size);

	if (r < 0)
		return r;
	if (n_jobs > pool->jobs_max || heap_offset > size) {
		segment_unmap(base, size);
		return -EBADMSG;
	}
	client->generation = generation;
	client->tenant = tenant;
	client->n_jobs = n_jobs;
	client->jobs = (struct job *)((char *)base + sizeof(struct client_segment));
	client->groups = client_segment_groups(client->jobs, n_jobs);
	client->heap = (char *)base + heap_offset;
	client->heap_max = size - heap_offset;
	client->heap_size = &pool->arena->heap_sizes[slot];
	client->segment_size = size;
	client->segment = base;
	return 0;
}

void clients_unmap_client(struct pool *pool, uint32_t slot)
{
	struct client_entry *client = &pool->clients.entries[slot];
	void *segment = client->segment;

	/* First: crash_handler.c checks that segments listed here are mapped. */
	client->segment = NULL;
	segment_unmap(segment, client->segment_size);
	imports_release(client);
	/* The slot's next client has no tails or jobs, if it leaves before it has rings. */
	memset(clients_tails(pool, client), 0, pool->n_workers * sizeof(uint64_t));
	client->n_requeued = client->to_settle = 0;
}

void clients_show_client(struct pool *pool, uint32_t slot)
{
	struct client_entry *client = &pool->clients.entries[slot];

	/* ORDER client/live [K1]: release, after the fields. Pairs with clients_get(). */
	atomic_store_explicit(&client->state, CLIENT_LIVE, memory_order_release);
	clients_count_client(pool, client->tenant, 1);
}

void clients_orphan(struct pool *pool, uint32_t slot, int error)
{
	struct client_entry *client = &pool->clients.entries[slot];

	/* Relaxed: only this thread makes a client LIVE or DYING. */
	if (load_relaxed(&client->state) != CLIENT_LIVE)
		return;
	/* ORDER client/active [K2]: seq_cst, as in clients_gone(). n_leaving is relaxed: the
	 * dispatcher is woken below. */
	if (!atomic_exchange_explicit(&client->stranded, error, memory_order_seq_cst))
		add_relaxed(&pool->clients.n_leaving, 1);
	pool_wake_dispatcher(pool);
}

void clients_tell_orphans(struct pool *pool, struct client_entry *client)
{
	uint32_t slot = clients_slot(&pool->clients, client);
	char text[100];
	int error;

	/* ORDER client/active [K2]: seq_cst, as in clients_is_over(). */
	if (!atomic_load_explicit(&client->stranded, memory_order_seq_cst) ||
	    atomic_load_explicit(&client->active, memory_order_seq_cst))
		return;
	/* Relaxed: only one of this thread and clients_gone() takes the word, and it publishes no
	 * other data; n_leaving belongs to the dispatcher from here on. */
	error = atomic_exchange_explicit(&client->stranded, 0, memory_order_relaxed);
	if (!error) /* the client has gone since */
		return;
	sub_relaxed(&pool->clients.n_leaving, 1);
	(void)snprintf(text, sizeof(text), "its rings cannot be mapped: %s", strerror(-error));
	channel_send(pool, PROTO_POOL_ATTACHED, slot, client->generation, text);
}

/* Returns the position after the last word now in a ring: the tail, limited to RING_SLOTS from the
 * head, because clients can write any tail. */
static uint64_t clients_reach(struct ledger_ring *side, struct ring *ring)
{
	/* Relaxed: a dead client has published before. */
	uint64_t head = load_relaxed(&side->head);
	uint64_t tail = load_relaxed(&ring->tail);

	return head + min(ring_ahead(tail, head), (uint64_t)RING_SLOTS);
}

void clients_gone(struct pool *pool, uint32_t slot, uint32_t generation)
{
	struct client_entry *client;
	struct tenant_segment *tenant;

	if (slot >= pool->clients_max)
		return;
	client = &pool->clients.entries[slot];
	uint32_t state = load_relaxed(&client->state);

	if (state == CLIENT_NONE) { /* it could not be mapped */
		imports_release(client);
		channel_send(pool, PROTO_POOL_RELEASED, slot, generation, "");
	}
	if (state != CLIENT_LIVE)
		return;
	tenant = clients_segment(pool, client->tenant);
	for (uint32_t i = 0; tenant && i < pool->n_workers; i++)
		clients_tails(pool, client)[i] =
			clients_reach(&pool->arena->rings[client->tenant][i], &tenant->rings[i]);
	/* ORDER client/active [K2]: seq_cst, see clients_get(). */
	atomic_store_explicit(&client->state, CLIENT_DYING, memory_order_seq_cst);
	FK_CRASH(client_dying);
	/* Relaxed: the dispatcher is woken below. */
	if (!atomic_exchange_explicit(&client->stranded, 0, memory_order_relaxed))
		add_relaxed(&pool->clients.n_leaving, 1);
	/* Running jobs unwind. A row that starts later sees the state. */
	for (uint32_t i = 0; i < client->n_jobs; i++) {
		uint32_t at = slot * pool->jobs_max + i;
		/* ORDER verdict/cancel [V1]: seq_cst, after the state. Pairs with job_run(). */
		struct ledger_row row = ledger_unpack(
			atomic_load_explicit(&arena_rows(pool->arena)[at], memory_order_seq_cst));

		if (row.state == LEDGER_RUNNING)
			(void)abort_set(pool, at, row.generation, JOB_CANCELLED, 0);
	}
	pool_wake_dispatcher(pool);
}

/* True if no ring can still hold a word of the dead client. */
static bool clients_passed(struct pool *pool, struct client_entry *client)
{
	struct tenant_segment *tenant = clients_segment(pool, client->tenant);

	for (uint32_t i = 0; tenant && i < pool->n_workers; i++) {
		struct ledger_ring *ring = &pool->arena->rings[client->tenant][i];
		/* ORDER ledger/head [L1]: acquire, pairs with drain_ring(): words before the head
		 * have been counted in active. */
		uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
		/* Relaxed: only whether there is a word. */
		uint64_t slot = load_relaxed(&tenant->rings[i].slots[head % RING_SLOTS]);

		/* If the slot at the head is empty, the ring holds no word of the client. */
		if (head < clients_tails(pool, client)[i] && slot & RING_FULL_BIT)
			return false;
	}
	return true;
}

bool clients_is_over(struct pool *pool, struct client_entry *client)
{
	/* ORDER client/active [K2]: seq_cst, see clients_get(). */
	return !atomic_load_explicit(&client->active, memory_order_seq_cst) &&
	       clients_passed(pool, client);
}

void clients_release(struct pool *pool, struct client_entry *client)
{
	uint32_t slot = clients_slot(&pool->clients, client);
	uint32_t generation = client->generation;

	clients_unmap_client(pool, slot);
	FK_CRASH(client_unmapped);
	sub_relaxed(&pool->clients.n_leaving, 1);
	clients_count_client(pool, client->tenant, -1);
	/* ORDER client/live [K1]: release, the fields are not used any more. Pairs with
	 * intake_add_client(). */
	atomic_store_explicit(&client->state, CLIENT_NONE, memory_order_release);
	FK_CRASH(client_released);
	channel_send(pool, PROTO_POOL_RELEASED, slot, generation, "");
}
