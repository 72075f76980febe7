/* SPDX-License-Identifier: MIT */
/*
 * stacklet.h - geometric segmented stacks of frames
 *
 * A stack is a chain of stacklets, each at least twice as large as the one before. (These are the
 * geometric segmented stacks of Williams and Elliott's libfork, 2024.) So it overflows only when
 * memory is exhausted, and wastes a constant share. One empty stacklet is kept above the top, so
 * that a task at a boundary does not allocate repeatedly. If twice the size is not available, a
 * smaller one is used that holds the frame.
 *
 * Threads: workers. A stack belongs to one worker (worker->stack) or to the frame on its top
 * (frame->stack) at any time; the join counter orders the transfer. Idle workers and the dispatcher
 * call stack_arena_clean().
 *
 * INVARIANTS
 *   I1. sp of the worker points into the top stacklet of its stack, or to the place of its first
 *       frame; it is NULL while the worker has no stack, between two strands.
 *   I2. An empty stack has one stacklet (and maybe a spare), and sp at its first place.
 *   I3. A job's account is the bytes of all stacklets in stacks of its frames, spares and those of
 *       nested calls included, and of its lumps. Lumps hold data other than frames (job_input.h).
 *       The first stacklet of a stack that a worker runs on does not count. Stacklets and lumps are
 *       charged before they are taken. When a strand ends it leaves no spare: a worker that
 *       continues with other work trims its stack before that becomes visible.
 *
 * WHAT A JOB MAY HOLD
 *   Its account is at most stack-max, plus the first stacklets of stacks that workers hand to its
 *   frames while it fails: STACK_MIN for each worker, because then the job has failed and gets no
 *   new frames. With the first stacklets that its workers run on, a job holds at most stack-max + 2
 *   P STACK_MIN. (P: workers.)
 *
 * RESERVES
 *   stack-max may be as large as the arena, or several jobs may need that much together. To
 *   protect other jobs, the last sixteenth of the arena is reserved for jobs that hold at most
 *   STACK_SMALL; and the last sixty-fourth for the first stacklets of workers. A job that gets no
 *   stacklet fails with -ENOMEM.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <forkd/task.h>

/* Enough for some fifty frames of fine-grained tasks. A tree whose leaves are beyond the end of the
 * first stacklet crosses it at each leaf, which costs as much as dozens of forks. */
#define STACK_MIN     8192u
#define STACK_MIN_LOG 13u
#define STACK_ORDERS  27u     /* 8 KiB to 512 GiB */
#define STACK_KEEP    65536u  /* bytes of each size that a worker keeps; none larger */
#define STACK_SMALL   262144u /* a job that holds at most these bytes may use the last sixteenth */
#define STACK_CLEAN   262144u /* bytes that stack_arena_clean() gives back at a time */

/* A stacklet; the first one of a chain represents the stack. */
struct fk_stack {
	struct fk_stack *prev;	 /* the stacklet below, NULL at the base; free list link */
	struct fk_stack *spare;	 /* the one above, empty, or NULL */
	struct fk_stack *nested; /* an empty stack for the next nested call, or NULL */
	char *end;
	char *below;	      /* sp to restore when this stacklet is popped */
	struct fk_stack *top; /* base only: the top stacklet, while no worker runs on it */
	uint64_t size_log;
};

struct stack_block;
struct stack_cache;

/* The memory for stacklets of the workers of one NUMA node: see stacklet.c. */
struct stack_arena {
	pthread_mutex_t lock;
	pthread_mutex_t cleaner;     /* held while a block is cleaned; taken before lock */
	struct stack_arena *sibling; /* next of the ring; itself if alone */
	struct stack_cache *caches;  /* of its workers */
	char *begin;
	char *next; /* start of the never used memory */
	char *end;
	struct stack_block *free[STACK_ORDERS][2]; /* [true]: blocks that may have pages */
	struct stack_block *blocks;		   /* one for each STACK_MIN bytes */
	uint64_t size;				   /* bytes: a multiple of STACK_MIN */
	_Atomic uint64_t left;	  /* of these, in no stack and in no worker's cache */
	_Atomic uint64_t dirty;	  /* bytes of free blocks whose pages are to be given back */
	_Atomic uint64_t cleaned; /* calls that gave pages back; written with cleaner held */
};

/* A worker's own free stacklets, and the account of the job that it runs. */
struct stack_cache {
	_Atomic(struct fk_stack *) first; /* of STACK_MIN, or NULL; not under the lock */
	bool dirtied;	      /* the owner has freed memory whose pages are to be given back */
	pthread_mutex_t lock; /* the worker; rarely a worker that finds the arena full */
	struct stack_cache *next;
	struct stack_arena *arena;
	struct fk_stack *free[STACK_ORDERS];
	uint32_t n[STACK_ORDERS];
	_Atomic uint64_t *account; /* bytes that the job holds (I3); NULL: no job is charged */
	uint64_t max;		   /* bytes that it may hold */
	uint64_t allocated;	   /* stacklets taken, for the counters */
	int64_t bytes; /* held by stacks that this worker took, less those it gave back */
};

/* Sets the arena up over [base, end); pages are given back only if it is shared memory. Returns 0
 * or a negative errno. */
int stack_arena_init(struct stack_arena *arena, char *base, char *end);
void stack_arena_fini(struct stack_arena *arena);

/* Marks the first bytes of an arena as free blocks that may have pages, from a former pool: they
 * are taken first, or cleaned. Before the arena is used. */
void stack_arena_inherit(struct stack_arena *arena, uint64_t bytes);

/* Puts n arenas into one ring, before they are used. */
void stack_arena_link(struct stack_arena *arenas, uint32_t n);

/* True if an arena of the ring has pages of freed stacklets to give back. */
bool stack_arena_dirty(struct stack_arena *arena);

/* Number of calls of stack_arena_clean() that gave pages back, in all arenas of the ring. */
uint64_t stack_arena_cleaned(const struct stack_arena *arena);

/* Gives pages back, at most STACK_CLEAN bytes of one arena. Call it from a thread that may take
 * long. True: there was something to do, and may be more. False: nothing to do, or another thread
 * does it. */
bool stack_arena_clean(struct stack_arena *arena);

/* Sets up the cache of a worker of this arena, before the arena is used. */
void stack_cache_init(struct stack_cache *cache, struct stack_arena *arena);
void stack_cache_fini(struct stack_cache *cache);

/* From now on the worker's stacklets are charged to this account, up to max bytes. */
static inline void stack_bill(struct stack_cache *cache, _Atomic uint64_t *account, uint64_t max)
{
	cache->account = account;
	cache->max = max;
}

/* Owner: true if the dispatcher must be woken to clean. Resets the flag. */
static inline bool stack_dirtied(struct stack_cache *cache)
{
	bool dirtied = cache->dirtied;

	cache->dirtied = false;
	return dirtied;
}

/* Returns a new empty stack for the worker itself. NULL if the arena is full. */
struct fk_stack *stack_new(struct stack_cache *cache);

/* Frees an empty stack of the worker's. NULL is allowed. */
void stack_free(struct stack_cache *cache, struct fk_stack *stack);

/* Place of the first frame of a stacklet. */
static inline char *stack_first(struct fk_stack *stacklet)
{
	return (char *)(stacklet + 1);
}

/* Puts a stacklet on top, for a frame of size bytes; sp: the caller's. NULL if the job has reached
 * its limit, or the arena is full. */
struct fk_stack *stack_push(struct stack_cache *cache, struct fk_stack *top, char *sp, size_t size);

/* Removes the (empty) top stacklet, which becomes the spare of the one below; returns that one. */
struct fk_stack *stack_pop(struct stack_cache *cache, struct fk_stack *top);

/* Frees what is kept above the top stacklet, when the strand ends (I3). NULL is allowed. */
void stack_trim(struct stack_cache *cache, struct fk_stack *top);

/* Passes the stack with this top from the worker to a frame of its job. False: the job now exceeds
 * its limit and must fail. */
bool stack_give(struct stack_cache *cache, struct fk_stack *top);

/* Passes a stack back from such a frame to the worker. */
void stack_take(struct stack_cache *cache);

/* Returns an empty stack for the frames of a nested call, whose caller is on this top stacklet. It
 * is charged to the job. NULL if that has reached its limit, or the arena is full. */
struct fk_stack *stack_nest(struct stack_cache *cache, struct fk_stack *top);

/* The call has ended: keeps the worker's stack, which is empty, for the next one. NULL: the worker
 * has given it away. */
void stack_unnest(struct stack_cache *cache, struct fk_stack *top, struct fk_stack *stack);

/* Returns a lump for the job that the worker runs: uninitialized memory outside the stacks, aligned
 * to STACK_MIN. A power of two of bytes is taken and charged, at least STACK_MIN. NULL if the job
 * has reached its limit, or the arena is full. */
void *stack_lump_take(struct stack_cache *cache, uint64_t size);

/* Returns a lump of the same job and with the same size, on any worker. */
void stack_lump_put(struct stack_cache *cache, void *lump, uint64_t size);
