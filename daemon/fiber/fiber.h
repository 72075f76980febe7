/* SPDX-License-Identifier: MIT */
/*
 * fiber.h - fibers: C functions on stacks of their own, among the frames of the workers
 *
 * WHAT IT IS
 *   What the parts of the fibers' runtime have of each other, and what the rest of the pool has of
 *   them. forkd/fiber.h is what authors see.
 *
 *   fiber.c          a fiber's life: spawned, switched to, leaves, ends
 *   fiber_wait.c     counters, waits, wakes
 *   fiber_time.c     waits for a time
 *   fiber_io.c       waits for input and output
 *   fiber_block.c    sections in which calls may block, on threads of their own
 *   fiber_family.c   what belongs together: how it begins and ends, and how cancels reach it
 *   fiber_call.c     frames run fibers, and fibers run frames
 *   fiber_stack.c    stacks of their own; fiber_berth.c, those that they share; fiber_memory.c,
 *                    memory for what they leave of these
 *
 * WORDS
 *   face: the frame by which a fiber stands in a deque. family: a root fiber, and all that it and
 *   those have spawned. front: the frame that runs a family, and goes on when all of it has ended.
 *   bridge: the frame that is the parent of what a fiber calls. berth: a stack that fibers share.
 *   side thread: one beside the workers, for a section that may block.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Workers; fibers_cancel() any thread of the pool. fibers_init(), fibers_fini(): the pool's main
 *   thread, before there are workers and after. fibers_check(): the dispatcher.
 *
 * INVARIANTS
 *   On top of fiber.c, fiber_wait.c, fiber_time.c and fiber_family.c.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A worker dies with the whole pool; which fiber it ran is told by fault.c.
 */
#ifndef DAEMON_FIBER_FIBER_H
#define DAEMON_FIBER_FIBER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <forkd/fiber.h>

#include "common/util.h"
#include "daemon/fiber/fiber_berth.h"
#include "daemon/fiber/fiber_memory.h"
#include "daemon/fiber/fiber_counter.h"
#include "daemon/fiber/fiber_park.h"
#include "daemon/core/fiber_stack.h"
#include "daemon/fiber/poller.h"
#include "daemon/core/switch.h"
#include "daemon/core/vheap.h"
#include "daemon/core/worker.h"

#define FIBER_SHARDS  16u /* lists of a family's parked fibers; heaps of timers */
#define FIBER_BUCKETS 64u /* lists of families */

/* What is to be done with a fiber that has left its stack. */
enum fiber_after {
	FIBER_AGAIN, /* goes on, unless others go first */
	FIBER_YIELDS,
	FIBER_PARKS,
	FIBER_CALLS,
	FIBER_BLOCKS,
	FIBER_ENDS,
};

/* A place in a list. */
struct fiber_link {
	struct fiber_link *prev, *next;
};

/* The fibers of a family that wait, of those workers whose index modulo FIBER_SHARDS is this. */
struct fiber_shard {
	_Alignas(64) pthread_mutex_t lock;
	struct fiber_link parked;
	struct fiber_link told; /* the same, cancelled; or waiting for others to end */
};

struct fiber_family {
	struct fk_frame *front;
	struct fiber *root;		   /* on whose stack this is */
	struct fiber_family *next, **prev; /* in its bucket; what points to it */
	bool told, telling;		   /* its fibers that the job is over: once; and just now */
	_Atomic uint64_t held;		   /* its fibers that only wait for others to end */
	_Atomic uint64_t stuck_ns;	   /* since when all do; 0: not all */
	/* Of the waits that the dispatcher has ended last: how deep, 0 for none so far; when; and
	 * how long, ns, it has ended others that were as deep. */
	uint64_t depth, parted_ns, vain_ns;
	_Alignas(64) _Atomic uint64_t live; /* its fibers that have not ended */
	struct fiber_shard shards[FIBER_SHARDS];
};

/* Of a fiber that waits for a time, or may. */
struct fiber_timer {
	struct vheap_node node;
	uint64_t generation; /* of the park that it ends */
	struct fiber_times *times;
	struct fiber_timer *next; /* that is due as well */
};

/* What a fiber reads, writes, accepts or polls. */
struct fiber_io {
	struct poller_op op;
	uint64_t generation; /* of its park */
};

/* What a fiber waits with: whoever wakes it finds that here, and not on its stack. */
struct fiber_waits {
	struct fiber_timer timer;
	union {
		struct fiber_counter_node node;
		struct fiber_io io;
	};
};

/* The task that a fiber has called. */
struct fiber_calls {
	struct fk_frame bridge;
	void (*enter)(struct fk_worker *w, char *sp, void *result, const void *args);
	const struct fk_task *task;
	void *result;
	const void *args;
};

/* Stands at the high end of its stack, or, where it shares one, in a block. */
struct fiber {
	struct fk_frame face;
	struct switch_context context;
	struct fiber_park park;
	uint8_t after; /* enum fiber_after */
	bool shared;   /* its stack */
	bool refused;  /* it was to leave that, and there was no memory for a copy */
	bool does_io;  /* what it waits for, if it does, is waits.io */
	uint16_t shard;
	uint64_t depth;	       /* spawns from its family's root to it */
	struct worker *worker; /* it runs on, or has run on last */
	struct fiber_family *family;
	struct fk_counter *counter; /* that is told of its end, or NULL */
	void (*fn)(void *arg);
	void *arg;
	const char *name;
	struct fiber_stack *stack; /* NULL: it is to share one, and has not begun */
	struct fiber_copy copy;	   /* if it shares one */
	struct fiber_link link;	   /* while it is parked, in its shard */
	union {			   /* it does one thing at a time */
		struct fiber_waits waits;
		struct fiber_calls calls;
	};
	void **locals;		 /* FK_LOCALS of them, once it has one */
	struct fiber_side *side; /* that it is on in a section, or NULL */
	int no_section;		 /* why a section has not begun */
	struct fiber_tries {
		uint8_t vain : 4;  /* so many were left out after the last, which was in vain */
		uint8_t blind : 4; /* so many are to be left out still */
	} tries[4];		   /* of each kind of I/O */
};

static inline struct fiber *fiber_of(struct fk_frame *face)
{
	return container_of(face, struct fiber, face);
}

/* The families of jobs whose row modulo FIBER_BUCKETS is this. */
struct fiber_bucket {
	_Alignas(64) pthread_mutex_t lock;
	pthread_cond_t told; /* of a family */
	struct fiber_family *first;
};

/* The fibers that wait for a time, of those workers whose index modulo FIBER_SHARDS is this. */
struct fiber_times {
	_Alignas(64) pthread_mutex_t lock;
	struct vheap heap; /* of timers, v: CLOCK_MONOTONIC, ns */
	uint32_t room;	   /* in the heap */
	uint64_t n_set;
	_Atomic uint64_t first_ns; /* the first one's v; 0: there is none */
};

/* The threads for sections in which calls may block, and who waits for one: fiber_block.c. */
struct fiber_sides {
	_Alignas(64) pthread_mutex_t lock;
	pthread_cond_t some;	 /* fibers in the queue, or the end */
	struct fiber_link queue; /* that wait for a thread */
	uint32_t n_queued;
	uint32_t n_idle; /* threads without a fiber */
	uint32_t n, max;
	bool ends;
	struct fiber_side *first;
};

/* Those of a pool. All zero: there are none. */
struct fibers {
	struct fiber_stacks stacks;
	struct fiber_memory blocks;
	struct fiber_berths berths;
	struct fiber_bucket buckets[FIBER_BUCKETS];
	struct fiber_times times[FIBER_SHARDS];
	struct poller poller;
	int poller_error; /* 0, or why there is none */
	struct fiber_sides sides;
	_Atomic uint64_t look_ns; /* when fibers_look() is to look; 0: not at all */
	int error;		  /* why there can be none; 0: there can */
};

/* After layout_make(). Returns 0, or a negative errno: there are no stacks, and tasks that are
 * fibers fail with that. fibers_fini() is to be called in both cases. */
int fibers_init(struct pool *pool);
void fibers_fini(struct pool *pool);

static inline void fiber_list_init(struct fiber_link *list)
{
	list->prev = list->next = list;
}

static inline void fiber_list_add(struct fiber_link *list, struct fiber_link *link)
{
	link->prev = list->prev;
	link->next = list;
	list->prev->next = link;
	list->prev = link;
}

static inline void fiber_list_remove(struct fiber_link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
}

/* fiber.c */

/* The fiber that calls; NULL if the caller is none. */
struct fiber *fiber_self(void);

/* What a fiber is made of. */
struct fiber_plan {
	void (*fn)(void *arg);
	void *arg;
	const char *name;
	uint32_t kind; /* FK_STACK_... */
	size_t stack;  /* bytes */
	size_t room;   /* bytes for others at the high end of its stack */
};

/* A fiber of the worker's job that nobody knows of yet. Returns 0 or a negative errno. */
int fiber_new(struct worker *worker, struct fiber_family *family, const struct fiber_plan *plan,
	      struct fiber **ret_fiber);

/* Its stack goes back: nobody knows of it any more. */
void fiber_free(struct worker *worker, struct fiber *fiber);

/* In the fiber: leaves its stack, and comes back when it goes on. False: it could not leave, for
 * want of memory for what is there, and nothing was done. */
bool fiber_leave(struct fiber *fiber, enum fiber_after after);

/* In the fiber, which has begun a park: leaves its stack until it is woken. False: it could not,
 * and nobody has woken it; it is OUT. */
bool fiber_rest(struct fiber *fiber);

/* Is any of these bytes on a stack that the fiber shares? There they stay only while it runs. */
static inline bool fiber_on_shared_stack(const struct fiber *f, const void *ptr, size_t len)
{
	uintptr_t at, low;

	if (!f->shared)
		return false;
	at = (uintptr_t)ptr;
	low = (uintptr_t)f->stack->low;
	return at - low < f->stack->size || low - at < len;
}

/* The job of the worker holds so many bytes more. False: it may not. */
bool fiber_charge(struct worker *worker, uint64_t bytes);
void fiber_refund(struct worker *worker, uint32_t job, uint64_t bytes);

/* The fiber, which is on no stack, begins on the lowest size bytes of this one. */
void fiber_begin_on(struct fiber *fiber, struct fiber_stack *stack, size_t size);

/* The worker has it in hand, and runs fibers or the loop, but no frame: it is to go on, here or on
 * whoever steals it. */
void fiber_put(struct worker *worker, struct fiber *fiber);

/* The fiber's job is over. */
bool fiber_is_over(const struct fiber *fiber);

/* fiber_wait.c */

/* Has won the wake of a fiber that is parked: makes it go on. w: the worker that the caller is, or
 * NULL. */
void fiber_ready(struct worker *w, struct fiber *fiber);

/* Of a fiber that is to go on: any worker may run it. */
bool fiber_goes_anywhere(const struct fk_frame *face);

/* Puts a fiber that is to go on into a worker's inbox, and has that look there. */
void fiber_send(struct worker *to, struct fiber *fiber);
void fiber_rouse(struct worker *to);

/* The same of many that no worker has woken: each, and then all of them. A batch is all zero at
 * first. */
struct fiber_batch {
	uint64_t workers[LIMIT_WORKERS / 64];
};
void fiber_ready_one(struct fiber_batch *batch, struct fiber *fiber);
void fiber_ready_all(struct pool *pool, const struct fiber_batch *batch);

/* A fiber is spawned with this counter. Returns 0; -EINVAL if it is none for fibers, -ERANGE. */
int fiber_counter_begin(struct fk_counter *counter);
/* It has ended, or was not spawned after all. */
void fiber_counter_end(struct worker *worker, struct fk_counter *counter);

/* fiber_time.c */

void fiber_times_init(struct fibers *fibers);
void fiber_times_fini(struct fibers *fibers);

/* In the fiber, which has begun a park of this generation: it is woken at this time at the latest,
 * for FIBER_DEADLINE; or its I/O ends then, if it does some. Returns 0 or -ENOMEM. */
int fiber_timer_set(struct fiber *fiber, uint64_t generation, uint64_t at_ns);

/* In the fiber, which goes on: nobody touches its timer after it. Not needed if that has woken it.
 */
void fiber_timer_clear(struct fiber *fiber);

/* Makes fibers go on whose time has come. Returns when the next look is due, 0 if there is none to
 * come. */
uint64_t fibers_check(struct pool *pool);

/* fiber_io.c */

/* 0, or a negative errno: fibers do without then. */
int fiber_io_init(struct pool *pool);
void fiber_io_fini(struct pool *pool);

/* What the fiber waits for, if it is I/O, ends early, with this error. The caller holds the lock of
 * the list or the heap in which it has found the fiber or its timer. */
void fiber_io_end(struct pool *pool, struct fiber *fiber, int error);

/* fiber_block.c */

void fiber_sides_init(struct pool *pool);
/* No worker is left: the threads end. */
void fiber_sides_fini(struct pool *pool);

/* In the loop: a section begins. Returns what to run next. */
struct fk_frame *fiber_block(struct worker *worker, struct fiber *fiber);

/* True if the job of this row has fibers that have not ended. Any thread of the pool. */
bool fibers_has_family(struct pool *pool, uint32_t row);

/* The job of this row has an outcome: its fibers wait for no thread any more. */
void fiber_blocks_cancel(struct pool *pool, uint32_t row);

/* The fiber whose section the calling thread runs; NULL if it runs none. Async-signal-safe. */
struct fiber *fiber_on_side(void);

/* fiber_local.c */

/* In the fiber, which ends: what it has of its own goes. */
void fiber_locals_end(struct fiber *fiber);

/* fiber_family.c */

/* The fiber waits, and fibers_cancel() finds it, from here on; and not any more. */
void fiber_wait_begin(struct fiber *fiber);
void fiber_wait_end(struct fiber *fiber);

/* Returns 0 or a negative errno. */
int fiber_family_new(struct worker *worker, struct fk_frame *front, void (*fn)(void *),
		     size_t stack, const char *name, struct fiber_family **ret_family);

/* A fiber of the family has ended. Returns what runs next: the front, if it was the last. */
struct fk_frame *fiber_family_leave(struct worker *worker, struct fiber_family *family);

/* The job of this row has an outcome: its fibers wait no more. Any thread of the pool. */
void fibers_cancel(struct pool *pool, uint32_t row);

/* The fiber, whose job is over, waits for others' ends from here on; and not any more. */
void fiber_held_begin(struct fiber *fiber);
void fiber_held_end(struct fiber *fiber);

/* Ends waits of fibers whose jobs are over and that wait for each other's end. The dispatcher.
 * Returns when to come back, 0: there is no need. */
uint64_t fibers_look(struct pool *pool);

/* fiber_call.c */

/* In the loop: the fiber calls a task. Returns what to run next. */
struct fk_frame *fiber_call(struct worker *worker, struct fiber *fiber);

#endif
