/* SPDX-License-Identifier: MIT */
/*
 * request_word.h - requests to a worker, which it takes at its next fork
 *
 * One word of the worker, its limit: the end of its stacklet, which each fork compares anyway. 0 is
 * a request. The kind of request is in other words, written before.
 *
 * Threads: request_ask(): any thread, and signal handlers. The others: the worker.
 *
 * INVARIANTS
 *   I1. Each change of the word is a read-modify-write. So a worker that takes a request sees the
 *       writes of all earlier requesters, not only of the last one; and a request that arrives
 *       while the worker stores another limit is not lost. clang 14 turns a relaxed or release
 *       exchange whose result is unused into a store, so these are acq_rel.
 *
 * Compiles with C11 alone: tests/model/request_word.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

static inline void request_ask(_Atomic uintptr_t *limit)
{
	/* ORDER attend [A1]: release, the worker that takes the request sees all writes before it
	 * (preempt). Pairs with request_take(). */
	atomic_exchange_explicit(limit, 0, memory_order_acq_rel);
}

/* Takes the requests, before the worker acts on them, so that a later one is not lost. */
static inline void request_take(_Atomic uintptr_t *limit, uintptr_t now)
{
	/* ORDER attend [A1]: acquire, pairs with request_ask(). */
	atomic_exchange_explicit(limit, now, memory_order_acquire);
}

/* Sets another limit and keeps a pending request. */
static inline void request_set(_Atomic uintptr_t *limit, uintptr_t now)
{
	/* ORDER attend [A1]: relaxed, a request that is put back here is still released by the
	 * threads that made it; acq_rel for I1 alone. */
	if (!atomic_exchange_explicit(limit, now, memory_order_relaxed))
		atomic_exchange_explicit(limit, 0, memory_order_acq_rel);
}
