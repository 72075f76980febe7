/* SPDX-License-Identifier: MIT */
/*
 * fair_queue.h - which job runs next, by weighted virtual time of the CPU time used by uids,
 * connections and jobs
 *
 * Threads: workers and the dispatcher, through job_batches.c; the channel's thread adds tenants and
 * clients. Functions marked "lock held" are called between fair_lock() and fair_unlock(); the
 * others take no lock. fair_queue.c decides which job runs next, preemption.c which one yields,
 * virtual_time.c computes virtual times, job_queues.c holds waiting rows.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/relaxed.h"
#include "common/sparse.h"
#include "daemon/core/steal_policy.h"
#include "daemon/core/cpu_account.h"
#include "daemon/core/vheap.h"
#include "shm/board.h"
#include "shm/limits.h"

#define FAIR_WEIGHT	100u   /* default, also for 0 */
#define FAIR_WEIGHT_MAX 10000u /* a weight is from 1 to this */
#define FAIR_CLASSES	14u    /* of weights: one for each power of two */

#define FAIR_BATCH	(100 * NSEC_PER_USEC) /* of jobs, for a worker at a time */
#define FAIR_BATCH_JOBS 64u
#define FAIR_GUESS	(25 * NSEC_PER_USEC)  /* a job's time, if unknown */
#define FAIR_QUANTUM	(100 * NSEC_PER_USEC) /* lag that the first client may have */
#define FAIR_TURN	POLICY_TURN	      /* time slice of a job that has begun */
#define FAIR_TURN_LONG	(20 * NSEC_PER_MSEC)  /* maximum, if running and waiting job are long */
#define FAIR_SHORT	(8 * NSEC_PER_MSEC)   /* jobs below this are short */
#define FAIR_NEVER	UINT64_MAX
#define FAIR_CREDIT	(10 * NSEC_PER_SEC) /* of all workers: maximum lag */

/* Virtual time per ns of CPU, before the division by the weight. */
#define FAIR_ONE UINT64_C(10000)
/* Advantage of short jobs over long ones in virtual time, 5 ms at the default weight:
 * virtual_time.c, I6. */
#define FAIR_WARP (5 * NSEC_PER_MSEC * FAIR_ONE / FAIR_WEIGHT)

/* Where a job may be started: anywhere; nowhere, so that it fails on any worker; on this worker; on
 * any worker of this group. */
#define FAIR_ANYWHERE	   0u
#define FAIR_NOWHERE	   1u
#define FAIR_WORKER(index) (2u + (index))
#define FAIR_GROUP(index)  (2u + LIMIT_WORKERS + (index))
#define FAIR_PLACES	   (2u + 2 * LIMIT_WORKERS)

/* Number of workers that run something, and the fair_count() call that counted them. */
struct fair_runs {
	uint32_t n;
	uint32_t counted;
};

/* A queued or running job. */
struct fair_row {
	uint32_t next;		 /* next row of the queue + 1 */
	uint32_t prev;		 /* the previous one + 1 */
	_Atomic uint16_t weight; /* 1 to FAIR_WEIGHT_MAX */
	uint16_t place;		 /* FAIR_* */
	uint32_t in;		 /* 1: in a queue */
	_Atomic uint64_t used;	 /* ns charged while it runs; any worker adds */
	_Atomic uint64_t start;	 /* virtual time of its connection's jobs at its arrival */
	struct fair_runs runs;
};

/* Rows, linked by next and prev: first and last, + 1. */
struct fair_queue {
	uint32_t first;
	uint32_t last;
};

/* Virtual time of all tenants, or of the clients of one tenant. */
struct fair_level {
	uint64_t floor;	 /* start of a member that becomes active; never decreases */
	uint64_t top;	 /* largest v of a member that was active */
	uint64_t lifted; /* floor to which inactive members were last raised */
	uint64_t lowest; /* of the active ones; set by vtime_settle() */
	uint64_t highest;
	uint32_t lightest; /* smallest weight of the active ones; likewise */
	uint32_t n_active;
	bool found;
};

struct fair_tenant {
	struct vheap_node node;
	struct fair_level level; /* of its clients */
	struct vheap heap;	 /* of its clients */
	/* advances like the weighted mean of its active clients' v: start of new clients */
	uint64_t clock;
	uint64_t weights; /* of its active clients */
	/* ns spent on words of its rings that were not jobs; any thread adds */
	_Atomic uint64_t wasted;
	struct fair_runs runs;
};

struct fair_client {
	struct vheap_node node;
	struct fair_tenant *tenant;
	struct board_client *board;		/* workers charge its jobs and cpu_ns */
	struct fair_queue queues[FAIR_CLASSES]; /* by class of weight */
	uint32_t classes;			/* bits of non-empty queues */
	uint32_t queued;			/* in them */
	uint32_t placed; /* queued for a worker or a group, in fair->placed */
	uint32_t active; /* index in fair->active + 1, 0: inactive */
	/* picked + direct - ended: jobs given to workers and not ended */
	uint32_t picked;
	uint32_t ended;
	_Atomic uint32_t direct; /* given directly, not from a queue; any worker adds */
	_Atomic uint32_t batch;	 /* number of its jobs that fit into FAIR_BATCH */
	uint64_t jobs;		 /* last seen board->jobs */
	uint64_t cpu_ns;	 /* last seen board->cpu_ns */
	uint64_t ahead;		 /* ns charged to v in advance for jobs not ended */
	uint64_t weights;	 /* sum over the queued jobs */
	uint64_t weights_given;	 /* about that of jobs given to workers and not ended */
	uint64_t mean;		 /* ns of a job; 0: none has ended */
	uint64_t estimate;	 /* ns of its next job: mean or guess; at most FAIR_BATCH */
	uint64_t step;		 /* increments of the client's and the tenant's v for it */
	uint64_t tenant_step;
	uint64_t sample_ns; /* since the last change of mean */
	uint64_t sample_jobs;
	uint64_t cut;	      /* jobs that will end without having been started */
	_Atomic uint64_t now; /* virtual time of its jobs; changed with the lock held */
	struct fair_runs runs;
	_Atomic uint64_t slept; /* ns that its tasks slept on workers; any worker adds */
};

/* A worker thread's CPU clock, as settling threads read it: cpu_account.h. */
struct fair_clock {
	uint64_t off;	  /* ns without CPU up to read_at */
	uint64_t read_at; /* CLOCK_MONOTONIC, ns */
};

struct fair {
	pthread_mutex_t lock;
	_Atomic uint32_t queued; /* rows that any worker may start; changed with the lock held */
	_Atomic uint32_t waits[FAIR_PLACES]; /* rows for one place only; the same */
	_Atomic uint32_t n_placed;	     /* of all places */
	_Atomic uint32_t direct;	     /* the only active client + 1, or 0 */
	_Atomic bool held;		     /* waiting rows are held; changed with the lock held */
	_Atomic uint32_t behind; /* a running client has less virtual time than all queued ones */
	uint32_t clients_max;
	uint32_t jobs_max;
	uint32_t max_tenants;
	uint32_t n_accounts;
	struct sparse tables;	   /* has all that follow */
	struct account **accounts; /* of each worker */
	struct fair_clock *clocks; /* the same */
	/* Reads the CPU clock of a worker's thread, ns; NULL: all clocks are CLOCK_MONOTONIC. */
	uint64_t (*cpu)(void *context, uint32_t worker);
	void *cpu_context;
	uint32_t *groups;	   /* the same */
	bool *parked;		   /* the same: starts only rows for its places */
	struct fair_queue *placed; /* queues by place and client */
	struct fair_level level;   /* of the tenants */
	struct vheap heap;	   /* of the tenants */
	struct fair_tenant *tenants;
	struct vheap_node **nodes; /* of the tenants' heaps */
	struct fair_client *clients;
	struct fair_row *rows; /* indexed as in the ledger */
	struct board_client *board;
	uint32_t *active; /* clients with jobs queued or given to workers */
	uint32_t n_active;
	uint64_t picks;
	uint64_t settled_at;
	uint32_t counted;		 /* calls of fair_count() */
	_Atomic uint64_t *settled_shown; /* the same on the board, or NULL */
	uint64_t credit;		 /* FAIR_CREDIT of all workers */
};

/* clients: on the board. n_accounts: number of workers. Returns 0 or -ENOMEM. */
int fair_init(struct fair *fair, struct board_client *clients, uint32_t clients_max,
	      uint32_t jobs_max, uint32_t max_tenants, uint32_t n_accounts);
void fair_fini(struct fair *fair);

/* Sets a worker's account and group, before it runs anything. */
void fair_add_account(struct fair *fair, uint32_t worker, uint32_t group, struct account *account);

/* parked: from now on the worker gets only rows for its places; otherwise all rows again. Takes the
 * lock. */
void fair_park(struct fair *fair, uint32_t worker, bool parked);

/* Adds a tenant, or changes its weight, which is clamped. */
void fair_add_tenant(struct fair *fair, uint32_t tenant, uint32_t weight);
/* The tenant has no connections any more: clears the slot for the next one. */
void fair_remove_tenant(struct fair *fair, uint32_t tenant);
/* Adds a connection in this slot, which has no rows. */
void fair_add_client(struct fair *fair, uint32_t client, uint32_t tenant, uint32_t weight);
/* All jobs of the client have ended: charges its tenant for the last of them. */
void fair_remove_client(struct fair *fair, uint32_t client);

static inline void fair_lock(struct fair *fair)
{
	pthread_mutex_lock(&fair->lock);
}

static inline void fair_unlock(struct fair *fair)
{
	pthread_mutex_unlock(&fair->lock);
}

/* Lock held: holds back waiting rows: none is given to a worker or reported as waiting; or releases
 * them. Rows can still be queued, returned and cut. */
void fair_hold(struct fair *fair, bool held);

/* A hint without the lock. */
static inline bool fair_is_held(struct fair *fair)
{
	return load_relaxed(&fair->held);
}

/* Number of waiting rows that any worker may start; 0 while they are held. A hint without the
 * lock. */
static inline uint32_t fair_queued(struct fair *fair)
{
	return fair_is_held(fair) ? 0 : load_relaxed(&fair->queued);
}

/* The place of a job that was admitted and has not ended. */
static inline uint32_t fair_place(const struct fair *fair, uint32_t row)
{
	return fair->rows[row].place;
}

/* Number of waiting rows for places; 0 while they are held. A hint without the lock. */
static inline uint32_t fair_placed(struct fair *fair)
{
	return fair_is_held(fair) ? 0 : load_relaxed(&fair->n_placed);
}

/* The same for this place. */
static inline uint32_t fair_waits(struct fair *fair, uint32_t place)
{
	return fair_is_held(fair) ? 0 : load_relaxed(&fair->waits[place]);
}

/* True if a running client without queued jobs has less virtual time than all queued ones: then
 * stealable work runs before queued jobs. A hint. */
static inline bool fair_behind(struct fair *fair)
{
	return load_relaxed(&fair->behind);
}

/* Prepares a row that came off a ring; the thread that made it QUEUED calls this first. weight: the
 * record's. place: FAIR_*. */
void fair_prepare(struct fair *fair, uint32_t row, uint32_t weight, uint32_t place);

/* True if these n new jobs of a client, which may be started anywhere, may bypass the queues: the
 * client is alone, nothing is queued, and they are at most a batch. Then they count as given. */
bool fair_direct(struct fair *fair, uint32_t client, uint32_t n);

/* Charges a tenant with ns spent on words in its rings that were not jobs. Takes no lock. */
void fair_waste(struct fair *fair, uint32_t tenant, uint64_t ns);

/* Lock held: queues n rows that are linked by next, row the first. */
void fair_push(struct fair *fair, uint32_t row, uint32_t n, uint64_t now);

/* Lock held: takes the rows to run next on this worker: at most max, and about FAIR_BATCH ns, but
 * at least one if there is one. Returns their number. A row with a place is taken alone. */
uint32_t fair_pick(struct fair *fair, uint32_t worker, uint32_t *ret_rows, uint32_t max,
		   uint64_t now);

/* Lock held: removes a row from its queue, to end it. False: it is in none. */
bool fair_cut(struct fair *fair, uint32_t row);

/* Lock held: the same for rows of a client, at most max. Returns their number. */
uint32_t fair_cut_client(struct fair *fair, uint32_t client, uint32_t *ret_rows, uint32_t max);

/* Lock held: puts rows that were given to a worker and not started back to the front. */
void fair_return(struct fair *fair, const uint32_t *rows, uint32_t n, uint64_t now);

/* Lock held: charges running jobs, and updates all virtual times. */
void fair_settle(struct fair *fair, uint64_t now);
/* The same, unless it was done recently, so that it takes a small part of the time. */
void fair_settle_sometimes(struct fair *fair, uint64_t now);

/* Lock held: returns the row to run next on this worker; ACCOUNT_NOBODY if there is none, or all
 * are held. */
uint32_t fair_first(struct fair *fair, uint32_t worker);

/* Lock held, after fair_settle(): true if a queued job must run before this running one, which has
 * run for ran_ns on this worker. row: of the ledger, or ACCOUNT_NOBODY. */
bool fair_claims(struct fair *fair, uint32_t worker, uint32_t row, uint64_t ran_ns);

/* Lock held, after fair_settle(): returns the running job's row. If that job is ahead by more than
 * a time slice, returns the row of the suspended job that is furthest behind, of n. */
uint32_t fair_turn(struct fair *fair, uint32_t row, const uint32_t *rows, uint32_t n);

/* Lock held: true if a job waits for this worker, and the one to run next is long, as far as
 * known. */
bool fair_first_is_long(struct fair *fair, uint32_t worker);

/* Lock held: counts the workers that run each job, client and tenant. */
void fair_count(struct fair *fair);

/* Lock held, after fair_settle() and fair_count(): earliest time, ns from now, when fair_claims()
 * becomes true for the worker's running job, or fair_turn() returns a suspended one, if workers
 * keep their jobs. FAIR_NEVER: no job waits. */
uint64_t fair_claims_in(struct fair *fair, uint32_t worker, uint32_t row);
uint64_t fair_turn_in(struct fair *fair, uint32_t row, const uint32_t *rows, uint32_t n);

/* Charges a job with CPU time. last: the job has ended with this. */
void fair_charge(struct fair *fair, uint32_t row, uint64_t ns, bool last);

/* Returns the charge of a job so far, ns: as of the last settlement, if workers run it. */
static inline uint64_t fair_used(const struct fair *fair, uint32_t row)
{
	return load_relaxed(&fair->rows[row].used);
}

/* Charges a job's client with time in which its task slept: not CPU time, but the worker was not
 * available to others. Takes no lock. */
void fair_charge_sleep(struct fair *fair, uint32_t row, uint64_t ns);
