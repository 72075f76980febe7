/* SPDX-License-Identifier: MIT */
/*
 * ring_drain.h - from the rings of the tenants into the ledger
 *
 * The consumer's side of the rings: what one thread takes off them at a time, as a list of rows
 * that are QUEUED in the ledger and on their way into the fair queues (job_batches.c).
 *
 * Threads: workers and the dispatcher. The consumer role of a ring is a flag in the arena that one
 * thread holds at a time: any worker takes it, so that no job waits behind a busy one, and the
 * dispatcher where none comes for a tick. drain_admit(): the channel's thread, too, for what the
 * last pool left (queue_recovery.c).
 *
 * CHAINS
 *   A word of a ring may stand for a chain of jobs (shm/job.h). It is walked when the word is taken
 *   off, DRAIN_STEPS records at a time: the place where the walk goes on is kept until it is over,
 *   and only then the ring's head moves. Each record is accepted or refused on its own; a walk has
 *   no more steps than the client has records, so a ring of records costs its owner that much:
 *   what a drain does for a tenant without getting a job is charged to the tenant, and none takes
 *   more than DRAIN_SHARE steps of a drain before the others had as many, or where none was a job.
 *
 * INVARIANTS
 *   I1. For each slot consumed, the rows of its jobs are QUEUED in the ledger, or were refused.
 *   I2. A thread that leaves something in a ring sets the ring's bit again, after others may have
 *       looked, and sets more: its caller sees to it that a thread comes.
 *
 * If a peer dies: a client: its words are garbage from then on (clients.h). The pool: the ring's
 * head has not moved past what is not in the ledger (ledger.h, I1); what was half walked:
 * queue_recovery.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/board.h"
#include "shm/job.h"

struct pool;
struct worker;

#define DRAIN_STEPS	1024u /* records and words that one drain takes off the rings */
#define DRAIN_SHARE	256u  /* of these, of one tenant, before the others' turn */
#define DRAIN_MEND	128u  /* steps that stand for ring_mend() */
#define DRAIN_STEP_NS	50u   /* that a tenant is charged with for a step that was no job */
#define DRAIN_SCAN_SOME 8u    /* tenants that a search looks at, each time */

/* Rows on their way into the fair queues, linked by next, and the thread that takes them off the
 * rings. */
struct drain {
	struct pool *pool;
	struct board_counters *counters;
	uint32_t consumer; /* worker + 1; LIMIT_WORKERS + 1: the dispatcher */
	uint32_t home;	   /* the ring to begin with, every other time */
	uint32_t round;	   /* which tenant and ring come first */
	uint32_t first;
	uint32_t last;
	uint32_t n;
	uint32_t steps;	 /* taken so far, of DRAIN_STEPS */
	uint32_t share;	 /* of these, of one tenant, of DRAIN_SHARE */
	uint32_t client; /* of the first */
	bool mixed;	 /* others are of other clients */
	bool placed;	 /* one may not be started anywhere */
	bool earlier;	 /* one has the earliest deadline of all */
	bool more;	 /* there may be more in the rings */
};

/* A worker's next drain, with nothing taken yet; owner. */
struct drain drain_of(struct worker *worker);

/* Takes what is in the rings. Each time another tenant and another ring come first, and none takes
 * more than its share before the others had theirs: none starves behind a full one. What is left
 * goes in further rounds, as long as they bring jobs: else a job would wait behind a long chain of
 * its own tenant for as many drains as that has shares. There are DRAIN_STEPS / DRAIN_SHARE rounds
 * at most: in each but the last a tenant had a whole share. */
void drain_rings(struct drain *drain);

/* A row is QUEUED: it goes into the list. What is to end at a certain time, or at once, the
 * dispatcher looks after; it comes to it when it is in the queues (deadline.h, I3). */
void drain_admit(struct drain *drain, struct job *job, uint32_t row, uint32_t generation);

/* True if any ring may hold a job. After a full fence: see wake.h. Reads a line for each tenant
 * that has clients. */
bool drain_rings_pending(struct pool *pool);

/* The same of DRAIN_SCAN_SOME tenants, others each time: for one that looks again. Owner. */
bool drain_scan_some(struct worker *worker);

/* True if nothing is in any ring, or on its way out of one. */
bool drain_is_empty(struct pool *pool);
