/* SPDX-License-Identifier: MIT */
/*
 * join_counter.c - one owner after the join, which sees everything (daemon/core/join_counter.h)
 *
 * THE PROGRAM
 *   A parent whose continuation was stolen twice reaches its join, while its two children end. The
 *   first child runs on the parent's stack, above the parent, on the worker that has that stack. It
 *   gives the stack to the parent's frame before it counts, as strand_give_stack() does. The thread
 *   that continues the parent reads the results. It takes the stack out of the frame, as
 *   strand_take_stack() does, and writes where the child was.
 *
 * WHAT MUST BE TRUE
 *   Exactly one thread continues. It sees both results, the stack as the child left it, and the
 *   frame as the parent left it. No two threads write to the stack at the same time.
 *
 * MUTANTS
 *   MUTANT_ORDER   all counts are relaxed
 *   MUTANT_CHILD   a child counts down in two steps
 *   MUTANT_PARENT  the parent adds in two steps
 *   MUTANT_EARLY   the stack is given back after the count
 *   MUTANT_USES    the child writes to the stack after it has given that back
 *   MUTANT_RELEASE a child releases nothing
 *   MUTANT_ACQUIRE the last child acquires nothing
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#if defined(MUTANT_ORDER)
#define memory_order_acq_rel memory_order_relaxed
#elif defined(MUTANT_RELEASE)
#define memory_order_acq_rel memory_order_acquire
#elif defined(MUTANT_ACQUIRE)
#define memory_order_acq_rel memory_order_release
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

#include "daemon/core/join_counter.h"

#undef memory_order_acq_rel
/* The steps of run.h are not split. */
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(object, n, order) atomic_fetch_add(object, n)

#define MODEL_THREADS 3

/* Plain memory: only the thread that has the stack accesses it. */
struct stack {
	uint64_t top;
	uint64_t activation; /* of the child, then of what the parent calls next */
};

struct model {
	_Atomic int32_t joins;
	uint64_t results[2];
	struct stack stack;
	struct stack *given; /* the frame's */
	uint64_t site;
	uint32_t went_on[MODEL_THREADS];
};

static void model_init(struct model *m, uint32_t instance)
{
	(void)instance;
	atomic_store_explicit(&m->joins, 0, memory_order_relaxed);
	m->results[0] = m->results[1] = m->site = 0;
	m->stack.top = 2;
	m->stack.activation = 0;
	m->given = NULL;
	model_zero(&m->went_on);
}

static void go_on(struct model *m, uint32_t thread)
{
	model_assert(m->results[0] == 1 && m->results[1] == 2, "the owner sees the results");
	model_assert(m->given && m->given->top == 1, "the thread that continues takes the stack");
	m->given->activation = thread;
	m->given = NULL;
	model_assert(m->site == 4, "the owner sees where the parent stopped");
	m->went_on[thread] = 1;
}

static void give_stack(struct model *m)
{
	m->stack.top = 1;
	m->given = &m->stack;
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
	if (thread == 1)
		m->stack.activation = 100;
#ifndef MUTANT_EARLY
	if (thread == 1)
		give_stack(m);
#endif
	if (join_child(&m->joins))
		go_on(m, thread);
#ifdef MUTANT_EARLY
	if (thread == 1)
		give_stack(m);
#endif
#ifdef MUTANT_USES
	if (thread == 1)
		m->stack.activation = 200;
#endif
}

static void model_check(struct model *m)
{
	model_assert(m->went_on[0] + m->went_on[1] + m->went_on[2] == 1, "exactly one continues");
}

#include "tests/model/run.h"
