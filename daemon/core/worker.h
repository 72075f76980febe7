/* SPDX-License-Identifier: MIT */
/* worker.h - requests to workers, and their marks on the board */
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

#define WORKER_ROOTS	  64u		    /* maximum number of queued jobs that a worker holds */
#define WORKER_SIGNAL	  PROTO_POOL_SIGNAL /* of the pool process; others: struct pool */
#define WORKER_DELAYED	  1024u	     /* maximum number of delayed children, each with a stack */
#define WORKER_FUZZ	  1024u	     /* bytes of frames with fuzz_seed, until the next check */
#define WORKER_STACK_NEST (1u << 20) /* bytes of its C stack for nested activations */

/* Adds to a worker's own counter (worker->counters): a plain store to its own cache line. */
#define COUNT_ADD(worker, name, x)                                                                 \
	atomic_store_explicit(&(worker)->counters->name,                                           \
			      load_relaxed(&(worker)->counters->name) + (x), memory_order_relaxed)
#define COUNT(worker, name) COUNT_ADD(worker, name, 1)

/* Relaxed: the thread that changes it wakes the worker if it sleeps, after a full fence
 * (pool/settings). */
static inline bool worker_is_parked(struct worker *worker)
{
	return load_relaxed(&worker->requests.parked);
}

/* Returns the limit without a request: the end of the stacklet. 0 if every fork counts as stolen;
 * with fuzz_seed somewhere before the end, or 0. Owner. */
uintptr_t worker_limit(struct worker *worker);

/* Sends a request: the worker calls fk_rt_attend() at its next fork. Any thread. */
static inline void worker_ask(struct worker *worker)
{
	request_ask(&worker->engine.fk.limit);
}

/* True if it has a pending request. Relaxed: a hint. */
static inline bool worker_is_asked(struct worker *worker)
{
	return !load_relaxed(&worker->engine.fk.limit);
}

/* Owner: takes the request, before acting on it, so that a later one is not lost. */
static inline void worker_take_request(struct worker *worker)
{
	request_take(&worker->engine.fk.limit, worker_limit(worker));
	/* Relaxed: a hint for thieves. */
	store_relaxed(&worker->requests.signal_wait, POLICY_SIGNAL_MIN);
}

/* Returns a number of the worker's own random generator: xorshift64. Owner. */
uint64_t worker_random(struct worker *worker);

/* Makes the calling thread this worker. */
void worker_set_self(struct worker *worker);

/* Returns the calling thread's worker, NULL on other threads. */
struct worker *worker_self(void);

/* True if a queued job waits in a root deque. After a full fence: see wake.h. */
bool worker_roots_pending(struct pool *pool);

/* Jobs were published on the worker's root deque; call before worker_wake_one(). Owner. */
void worker_mark_roots(struct worker *worker);

/* A worker's root deque looked empty. Any thread. */
void worker_clear_roots(struct worker *from);
