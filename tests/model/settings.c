/* SPDX-License-Identifier: MIT */
/*
 * settings.c - settings wake workers, and stopped workers start no job (daemon/core/wakeup.c [P1],
 * daemon/core/shutdown.h [Q1], shm/wake.h)
 *
 * THE PROGRAM
 *   The dispatcher changes a setting and wakes the worker if it sleeps, as pool_wake_all() does. It
 *   stops the starts of jobs, and checks if the other worker is busy, as shutdown_is_seen() does.
 *   One worker goes to sleep unless the setting has changed. The other turns busy, and starts a job
 *   unless starts are stopped.
 *
 * WHAT MUST BE TRUE
 *   A worker that sleeps was woken, or the setting has not changed since it went to sleep. A worker
 *   that the dispatcher has seen idle starts nothing.
 *
 * MUTANTS
 *   MUTANT_DROP=FUNCTION  that function of wake.h loses its fence
 * 	MUTANT_SLEEP          a worker reads the setting before its word says SLEEPING
 * 	MUTANT_CHANGE         the dispatcher reads the words before it changes the setting
 *   MUTANT_START          a worker checks if starts are stopped before it is busy
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#include "tests/model/drop.h"

#include "shm/wake.h"

#undef fence_full

#include "daemon/core/shutdown.h"

#define MODEL_THREADS 3

#define SLEEPER 1u
#define STARTER 2u

struct model {
	_Alignas(64) _Atomic uint32_t words[MODEL_THREADS];
	_Alignas(64) _Atomic uint32_t setting;
	struct shutdown shutdown;
	struct model_futex futex;
	uint32_t seen;	  /* the dispatcher's: the starter is not busy */
	uint32_t started; /* the starter's */
};

static void model_init(struct model *m, uint32_t instance)
{
	(void)instance;
	for (uint32_t i = 0; i < MODEL_THREADS; i++)
		atomic_store_explicit(&m->words[i], WAKE_LOOKING, memory_order_relaxed);
	atomic_store_explicit(&m->setting, 0, memory_order_relaxed);
	atomic_store_explicit(&m->shutdown.on, false, memory_order_relaxed);
	model_futex_init(&m->futex);
	m->seen = m->started = 0;
}

/* pool_wake_all() */
static void wake(struct model *m)
{
	uint32_t value = wake_load(&m->words[SLEEPER]);

	if (wake_rests(value) &&
	    atomic_compare_exchange_strong_explicit(&m->words[SLEEPER], &value,
						    (value & ~WAKE_STATE) | WAKE_LOOKING,
						    memory_order_relaxed, memory_order_relaxed))
		(void)model_wake(&m->futex);
}

static void dispatcher(struct model *m)
{
#ifdef MUTANT_CHANGE
	wake_published();
	wake(m);
	model_stumble();
	atomic_store_explicit(&m->setting, 1, memory_order_relaxed);
#else
	atomic_store_explicit(&m->setting, 1, memory_order_relaxed);
	wake_published();
	wake(m);
#endif
	/* shutdown_begin() and shutdown_is_seen() */
	atomic_store_explicit(&m->shutdown.on, true, memory_order_relaxed);
	wake_published();
	m->seen = wake_state(wake_load(&m->words[STARTER])) != WAKE_BUSY;
}

static void sleeper(struct model *m)
{
	uint32_t value;
#ifdef MUTANT_SLEEP
	uint32_t changed = atomic_load_explicit(&m->setting, memory_order_relaxed);

	model_stumble();
	value = wake_prepare(&m->words[SLEEPER]);
#else
	uint32_t changed;

	value = wake_prepare(&m->words[SLEEPER]);
	changed = atomic_load_explicit(&m->setting, memory_order_relaxed);
#endif
	if (!changed)
		(void)model_wait(&m->futex, &m->words[SLEEPER], value, SLEEPER);
}

static void starter(struct model *m)
{
#ifdef MUTANT_START
	bool declines = shutdown_declines(&m->shutdown);

	model_stumble();
	wake_busy(&m->words[STARTER]);
	m->started = !declines;
#else
	wake_busy(&m->words[STARTER]);
	m->started = !shutdown_declines(&m->shutdown);
#endif
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == SLEEPER)
		sleeper(m);
	else if (thread == STARTER)
		starter(m);
	else
		dispatcher(m);
}

static void model_check(struct model *m)
{
	model_assert(!m->futex.sleeping, "a worker does not sleep through a change");
	model_assert(!m->seen || !m->started, "a worker that was seen idle starts nothing");
}

#include "tests/model/run.h"
