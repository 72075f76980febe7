/* SPDX-License-Identifier: MIT */
/*
 * slice_timer.c - a worker's alarm sees each job that is left to it (daemon/sched/slice_timer.c
 * [A1], shm/wake.h)
 *
 * THE PROGRAM
 *   Two threads queue a job each, and leave it to the worker's alarm if one is set. One checks that
 *   after the fence of a publisher, the other after the fence of a thread that goes to sleep. The
 *   alarm expires: it is no longer set, and the worker checks the queued jobs, as
 *   slice_timer_preempt() does.
 *
 * WHAT MUST BE TRUE
 *   The alarm, or the thread that queued the job, sees each job.
 *
 * MUTANTS
 *   MUTANT_DROP=FUNCTION  that function of wake.h loses its fence
 *   MUTANT_RING           the alarm has no fence
 * 	MUTANT_LATE           the alarm is set until after its check
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#include "tests/model/drop.h"

#include "shm/wake.h"

#undef fence_full

#define MODEL_THREADS 3

#define PUBLISHER 0u
#define SLEEPER	  1u
#define ALARM	  2u

struct model {
	_Alignas(64) _Atomic uint64_t at; /* 0: it is not set */
	_Alignas(64) _Atomic uint32_t queued[2];
	_Alignas(64) _Atomic uint32_t word; /* of the sleeper */
	/* each by one thread */
	uint32_t keeps[2]; /* the job: no alarm is set */
	uint32_t sees[2];
};

static void model_init(struct model *m, uint32_t instance)
{
	(void)instance;
	atomic_store_explicit(&m->at, 1000, memory_order_relaxed);
	atomic_store_explicit(&m->word, WAKE_LOOKING, memory_order_relaxed);
	for (uint32_t i = 0; i < 2; i++) {
		atomic_store_explicit(&m->queued[i], 0, memory_order_relaxed);
		m->keeps[i] = m->sees[i] = 0;
	}
}

static void queue(struct model *m, uint32_t thread)
{
	atomic_store_explicit(&m->queued[thread], 1, memory_order_relaxed);
	if (thread == PUBLISHER)
		wake_published();
	else
		(void)wake_prepare(&m->word);
	m->keeps[thread] = !atomic_load_explicit(&m->at, memory_order_relaxed);
}

static void look(struct model *m)
{
	for (uint32_t i = 0; i < 2; i++)
		m->sees[i] = atomic_load_explicit(&m->queued[i], memory_order_relaxed);
}

static void ring(struct model *m)
{
#ifdef MUTANT_LATE
	look(m);
	model_stumble();
#endif
	atomic_store_explicit(&m->at, 0, memory_order_relaxed);
#ifndef MUTANT_RING
	fence_full();
#endif
#ifndef MUTANT_LATE
	look(m);
#endif
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == ALARM)
		ring(m);
	else
		queue(m, thread);
}

static void model_check(struct model *m)
{
	for (uint32_t i = 0; i < 2; i++)
		model_assert(m->keeps[i] || m->sees[i], "a job that is left to the alarm is seen");
}

#include "tests/model/run.h"
