/* SPDX-License-Identifier: MIT */
/*
 * clients.h - the tenants and clients that the pool knows of
 *
 * Threads: clients_map_*, clients_unmap_client(), clients_show_*, clients_orphan(),
 * clients_gone(): the channel's thread. clients_release(), clients_tell_orphans(): the dispatcher.
 * clients_get(), clients_put(), clients_segment(), clients_tenants(): any thread of the pool.
 *
 * INVARIANTS
 *   I1. A client's segment stays mapped as long as active > 0 or the client is live. A thread that
 *       uses it counts itself in active first and looks at the state after it (ORDER
 *       client/active).
 *   I2. active of a client counts every row that was accepted and has no outcome, from the end of
 *       its walk on; until then the walk's own use and the ring's consumer stand for it. So a pool
 *       that drains is done when no ring has words, no thread is at one, and all active are 0: a
 *       row that is in hand, in an inbox or in a frame that is set aside counts until its job has
 *       ended.
 *   I3. Where a tenant's segment was something stays mapped (tenant_unmap.h). What is here of it is
 *       complete before the segment is.
 *   I4. A tenant whose segment could not be mapped is served as far as that goes: what the last
 *       pool had QUEUED of its clients runs, then the manager is told, and ends the connection: a
 *       client that wrote into rings that are not read would wait for ever. It is tried again when
 *       its last client is gone, for the words there have no owner then.
 *
 * If a peer dies: a client: see I1; its slot is used again only after every ring of its tenant has
 * passed the place where its tail stood. The pool: ledger.h.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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
	_Atomic uint32_t active;	     /* rows that are not FREE, and lookers */
	/* the channel's thread and the dispatcher: why there are no rings for it, a negative errno;
	 * 0: there are, or the manager knows */
	_Atomic int stranded;
	uint32_t generation;
	uint32_t tenant;
	uint32_t n_jobs;
	struct job *jobs;
	struct group *groups;
	char *heap;
	uint64_t heap_size;
	struct client_segment *segment;
	uint64_t segment_size;
	uint64_t *tails; /* of its tenant's rings, when it died; all->tails has them */
	/* the channel's thread writes: the tasks that it may not call, permission_deny() */
	_Atomic uint64_t denied[PERMISSION_WORDS];
	/* the channel's thread: rows that the last pool had QUEUED, until the tenant is there */
	uint32_t requeued; /* the first, linked by the fair queues' next */
	uint32_t n_requeued;
	uint32_t to_settle; /* of these, that requeue_place_ring() may still come by */
};

/* How far the chain is walked whose word stands at a ring's head (ring_drain.c). The ring's
 * consumer only. */
struct ring_chain {
	uint32_t payload;
	uint32_t next; /* record to go on with + 1; 0: the word's own */
	uint32_t left; /* steps, at most */
};

struct tenant_entry {
	struct tenant_segment *_Atomic segment;
	struct ring_chain *chains; /* of each ring; all->chains has them */
	void *base;		   /* where all segments of the slot are: tenant_unmap.h */
	uint64_t size;
	/* the channel's thread */
	bool told;	    /* it was added, or was to be and could not be mapped */
	int error;	    /* why it could not, a negative errno; 0: it could */
	uint32_t n_clients; /* that are not released; under count_lock */
};

struct clients {
	struct tenant_entry tenants[LIMIT_TENANTS];
	_Atomic uint64_t peopled[CLIENTS_WORDS]; /* a bit for each tenant that has clients */
	_Atomic uint32_t n_leaving;		 /* clients that are CLIENT_DYING, or stranded */
	/* of n_clients and peopled; nothing else is locked or waited for with it held */
	pthread_mutex_t count_lock;
	struct client_entry entries[LIMIT_CLIENTS];
	struct ring_chain *chains;
	uint64_t *tails;
};

/* The number of a client. */
static inline uint32_t clients_slot(const struct clients *clients,
				    const struct client_entry *client)
{
	return (uint32_t)(client - clients->entries);
}

/* The client of a row. */
struct client_entry *clients_of(struct pool *pool, uint32_t row);

/* Begins one use of a client; NULL if it is not live. And ends it. */
struct client_entry *clients_get(struct pool *pool, uint32_t client);
void clients_put(struct pool *pool, struct client_entry *client);

/* The tenant's rings; NULL if it is not there. */
struct tenant_segment *clients_segment(struct pool *pool, uint32_t tenant);

/* The tenants that have a client now, or one that is not released yet: a word of a bit for each. */
uint64_t clients_tenants(struct pool *pool, uint32_t word);
bool clients_is_peopled(struct pool *pool, uint32_t tenant);
