/* SPDX-License-Identifier: MIT */
/*
 * fair_queue.h - which job goes first: weighted virtual time of CPU used, by uid, connection and
 * job
 *
 * Threads: workers and the dispatcher, through job_batches.c; the channel's thread adds tenants and
 * clients. What says "lock held" is called between fair_lock() and fair_unlock(); the rest takes no
 * lock. fair_queue.c says which job goes first, preemption.c which one makes way, virtual_time.c
 * how far each is, job_queues.c where rows wait.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/relaxed.h"
#include "daemon/core/steal_policy.h"
#include "daemon/core/cpu_account.h"
#include "daemon/core/vheap.h"
#include "shm/board.h"
#include "shm/limits.h"

#define FAIR_WEIGHT	100u   /* what stands for 0 */
#define FAIR_WEIGHT_MAX 10000u /* a weight is from 1 to this */
#define FAIR_CLASSES	14u    /* of weights: one for each power of two */

#define FAIR_BATCH	(100 * NSEC_PER_USEC) /* of jobs, for a worker at a time */
#define FAIR_BATCH_JOBS 64u
#define FAIR_GUESS	(25 * NSEC_PER_USEC)  /* a job's time, while there is no better one */
#define FAIR_QUANTUM	(100 * NSEC_PER_USEC) /* what the one that is first may be behind */
#define FAIR_TURN	POLICY_TURN	      /* a job that has begun has a turn of so much */
#define FAIR_TURN_LONG	(20 * NSEC_PER_MSEC)  /* or, if it and the waiting one are long */
#define FAIR_SHORT	(8 * NSEC_PER_MSEC)   /* a job of less is a short one */
#define FAIR_NEVER	UINT64_MAX
#define FAIR_CREDIT	(10 * NSEC_PER_SEC) /* of all workers, what one may be behind at most */

/* Virtual time goes by this much for each ns of CPU, divided by the weight. */
#define FAIR_ONE UINT64_C(10000)
/* Short jobs go before long ones by this part of it, 5 ms at the usual weight: virtual_time.c,
 * I6. */
#define FAIR_WARP (5 * NSEC_PER_MSEC * FAIR_ONE / FAIR_WEIGHT)

/* Where a job may be started: anywhere; where none is, so that it fails wherever it starts; on this
 * worker; or on any of this group. */
#define FAIR_ANYWHERE	   0u
#define FAIR_NOWHERE	   1u
#define FAIR_WORKER(index) (2u + (index))
#define FAIR_GROUP(index)  (2u + LIMIT_WORKERS + (index))
#define FAIR_PLACES	   (2u + 2 * LIMIT_WORKERS)

/* How many workers run something, by the fair_count() of that number. */
struct fair_runs {
	uint32_t n;
	uint32_t counted;
};

/* A queued or running job. */
struct fair_row {
	uint32_t next;		 /* the queue's next row + 1 */
	uint32_t prev;		 /* the same, before it */
	_Atomic uint16_t weight; /* 1 to FAIR_WEIGHT_MAX */
	uint16_t place;		 /* FAIR_* */
	uint32_t in;		 /* it is in a queue */
	_Atomic uint64_t used;	 /* ns charged while it runs; any worker adds */
	_Atomic uint64_t start;	 /* virtual time of its connection's jobs when it came */
	struct fair_runs runs;
};

/* Rows, linked by next and prev: the first and the last + 1. */
struct fair_queue {
	uint32_t first;
	uint32_t last;
};

/* Virtual time of tenants, or of the clients of one. */
struct fair_level {
	uint64_t floor;	 /* where one that becomes active starts; never goes back */
	uint64_t top;	 /* the largest of those that were active */
	uint64_t lifted; /* the floor when those that are not active were lifted to it */
	uint64_t lowest; /* of the active ones, as vtime_settle() finds them */
	uint64_t highest;
	uint32_t lightest; /* the smallest weight of the active ones, the same */
	uint32_t n_active;
	bool found;
};

struct fair_tenant {
	struct vheap_node node;
	struct fair_level level; /* of its clients */
	struct vheap heap;	 /* of its clients */
	/* the weighted mean of its active clients' v goes by as much: where a new one starts */
	uint64_t clock;
	uint64_t weights; /* of its active clients */
	/* ns spent on words of its rings that were no jobs; any thread adds */
	_Atomic uint64_t wasted;
	struct fair_runs runs;
};

struct fair_client {
	struct vheap_node node;
	struct fair_tenant *tenant;
	struct board_client *board;		/* jobs and cpu_ns are what workers have charged */
	struct fair_queue queues[FAIR_CLASSES]; /* by class of weight */
	uint32_t classes;			/* that are not empty */
	uint32_t queued;			/* in them */
	uint32_t placed; /* queued for a worker or a group, in fair->placed */
	uint32_t active; /* place in fair->active + 1, 0 if it is not there */
	/* picked + direct - ended jobs have been given to workers and not ended */
	uint32_t picked;
	uint32_t ended;
	_Atomic uint32_t direct; /* given past the queue; any worker adds */
	_Atomic uint32_t batch;	 /* jobs of it that fit in FAIR_BATCH */
	uint64_t jobs;		 /* of board->jobs, seen so far */
	uint64_t cpu_ns;	 /* of board->cpu_ns, seen so far */
	uint64_t ahead;		 /* ns that v was charged with in advance for jobs not ended */
	uint64_t weights;	 /* of the queued jobs, summed */
	uint64_t weights_given;	 /* of those given to workers and not ended, about */
	uint64_t mean;		 /* ns of a job; 0: none has ended */
	uint64_t estimate;	 /* ns of its next job: the mean, or a guess; at most FAIR_BATCH */
	uint64_t step;		 /* by which v goes on for it, the client's and its tenant's */
	uint64_t tenant_step;
	uint64_t sample_ns; /* since mean was changed */
	uint64_t sample_jobs;
	uint64_t cut;	      /* of the jobs that will end, those that were never started */
	_Atomic uint64_t now; /* virtual time of its jobs; changed with the lock held */
	struct fair_runs runs;
	_Atomic uint64_t slept; /* ns in which its tasks slept on workers; any worker adds */
};

/* The CPU clock of a worker's thread, as threads that settle read it: cpu_account.h. */
struct fair_clock {
	uint64_t off;	  /* ns that the thread had no CPU, up to read_at */
	uint64_t read_at; /* CLOCK_MONOTONIC, ns */
};

struct fair {
	pthread_mutex_t lock;
	_Atomic uint32_t queued; /* rows that any worker may start; changed with the lock held */
	_Atomic uint32_t waits[FAIR_PLACES]; /* those for one place only; the same */
	_Atomic uint32_t n_placed;	     /* of all places */
	_Atomic uint32_t direct;	     /* the only active client + 1, or 0 */
	_Atomic bool held;		     /* all that waits stays; changed with the lock held */
	_Atomic uint32_t behind; /* a running client is further behind than all queued ones */
	uint32_t clients_max;
	uint32_t jobs_max;
	uint32_t max_tenants;
	uint32_t n_accounts;
	struct account **accounts; /* of each worker */
	struct fair_clock *clocks; /* the same */
	/* Reads the CPU clock of a worker's thread, ns; NULL: all clocks are CLOCK_MONOTONIC. */
	uint64_t (*cpu)(void *context, uint32_t worker);
	void *cpu_context;
	uint32_t *groups;	   /* the same */
	bool *parked;		   /* the same: starts only what waits for its places */
	struct fair_queue *placed; /* by place and client */
	struct fair_level level;   /* of the tenants */
	struct vheap heap;	   /* of the tenants */
	struct fair_tenant *tenants;
	struct vheap_node **nodes; /* of the tenants' heaps */
	struct fair_client *clients;
	struct fair_row *rows; /* as the ledger's */
	struct board_client *board;
	uint32_t *active; /* clients with jobs queued or given to workers */
	uint32_t n_active;
	uint64_t picks;
	uint64_t settled_at;
	uint32_t counted;		 /* calls of fair_count() */
	_Atomic uint64_t *settled_shown; /* the same on the board; NULL: nowhere */
	uint64_t credit;		 /* FAIR_CREDIT of all workers */
};

/* clients: of the board. n_accounts: of workers. Returns 0 or -ENOMEM. */
int fair_init(struct fair *fair, struct board_client *clients, uint32_t clients_max,
	      uint32_t jobs_max, uint32_t max_tenants, uint32_t n_accounts);
void fair_fini(struct fair *fair);

/* A worker's account and group, before it runs anything. */
void fair_add_account(struct fair *fair, uint32_t worker, uint32_t group, struct account *account);

/* From now on a worker is given only what waits for its places, or everything again. Takes the
 * lock. */
void fair_park(struct fair *fair, uint32_t worker, bool parked);

/* Adds a tenant, or changes its weight, which is clamped. */
void fair_add_tenant(struct fair *fair, uint32_t tenant, uint32_t weight);
/* It has no connections any more: the next one of the slot starts as one that was never there. */
void fair_remove_tenant(struct fair *fair, uint32_t tenant);
/* A new connection in this slot, which has no rows. */
void fair_add_client(struct fair *fair, uint32_t client, uint32_t tenant, uint32_t weight);
/* All of its jobs have ended: its tenant is charged for the last of them. */
void fair_remove_client(struct fair *fair, uint32_t client);

static inline void fair_lock(struct fair *fair)
{
	pthread_mutex_lock(&fair->lock);
}

static inline void fair_unlock(struct fair *fair)
{
	pthread_mutex_unlock(&fair->lock);
}

/* Lock held: from now on no row is given to a worker or shown to wait; or all of them are again.
 * Rows are queued, returned and cut as ever. */
void fair_hold(struct fair *fair, bool held);

/* A hint without the lock. */
static inline bool fair_is_held(struct fair *fair)
{
	return load_relaxed(&fair->held);
}

/* Rows that wait and that any worker may start; 0 while they are held. A hint without the lock. */
static inline uint32_t fair_queued(struct fair *fair)
{
	return fair_is_held(fair) ? 0 : load_relaxed(&fair->queued);
}

/* The place of a job that was admitted and has not ended. */
static inline uint32_t fair_place(const struct fair *fair, uint32_t row)
{
	return fair->rows[row].place;
}

/* Rows that wait for a place; 0 while they are held. A hint without the lock. */
static inline uint32_t fair_placed(struct fair *fair)
{
	return fair_is_held(fair) ? 0 : load_relaxed(&fair->n_placed);
}

/* The same, of this one. */
static inline uint32_t fair_waits(struct fair *fair, uint32_t place)
{
	return fair_is_held(fair) ? 0 : load_relaxed(&fair->waits[place]);
}

/* True if a running client with nothing queued is further behind than all that is queued: what can
 * be stolen goes before queued jobs. A hint. */
static inline bool fair_behind(struct fair *fair)
{
	return load_relaxed(&fair->behind);
}

/* A row that came off a ring; the thread that made it QUEUED calls it before anything else. weight:
 * the record's. place: FAIR_*. */
void fair_prepare(struct fair *fair, uint32_t row, uint32_t weight, uint32_t place);

/* True if these n new jobs of a client, which may be started anywhere, may go past the queues: it
 * is alone, nothing is queued, and they are no more than a batch. They count as given then. */
bool fair_direct(struct fair *fair, uint32_t client, uint32_t n);

/* So many ns were spent on what a tenant had in its rings and was no job. Takes no lock. */
void fair_waste(struct fair *fair, uint32_t tenant, uint64_t ns);

/* Lock held: queues n rows that are linked by next, row the first. */
void fair_push(struct fair *fair, uint32_t row, uint32_t n, uint64_t now);

/* Lock held: takes the rows that go first on this worker, a batch at most: max, and FAIR_BATCH ns
 * as far as one knows; but one if there is one. Returns how many. One with a place, which no other
 * worker, or none of another group, may start, comes alone. */
uint32_t fair_pick(struct fair *fair, uint32_t worker, uint32_t *ret_rows, uint32_t max,
		   uint64_t now);

/* Lock held: takes a row out of its queue, to be ended. False: it is in none. */
bool fair_cut(struct fair *fair, uint32_t row);

/* Lock held: does so for rows of a client, max at most. Returns how many. */
uint32_t fair_cut_client(struct fair *fair, uint32_t client, uint32_t *ret_rows, uint32_t max);

/* Lock held: rows that were given to a worker and not started go back to the front. */
void fair_return(struct fair *fair, const uint32_t *rows, uint32_t n, uint64_t now);

/* Lock held: charges what runs now, and brings all virtual times up to date. */
void fair_settle(struct fair *fair, uint64_t now);
/* The same, if it was not done just now: so that it takes a small part of all time. */
void fair_settle_sometimes(struct fair *fair, uint64_t now);

/* Lock held: the row that goes first on this worker; ACCOUNT_NOBODY if there is none, or all are
 * held. */
uint32_t fair_first(struct fair *fair, uint32_t worker);

/* Lock held, after fair_settle(): true if a queued job is to go before this running one, which has
 * had this many ns on this worker. row: of the ledger, or ACCOUNT_NOBODY. */
bool fair_claims(struct fair *fair, uint32_t worker, uint32_t row, uint64_t ran_ns);

/* Lock held, after fair_settle(): the running job of this row, or, if it is ahead by more than a
 * turn, of n that were set aside for it the one that is furthest behind. */
uint32_t fair_turn(struct fair *fair, uint32_t row, const uint32_t *rows, uint32_t n);

/* Lock held: there is a job that waits for this worker, and the one that goes first is long, as far
 * as one knows. */
bool fair_first_is_long(struct fair *fair, uint32_t worker);

/* Lock held: counts on how many workers each job, client and tenant runs. */
void fair_count(struct fair *fair);

/* Lock held, after fair_settle() and fair_count(): in how many ns, at the earliest, fair_claims()
 * will be true of a job that runs on this worker, or fair_turn() gives one of those set aside; as
 * long as workers run what they run now. FAIR_NEVER if no job waits. */
uint64_t fair_claims_in(struct fair *fair, uint32_t worker, uint32_t row);
uint64_t fair_turn_in(struct fair *fair, uint32_t row, const uint32_t *rows, uint32_t n);

/* Charges a job with CPU time. last: it has ended with this. */
void fair_charge(struct fair *fair, uint32_t row, uint64_t ns, bool last);

/* Charges a job's client with time in which its task slept: it is no CPU time, but it has kept the
 * worker from others. Takes no lock. */
void fair_charge_sleep(struct fair *fair, uint32_t row, uint64_t ns);
