/* SPDX-License-Identifier: MIT */
/*
 * daemon/intake.h - from the rings of the tenants into the ledger, the fair queues and the workers'
 * root deques
 *
 * WHAT IT IS
 *   The pool's copy of what it knows of tenants and clients, and the consumer's side of the rings.
 *   A job goes from its ring, where it stands among all jobs of its uid, into the queue of its
 *   connection (fair.c), and from there, when it is its turn, with a small batch of others into the
 *   root deque of the worker that asked.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   intake_add_*, intake_gone: the channel's thread. intake_drain, intake_preempt, intake_steal:
 *   workers. intake_pending: workers and the dispatcher. intake_recall, intake_summons: the
 *   dispatcher. The consumer role of a ring is a flag in the arena that one worker holds at a time:
 *   any worker takes it, so that no job waits behind a busy one.
 *
 * CHAINS
 *   A word of a ring may stand for a chain of jobs (shm/job.h). It is walked when the word is taken
 *   off, INTAKE_STEPS records at a time: the place where the walk goes on is kept until it is over,
 *   and only then the ring's head moves. Each record is accepted or refused on its own; a walk has
 *   no more steps than the client has records, so a ring of records costs its owner that much.
 *
 * INVARIANTS
 *   I1. A client's segment stays mapped as long as active > 0 or the client is live. Who uses it
 *       counts itself in active first and looks at the state after it (ORDER client/active).
 *   I2. For each slot consumed, the rows of its jobs are QUEUED in the ledger, or were refused.
 *   I3. A QUEUED row is in the fair queues, in a worker's root deque, or in the hands of one thread
 *       that takes it from the one to the other. That thread sees to it afterwards that somebody
 *       comes for what is left (wake.h): who looked in between has seen neither.
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

#include "daemon/fair.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/limits.h"
#include "shm/tenant.h"

struct pool;
struct worker;

#define INTAKE_STEPS 1024u /* records and words that one drain takes off the rings */

#define INTAKE_GLANCE 8u

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
	struct group *groups;
	char *heap;
	uint64_t heap_size;
	struct client_segment *segment;
	uint64_t segment_size;
	uint64_t *tails; /* of its tenant's rings, when it died */
};

/* How far the chain is walked whose word stands at a ring's head. The ring's consumer only. */
struct intake_chain {
	uint32_t payload;
	uint32_t next; /* record to go on with + 1; 0: the word's own */
	uint32_t left; /* steps, at most */
};

struct intake_tenant {
	struct tenant_segment *_Atomic segment;
	struct intake_chain *chains; /* of each ring */
	uint64_t size;
	uint32_t uid;
	uint32_t n_rings;
};

struct intake {
	struct intake_tenant tenants[LIMIT_TENANTS];
	_Atomic uint32_t n_tenants; /* slots that were ever used */
	struct intake_client clients[LIMIT_CLIENTS];
	struct fair fair;
	/* the dispatcher's: root tasks each worker had started when it looked last */
	uint64_t roots_seen[LIMIT_WORKERS];
};

/*
 * Before any other call, once arena, board and workers are there; and after all threads have ended.
 * Returns 0 or -ENOMEM, and intake_fini() is to be called in both cases.
 */
int intake_init(struct pool *pool);
void intake_fini(struct pool *pool);

/* Maps a tenant's or client's segment (fd borrowed). Returns 0 or a negative errno. */
int intake_add_tenant(struct pool *pool, uint32_t tenant, uint32_t uid, int fd);
int intake_add_client(struct pool *pool, uint32_t client, uint32_t generation, uint32_t tenant,
		      uint32_t uid, uint32_t pid, uint32_t n_jobs, int fd);

/* The client's connection is gone. It is released when its last job has ended. */
void intake_gone(struct pool *pool, uint32_t client, uint32_t generation);

/* Unmaps dying clients that nothing refers to any more. True if there are others yet. */
bool intake_release(struct pool *pool);

/* True if any ring may hold a job, or one is queued. After a full fence: see wake.h. */
bool intake_pending(struct pool *pool);

/* The same, but of the tenants only INTAKE_GLANCE, others each time: for a search that will look
 * again. turn: the caller's, 0 at first. */
bool intake_glance(struct pool *pool, uint32_t *turn);

/* Takes jobs off the rings, and a batch of those that go first onto the worker's root deque, which
 * is empty. Returns how many. If there are more, the caller has I3 to see to. */
uint32_t intake_drain(struct worker *worker);

/* Owner, at a fork: if a queued job has a better claim than the one that the worker runs, puts it
 * onto the root deque, with what else fits in the batch. False: go on with what runs. */
bool intake_preempt(struct worker *worker);

/* Owner, when all that intake_preempt() gave has been started: another batch, if the job that was
 * set aside is still not the one that goes first. */
bool intake_again(struct worker *worker);

/* Takes half of a victim's root deque, by one CAS: the oldest to *ret_row, the others onto the
 * worker's own, which is empty. */
bool intake_steal(struct worker *worker, struct worker *victim, uint32_t *ret_row);

/* Takes jobs back from root deques whose worker has started none of them since the last call. */
void intake_recall(struct pool *pool);

/* The dispatcher, while jobs wait: brings virtual time up to date. */
void intake_settle(struct pool *pool);

/* Whom to summon, next or later in turn: one that runs a job which a queued one goes before; or
 * next itself, if a ring has to be looked at. n_workers: nobody. */
uint32_t intake_summons(struct pool *pool, uint32_t next);

/* The worker goes on to another job, or to none: charges the one it leaves. last: it has ended.
 * now: the clock. */
void intake_account(struct worker *worker, uint32_t row, bool last, uint64_t now);

/* Ends one use of a client. */
void intake_put(struct pool *pool, struct intake_client *client);

#endif
