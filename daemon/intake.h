/* SPDX-License-Identifier: MIT */
/*
 * daemon/intake.h - from the rings of the tenants into the ledger and the workers' root deques
 *
 * WHAT IT IS
 *   The pool's copy of what it knows of tenants and clients, and the consumer's side of the rings.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   intake_add_*, intake_gone: the channel's thread. intake_drain, intake_pending: workers and the
 *   dispatcher. The consumer role of a ring is a flag in the arena that one worker holds at a time:
 *   any worker takes it, so that no job waits behind a busy one.
 *
 * INVARIANTS
 *   I1. A client's segment stays mapped as long as active > 0 or the client is live. Who uses it
 *       counts itself in active first and looks at the state after it (ORDER client/active).
 *   I2. For each slot consumed, the job's row is QUEUED in the ledger, or the job was refused.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client: see I1; its slot is used again only after every ring of its tenant has passed the
 *   place where its tail stood. The pool: ledger.h.
 */
#ifndef DAEMON_INTAKE_H
#define DAEMON_INTAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/limits.h"
#include "shm/tenant.h"

struct pool;
struct worker;

#define CLIENT_NONE  0u
#define CLIENT_LIVE  1u
#define CLIENT_DYING 2u

struct intake_client {
	_Alignas(64) _Atomic uint32_t state; /* CLIENT_* */
	_Atomic uint32_t active;	     /* rows that are not FREE, and lookers */
	uint32_t generation;
	uint32_t tenant;
	uint32_t uid;
	uint32_t pid;
	uint32_t n_jobs;
	struct job *jobs;
	char *heap;
	uint64_t heap_size;
	struct client_segment *segment;
	uint64_t segment_size;
	uint64_t *tails; /* of its tenant's rings, when it died */
};

struct intake_tenant {
	struct tenant_segment *_Atomic segment;
	uint64_t size;
	uint32_t uid;
	uint32_t n_rings;
};

struct intake {
	struct intake_tenant tenants[LIMIT_TENANTS];
	_Atomic uint32_t n_tenants; /* slots that were ever used */
	struct intake_client clients[LIMIT_CLIENTS];
	/* rows that a former pool had queued */
	pthread_mutex_t lock;
	uint32_t *requeued;
	uint32_t n_requeued;
	uint32_t max_requeued;
	_Atomic uint32_t has_requeued;
};

/* Before any other call, and after all threads have ended. */
void intake_init(struct pool *pool);
void intake_fini(struct pool *pool);

/* Maps a tenant's or client's segment (fd borrowed). Returns 0 or a negative errno. */
int intake_add_tenant(struct pool *pool, uint32_t tenant, uint32_t uid, int fd);
int intake_add_client(struct pool *pool, uint32_t client, uint32_t generation, uint32_t tenant,
		      uint32_t uid, uint32_t pid, uint32_t n_jobs, int fd);

/* The client's connection is gone. It is released when its last job has ended. */
void intake_gone(struct pool *pool, uint32_t client, uint32_t generation);

/* Unmaps dying clients that nothing refers to any more. True if there are others yet. */
bool intake_release(struct pool *pool);

/* True if any ring may hold a job, or a row was requeued. After a full fence: see wake.h. */
bool intake_pending(struct pool *pool);

/* Moves jobs from the rings into the worker's root deque. Returns how many. */
uint32_t intake_drain(struct worker *worker);

/* Ends one use of a client. */
void intake_put(struct pool *pool, struct intake_client *client);

#endif
