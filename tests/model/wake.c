/* SPDX-License-Identifier: MIT */
/*
 * tests/model/wake.c - no published job is forgotten (shm/wake.h, W1 to W3, W8, W9)
 *
 * THE PROGRAM
 *   One client publishes one job and does what a publisher does. Worker A looks for work and goes
 *   to sleep; worker B finds other work and becomes busy; the dispatcher, at a tick of its own,
 *   looks and goes to sleep. Four instances in turn: A with B busy all along, B with A busy all
 *   along, both; and, with A and B busy all along, an alarm, which lets the dispatcher doze, rings
 *   for the last time, while the client leaves its job to it.
 *
 * WHAT MUST BE TRUE
 *   In the end the job was taken, or a sleeper woken who will look again, the dispatcher too, or
 *   the dispatcher has seen it, or has found no alarm, and comes again by itself.
 *
 * MUTANTS
 *   MUTANT_DROP=FUNCTION  that function of wake.h loses its fence
 *   MUTANT_LOOK           A sleeps without having looked again
 *   MUTANT_DUTY           B does not look at the ring once it is busy
 *   MUTANT_TICK           the dispatcher gives its ticks up and still says LOOKING
 *   MUTANT_DOZE           the dispatcher dozes without having looked for an alarm again
 *   MUTANT_OVER           whose alarm is over does not look whether the dispatcher dozes
 *   MUTANT_WAKE           the publisher tries to wake once, whether or not the sleeper is there yet
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#include "shm/fence.h"

#ifdef MUTANT_DROP
#define MODEL_NAME_(name) #name
#define MODEL_NAME(name)  MODEL_NAME_(name)
/* Of functions whose names are as long as another one the mutant drops both. */
#define fence_full()                                                                               \
	do {                                                                                       \
		if (sizeof(__func__) != sizeof(MODEL_NAME(MUTANT_DROP)))                           \
			(fence_full)();                                                            \
	} while (0)
#endif

#include "shm/wake.h"

#undef fence_full

#define MODEL_THREADS 4

#define NOTHING	  0u
#define PUBLISHED 1u
#define TAKEN	  2u

struct model {
	_Alignas(64) _Atomic uint32_t a;
	_Alignas(64) _Atomic uint32_t b;
	_Alignas(64) _Atomic uint32_t job;
	_Alignas(64) _Atomic uint32_t dispatcher;
	_Alignas(64) _Atomic uint32_t alarm; /* of A: it is set */
	struct model_futex futex;	     /* of A */
	struct model_futex dispatcher_futex;
	int dispatcher_comes; /* by itself: it has seen the job */
	int a_runs;
	int b_runs;
	int a_rings;
};

static void model_init(struct model *m, uint32_t instance)
{
	m->a_rings = instance % 4 == 3;
	m->a_runs = instance % 4 != 1 && !m->a_rings;
	m->b_runs = instance % 4 != 0 && !m->a_rings;
	atomic_store_explicit(&m->alarm, (uint32_t)m->a_rings, memory_order_relaxed);
	atomic_store_explicit(&m->a, m->a_runs ? WAKE_LOOKING : WAKE_BUSY, memory_order_relaxed);
	atomic_store_explicit(&m->b, m->b_runs ? WAKE_LOOKING : WAKE_BUSY, memory_order_relaxed);
	atomic_store_explicit(&m->job, NOTHING, memory_order_relaxed);
	/* In its tick. */
	atomic_store_explicit(&m->dispatcher, WAKE_LOOKING, memory_order_relaxed);
	m->dispatcher_comes = 0;
	model_futex_init(&m->futex);
	model_futex_init(&m->dispatcher_futex);
}

/* Wakes who sleeps on a word with this value. */
static void wake(struct model_futex *futex, _Atomic uint32_t *word, uint32_t value)
{
	while (wake_load(word) == value) {
		if (model_wake(futex))
			break;
#ifdef MUTANT_WAKE
		break;
#endif
	}
}

/* What a publisher does after its fence, and who passes the duty on. */
static void tell(struct model *m)
{
	uint32_t a = wake_load(&m->a);
	uint32_t b = wake_load(&m->b);
	uint32_t dispatcher;

	if (wake_state(a) == WAKE_SLEEPING) {
		wake(&m->futex, &m->a, a);
		return;
	}
	if (wake_state(a) == WAKE_LOOKING || wake_state(b) == WAKE_LOOKING)
		return;
	dispatcher = wake_load(&m->dispatcher);
	if (wake_state(dispatcher) == WAKE_SLEEPING)
		wake(&m->dispatcher_futex, &m->dispatcher, dispatcher);
}

static int waits(struct model *m)
{
	return atomic_load_explicit(&m->job, memory_order_relaxed) == PUBLISHED;
}

static int take(struct model *m)
{
	uint32_t job = atomic_load_explicit(&m->job, memory_order_relaxed);

	if (job != PUBLISHED)
		return 0;
	return atomic_compare_exchange_strong_explicit(&m->job, &job, TAKEN, memory_order_relaxed,
						       memory_order_relaxed);
}

static void client(struct model *m)
{
	atomic_store_explicit(&m->job, PUBLISHED, memory_order_relaxed);
	wake_published();
	tell(m);
}

static void worker_a(struct model *m)
{
	uint32_t sleeping;

	if (take(m)) {
		wake_busy(&m->a);
		return;
	}
#ifdef MUTANT_LOOK
	model_stumble();
#endif
	sleeping = wake_prepare(&m->a);
#ifndef MUTANT_LOOK
	if (take(m)) {
		wake_busy(&m->a);
		return;
	}
#endif
#ifdef MUTANT_WAKE
	model_stumble();
#endif
	model_wait(&m->futex, &m->a, sleeping, 1);
}

static void worker_b(struct model *m)
{
	wake_busy(&m->b);
#ifndef MUTANT_DUTY
	if (waits(m))
		tell(m);
#endif
}

/* The look that follows a ring, and nothing to set the alarm for again. */
static void alarm_rings(struct model *m)
{
	uint32_t dispatcher;

	(void)take(m);
	atomic_store_explicit(&m->alarm, 0, memory_order_relaxed);
	wake_alarm_over();
	dispatcher = wake_load(&m->dispatcher);
#ifdef MUTANT_OVER
	return;
#endif
	if (wake_state(dispatcher) == WAKE_DOZING)
		wake(&m->dispatcher_futex, &m->dispatcher, dispatcher);
}

static inline int alarm_is_set(struct model *m)
{
	return atomic_load_explicit(&m->alarm, memory_order_relaxed) != 0;
}

/* It takes nothing off: where it sees the job it sees to it, and comes again by itself. */
static void dispatcher(struct model *m)
{
	uint32_t value = wake_load(&m->dispatcher);

	m->dispatcher_comes = waits(m);
#ifndef MUTANT_TICK
	if (!m->dispatcher_comes) {
		int dozes = alarm_is_set(m);

#ifdef MUTANT_DOZE
		model_stumble();
#endif
		value = dozes ? wake_dozing(&m->dispatcher) : wake_prepare(&m->dispatcher);
		m->dispatcher_comes = waits(m);
#ifndef MUTANT_DOZE
		m->dispatcher_comes |= dozes && !alarm_is_set(m);
#endif
	}
#endif
	if (m->dispatcher_comes) {
		wake_store(&m->dispatcher, WAKE_LOOKING);
		return;
	}
	model_wait(&m->dispatcher_futex, &m->dispatcher, value, 3);
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == 0)
		client(m);
	if (thread == 1 && m->a_runs)
		worker_a(m);
	if (thread == 1 && m->a_rings)
		alarm_rings(m);
	if (thread == 2 && m->b_runs)
		worker_b(m);
	if (thread == 3)
		dispatcher(m);
}

static void model_check(struct model *m)
{
	model_assert(atomic_load_explicit(&m->job, memory_order_relaxed) == TAKEN ||
			     m->futex.woken || m->dispatcher_futex.woken || m->dispatcher_comes,
		     "a published job is taken, or somebody was told");
}

#include "tests/model/run.h"
