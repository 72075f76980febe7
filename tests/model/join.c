/* SPDX-License-Identifier: MIT */
/*
 * tests/model/join.c - one owner after the join, who sees everything (daemon/join.h)
 *
 * THE PROGRAM
 *   A parent whose continuation was stolen twice comes to its join, while its two children end. The
 *   first child ran above the parent on its stack and gives that back. Who is told to go on reads
 *   the results and takes the stack.
 *
 * WHAT MUST BE TRUE
 *   Exactly one goes on, and it sees both results, the stack, and the frame as the parent left it.
 *
 * MUTANTS
 *   MUTANT_ORDER   all counts are relaxed
 *   MUTANT_CHILD   a child counts down in two steps
 *   MUTANT_PARENT  the parent adds in two steps
 *   MUTANT_EARLY   the stack is given back after the count
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#ifdef MUTANT_ORDER
#define memory_order_acq_rel memory_order_relaxed
#endif
#define MODEL_TWO_STEPS(object, value)                                                             \
	({                                                                                         \
		int32_t model_old = atomic_load_explicit(object, memory_order_acquire);            \
		model_stumble();                                                                   \
		atomic_store_explicit(object, value, memory_order_release);                        \
		model_old;                                                                         \
	})
#ifdef MUTANT_CHILD
#undef atomic_fetch_sub_explicit
#define atomic_fetch_sub_explicit(object, n, order) MODEL_TWO_STEPS(object, model_old - (n))
#endif
#ifdef MUTANT_PARENT
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(object, n, order) MODEL_TWO_STEPS(object, model_old + (n))
#endif

#include "daemon/join.h"

#undef memory_order_acq_rel
/* run.h's own steps are whole. */
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(object, n, order) atomic_fetch_add(object, n)

#define MODEL_THREADS 3

struct model {
	_Atomic int32_t joins;
	uint64_t results[2];
	uint64_t stack;
	uint64_t site;
	uint32_t went_on[MODEL_THREADS];
};

static void model_init(struct model *m, uint32_t instance)
{
	(void)instance;
	atomic_store_explicit(&m->joins, 0, memory_order_relaxed);
	m->results[0] = m->results[1] = m->stack = m->site = 0;
	model_zero(&m->went_on);
}

static void go_on(struct model *m, uint32_t thread)
{
	model_assert(m->results[0] == 1 && m->results[1] == 2, "who goes on sees the results");
	model_assert(m->stack == 3, "who goes on takes the stack");
	model_assert(m->site == 4, "who goes on sees where the parent stopped");
	m->went_on[thread] = 1;
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == 0) {
		m->site = 4;
		if (join_parent(&m->joins, 2))
			go_on(m, thread);
		return;
	}
	m->results[thread - 1] = thread;
#ifndef MUTANT_EARLY
	if (thread == 1)
		m->stack = 3;
#endif
	if (join_child(&m->joins))
		go_on(m, thread);
#ifdef MUTANT_EARLY
	if (thread == 1)
		m->stack = 3;
#endif
}

static void model_check(struct model *m)
{
	model_assert(m->went_on[0] + m->went_on[1] + m->went_on[2] == 1, "exactly one goes on");
}

#include "tests/model/run.h"
