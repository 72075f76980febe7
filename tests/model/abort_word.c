/* SPDX-License-Identifier: MIT */
/*
 * abort_word.c - a cancelled job ends as cancelled, in any state
 * (daemon/core/abort_word.h, daemon/jobs/abort.c, daemon/jobs/job.c,
 * daemon/jobs/job_cancel.c [V1] to [V3], shm/job.h [V5])
 *
 * THE PROGRAM, one of four in turn
 * 	STARTS   a worker starts the job: it begins the verdict and checks the mark, while the
 * 	         job is cancelled, as in job_cancel(), and its deadline passes
 * 	ACCEPTS  a worker makes the job's row QUEUED and checks the mark, as in drain_accept(),
 * 	         while the job is cancelled
 * 	STEALS   a worker continues a strand of the job, as in strand_adopt(), while the job is
 * 	         cancelled, as in abort_put()
 * 	RELEASES one thread of the client cancels the job, as in cancel_write(); another releases it
 *
 * WHAT MUST BE TRUE
 *   The worker sees the cancel, or gets a request, or the row is found in the queue.
 *   A verdict has one outcome. A cancel that is too late is removed.
 *
 * MUTANTS
 *   MUTANT_BEGIN   a verdict begins relaxed
 * 	MUTANT_LOOK    the verdict is read relaxed
 *   MUTANT_MARK    the mark is stored relaxed
 * 	MUTANT_MARKED  the mark is read relaxed
 * 	MUTANT_AFTER   the worker checks the mark before it begins the verdict
 * 	MUTANT_FIRST   the verdict is checked before the mark is stored
 *   MUTANT_ROW     the row is made QUEUED relaxed
 * 	MUTANT_QUEUED  the row is read relaxed
 * 	MUTANT_PUT     an outcome is stored, not put in by a CAS
 * 	MUTANT_RUNS    no fence between the outcome and the check of the job's workers
 * 	MUTANT_ADOPT   no fence between the job that a worker runs and its check of the verdict
 * 	MUTANT_FORGET  the client clears a cancel request relaxed
 * 	MUTANT_WANT    the client stores a cancel request relaxed
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#include "shm/fence.h"

#pragma push_macro("atomic_compare_exchange_strong_explicit")
#if defined(MUTANT_BEGIN) || defined(MUTANT_LOOK) || defined(MUTANT_MARK) || defined(MUTANT_MARKED)
/* Each of the four operations is the only one of its kind and size. */
#if defined(MUTANT_BEGIN) || defined(MUTANT_LOOK)
#define MODEL_SIZE sizeof(uint64_t)
#else
#define MODEL_SIZE sizeof(uint32_t)
#endif
#if defined(MUTANT_BEGIN) || defined(MUTANT_MARK)
#undef atomic_store_explicit
#define atomic_store_explicit(object, value, order)                                                \
	(sizeof(*(object)) == MODEL_SIZE                                                           \
		 ? __atomic_store_n((__typeof__(value) *)(object), value, __ATOMIC_RELAXED)        \
		 : __atomic_store_n((__typeof__(value) *)(object), value, __ATOMIC_SEQ_CST))
#else
#undef atomic_load_explicit
#define atomic_load_explicit(object, order)                                                        \
	(sizeof(*(object)) == sizeof(uint32_t)                                                     \
		 ? __atomic_load_n((const uint32_t *)(object), MODEL_SIZE == sizeof(uint32_t)      \
								       ? __ATOMIC_RELAXED          \
								       : __ATOMIC_SEQ_CST)         \
		 : __atomic_load_n((const uint64_t *)(object), MODEL_SIZE == sizeof(uint64_t)      \
								       ? __ATOMIC_RELAXED          \
								       : __ATOMIC_SEQ_CST))
#endif
#endif
#ifdef MUTANT_PUT
#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(object, old, value, order, failed)                 \
	(model_stumble(), atomic_store_explicit(object, value, memory_order_relaxed), 1)
#endif
#if defined(MUTANT_FORGET)
#define memory_order_release memory_order_relaxed
#elif defined(MUTANT_WANT)
#define memory_order_acquire memory_order_relaxed
#endif

#include "daemon/core/abort_word.h"

#undef memory_order_release
#undef memory_order_acquire
#pragma pop_macro("atomic_compare_exchange_strong_explicit")

#define MODEL_THREADS 3

enum kind { STARTS, ACCEPTS, STEALS, RELEASES, KINDS };

#define GENERATION 7u
#define ROW	   3u

/* States of the row. */
#define FREE	0u
#define QUEUED	1u
#define RUNNING 2u

struct model {
	enum kind kind;
	_Atomic uint64_t verdict;
	_Atomic uint32_t mark;
	_Atomic uint64_t row;
	_Atomic uint32_t runs;	/* the job that the worker runs */
	_Atomic uint32_t asked; /* worker_ask() */
	_Atomic uint32_t slot;	/* the generation of the client's slot */
	struct job job;
	/* each by one thread */
	uint32_t sees; /* the worker: the job was cancelled */
	uint32_t cut;  /* a canceller: it has found the row QUEUED */
	uint32_t put[MODEL_THREADS];
};

static void model_init(struct model *m, uint32_t instance)
{
	m->kind = (enum kind)(instance % KINDS);
	__atomic_store_n((uint64_t *)&m->verdict,
			 abort_pack(0, m->kind == STEALS ? GENERATION : GENERATION - 1, 0),
			 __ATOMIC_RELAXED);
	__atomic_store_n((uint32_t *)&m->mark, 0, __ATOMIC_RELAXED);
	__atomic_store_n((uint64_t *)&m->row, m->kind == ACCEPTS ? FREE : QUEUED, __ATOMIC_RELAXED);
	__atomic_store_n((uint32_t *)&m->runs, 0, __ATOMIC_RELAXED);
	__atomic_store_n((uint32_t *)&m->asked, 0, __ATOMIC_RELAXED);
	__atomic_store_n((uint32_t *)&m->slot, GENERATION, __ATOMIC_RELAXED);
	__atomic_store_n((uint32_t *)&m->job.cancel, 0, __ATOMIC_RELAXED);
	m->sees = m->cut = 0;
	m->put[0] = m->put[1] = m->put[2] = 0;
}

/* abort_put() */
static void put(struct model *m, uint64_t word, uint32_t thread)
{
	m->put[thread] = abort_word_put(&m->verdict, word, (int32_t)thread, JOB_CANCELLED);
	if (!m->put[thread])
		return;
#ifndef MUTANT_RUNS
	fence_full();
#endif
	if (__atomic_load_n((uint32_t *)&m->runs, __ATOMIC_ACQUIRE) == ROW)
		__atomic_store_n((uint32_t *)&m->asked, 1, __ATOMIC_RELAXED);
}

/* job_cancel() */
static void cancel(struct model *m, uint32_t thread)
{
	uint64_t word, row;
#ifdef MUTANT_FIRST
	word = abort_word_look(&m->verdict);
	model_stumble();
	cancel_mark(&m->mark, GENERATION);
#else
	cancel_mark(&m->mark, GENERATION);
	word = abort_word_look(&m->verdict);
#endif
	if (abort_generation(word) == GENERATION)
		put(m, word, thread);
#ifdef MUTANT_QUEUED
	row = __atomic_load_n((uint64_t *)&m->row, __ATOMIC_RELAXED);
#else
	row = __atomic_load_n((uint64_t *)&m->row, __ATOMIC_SEQ_CST);
#endif
	/* job_forgo() */
	m->cut = m->kind == ACCEPTS && row == QUEUED;
}

/* The job's deadline passes: the first thread decides it. */
static void expire(struct model *m, uint32_t thread)
{
	uint64_t word = abort_word_look(&m->verdict);

	if (abort_generation(word) == GENERATION)
		put(m, word, thread);
}

/* job_run() */
static void start(struct model *m)
{
#ifdef MUTANT_AFTER
	m->sees = cancel_is_marked(&m->mark, GENERATION);
	model_stumble();
	abort_word_begin(&m->verdict, GENERATION);
#else
	abort_word_begin(&m->verdict, GENERATION);
	m->sees = cancel_is_marked(&m->mark, GENERATION);
#endif
}

/* drain_accept(), drain_admit() */
static void accept(struct model *m)
{
	uint64_t row = FREE;

#ifdef MUTANT_ROW
	(void)__atomic_compare_exchange_n((uint64_t *)&m->row, &row, QUEUED, 0, __ATOMIC_RELAXED,
					  __ATOMIC_RELAXED);
#else
	(void)__atomic_compare_exchange_n((uint64_t *)&m->row, &row, QUEUED, 0, __ATOMIC_SEQ_CST,
					  __ATOMIC_RELAXED);
#endif
	m->sees = cancel_is_marked(&m->mark, GENERATION);
}

/* strand_adopt(), then the loop */
static void steal(struct model *m)
{
	__atomic_store_n((uint32_t *)&m->runs, ROW, __ATOMIC_RELEASE);
#ifndef MUTANT_ADOPT
	fence_full();
#endif
	m->sees = abort_outcome(__atomic_load_n((uint64_t *)&m->verdict, __ATOMIC_RELAXED)) != 0;
}

/* cancel_write() */
static void want(struct model *m)
{
	if (__atomic_load_n((uint32_t *)&m->slot, __ATOMIC_RELAXED) != GENERATION ||
	    !job_want_end(&m->job, GENERATION))
		return;
	if (__atomic_load_n((uint32_t *)&m->slot, __ATOMIC_RELAXED) != GENERATION)
		job_unwant_end(&m->job, GENERATION);
}

/* submit_release() */
static void release(struct model *m)
{
	__atomic_store_n((uint32_t *)&m->slot, GENERATION + 1, __ATOMIC_RELAXED);
	job_forget_end(&m->job);
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (m->kind == RELEASES) {
		if (thread == 0)
			release(m);
		if (thread == 1)
			want(m);
		return;
	}
	if (thread == 1)
		cancel(m, thread);
	else if (thread == 2)
		expire(m, thread);
	else if (m->kind == STARTS)
		start(m);
	else if (m->kind == ACCEPTS)
		accept(m);
	else
		steal(m);
}

static void model_check(struct model *m)
{
	uint64_t verdict = __atomic_load_n((uint64_t *)&m->verdict, __ATOMIC_RELAXED);

	model_assert(m->put[1] + m->put[2] <= 1, "a verdict has one outcome");
	switch (m->kind) {
	case STARTS:
		model_assert(m->sees || (abort_generation(verdict) == GENERATION &&
					 abort_outcome(verdict)),
			     "a job that starts sees the mark, or has a verdict");
		break;
	case ACCEPTS:
		model_assert(m->sees || m->cut, "a job that is accepted sees the mark, or is cut");
		break;
	case STEALS:
		model_assert(m->sees || __atomic_load_n((uint32_t *)&m->asked, __ATOMIC_RELAXED),
			     "a worker that continues a job sees the verdict, or is asked");
		break;
	default:
		model_assert(__atomic_load_n((uint32_t *)&m->job.cancel, __ATOMIC_RELAXED) !=
				     GENERATION,
			     "a wish that comes too late is taken back");
	}
}

#include "tests/model/run.h"
