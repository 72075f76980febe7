/* SPDX-License-Identifier: MIT */
/*
 * job.c - one outcome, complete, and no waiter left asleep (shm/job.h, I1)
 *
 * THE PROGRAM
 *   A worker stores a result and finishes the job. Two threads of the client announce themselves,
 *   sleep, and read the result when there is an outcome. One of them polls first.
 *
 * WHAT MUST BE TRUE
 *   A reader of the outcome sees the whole result; a sleeper is woken; the outcome stays.
 *
 * MUTANTS
 *   MUTANT_RELEASE   job_finish() exchanges relaxed
 *   MUTANT_ACQUIRE   job_outcome() loads relaxed
 *   MUTANT_EXCHANGE  job_finish() loads and stores in two steps
 *   MUTANT_ANNOUNCE  the waiter bit is stored, not put in by a CAS
 *   MUTANT_RESULT    the result is stored after the outcome
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#ifdef MUTANT_RELEASE
#define memory_order_release memory_order_relaxed
#endif
#ifdef MUTANT_ACQUIRE
#define memory_order_acquire memory_order_relaxed
#endif
#ifdef MUTANT_EXCHANGE
#undef atomic_exchange_explicit
#define atomic_exchange_explicit(object, value, order)                                             \
	({                                                                                         \
		uint32_t model_old = atomic_load_explicit(object, memory_order_relaxed);           \
		model_stumble();                                                                   \
		atomic_store_explicit(object, value, order);                                       \
		model_old;                                                                         \
	})
#endif
#ifdef MUTANT_ANNOUNCE
#undef atomic_compare_exchange_weak_explicit
#define atomic_compare_exchange_weak_explicit(object, old, value, order, failed)                   \
	(model_stumble(), atomic_store_explicit(object, value, order), 1)
#endif

#include "shm/job.h"

#undef memory_order_release
#undef memory_order_acquire

#define MODEL_THREADS 3

#define GENERATION 7u
#define RESULT	   UINT64_C(0x0123456789abcdef)

struct model {
	struct job job;
	struct model_futex futex;
};

static void model_init(struct model *m, uint32_t instance)
{
	(void)instance;
	model_zero(&m->job.result);
	atomic_store_explicit(&m->job.state, job_state(GENERATION, JOB_PENDING),
			      memory_order_relaxed);
	model_futex_init(&m->futex);
}

static void worker(struct model *m)
{
	int waiter;

#ifdef MUTANT_RESULT
	waiter = job_finish(&m->job, GENERATION, JOB_DONE);
	*(model_word_t *)(void *)m->job.result = RESULT;
#else
	*(model_word_t *)(void *)m->job.result = RESULT;
	waiter = job_finish(&m->job, GENERATION, JOB_DONE);
#endif
	if (waiter)
		model_wake(&m->futex);
}

static void read_result(struct model *m)
{
	model_assert(*(model_word_t *)(void *)m->job.result == RESULT,
		     "a reader of the outcome sees the result");
}

static void client(struct model *m, uint32_t thread)
{
	if (thread == 1 && job_outcome(&m->job) != JOB_PENDING) {
		read_result(m);
		return;
	}
	for (;;) {
		uint32_t value = job_announce_waiter(&m->job);

		if (!value)
			break;
		if (model_wait(&m->futex, &m->job.state, value, thread))
			return;
	}
	model_assert(job_outcome(&m->job) == JOB_DONE, "what is not pending is done");
	read_result(m);
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == 0)
		worker(m);
	else
		client(m, thread);
}

static void model_check(struct model *m)
{
	uint32_t state = atomic_load_explicit(&m->job.state, memory_order_relaxed);

	model_assert(state == job_state(GENERATION, JOB_DONE), "the outcome stays");
	model_assert(!m->futex.sleeping, "a sleeper is woken");
}

#include "tests/model/run.h"
