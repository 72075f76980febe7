/* SPDX-License-Identifier: MIT */
/*
 * daemon/stack.h - geometric segmented stacks of frames
 *
 * WHAT IT IS
 *   A stack is a chain of stacklets, each at least twice as large as the one before (the geometric
 *   segmented stacks of Williams and Elliott's libfork, 2024): never an overflow before memory
 *   ends, and a constant share of waste. One empty stacklet is kept behind the top, so that a task
 *   that sits on a boundary does not allocate again and again.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Workers. A stack belongs to one worker (worker->stack) or to the frame on its top
 *   (frame->stack) at any time; it is handed over through the join counter's ordering.
 *
 * INVARIANTS
 *   I1. sp of the worker points into the top stacklet of its stack, or to its first frame's place.
 *   I2. An empty stack has one stacklet (and maybe a spare), and sp at its first place.
 *
 * MEMORY
 *   Stacklets are powers of two from STACK_MIN on, from the arena. Each worker keeps some of each
 *   size; the rest is shared under a lock. Large ones give their pages back some time after they
 * were freed (stack_arena_clean(), the dispatcher): it takes long, and a job that ends does not
 * wait for it. There may be several arenas (one for each NUMA node), linked in a ring: a worker
 * takes from its own, and from the next ones when that is full. A stacklet goes back to the arena
 * that it is from, and a worker keeps only those of its own arena.
 */
#ifndef DAEMON_STACK_H
#define DAEMON_STACK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <forkd/task.h>

#define STACK_MIN      4096u
#define STACK_MIN_LOG  12u
#define STACK_CLASSES  28u     /* 4 KiB to 512 GiB */
#define STACK_KEEP     32u     /* free ones of a class that a worker keeps */
#define STACK_KEEP_MAX 262144u /* bytes of the largest stacklet that is kept */

/* A stacklet; the first of a chain stands for the stack. */
struct fk_stack {
	struct fk_stack *prev;	/* the stacklet below, NULL at the base; free list link */
	struct fk_stack *spare; /* the one above, empty, or NULL */
	char *end;
	char *below;	      /* sp to go back to when this stacklet goes */
	struct fk_stack *top; /* base only: the top stacklet, while no worker runs on it */
	uint64_t size_log;
};

/* The memory that all workers' stacklets come from. */
struct stack_arena {
	pthread_mutex_t lock;
	struct stack_arena *sibling; /* the next of the ring; itself if it is alone */
	char *begin;
	char *next; /* never used from here on */
	char *end;
	struct fk_stack *free[STACK_CLASSES];
	struct fk_stack *_Atomic dirty; /* free ones whose pages are not given back yet */
	int fd;	    /* the arena's memfd, to give pages back; -1 if there is none */
	char *base; /* where fd's byte 0 is mapped */
};

/* A worker's own free stacklets. */
struct stack_cache {
	struct stack_arena *arena;
	struct fk_stack *free[STACK_CLASSES];
	uint32_t n[STACK_CLASSES];
	uint64_t allocated; /* stacklets taken, for the counters */
	int64_t bytes;	    /* now held by stacks that this worker took, less those it gave back */
};

/* Sets the arena up over [base, end). Returns 0 or a negative errno. */
int stack_arena_init(struct stack_arena *arena, char *base, char *end, int fd, char *map);
void stack_arena_fini(struct stack_arena *arena);

/* Puts n arenas into one ring, before anybody uses them. */
void stack_arena_link(struct stack_arena *arenas, uint32_t n);

/*
 * Gives the pages of freed stacklets back, one at a time. For a thread that may take its time.
 * Returns true if there was one.
 */
bool stack_arena_clean(struct stack_arena *arena);

/* A new empty stack. NULL if the arena is full. */
struct fk_stack *stack_new(struct stack_cache *cache);

/* Frees an empty stack. NULL is fine. */
void stack_free(struct stack_cache *cache, struct fk_stack *stack);

/* Where the first frame of a stacklet goes. */
static inline char *stack_first(struct fk_stack *stacklet)
{
	return (char *)(stacklet + 1);
}

/*
 * A stacklet on top of top, for a frame of size bytes whose caller's sp is sp. NULL if the arena is
 * full.
 */
struct fk_stack *stack_push(struct stack_cache *cache, struct fk_stack *top, char *sp, size_t size);

/* Takes the (empty) top stacklet off; returns the one below. It stays as that one's spare. */
struct fk_stack *stack_pop(struct stack_cache *cache, struct fk_stack *top);

#endif
