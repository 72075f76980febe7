/* SPDX-License-Identifier: MIT */
/*
 * stacklet.h - geometric segmented stacks of frames
 *
 * A stack is a chain of stacklets, each at least twice as large as the one before (the geometric
 * segmented stacks of Williams and Elliott's libfork, 2024): never an overflow before memory ends,
 * and a constant share of waste. One empty stacklet is kept behind the top, so that a task that
 * sits on a boundary does not allocate again and again. Where twice is not to be had, a smaller one
 * has to do, as long as it holds the frame.
 *
 * Threads: workers. A stack belongs to one worker (worker->stack) or to the frame on its top
 * (frame->stack) at any time; it is handed over through the join counter's ordering. Workers with
 * nothing to do and the dispatcher call stack_arena_clean().
 *
 * INVARIANTS
 *   I1. sp of the worker points into the top stacklet of its stack, or to its first frame's place;
 *       it is NULL while the worker has no stack, between two strands.
 *   I2. An empty stack has one stacklet (and maybe a spare), and sp at its first place.
 *   I3. A job's account is the bytes of all stacklets that stacks of its frames consist of, spares
 *       included, but for the first stacklet of a stack that a worker runs on; and of its lumps,
 *       which hold what is no frame (job_input.h). Both are charged before they are taken. What a
 *       strand leaves behind when it ends is no spare: a worker that continues with something else
 *       trims its stack before that is visible.
 *
 * WHAT A JOB MAY HOLD
 *   Its account is never more than stack-max, but for the first stacklets of stacks that workers
 *   hand to its frames while it fails: STACK_MIN each, one for each worker, for the job has failed
 *   then and gets no new frames. With the first stacklets that its workers run on, a job holds
 *   stack-max + 2 P STACK_MIN at most. (P: workers.)
 *
 * WHAT IS KEPT BACK
 *   stack-max may be all of the arena, or several jobs may want that much together. So that this is
 *   their trouble alone, the last sixteenth of the arena is for jobs that hold no more than
 *   STACK_SMALL, and the last sixty-fourth for the first stacklets of workers. A job that is
 *   refused fails with -ENOMEM.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <forkd/task.h>

/* Enough for some fifty frames of fine-grained tasks: a tree whose leaves are beyond the end of the
 * first stacklet goes over it at each of them, which costs as much as dozens of forks. */
#define STACK_MIN     8192u
#define STACK_MIN_LOG 13u
#define STACK_ORDERS  27u     /* 8 KiB to 512 GiB */
#define STACK_KEEP    65536u  /* bytes of each size that a worker keeps; larger ones it does not */
#define STACK_SMALL   262144u /* bytes that a job holds to which the last sixteenth is open */
#define STACK_CLEAN   262144u /* bytes that stack_arena_clean() gives back at a time */

/* A stacklet; the first of a chain stands for the stack. */
struct fk_stack {
	struct fk_stack *prev;	/* the stacklet below, NULL at the base; free list link */
	struct fk_stack *spare; /* the one above, empty, or NULL */
	char *end;
	char *below;	      /* sp to go back to when this stacklet goes */
	struct fk_stack *top; /* base only: the top stacklet, while no worker runs on it */
	uint64_t size_log;
};

struct stack_block;
struct stack_cache;

/* The memory that the stacklets of one NUMA node's workers come from: see stacklet.c. */
struct stack_arena {
	pthread_mutex_t lock;
	pthread_mutex_t cleaner; /* held while a block is out to be cleaned; taken before lock */
	struct stack_arena *sibling; /* the next of the ring; itself if it is alone */
	struct stack_cache *caches;  /* of its workers */
	char *begin;
	char *next; /* never used from here on */
	char *end;
	struct stack_block *free[STACK_ORDERS][2]; /* those that may have pages are in [true] */
	struct stack_block *blocks;		   /* one for each STACK_MIN bytes */
	uint64_t size;				   /* bytes: a multiple of STACK_MIN */
	_Atomic uint64_t left;	  /* of these, in no stack and in no worker's cache */
	_Atomic uint64_t dirty;	  /* bytes of free blocks whose pages are to be given back */
	_Atomic uint64_t cleaned; /* pieces that were given back; written with cleaner held */
};

/* A worker's own free stacklets, and the account of the job that it runs. */
struct stack_cache {
	_Atomic(struct fk_stack *) first; /* of STACK_MIN, or NULL; not under the lock */
	bool dirtied;	      /* the owner has put something back, and pages are to be given back */
	pthread_mutex_t lock; /* the worker; rarely, another that finds the arena full */
	struct stack_cache *next;
	struct stack_arena *arena;
	struct fk_stack *free[STACK_ORDERS];
	uint32_t n[STACK_ORDERS];
	_Atomic uint64_t *account; /* bytes that the job holds (I3); NULL: no job is charged */
	uint64_t max;		   /* bytes that it may hold */
	uint64_t allocated;	   /* stacklets taken, for the counters */
	int64_t bytes; /* now held by stacks that this worker took, less those it gave back */
};

/* Sets the arena up over [base, end); pages are given back if it is shared memory. Returns 0 or a
 * negative errno. */
int stack_arena_init(struct stack_arena *arena, char *base, char *end);
void stack_arena_fini(struct stack_arena *arena);

/* The first bytes of an arena may have pages of a former pool's, and are free: as what was freed
 * they are taken first, or given back. Before it is used. */
void stack_arena_inherit(struct stack_arena *arena, uint64_t bytes);

/* Puts n arenas into one ring, before they are used. */
void stack_arena_link(struct stack_arena *arenas, uint32_t n);

/* Are there pages of freed stacklets to be given back, in an arena of the ring? */
bool stack_arena_dirty(struct stack_arena *arena);

/* How often stack_arena_clean() has given some back, in all arenas of the ring. */
uint64_t stack_arena_cleaned(const struct stack_arena *arena);

/*
 * Gives them back, STACK_CLEAN bytes of one arena at most. For a thread that may take its time.
 * Returns true if there was something: there may be more. False: nothing, or another is at it.
 */
bool stack_arena_clean(struct stack_arena *arena);

/* Sets up the cache of a worker of this arena, before the arena is used. */
void stack_cache_init(struct stack_cache *cache, struct stack_arena *arena);
void stack_cache_fini(struct stack_cache *cache);

/* From now on the worker takes stacklets for this account, which may come to max bytes. */
static inline void stack_bill(struct stack_cache *cache, _Atomic uint64_t *account, uint64_t max)
{
	cache->account = account;
	cache->max = max;
}

/* Owner: is the dispatcher to be woken, to clean? Says so once. */
static inline bool stack_dirtied(struct stack_cache *cache)
{
	bool dirtied = cache->dirtied;

	cache->dirtied = false;
	return dirtied;
}

/* A new empty stack, for the worker itself. NULL if the arena is full. */
struct fk_stack *stack_new(struct stack_cache *cache);

/* Frees an empty stack of the worker's. NULL is fine. */
void stack_free(struct stack_cache *cache, struct fk_stack *stack);

/* Where the first frame of a stacklet goes. */
static inline char *stack_first(struct fk_stack *stacklet)
{
	return (char *)(stacklet + 1);
}

/*
 * A stacklet on top of top, for a frame of size bytes whose caller's sp is sp. NULL if the job may
 * have no more, or the arena is full.
 */
struct fk_stack *stack_push(struct stack_cache *cache, struct fk_stack *top, char *sp, size_t size);

/* Takes the (empty) top stacklet off; returns the one below. It stays as that one's spare. */
struct fk_stack *stack_pop(struct stack_cache *cache, struct fk_stack *top);

/* Frees the spare above the top stacklet, if there is one: the strand ends (I3). NULL is fine. */
void stack_trim(struct stack_cache *cache, struct fk_stack *top);

/*
 * The stack with this top goes from the worker to a frame of the job that it runs. False: the job
 * holds more than it may now, and has to fail.
 */
bool stack_give(struct stack_cache *cache, struct fk_stack *top);

/* A stack comes back from such a frame to the worker. */
void stack_take(struct stack_cache *cache);

/*
 * A lump of this size beside the stacks, for the job that the worker runs: a power of two of bytes
 * is taken and charged, STACK_MIN at least. At a multiple of STACK_MIN, with garbage in it. NULL if
 * the job may have no more, or the arena is full.
 */
void *stack_lump_take(struct stack_cache *cache, uint64_t size);

/* Gives it back, of the same job and with the same size, on any worker. */
void stack_lump_put(struct stack_cache *cache, void *lump, uint64_t size);
