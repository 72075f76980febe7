/* SPDX-License-Identifier: MIT */
/*
 * clients.h - tenants and clients of the pool
 *
 * Threads: clients_map_*, clients_unmap_client(), clients_show_*, clients_orphan(),
 * clients_gone(): the channel's thread. clients_release(), clients_tell_orphans(): the dispatcher.
 * clients_get(), clients_put(), clients_segment(), clients_tenants(): any thread of the pool.
 *
 * INVARIANTS
 *   I1. A client's segment stays mapped as long as active > 0 or the client is live. A thread that
 *       uses it first counts itself in active and then reads the state (ORDER client/active).
 *   I2. From the end of its walk on, a client's active counts every row that was accepted and has
 *       no outcome. Until then the walk's own use and the ring's consumer keep it above 0. A row in
 *       hand, in an inbox or in a suspended frame counts until its job has ended. So a draining
 *       pool is done when no ring has words, no thread reads one, and all active are 0.
 *   I3. The address range of a tenant's segment stays mapped (tenant_unmap.h). The tenant's entry
 *       here is complete before its segment pointer is set.
 *   I4. If a tenant's segment cannot be mapped, the jobs that the last pool had QUEUED for its
 *       clients still run. Then the manager is notified and ends the connections, because rings
 *       that the pool does not read would block the client forever. The mapping is tried again when
 *       the last client of the tenant has gone, because then the words in the rings have no owner.
 *
 * If a peer dies: a client: see I1; its slot is reused only after every ring of its tenant has
 * passed the place where its tail was at that time. The pool: ledger.h.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/sparse.h"
#include "daemon/core/task_permission.h"
#include "shm/job.h"
#include "shm/limits.h"
#include "shm/tenant.h"

struct pool;

#define CLIENTS_WORDS (LIMIT_TENANTS / 64)

#define CLIENT_NONE  0u
#define CLIENT_LIVE  1u
#define CLIENT_DYING 2u

struct client_entry {
	_Alignas(64) _Atomic uint32_t state; /* CLIENT_* */
	_Atomic uint32_t active;	     /* rows that are not FREE, and uses */
	/* the channel's thread and the dispatcher: why the client has no rings, a negative errno;
	 * 0: it has rings, or the manager has been notified */
	_Atomic int stranded;
	uint32_t generation;
	uint32_t tenant;
	uint32_t n_jobs;
	struct job *jobs;
	struct group *groups;
	char *heap;
	uint64_t heap_max; /* bytes that are mapped */
	/* the manager writes: bytes that references may be to; not trusted beyond heap_max */
	const _Atomic uint64_t *heap_size;
	struct client_segment *segment;
	uint64_t segment_size;
	/* LIMIT_IMPORT bytes, all of them readable (daemon/jobs/import.h); NULL: no imports */
	char *_Atomic imports;
	/* the channel's thread writes: tasks that the client may not call, permission_deny() */
	_Atomic uint64_t denied[PERMISSION_WORDS];
	/* the channel's thread writes: ns, for accepted jobs without a deadline; 0: none */
	_Atomic uint64_t default_deadline;
	/* the channel's thread: rows that the last pool had QUEUED, until the tenant is mapped */
	uint32_t requeued; /* the first, linked by the fair queues' next */
	uint32_t n_requeued;
	uint32_t to_settle; /* of these, rows that requeue_place_ring() may still reach */
};

/* Progress of the walk along the chain whose word is at a ring's head (ring_drain.c). Used by the
 * ring's consumer only. */
struct ring_chain {
	uint32_t payload;
	uint32_t next; /* index + 1 of the next record; 0: start at the word's record */
	uint32_t left; /* maximum number of steps left */
};

struct tenant_entry {
	struct tenant_segment *_Atomic segment;
	void *base; /* where all segments of the slot are mapped: tenant_unmap.h */
	uint64_t size;
	/* the channel's thread */
	bool told;	    /* the manager announced it, mapped or not */
	int error;	    /* why it could not be mapped, a negative errno; 0: it is mapped */
	uint32_t n_clients; /* clients that are not released; under count_lock */
};

struct clients {
	_Atomic uint64_t peopled[CLIENTS_WORDS]; /* a bit for each tenant that has clients */
	_Atomic uint32_t n_leaving;		 /* clients that are CLIENT_DYING or stranded */
	/* protects n_clients and peopled; innermost lock, no wait while it is held */
	pthread_mutex_t count_lock;
	struct sparse tables;
	struct ring_chain *chains; /* of each tenant, one for each ring: clients_chains() */
	uint64_t *tails; /* of each client, its tenant's rings when it died: clients_tails() */
	struct tenant_entry tenants[LIMIT_TENANTS];
	struct client_entry entries[LIMIT_CLIENTS];
};

static inline uint32_t clients_slot(const struct clients *clients,
				    const struct client_entry *client)
{
	return (uint32_t)(client - clients->entries);
}

struct client_entry *clients_of(struct pool *pool, uint32_t row);

/* Return the entry of each ring of a tenant, or of each ring of a client's tenant. */
struct ring_chain *clients_chains(struct pool *pool, uint32_t tenant);
uint64_t *clients_tails(struct pool *pool, const struct client_entry *client);

/* Begins a use of a client, which clients_put() ends; NULL if the client is not live. */
struct client_entry *clients_get(struct pool *pool, uint32_t client);
void clients_put(struct pool *pool, struct client_entry *client);

/* Returns the tenant's rings; NULL if they are not mapped. */
struct tenant_segment *clients_segment(struct pool *pool, uint32_t tenant);

/* Returns a word with one bit for each tenant that has a client, live or not yet released. */
uint64_t clients_tenants(struct pool *pool, uint32_t word);
bool clients_is_peopled(struct pool *pool, uint32_t tenant);
