/* SPDX-License-Identifier: MIT */
#include "daemon/core/clients.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/core/pool_state.h"
#include "daemon/core/wakeup.h"

struct tenant_segment *clients_segment(struct pool *pool, uint32_t slot)
{
	/* ORDER tenant/known [T1]: acquire, pairs with clients_show_tenant(). */
	return atomic_load_explicit(&pool->clients.tenants[slot].segment, memory_order_acquire);
}

uint64_t clients_tenants(struct pool *pool, uint32_t word)
{
	/* ORDER tenant/known [T1]: acquire, pairs with clients_count_client(). */
	return atomic_load_explicit(&pool->clients.peopled[word], memory_order_acquire);
}

bool clients_is_peopled(struct pool *pool, uint32_t slot)
{
	return clients_tenants(pool, slot / 64) >> slot % 64 & 1;
}

struct client_entry *clients_of(struct pool *pool, uint32_t row)
{
	return &pool->clients.entries[row / pool->jobs_max];
}

struct ring_chain *clients_chains(struct pool *pool, uint32_t tenant)
{
	return &pool->clients.chains[(uint64_t)tenant * pool->n_workers];
}

uint64_t *clients_tails(struct pool *pool, const struct client_entry *client)
{
	uint64_t slot = clients_slot(&pool->clients, client);

	return &pool->clients.tails[slot * pool->n_workers];
}

struct client_entry *clients_get(struct pool *pool, uint32_t slot)
{
	struct client_entry *client;

	if (slot >= pool->clients_max)
		return NULL;
	client = &pool->clients.entries[slot];
	/* ORDER client/active [K2]: seq_cst, counted before the state is read. Pairs with
	 * clients_gone(), which stores the state before it reads the count: one sees the other. */
	atomic_fetch_add_explicit(&client->active, 1, memory_order_seq_cst);
	/* ORDER client/live [K1]: acquire, pairs with clients_show_client(); seq_cst for K2. */
	if (atomic_load_explicit(&client->state, memory_order_seq_cst) == CLIENT_LIVE)
		return client;
	clients_put(pool, client);
	return NULL;
}

void clients_put(struct pool *pool, struct client_entry *client)
{
	/* ORDER client/active [K2]: seq_cst: the uses of the client come before it, the read of the
	 * state after it. Pairs with clients_gone(). */
	if (atomic_fetch_sub_explicit(&client->active, 1, memory_order_seq_cst) == 1 &&
	    (atomic_load_explicit(&client->state, memory_order_seq_cst) == CLIENT_DYING ||
	     atomic_load_explicit(&client->stranded, memory_order_seq_cst)))
		pool_wake_dispatcher(pool);
}
