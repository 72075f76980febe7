/* SPDX-License-Identifier: MIT */
/* worker.h - what a worker is asked for, and how it is marked on the board */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "daemon/core/request_word.h"
#include "daemon/core/steal_policy.h"
#include "daemon/core/worker_state.h"
#include "shm/board.h"
#include "shm/proto.h"

struct pool;

#define WORKER_ROOTS	  64u		    /* queued jobs that a worker holds at most */
#define WORKER_SIGNAL	  PROTO_POOL_SIGNAL /* see worker_on_signal() */
#define WORKER_DELAYED	  1024u	     /* children that are kept back at most, each with a stack */
#define WORKER_FUZZ	  1024u	     /* bytes of frames with fuzz_seed, until the next look */
#define WORKER_STACK_NEST (1u << 20) /* bytes of its C stack for nested activations */

/* A counter of one's own, where ->counters says: a plain store to one's own cache line. */
#define COUNT_ADD(worker, name, x)                                                                 \
	atomic_store_explicit(&(worker)->counters->name,                                           \
			      load_relaxed(&(worker)->counters->name) + (x), memory_order_relaxed)
#define COUNT(worker, name) COUNT_ADD(worker, name, 1)

/* Relaxed: the thread that changes it wakes the worker if it rests, after a full fence
 * (pool/settings). */
static inline bool worker_is_parked(struct worker *worker)
{
	return load_relaxed(&worker->requests.parked);
}

/* The limit that asks for nothing: the end of the stacklet; 0 while every fork is to be stolen, and
 * somewhere before the end, or 0, with fuzz_seed. Owner. */
uintptr_t worker_limit(struct worker *worker);

/* Raises a worker's attention: it comes to fk_rt_attend() at its next fork. Any thread. */
static inline void worker_ask(struct worker *worker)
{
	request_ask(&worker->engine.fk.limit);
}

/* It has a request to take. Relaxed: a hint. */
static inline bool worker_is_asked(struct worker *worker)
{
	return !load_relaxed(&worker->engine.fk.limit);
}

/* Owner: takes the request, before it acts on it, so that a later one is not lost. */
static inline void worker_take_request(struct worker *worker)
{
	request_take(&worker->engine.fk.limit, worker_limit(worker));
	/* Relaxed: a hint for thieves. */
	store_relaxed(&worker->requests.signal_wait, POLICY_SIGNAL_MIN);
}

/* A number of its own: xorshift64. Owner. */
uint64_t worker_random(struct worker *worker);

/* The calling thread is this worker from now on. */
void worker_set_self(struct worker *worker);

/* The worker that the calling thread is, NULL on other threads. */
struct worker *worker_self(void);

/* True if a queued job waits in a root deque. After a full fence: see wake.h. */
bool worker_roots_pending(struct pool *pool);

/* Jobs were published on the worker's root deque; before worker_wake_one(). Owner. */
void worker_mark_roots(struct worker *worker);

/* A worker's root deque looked empty. Any thread. */
void worker_clear_roots(struct worker *from);
