/* SPDX-License-Identifier: MIT */
/*
 * group.c - a count of 0 says that all have ended, and no thread sleeps through it
 * (shm/group.h, I1 and I2)
 *
 * THE PROGRAM
 *   A group has one job, of worker 0. A client adds a second one and publishes it. If it finds the
 *   count at 0, it begins a new generation. Worker 1 takes the second job; if it arrives before the
 *   publication, the client ends the job itself. Each stores a result, then the outcome, and counts
 *   down. The client waits for the group. In every third instance it adds nothing, and worker 1
 *   waits for the first job as well.
 *
 * WHAT MUST BE TRUE
 *   A thread that sees the end of its generation sees the results of all jobs in it; one that
 *   sleeps is woken; in the end the count is 0.
 *
 * MUTANTS
 *   MUTANT_RELEASE   the count goes down relaxed
 *   MUTANT_ACQUIRE   the count is read relaxed
 *   MUTANT_SUB       the count goes down by a load and a store
 * 	MUTANT_ANNOUNCE  the waiter bit and the added count are stored, not put in by a CAS
 * 	MUTANT_LOOK      the waiter bit is checked before the count goes down
 *   MUTANT_LATE      the second job is added after it was published
 *   MUTANT_OUTCOME   the count goes down before the outcome
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#ifdef MUTANT_RELEASE
#define memory_order_release memory_order_relaxed
#endif
#ifdef MUTANT_ACQUIRE
#define memory_order_acquire memory_order_relaxed
#endif
#ifdef MUTANT_SUB
#undef atomic_fetch_sub_explicit
#define atomic_fetch_sub_explicit(object, n, order)                                                \
	({                                                                                         \
		uint32_t model_old = atomic_load_explicit(object, memory_order_relaxed);           \
		model_stumble();                                                                   \
		atomic_store_explicit(object, model_old - (n), order);                             \
		model_old;                                                                         \
	})
#endif
#ifdef MUTANT_ANNOUNCE
#undef atomic_compare_exchange_weak_explicit
#define atomic_compare_exchange_weak_explicit(object, old, value, order, failed)                   \
	({                                                                                         \
		uint32_t model_value = (value);                                                    \
		model_stumble();                                                                   \
		atomic_store_explicit(object, model_value, memory_order_relaxed);                  \
		1;                                                                                 \
	})
#endif
#ifdef MUTANT_LOOK
#define group_done group_done_of_the_header
#endif

#include "shm/group.h"

#ifdef MUTANT_LOOK
#undef group_done
static inline int group_done(struct group *group, uint32_t n)
{
	uint32_t waiter = atomic_load_explicit(&group->word, memory_order_relaxed) & GROUP_WAITER;
	uint32_t old;

	model_stumble();
	old = atomic_fetch_sub_explicit(&group->word, n, memory_order_release);
	return group_count(old) == n && waiter;
}
#endif

#undef memory_order_release
#undef memory_order_acquire

#define MODEL_THREADS 3

#define CLIENT 2u
#define RESULT UINT64_C(0x0123456789abcdef)

/* Of the second job. */
#define NOT_YET	  0u
#define PUBLISHED 1u
#define MISSED	  2u /* worker 1 was there and found none */

struct model {
	struct group group;
	struct model_futex futex;
	uint32_t adds; /* constant: the client adds the second job */
	_Atomic uint32_t second;
	uint64_t results[2];
};

static void model_init(struct model *m, uint32_t instance)
{
	m->adds = instance % 3 != 2;
	m->results[0] = 0;
	m->results[1] = 0;
	atomic_store_explicit(&m->second, NOT_YET, memory_order_relaxed);
	/* In some the generation overflows, and an old waiter bit is set. */
	atomic_store_explicit(&m->group.word, instance % 2 ? 0xffff0000u : GROUP_WAITER,
			      memory_order_relaxed);
	group_add(&m->group, 1);
	model_futex_init(&m->futex);
}

static void end(struct model *m, uint32_t job)
{
	int waiters;

#ifdef MUTANT_OUTCOME
	waiters = group_done(&m->group, 1);
	m->results[job] = RESULT;
#else
	m->results[job] = RESULT;
	waiters = group_done(&m->group, 1);
#endif
	if (waiters)
		model_wake(&m->futex);
}

/* n: jobs that this thread knows to be in the group. */
static void wait_for(struct model *m, uint32_t thread, uint32_t n)
{
	uint32_t word = group_load(&m->group);

	if (group_count(word)) {
		for (;;) {
			uint32_t value = group_announce(&m->group, group_generation(word));

			if (!value)
				break;
			if (model_wait(&m->futex, &m->group.word, value, thread))
				return;
		}
	}
	for (uint32_t i = 0; i < n; i++)
		model_assert(m->results[i] == RESULT, "a reader of the end sees the results");
}

static void client(struct model *m)
{
	if (m->adds) {
#ifndef MUTANT_LATE
		group_add(&m->group, 1);
#endif
		if (atomic_exchange_explicit(&m->second, PUBLISHED, memory_order_acq_rel) == MISSED)
			end(m, 1);
#ifdef MUTANT_LATE
		model_stumble();
		group_add(&m->group, 1);
#endif
	}
	wait_for(m, CLIENT, m->adds ? 2 : 1);
}

/* The second job, which is published and has not ended. */
static void second(struct model *m)
{
	model_assert(group_count(group_load(&m->group)), "what is published is counted");
	end(m, 1);
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == 0)
		end(m, 0);
	else if (thread == CLIENT)
		client(m);
	else if (!m->adds)
		wait_for(m, thread, 1);
	else if (atomic_exchange_explicit(&m->second, MISSED, memory_order_acq_rel) == PUBLISHED)
		second(m);
}

static void model_check(struct model *m)
{
	uint32_t word = atomic_load_explicit(&m->group.word, memory_order_relaxed);

	model_assert(!group_count(word), "every job was counted down, each once");
	model_assert(!m->futex.sleeping, "a sleeper is woken");
}

#include "tests/model/run.h"
