/* SPDX-License-Identifier: MIT */
/*
 * ring_drain.h - moves jobs from the rings of the tenants into the ledger
 *
 * The consumer's side of the rings: a thread takes words off them and makes a list of rows that are
 * QUEUED in the ledger and go into the fair queues (job_batches.c).
 *
 * Threads: workers and the dispatcher. The consumer role of a ring is a flag in the arena that one
 * thread holds at a time: any worker takes it, so no job waits behind a busy worker, and the
 * dispatcher does if no worker comes for a tick. drain_admit(): also the channel's thread, for jobs
 * of the last pool (queue_recovery.c).
 *
 * CHAINS
 *   A word of a ring may refer to a chain of jobs (shm/job.h). It is walked when the word is taken
 *   off, DRAIN_STEPS records at a time. The position of the walk is stored until it ends, and only
 *   then the ring's head moves. Each record is accepted or refused alone. A walk has at most as
 *   many steps as the client has records, which limits the cost of a cyclic chain. Steps that yield
 *   no job are charged to the tenant. A tenant takes at most DRAIN_SHARE steps of a drain before
 *   the others had their turn, or if none of its steps was a job.
 *
 * INVARIANTS
 *     I1. For each slot consumed, the rows of its jobs are QUEUED in the ledger, or were refused.
 *     I2. A thread that leaves words in a ring sets the ring's bit again, when others may have read
 *         it already, and sets more: its caller ensures that a thread comes.
 *
 *   If a client dies: its words are malformed from then on (clients.h). If the pool dies: the
 *   ring's head has not passed any job that is not in the ledger (ledger.h, I1); for unfinished
 *   walks see queue_recovery.h.
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
#define DRAIN_MEND	128u  /* steps that ring_mend() counts as */
#define DRAIN_STEP_NS	50u   /* charged to a tenant for a step that was not a job */
#define DRAIN_SCAN_SOME 8u    /* tenants that one search checks */

/* Rows on their way into the fair queues, linked by next, and the state of the thread that takes
 * them off the rings. */
struct drain {
	struct pool *pool;
	struct board_counters *counters;
	uint32_t consumer; /* worker + 1; LIMIT_WORKERS + 1: the dispatcher */
	uint32_t home;	   /* the ring to begin with, in every second drain */
	uint32_t round;	   /* determines the first tenant and ring */
	uint32_t first;
	uint32_t last;
	uint32_t n;
	uint32_t steps;	 /* so far, of DRAIN_STEPS */
	uint32_t share;	 /* of these, of the current tenant, of DRAIN_SHARE */
	uint32_t client; /* of the first row */
	bool mixed;	 /* rows of several clients */
	bool placed;	 /* a row has a place */
	bool earlier;	 /* a row has the earliest deadline of all */
	bool more;	 /* the rings may have more */
};

/* Returns a worker's next drain, still empty; owner. */
struct drain drain_of(struct worker *worker);

/* Takes words from the rings. Each call starts with another tenant and ring, and no tenant takes
 * more than its share before the others had theirs: so none starves. Further rounds take the rest
 * while they yield jobs: otherwise a job after a long chain of its own tenant would wait for one
 * drain per share. There are at most DRAIN_STEPS / DRAIN_SHARE rounds: in each but the last a
 * tenant used its whole share. */
void drain_rings(struct drain *drain);

/* Adds a row that is QUEUED to the list. The dispatcher watches jobs with a deadline, and jobs to
 * be ended at once; it finds them when they are in the queues (deadline.h, I3). */
void drain_admit(struct drain *drain, struct job *job, uint32_t row, uint32_t generation);

/* True if any ring may hold a job. After a full fence: see wake.h. Reads a cache line for each
 * tenant that has clients. */
bool drain_rings_pending(struct pool *pool);

/* The same for DRAIN_SCAN_SOME tenants, different ones each time: for a worker that searches
 * repeatedly. Owner. */
bool drain_scan_some(struct worker *worker);

/* True if no ring holds a word, and no thread is taking one. */
bool drain_is_empty(struct pool *pool);
