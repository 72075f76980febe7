/* SPDX-License-Identifier: MIT */
/*
 * watch.c - a thread that waits for any of many jobs sleeps through no end (shm/watch.h,
 * I1 and I2)
 *
 * THE PROGRAM
 *   Two workers have a job each: they store a result, finish the job, and count its end if it is
 *   watched. A client watches both, and waits for either of them. In every second instance it
 *   watches only the second.
 *
 * WHAT MUST BE TRUE
 *   A sleeper is woken; a reader of an end sees the result.
 *
 * MUTANTS
 *   MUTANT_DROP=FUNCTION  that function of watch.h loses its fence
 *   MUTANT_RELEASE        the end is counted relaxed
 *   MUTANT_ACQUIRE        the count is read relaxed
 * 	MUTANT_LOOK           the check for sleepers precedes the outcome
 *   MUTANT_WAKE           sleepers are woken before the end is counted
 * 	MUTANT_VALUE          the value to sleep on is read after the check of the jobs
 *   MUTANT_EARLY          the end is counted before there is an outcome
 *   MUTANT_MARK           the jobs are marked by a store, not by a CAS
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#include "tests/model/drop.h"
#ifdef MUTANT_RELEASE
#define memory_order_release memory_order_relaxed
#endif
#ifdef MUTANT_ACQUIRE
#define memory_order_acquire memory_order_relaxed
#endif

#include "shm/watch.h"

#undef fence_full
#undef memory_order_release
#undef memory_order_acquire

#ifdef MUTANT_MARK
#undef atomic_compare_exchange_weak_explicit
#define atomic_compare_exchange_weak_explicit(object, old, value, order, failed)                   \
	(model_stumble(), atomic_store_explicit(object, value, order), 1)
#endif

#include "shm/job.h"

#define MODEL_THREADS 3

#define CLIENT	   2u
#define GENERATION 7u
#define RESULT	   UINT64_C(0x0123456789abcdef)

struct model {
	struct job jobs[2];
	struct watch watch;
	struct model_futex futex;
	uint32_t first; /* constant: the client watches this one and those behind it */
};

static void model_init(struct model *m, uint32_t instance)
{
	m->first = instance % 2;
	for (uint32_t i = 0; i < 2; i++) {
		model_zero(&m->jobs[i].result);
		atomic_store_explicit(&m->jobs[i].state, job_state(GENERATION, JOB_PENDING),
				      memory_order_relaxed);
	}
	atomic_store_explicit(&m->watch.ended, instance % 3 ? UINT32_MAX : 0, memory_order_relaxed);
	atomic_store_explicit(&m->watch.sleepers, 0, memory_order_relaxed);
	model_futex_init(&m->futex);
}

static void worker(struct model *m, struct job *job)
{
#if defined MUTANT_LOOK || defined MUTANT_WAKE
	/* MUTANT_WAKE reads it again below. */
	uint32_t sleepers = atomic_load_explicit(&m->watch.sleepers, memory_order_relaxed);
#endif

	*(model_word_t *)(void *)job->result = RESULT;
#if defined MUTANT_EARLY
	if (watch_end(&m->watch))
		model_wake(&m->futex);
	model_stumble();
	(void)job_finish(job, GENERATION, JOB_DONE);
#elif defined MUTANT_LOOK
	model_stumble();
	if (job_finish(job, GENERATION, JOB_DONE) & JOB_WATCHED) {
		(void)watch_end(&m->watch);
		if (sleepers)
			model_wake(&m->futex);
	}
#elif defined MUTANT_WAKE
	if (job_finish(job, GENERATION, JOB_DONE) & JOB_WATCHED) {
		sleepers = atomic_load_explicit(&m->watch.sleepers, memory_order_relaxed);
		if (sleepers)
			model_wake(&m->futex);
		model_stumble();
		(void)watch_end(&m->watch);
	}
#else
	if (job_finish(job, GENERATION, JOB_DONE) & JOB_WATCHED && watch_end(&m->watch))
		model_wake(&m->futex);
#endif
}

/* Returns true if a watched job has ended. */
static int look(struct model *m)
{
	int seen = 0;

	for (uint32_t i = m->first; i < 2; i++) {
		if (job_outcome(&m->jobs[i]) == JOB_PENDING)
			continue;
		model_assert(*(model_word_t *)(void *)m->jobs[i].result == RESULT,
			     "a reader of the end sees the result");
		seen = 1;
	}
	return seen;
}

static void client(struct model *m)
{
	for (uint32_t i = m->first; i < 2; i++)
		(void)job_watch(&m->jobs[i]);
	for (;;) {
		uint32_t value = watch_begin(&m->watch);
		int seen = look(m);

#ifdef MUTANT_VALUE
		model_stumble();
		value = atomic_load_explicit(&m->watch.ended, memory_order_acquire);
#endif
#ifdef MUTANT_WAKE
		model_stumble();
#endif
		/* It sleeps, and is counted. */
		if (!seen && model_wait(&m->futex, &m->watch.ended, value, CLIENT))
			return;
		watch_leave(&m->watch);
		if (seen)
			return;
	}
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == CLIENT)
		client(m);
	else
		worker(m, &m->jobs[thread]);
}

static void model_check(struct model *m)
{
	model_assert(!m->futex.sleeping, "a sleeper is woken");
}

#include "tests/model/run.h"
