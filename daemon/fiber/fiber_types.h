/* SPDX-License-Identifier: MIT */
/*
 * fiber_types.h - a fiber, its scope, and what a pool has for them
 */
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

/* What the loop does with a fiber that has left its stack. */
enum fiber_after {
	FIBER_AGAIN, /* continues, unless it is preempted */
	FIBER_YIELDS,
	FIBER_PARKS,
	FIBER_CALLS,
	FIBER_BLOCKS,
	FIBER_ENDS,
};

/* The fibers of a scope that wait, of those workers whose index modulo FIBER_SHARDS is this. */
struct fiber_shard {
	_Alignas(64) pthread_mutex_t lock;
	struct list_link parked;
	struct list_link cancelled; /* the same, cancelled; or waiting for others to end */
};

struct scope {
	struct fk_frame *owner;
	struct fiber *root;	    /* on whose stack this is */
	struct list_link link;	    /* in its bucket */
	bool cancelled, cancelling; /* see cancel.c, I1; scope.c, I1 */
	_Atomic uint64_t held;	    /* its fibers that only wait for others to end */
	_Atomic uint64_t stuck_ns;  /* since when all do; 0: not all */
	/* Of the waits that the dispatcher has ended last: how deep, 0 for none; when; and for how
	 * long, ns, it has ended waits of that depth. */
	uint64_t depth, ended_ns, same_depth_ns;
	_Alignas(64) _Atomic uint64_t live; /* its fibers that have not ended */
	struct fiber_shard shards[FIBER_SHARDS];
};

/* A stack that fibers share: shared_stack.h. */
struct shared_stack {
	/* the holder writes; others read where fibers are to be sent */
	_Alignas(CACHE_LINE) _Atomic uint32_t holder; /* a worker's index */
	/* constant once there are fibers of it */
	uint32_t home; /* the same */
	struct fiber_stack *stack;
	/* the holder's */
	struct fiber *resident; /* whose bytes are there, or NULL */
};

struct shared_stacks {
	struct shared_stack *shared_stacks; /* one for each worker */
	pthread_mutex_t lock;		    /* held to make their stacks */
	_Atomic bool ready;
};

/* A fiber's part of a shared stack. */
struct fiber_copy {
	struct shared_stack *shared; /* NULL: it has not begun */
	char *bytes;		     /* room for what it has on the stack */
	uint32_t room;		     /* bytes */
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

/* What a fiber waits with: wakers find that here, and not on its stack. */
struct fiber_waits {
	struct fiber_timer timer;
	union {
		struct fiber_counter_node node;
		struct fiber_io io;
	};
};

/* The task that a fiber has called. */
struct fiber_calls {
	struct fk_frame frame;
	void (*enter)(struct fk_worker *w, char *sp, void *result, const void *args);
	const struct fk_task *task;
	void *result;
	const void *args;
};

/* At the high end of its stack, or, if it shares one, in a block. */
struct fiber {
	struct fiber_head head;
	struct switch_context context;
	struct fiber_park park;
	uint8_t after; /* enum fiber_after */
	bool shared;   /* its stack */
	bool refused;  /* it could not leave that: no memory for a copy */
	bool does_io;  /* what it waits for, if it does, is waits.io */
	uint16_t shard;
	uint64_t depth; /* spawns from its scope's root to it */
	struct scope *scope;
	struct fk_counter *counter; /* counted down at its end, or NULL */
	void (*fn)(void *arg);
	void *arg;
	struct fiber_copy copy; /* if it shares one */
	struct list_link link;	/* while it is parked, in its shard */
	union {			/* one at a time */
		struct fiber_waits waits;
		struct fiber_calls calls;
	};
	void **locals;	/* FK_LOCALS of them, once it has one */
	int no_section; /* why a section has not begun */
	struct fiber_tries {
		uint8_t failed : 4; /* tries to skip after the last, which has failed */
		uint8_t skip : 4;   /* of these, still to be skipped */
	} tries[4];		    /* of each kind of I/O */
};

static inline struct fiber *fiber_of(struct fk_frame *frame)
{
	return container_of(frame, struct fiber, head.frame);
}

/* The scopes of jobs whose row modulo FIBER_BUCKETS is this. */
struct fiber_bucket {
	_Alignas(64) pthread_mutex_t lock;
	pthread_cond_t cancelled; /* of a scope */
	struct list_link scopes;
};

/* The fibers that wait for a time, of those workers whose index modulo FIBER_SHARDS is this. */
struct fiber_times {
	_Alignas(64) pthread_mutex_t lock;
	struct vheap heap; /* of timers, v: CLOCK_MONOTONIC, ns */
	uint32_t room;	   /* in the heap */
	uint64_t n_set;
	_Atomic uint64_t first_ns; /* the first one's v; 0: there is none */
};

/* Blocking threads, and the fibers that wait for one: blocking_section.c. */
struct blocking_threads {
	_Alignas(64) pthread_mutex_t lock;
	pthread_cond_t some;	/* fibers in the queue, or the end */
	struct list_link queue; /* that wait for a thread */
	uint32_t n_queued;
	uint32_t n_idle; /* threads without a fiber */
	uint32_t n, max;
	bool ends;
	struct blocking_thread *first;
};

/* Of a pool. All zero: there are none. */
struct fibers {
	struct fiber_stacks stacks;
	struct fiber_memory blocks;
	struct shared_stacks shared_stacks;
	struct fiber_bucket buckets[FIBER_BUCKETS];
	struct fiber_times times[FIBER_SHARDS];
	struct poller poller;
	int poller_error; /* 0, or why there is none */
	struct blocking_threads blocking;
	_Atomic uint64_t look_ns; /* when fibers_look() is to look; 0: not at all */
	int error;		  /* why there can be none; 0: there can */
};
