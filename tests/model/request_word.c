/* SPDX-License-Identifier: MIT */
/*
 * request_word.c - a worker sees the requests of all threads (daemon/core/request_word.h)
 *
 * THE PROGRAM
 *   Two threads store their requests, and set the request word. The worker reaches a few forks,
 *   where it takes and reads pending requests. In between it changes its limit.
 *
 * WHAT MUST BE TRUE
 *   In the end a request is left to take, or the worker has seen all requests.
 *
 * MUTANTS
 *   MUTANT_ASK     a request is made relaxed
 *   MUTANT_STORE   a request is made by a store: only the last one is seen
 *   MUTANT_TAKE    requests are taken relaxed
 *   MUTANT_SET     another limit is stored, whatever was there
 * 	MUTANT_AFTER   the worker takes the requests after it has read them
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#if defined(MUTANT_ASK)
#define memory_order_acq_rel memory_order_relaxed
#elif defined(MUTANT_TAKE)
#define memory_order_acquire memory_order_relaxed
#elif defined(MUTANT_STORE)
#undef atomic_exchange_explicit
#define atomic_exchange_explicit(object, value, order)                                             \
	((value) ? __atomic_exchange_n((uintptr_t *)(object), value, __ATOMIC_ACQUIRE)             \
		 : (atomic_store_explicit(object, 0, memory_order_release), 1))
#endif
#ifdef MUTANT_SET
#define request_set request_set_of_the_header
#endif

#include "daemon/core/request_word.h"

#undef memory_order_acq_rel
#undef memory_order_acquire

#ifdef MUTANT_SET
#undef request_set
static void request_set(_Atomic uintptr_t *limit, uintptr_t now)
{
	uintptr_t old = atomic_load_explicit(limit, memory_order_relaxed);

	model_stumble();
	if (old)
		atomic_store_explicit(limit, now, memory_order_relaxed);
}
#endif

#define MODEL_THREADS 3

#define WORKER 2u
#ifdef MODEL_ONCE
#define FORKS 2u
#else
#define FORKS 6u
#endif

struct model {
	_Atomic uintptr_t limit;
	_Atomic uint32_t wanted[2];
	uint32_t seen[2]; /* the worker's */
};

static void model_init(struct model *m, uint32_t instance)
{
	(void)instance;
	atomic_store_explicit(&m->limit, 1000, memory_order_relaxed);
	for (uint32_t i = 0; i < 2; i++) {
		atomic_store_explicit(&m->wanted[i], 0, memory_order_relaxed);
		m->seen[i] = 0;
	}
}

static void look(struct model *m)
{
	for (uint32_t i = 0; i < 2; i++)
		if (atomic_load_explicit(&m->wanted[i], memory_order_relaxed))
			m->seen[i] = 1;
}

static void worker(struct model *m)
{
	for (uint32_t fork = 0; fork < FORKS; fork++) {
		if (!atomic_load_explicit(&m->limit, memory_order_relaxed)) {
#ifdef MUTANT_AFTER
			look(m);
			model_stumble();
			request_take(&m->limit, 2000 + fork);
#else
			request_take(&m->limit, 2000 + fork);
			look(m);
#endif
		}
		request_set(&m->limit, 1000 + fork);
	}
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == WORKER) {
		worker(m);
		return;
	}
	atomic_store_explicit(&m->wanted[thread], 1, memory_order_relaxed);
	request_ask(&m->limit);
}

static void model_check(struct model *m)
{
	model_assert(!atomic_load_explicit(&m->limit, memory_order_relaxed) ||
			     (m->seen[0] && m->seen[1]),
		     "what was asked for is seen, or a request is left");
}

#include "tests/model/run.h"
