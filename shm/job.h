/* SPDX-License-Identifier: MIT */
/*
 * shm/job.h - the client segment: a table of job records, a table of groups, a watch and a heap
 *
 * WRITERS AND READERS
 *   One segment per connection, mapped by that client, the pool and the manager. Everything in it
 *   can be changed by the client at any time: the pool loads each value once, checks it, and uses
 *   the copy. Arguments are copied before the task runs.
 *
 * THE STATE WORD
 *   { generation:24, waiter:1, watched:1, outcome:6 }, a futex word. The client writes generation
 *   and JOB_PENDING before it submits. Before it sleeps on the word it sets the waiter bit by a
 *   CAS; before it sleeps on the watch for many jobs (watch.h), the watched bit. The pool exchanges
 *   the final state in and wakes the sleepers whose bit was set.
 *
 * CHAINS
 *   A record may head a chain: next is the index of the chain's next record + 1, 0 at its end. One
 *   CAS puts the word of its first record into a ring and submits them all (I3). A reader of the
 *   chain makes at most as many steps as the table has records.
 *   Before a job of a part can end, the reader that takes this part changes the word to the first
 *   record of the rest (ring_repoint()). Later, records of the part may be in other chains when
 *   another pool walks this one. If a pool died before that change, the next pool makes it before
 *   any job of the part can run (daemon/jobs/queue_recovery.h, I1).
 *
 * PLACES
 *   place says where the root task of the job starts: { strict:1, kind:7, index:24 }.
 * 	JOB_PLACE_NONE    anywhere; index and strict are 0
 * 	JOB_PLACE_WORKER  on worker index of the pool
 * 	JOB_PLACE_NODE    on a worker of the NUMA node with this os index, as the board shows it
 *   The client puts the job into the ring of that worker, or of one on that node. A chain goes into
 *   a ring of its first job's place. If these are full, a job that is not strict goes into any
 *   ring. Without strict any worker may start the job. With strict no other worker starts it,
 *   however long it waits; its forks can be stolen. An unknown kind, worker or node fails the job
 *   with -EINVAL.
 *
 * THE HEAP
 *   The segment has the size of the largest heap that the client can have, and keeps it (segment.h,
 *   I1). The manager allocates and counts pages for heap_size bytes of it. The pool accepts
 *   references to these alone (struct arena, heap_sizes). A client that touches bytes after them
 *   allocates pages at its own expense, which no task gets.
 *
 * THE IMPORTS
 *   A client can have ranges of its own sealed files mapped by the pool, read-only (struct
 *   proto_import). A reference with an offset of LIMIT_HEAP or more is into LIMIT_IMPORT bytes of
 *   address space that hold them all. Places without an import read as zeros.
 *
 * INVARIANTS
 *   I1. Each generation of a record gets exactly one outcome, through job_finish() in the pool or,
 *       after the pool's death, in the manager. The ledger decides which outcome, never the record.
 *   I2. The client submits a record again only after it saw an outcome, with generation + 1. This
 *       also holds for each record of a chain: a record with an outcome may be submitted again,
 *       with another next, while others of its chain have not started. So next is read once, when
 *       the record is taken off the ring, and before the job can get its outcome.
 *   I3. All records of a chain are filled, next included, before the word of the first is
 *       published. A client that dies before that has submitted none of them.
 *   I4. The job's outcome is stored first. Then its group is counted down (group.h), and its end is
 *       counted if it is watched (watch.h).
 *   I5. The client stores a generation in cancel before it sends the cancel over its socket. A pool
 *       or manager that ends may have lost the message. Its successor reads cancel for each job
 *       that it accepts, finds QUEUED, or starts. The word is 0 again before its generation wraps.
 *       A client that stores a false value cancels its own jobs, or fails to cancel them.
 *
 * If a peer dies: client: the manager notifies the pool, which cancels its jobs, and unmaps its
 * segment when the last has ended. Pool: see shm/ledger.h. Daemon: every wait of the client checks
 * the socket at intervals.
 */
#pragma once

#include <stdatomic.h>
#include <errno.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/fence.h"
#include "shm/group.h"
#include "shm/limits.h"
#include "shm/segment.h"
#include "shm/watch.h"

/* Outcomes: the low bits of the state word. */
#define JOB_IDLE      0u
#define JOB_PENDING   1u
#define JOB_DONE      2u
#define JOB_FAILED    3u /* code says why: a negative errno, or the task's own positive number */
#define JOB_CANCELLED 4u
#define JOB_EXPIRED   5u /* code: 0, or JOB_CPU_EXCEEDED */
#define JOB_CRASHED   6u /* signo says how */
#define JOB_LOST      7u

/* The job used more CPU time than job-cpu-max. */
#define JOB_CPU_EXCEEDED (-EDQUOT)

#define JOB_OUTCOME_MASK 0x3fu
#define JOB_WATCHED	 0x40u
#define JOB_WAITER	 0x80u
#define JOB_GEN_SHIFT	 8
#define JOB_GEN_MASK	 0xffffffu

/* Flags that a client may set. */
#define JOB_IDEMPOTENT 1u /* may be run again if the pool dies under it */
#define JOB_FLAGS      1u /* all of them */

/* Where a job is to start: place. */
#define JOB_PLACE_NONE	     0u
#define JOB_PLACE_WORKER     1u
#define JOB_PLACE_NODE	     2u
#define JOB_PLACE_KIND_SHIFT 24
#define JOB_PLACE_KIND_MASK  0x7fu
#define JOB_PLACE_INDEX_MASK 0xffffffu
#define JOB_PLACE_STRICT     0x80000000u

/* A reference into the client's heap or imports, as stored in the arguments. If the pool is in the
 * client's process, also to another address, with JOB_REF_ADDRESS. */
#define JOB_REF_ADDRESS (UINT64_C(1) << 63)
struct job_ref {
	uint64_t offset; /* bytes from the start of the heap; LIMIT_HEAP + bytes: of the imports */
	uint64_t size;	 /* bytes */
};

struct job {
	/* line 0: the client writes, the pool reads */
	_Alignas(64) _Atomic uint32_t task; /* index on the board */
	_Atomic uint32_t flags;		    /* JOB_* */
	_Atomic uint32_t generation;	    /* of this submission, 24 bits */
	_Atomic uint32_t next;		    /* the chain's next job + 1, 0 at its end */
	_Atomic uint64_t deadline_ns;	    /* CLOCK_MONOTONIC, 0 for none */
	_Atomic uint32_t weight;	    /* 0 for the default */
	_Atomic uint32_t args_size;	    /* bytes of args in use */
	_Atomic uint64_t task_hash;	    /* of the name and signature the client meant */
	_Atomic uint32_t group;		    /* index of its group + 1, 0 for none: group.h */
	_Atomic uint32_t place;		    /* JOB_PLACE_*, 0 for anywhere */
	_Atomic uint32_t cancel;	    /* the generation that is to end, 0 for none (I5) */
	uint8_t reserved0[12];
	/* lines 1 to 3: the client writes, the pool copies */
	uint8_t args[LIMIT_ARGS];
	/* line 4: the pool writes, the client reads; two bits of state are the client's */
	_Alignas(64) _Atomic uint32_t state;
	_Atomic int32_t code;
	_Atomic uint32_t signo;
	_Atomic uint32_t worker;     /* that finished it */
	_Atomic uint64_t drained_ns; /* CLOCK_MONOTONIC: taken off the ring */
	_Atomic uint64_t started_ns;
	_Atomic uint64_t ended_ns; /* after started_ns, unless its task was not begun */
	uint8_t reserved1[24];
	/* line 5: the pool writes, the client reads once state says JOB_DONE */
	uint8_t result[LIMIT_RESULT];
};

_Static_assert(sizeof(struct job) == 384, "a job record is six cache lines");
_Static_assert(offsetof(struct job, args) == 64, "args open a cache line");
_Static_assert(offsetof(struct job, state) == 256, "the pool's fields open a cache line");
_Static_assert(offsetof(struct job, result) == 320, "the result opens a cache line");

/* The client segment: this head, the jobs, the groups, the watch, the heap. */
struct client_segment {
	struct segment head;
	/* the manager writes once */
	uint32_t client;      /* its slot */
	uint32_t generation;  /* of the slot */
	uint32_t tenant;      /* slot of its uid */
	uint32_t n_jobs;      /* records in the table */
	uint64_t jobs_offset; /* bytes from the start of the segment */
	uint64_t heap_offset; /* bytes from the start of the segment */
	uint64_t heap_max;    /* bytes: the heap's address space, up to the end of the segment */
	/* the manager writes, and does not read: PROTO_GROW */
	_Atomic uint64_t heap_size;   /* bytes, from heap_offset on, that references may be to */
	_Atomic uint32_t grow_answer; /* futex word: the number of the last request answered */
	_Atomic int32_t grow_error;   /* of it: 0, an enum fk_error or an errno, negative */
	uint8_t reserved[8];
	/* each pool writes it before it reports the client to the manager: a bit for each task on
	 * the board that the client may not call. For display: the pool itself uses a private
	 * copy. */
	_Alignas(64) _Atomic uint64_t denied[LIMIT_TASKS / 64];
};

_Static_assert(sizeof(struct client_segment) == 192, "three cache lines");

/* Returns the groups of a client, after its jobs. jobs: the table, n_jobs records. */
static inline struct group *client_segment_groups(struct job *jobs, uint32_t n_jobs)
{
	return (struct group *)(void *)(jobs + n_jobs);
}

/* Returns the offset of the heap of a client segment with n_jobs records: page-aligned, in bytes.
 */
static inline uint64_t client_segment_heap_offset(uint32_t n_jobs)
{
	uint64_t end = sizeof(struct client_segment) + (uint64_t)n_jobs * sizeof(struct job) +
		       LIMIT_GROUPS * sizeof(struct group) + sizeof(struct watch);

	return (end + 4095) & ~UINT64_C(4095);
}

static inline uint32_t job_place(uint32_t kind, uint32_t index, int strict)
{
	return (strict ? JOB_PLACE_STRICT : 0) |
	       (kind & JOB_PLACE_KIND_MASK) << JOB_PLACE_KIND_SHIFT |
	       (index & JOB_PLACE_INDEX_MASK);
}

static inline uint32_t job_place_kind(uint32_t place)
{
	return place >> JOB_PLACE_KIND_SHIFT & JOB_PLACE_KIND_MASK;
}

static inline uint32_t job_place_index(uint32_t place)
{
	return place & JOB_PLACE_INDEX_MASK;
}

static inline int job_place_strict(uint32_t place)
{
	return (place & JOB_PLACE_STRICT) != 0;
}

/* Returns true if a is the later of two generations of a record. They wrap. */
static inline int job_is_later(uint32_t a, uint32_t b)
{
	return ((a - b) & JOB_GEN_MASK) - 1 < JOB_GEN_MASK / 2;
}

/* The job in the record with this index, as its client names it (fk_job). */
static inline uint64_t job_handle(uint32_t generation, uint32_t index)
{
	return (uint64_t)generation << 16 | index;
}

static inline uint32_t job_state(uint32_t generation, uint32_t outcome)
{
	return (generation & JOB_GEN_MASK) << JOB_GEN_SHIFT | outcome;
}

/* Puts the outcome of a job into its record, after result, code and signo. Returns JOB_WAITER if
 * the caller must wake the sleepers on the word, JOB_WATCHED if it must call watch_end(), or 0. */
static inline uint32_t job_finish(struct job *job, uint32_t generation, uint32_t outcome)
{
	/* ORDER job/outcome [J1]: release, so that a reader of the outcome sees result and code.
	 * Pairs with the acquire in job_outcome(). Not acquire: nothing of the client's is read
	 * after it. The exchange takes both bits in the same step: a client's CAS that comes first
	 * is seen here, and a later one fails (client/lib/wait.c, I1). */
	uint32_t old = atomic_exchange_explicit(&job->state, job_state(generation, outcome),
						memory_order_release);

	return old & (JOB_WAITER | JOB_WATCHED);
}

/* Returns the outcome of this generation: JOB_PENDING or a final one. */
static inline uint32_t job_outcome(struct job *job)
{
	/* ORDER job/outcome [J1]: acquire, pairs with the exchange in job_finish(). */
	return atomic_load_explicit(&job->state, memory_order_acquire) & JOB_OUTCOME_MASK;
}

/* Client: requests the end of the job of this generation. Returns false if a later job of the
 * record has such a request: then this one has ended. */
static inline int job_want_end(struct job *job, uint32_t generation)
{
	uint32_t wanted = load_relaxed(&job->cancel);

	do {
		if (wanted && job_is_later(wanted, generation))
			return 0;
		/* ORDER cancel/forget [V5]: acquire, a thread that finds the 0 of a release sees
		 * that the generation has ended. Pairs with job_forget_end(). */
	} while (!atomic_compare_exchange_weak_explicit(
		&job->cancel, &wanted, generation, memory_order_acquire, memory_order_relaxed));
	return 1;
}

/* Client: clears the request. The record's job is released, its next generation known. */
static inline void job_forget_end(struct job *job)
{
	/* ORDER cancel/forget [V5]: release, pairs with job_want_end(). */
	atomic_store_explicit(&job->cancel, 0, memory_order_release);
}

/* Client: withdraws a request that came too late. A later value stays. */
static inline void job_unwant_end(struct job *job, uint32_t generation)
{
	/* Relaxed: only the word itself is passed on. */
	atomic_compare_exchange_strong_explicit(&job->cancel, &generation, 0, memory_order_relaxed,
						memory_order_relaxed);
}

/* Pool: returns true if the end of the job of this generation is requested. */
static inline int job_is_unwanted(struct job *job, uint32_t generation)
{
	/* ORDER cancel/word [V4]: relaxed, pairs with fk_cancel(). A process that received the
	 * message needs no word. If a dead process received it, this process was started after
	 * that: the kernel orders both (I5). */
	return load_relaxed(&job->cancel) == generation;
}

/* Puts a bit into the state of a pending job. Returns the state, or 0 if it is not pending. */
static inline uint32_t job_announce(struct job *job, uint32_t bit)
{
	uint32_t state = load_relaxed(&job->state);

	while ((state & JOB_OUTCOME_MASK) == JOB_PENDING) {
		if (state & bit)
			return state;
		if (atomic_compare_exchange_weak_explicit(&job->state, &state, state | bit,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return state | bit;
	}
	return 0;
}

/* Announces a waiter. Returns the value to sleep on, or 0 if the job is not pending any more. */
static inline uint32_t job_announce_waiter(struct job *job)
{
	return job_announce(job, JOB_WAITER);
}

/* Makes watch_end() count the job's end. Returns false if it is not pending any more. */
static inline int job_watch(struct job *job)
{
	return job_announce(job, JOB_WATCHED) != 0;
}
