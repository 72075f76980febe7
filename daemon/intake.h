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
 *   workers. intake_pending: workers and the dispatcher. intake_collect, intake_recall,
 *   intake_summons: the dispatcher. The consumer role of a ring is a flag in the arena that one
 *   thread holds at a time: any worker takes it, so that no job waits behind a busy one, and the
 *   dispatcher where none comes for a tick.
 *
 * PLACES
 *   A job with a strict place (shm/job.h) goes through the same queues and the same choice
 *   (fair.c); but it is handed to a worker that may start it and to no root deque, where others
 *   would take it.
 *
 * CHAINS
 *   A word of a ring may stand for a chain of jobs (shm/job.h). It is walked when the word is taken
 *   off, INTAKE_STEPS records at a time: the place where the walk goes on is kept until it is over,
 *   and only then the ring's head moves. Each record is accepted or refused on its own; a walk has
 *   no more steps than the client has records, so a ring of records costs its owner that much:
 *   what a drain does for a tenant without getting a job is charged to the tenant, and none takes
 *   more than INTAKE_SHARE steps of a drain.
 *
 * INVARIANTS
 *   I1. A client's segment stays mapped as long as active > 0 or the client is live. Who uses it
 *       counts itself in active first and looks at the state after it (ORDER client/active).
 *   I2. For each slot consumed, the rows of its jobs are QUEUED in the ledger, or were refused.
 *   I3. A QUEUED row is in the fair queues, in a worker's root deque, or in the hands of one thread
 *       that takes it from the one to the other. That thread sees to it afterwards that somebody
 *       comes for what is left (wake.h): who looked in between has seen neither.
 *   I4. No job of a chain can end before the word of its ring stands for the rest of the chain, or
 *       is off the ring: once it has ended its record may be another job's, with another next, and
 *       be half filled. Within a pool that is so because what a drain takes is queued after it. Of
 *       what the last pool had QUEUED nothing is queued in this one before the words at the heads
 *       of its tenant's rings were put on by what is QUEUED of their chains: intake_settle_ring().
 *       Only those: a pool that dies is at work on the head's word, those behind it are whole.
 *   I5. active of a client counts every row that was accepted and has no outcome. So a pool that
 *       drains is done when no ring has words, nobody is at one, and all active are 0: a row that
 *       is in hand, in an inbox or in a frame that is set aside counts until its job has ended.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client: see I1; its slot is used again only after every ring of its tenant has passed the
 *   place where its tail stood. The pool: ledger.h.
 */
#ifndef DAEMON_INTAKE_H
#define DAEMON_INTAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/fair.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/limits.h"
#include "shm/tenant.h"

struct pool;
struct worker;

#define INTAKE_STEPS   1024u /* records and words that one drain takes off the rings */
#define INTAKE_SHARE   256u  /* of these, of one tenant */
#define INTAKE_MEND    128u  /* steps that stand for ring_mend() */
#define INTAKE_STEP_NS 50u   /* that a tenant is charged with for a step that was no job */
#define INTAKE_CUT     64u   /* jobs of a dead client that are ended at a time */
#define INTAKE_GLANCE  8u    /* tenants that a search looks at, each time */
#define INTAKE_WORDS   (LIMIT_TENANTS / 64)

#define CLIENT_NONE  0u
#define CLIENT_LIVE  1u
#define CLIENT_DYING 2u

struct intake_client {
	_Alignas(64) _Atomic uint32_t state; /* CLIENT_* */
	_Atomic uint32_t active;	     /* rows that are not FREE, and lookers */
	uint32_t generation;
	uint32_t tenant;
	uint32_t n_jobs;
	struct job *jobs;
	struct group *groups;
	char *heap;
	uint64_t heap_size;
	struct client_segment *segment;
	uint64_t segment_size;
	uint64_t *tails; /* of its tenant's rings, when it died */
	/* the channel's thread: rows that the last pool had QUEUED, until the tenant is there */
	uint32_t requeued; /* the first, linked by the fair queues' next */
	uint32_t n_requeued;
	uint32_t to_settle; /* of these, that intake_settle_ring() may still come by */
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
	bool told; /* the channel's thread: intake_add_tenant() was called, and may have failed */
	uint32_t n_clients; /* that are not released; under the lock of fair */
};

struct intake {
	struct intake_tenant tenants[LIMIT_TENANTS];
	_Atomic uint64_t peopled[INTAKE_WORDS]; /* a bit for each tenant that has clients */
	_Atomic uint32_t n_dying;		/* clients that are CLIENT_DYING */
	struct intake_client clients[LIMIT_CLIENTS];
	struct fair fair;
	/* the dispatcher's: root tasks each worker had started when it looked last */
	uint64_t roots_seen[LIMIT_WORKERS];
	uint32_t turn; /* the tenant and ring that it looks at first */
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
		      uint32_t uid, uint32_t n_jobs, int fd);

/* The client's connection is gone. It is released when its last job has ended. */
void intake_gone(struct pool *pool, uint32_t client, uint32_t generation);

/* Unmaps dying clients that nothing refers to any more. True if there are others yet. */
bool intake_release(struct pool *pool);

/* True if any ring may hold a job, or one is queued that anybody may start. After a full fence: see
 * wake.h. Reads a line for each tenant that has clients. */
bool intake_pending(struct pool *pool);
bool intake_rings_pending(struct pool *pool);

/* True if a job is queued that only this worker may start, or only its group. Owner. */
bool intake_mine(struct worker *worker);

/* Both, but of the tenants only INTAKE_GLANCE, others each time: for one who will look again. */
bool intake_glance(struct worker *worker);

/* True if nobody has any work left for a pool that drains (I5). */
bool intake_is_empty(struct pool *pool);

/* Wakes who sleeps and has a job queued for its place. After they were queued. */
void intake_wake_places(struct pool *pool, struct worker *waker);

/* The dispatcher: takes jobs off the rings, for workers that do not come to it. */
void intake_collect(struct pool *pool);

/* Owner, with no job of its own and an empty root deque: takes jobs off the rings, and a batch of
 * those that go first, the first to *ret_row, the others onto the deque. False: there is none. Sees
 * to I3 for what is left, but for a worker that looks: it does so when it turns busy. */
bool intake_drain(struct worker *worker, uint32_t *ret_row);

/* Owner, at a fork: if a queued job has a better claim than the one that the worker runs, puts it
 * onto the root deque, with what else fits in the batch. False: go on with what runs. */
bool intake_preempt(struct worker *worker);

/* Owner, when all that intake_preempt() gave has been started: another batch, as intake_drain()
 * gives it, if the job that was set aside is still not the one that goes first. */
bool intake_again(struct worker *worker, uint32_t *ret_row);

/* Owner, at a fork: the job that is furthest behind, of the one that the worker runs and of n that
 * it has set aside. */
uint32_t intake_turn(struct worker *worker, const uint32_t *rows, uint32_t n);

/* Takes half of a victim's root deque, by one CAS: the oldest to *ret_row, the others onto the
 * worker's own, which is empty. */
bool intake_steal(struct worker *worker, struct worker *victim, uint32_t *ret_row);

/* Takes jobs back from root deques whose worker has started none of them since the last call. */
void intake_recall(struct pool *pool);

/* The dispatcher: brings virtual time up to date, if that was not done just now. */
void intake_settle(struct pool *pool);

/* Whom to summon, next or later in turn: those that run a job which a queued one goes before; or
 * whoever is next, if a ring has to be looked at. Returns how many, max at most. */
uint32_t intake_summons(struct pool *pool, uint32_t next, uint32_t *ret_workers, uint32_t max);

/* The worker goes on to another job, or to none: charges the one it leaves. last: it has ended.
 * now: the clock. */
void intake_account(struct worker *worker, uint32_t row, bool last, uint64_t now);

/* Ends one use of a client. */
void intake_put(struct pool *pool, struct intake_client *client);

#endif
