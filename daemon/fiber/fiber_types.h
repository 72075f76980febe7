/* SPDX-License-Identifier: MIT */
/* fiber_types.h - a fiber, its scope, and the pool's data for them */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <forkd/fiber.h>

#include "common/list.h"
#include "common/util.h"
#include "daemon/core/fiber_head.h"
#include "daemon/core/fiber_stack.h"
#include "daemon/core/context_switch.h"
#include "daemon/core/vheap.h"
#include "daemon/fiber/wait_counter.h"
#include "daemon/fiber/slab.h"
#include "daemon/fiber/park_word.h"
#include "daemon/fiber/io_poller.h"

struct pool;

#define FIBER_SHARDS  16u /* lists of a scope's parked fibers; heaps of timers */
#define FIBER_BUCKETS 64u /* lists of scopes */
#define FIBERS_LATER  0	  /* no memory for stacks and records is reserved yet */
#define FIBERS_READY  1	  /* it is reserved */

/* What the loop does with a fiber that has left its stack. */
enum fiber_after {
	FIBER_AGAIN, /* continues, unless it is preempted */
	FIBER_YIELDS,
	FIBER_PARKS,
	FIBER_CALLS,
	FIBER_BLOCKS,
	FIBER_ENDS,
};

/* Waiting fibers of a scope, from workers whose index modulo FIBER_SHARDS is this. */
struct fiber_shard {
	_Alignas(64) pthread_mutex_t lock;
	struct list_link parked;
	struct list_link cancelled; /* the same, cancelled; or waiting for others to end */
};

struct scope {
	struct fk_frame *owner;
	struct fiber *root;	    /* this scope is on its stack */
	struct list_link link;	    /* in its bucket */
	bool cancelled, cancelling; /* see cancel.c, I1; scope.c, I1 */
	_Atomic uint64_t held;	    /* fibers that only wait for others to end */
	_Atomic uint64_t stuck_ns;  /* time since all do; 0: not all */
	/* Last waits that the dispatcher has ended: their depth, 0: none; when; and for how long it
	 * has ended waits of that depth, ns. */
	uint64_t depth, ended_ns, same_depth_ns;
	_Alignas(64) _Atomic uint64_t live; /* fibers that have not ended */
	struct fiber_shard shards[FIBER_SHARDS];
};

/* A stack that fibers share: shared_stack.h. */
struct shared_stack {
	/* the holder writes; threads that send fibers read */
	_Alignas(CACHE_LINE) _Atomic uint32_t holder; /* a worker's index */
	/* constant once it has fibers */
	uint32_t home; /* a worker's index */
	struct fiber_stack *stack;
	/* the holder's */
	struct fiber *resident; /* fiber whose bytes are on the stack, or NULL */
};

struct shared_stacks {
	struct shared_stack *shared_stacks; /* one for each worker */
	pthread_mutex_t lock;		    /* held to make their stacks */
	_Atomic bool ready;
};

/* A fiber's part of a shared stack. */
struct fiber_copy {
	struct shared_stack *shared; /* NULL: the fiber has not begun */
	char *bytes;		     /* room for its part of the stack */
	uint32_t room;		     /* bytes */
};

/* Timer of a fiber that waits for a time. */
struct fiber_timer {
	struct vheap_node node;
	uint64_t generation; /* of the park that it ends */
	struct fiber_times *times;
	struct fiber_timer *next; /* next timer that is due */
};

/* An I/O operation of a fiber. */
struct fiber_io {
	struct poller_op op;
	uint64_t generation; /* of its park */
};

/* State of a waiting fiber. Wakers find it here, not on the fiber's stack. */
struct fiber_waits {
	struct fiber_timer timer;
	union {
		struct fiber_counter_node node;
		struct fiber_io io;
	};
};

/* The task that a fiber calls. */
struct fiber_calls {
	struct fk_frame frame;
	void (*enter)(struct fk_worker *w, char *sp, void *result, const void *args);
	const struct fk_task *task;
	void *result;
	const void *args;
};

/* Record at the high end of the fiber's stack, or in a block if it uses a shared stack. */
struct fiber {
	struct fiber_head head;
	struct switch_context context;
	struct fiber_park park;
	uint8_t after; /* enum fiber_after */
	bool shared;   /* it uses a shared stack */
	bool refused;  /* could not leave its stack: no memory for a copy */
	bool does_io;  /* waits for waits.io, if it waits */
	uint16_t shard;
	uint64_t depth; /* spawns from its scope's root to it */
	struct scope *scope;
	struct fk_counter *counter; /* counted down at its end, or NULL */
	void (*fn)(void *arg);
	void *arg;
	struct fiber_copy copy; /* with a shared stack */
	struct list_link link;	/* while it is parked, in its shard */
	union {			/* one at a time */
		struct fiber_waits waits;
		struct fiber_calls calls;
	};
	void **locals;	/* FK_LOCALS values; NULL: none was used */
	int no_section; /* why a section could not begin */
	struct fiber_tries {
		uint8_t failed : 4; /* number of tries to skip after the last failure */
		uint8_t skip : 4;   /* of these, number left */
	} tries[4];		    /* of each kind of I/O */
};

static inline struct fiber *fiber_of(struct fk_frame *frame)
{
	return container_of(frame, struct fiber, head.frame);
}

/* Scopes of jobs whose row modulo FIBER_BUCKETS is this. */
struct fiber_bucket {
	_Alignas(64) pthread_mutex_t lock;
	pthread_cond_t cancelled; /* a scope has been cancelled */
	struct list_link scopes;
};

/* Timers of fibers, from workers whose index modulo FIBER_SHARDS is this. */
struct fiber_times {
	_Alignas(64) pthread_mutex_t lock;
	struct vheap heap; /* of timers, v: CLOCK_MONOTONIC, ns */
	uint32_t room;	   /* in the heap */
	uint64_t n_set;
	_Atomic uint64_t first_ns; /* v of the first timer; 0: none */
};

/* Blocking threads, and the fibers that wait for one: blocking_section.c. */
struct blocking_threads {
	_Alignas(64) pthread_mutex_t lock;
	pthread_cond_t some;	/* a fiber is in the queue, or the pool ends */
	struct list_link queue; /* fibers that wait for a thread */
	uint32_t n_queued;
	uint32_t n_idle; /* threads without a fiber */
	uint32_t n, max;
	bool ends;
	struct blocking_thread *first;
};

/* The fibers of a pool. All zero: none. The locks of shared_stacks, buckets and times are not
 * initialized, which would touch their pages: all zero is PTHREAD_MUTEX_INITIALIZER of glibc and
 * musl. */
struct fibers {
	struct fiber_stacks stacks;
	struct shared_stacks shared_stacks;
	_Atomic uint64_t look_ns; /* time of the next fibers_look(); 0: none */
	_Atomic int error;	  /* why there can be no fibers; FIBERS_LATER, FIBERS_READY */
	struct blocking_threads blocking;
	struct poller poller;
	struct fiber_times times[FIBER_SHARDS];
	struct fiber_memory blocks;
	struct fiber_bucket buckets[FIBER_BUCKETS];
};
