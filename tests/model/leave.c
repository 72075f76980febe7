/* SPDX-License-Identifier: MIT */
/*
 * leave.c - no published job is forgotten, though only the last thief of a group that
 * leaves looks at the rings once more (daemon/core/lazy_policy.h, L6; shm/wake.h)
 *
 * THE PROGRAM
 *   One client publishes one job and does what a publisher does. Two workers of one group look for
 *   work: S goes to sleep; Z goes to sleep, or becomes busy with something else, or parks, or naps
 *   already. A third one sleeps or is busy all along; if it is busy, the last of the others naps
 *   instead of sleeping, and no nap ends here. Eight instances in turn.
 *
 * WHAT MUST BE TRUE
 *   In the end the job was taken, or a sleeper woken that will look, or the dispatcher told.
 *
 * MUTANTS
 *   MUTANT_LOOK   the last one does not look
 *   MUTANT_TIMED  a timed sleep is not marked, so that it counts as a search
 *   MUTANT_BUSY   a worker that turns busy as the last one does not look
 *   MUTANT_PARK   a worker that parks as the last one does not hand on what it sees
 *   MUTANT_EARLY  whether another worker looks is asked before the step
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#include "daemon/core/lazy_policy.h"
#include "shm/wake.h"

#define MODEL_THREADS 3

#define S      0u
#define Z      1u
#define B      2u
#define CLIENT 2u /* the third thread */

/* What Z does. */
#define RESTS 0u
#define RUNS  1u
#define NAPS  2u /* from the start */
#define PARKS 3u

#define NOTHING	  0u
#define PUBLISHED 1u
#define TAKEN	  2u

struct model {
	struct lazy lazy;
	struct lazy_seat seats[3];
	_Alignas(64) _Atomic uint32_t words[3];
	_Alignas(64) _Atomic uint32_t job;
	_Alignas(64) _Atomic uint32_t dispatcher;
	struct model_futex futexes[3];
	uint32_t z_does;
};

/* Lies down: true if it has to look at the jobs. */
static int lie_down(struct model *m, uint32_t worker)
{
	struct lazy_group *group = lazy_group_of(&m->lazy, worker);
#ifdef MUTANT_EARLY
	/* One more than itself, before it leaves: two that leave at once count each other. */
	int look = lazy_looking(group, lazy_load(group)) < 2;

	model_stumble();
	if (lazy_sleep(&m->lazy, worker) != LAZY_SLEEPS)
		lazy_timed_sleep(&m->lazy, worker);
	return look;
#else
	int sleeps = lazy_sleep(&m->lazy, worker) == LAZY_SLEEPS;

#ifndef MUTANT_TIMED
	if (!sleeps)
		lazy_timed_sleep(&m->lazy, worker);
#endif
	return !sleeps || !lazy_spins(group);
#endif
}

static void model_init(struct model *m, uint32_t instance)
{
	model_zero(m);
	m->z_does = instance % 4;
	lazy_init(&m->lazy, m->seats, 3, NULL, 0);
	for (uint32_t i = 0; i < 3; i++) {
		model_futex_init(&m->futexes[i]);
		lazy_turn_looking(&m->lazy, i);
		wake_store(&m->words[i], WAKE_LOOKING);
	}
	if (m->z_does == NAPS || instance / 4 % 2) {
		lazy_turn_busy(&m->lazy, B);
		wake_busy(&m->words[B]);
	} else {
		(void)model_wait(&m->futexes[B], &m->words[B], wake_prepare(&m->words[B]), B);
		(void)lazy_sleep(&m->lazy, B);
	}
	if (m->z_does != NAPS)
		return;
	/* As long as S is busy too, Z is the last one. */
	lazy_turn_busy(&m->lazy, S);
	(void)model_wait(&m->futexes[Z], &m->words[Z], wake_prepare(&m->words[Z]), Z);
	(void)lie_down(m, Z);
	lazy_turn_looking(&m->lazy, S);
}

static int take(struct model *m)
{
	uint32_t job = atomic_load_explicit(&m->job, memory_order_relaxed);

	if (job != PUBLISHED)
		return 0;
	return atomic_compare_exchange_strong_explicit(&m->job, &job, TAKEN, memory_order_relaxed,
						       memory_order_relaxed);
}

/* A client, and what a worker does that leaves a job to others. */
static void tell(struct model *m)
{
	uint32_t sleeper = 3;

	for (uint32_t i = 0; i < 3; i++) {
		uint32_t value = wake_load(&m->words[i]);

		if (wake_state(value) == WAKE_LOOKING)
			return;
		if (wake_state(value) == WAKE_SLEEPING && sleeper == 3)
			sleeper = i;
	}
	if (sleeper < 3) {
		uint32_t value = wake_load(&m->words[sleeper]);

		while (wake_state(value) == WAKE_SLEEPING && wake_load(&m->words[sleeper]) == value)
			if (model_wake(&m->futexes[sleeper]))
				return;
		/* It is awake since, and looks. */
		return;
	}
	atomic_store_explicit(&m->dispatcher, 1, memory_order_relaxed);
}

static void client(struct model *m)
{
	atomic_store_explicit(&m->job, PUBLISHED, memory_order_relaxed);
	wake_published();
	tell(m);
}

/* worker_rest(), for a thief that has found nothing. */
static void rest(struct model *m, uint32_t worker)
{
	uint32_t sleeping;
	int look;

	if (take(m)) {
		wake_busy(&m->words[worker]);
		return;
	}
#if defined(MUTANT_LOOK) || defined(MUTANT_TIMED)
	/* A job that is published now is seen by the last one's look alone. */
	for (uint32_t i = 0; i < 4; i++)
		model_stumble();
#endif
	sleeping = wake_prepare(&m->words[worker]);
	look = lie_down(m, worker);
#ifdef MUTANT_LOOK
	look = 0;
#endif
	if (look && take(m)) {
		wake_busy(&m->words[worker]);
		return;
	}
	(void)model_wait(&m->futexes[worker], &m->words[worker], sleeping, worker);
}

/* worker_turn_busy(), with something that it found elsewhere. */
static void turn_busy(struct model *m, uint32_t worker)
{
	lazy_turn_busy(&m->lazy, worker);
	wake_busy(&m->words[worker]);
#ifndef MUTANT_BUSY
	if (!lazy_spins(lazy_group_of(&m->lazy, worker)) &&
	    atomic_load_explicit(&m->job, memory_order_relaxed) == PUBLISHED)
		tell(m);
#endif
}

/* worker_park() */
static void park(struct model *m, uint32_t worker)
{
	uint32_t parked = wake_parked(&m->words[worker]);

	lazy_park(&m->lazy, worker);
#ifndef MUTANT_PARK
	if (!lazy_spins(lazy_group_of(&m->lazy, worker)) &&
	    atomic_load_explicit(&m->job, memory_order_relaxed) == PUBLISHED)
		tell(m);
#endif
	(void)model_wait(&m->futexes[worker], &m->words[worker], parked, worker);
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == CLIENT)
		client(m);
	else if (thread == S || m->z_does == RESTS)
		rest(m, thread);
	else if (m->z_does == RUNS)
		turn_busy(m, Z);
	else if (m->z_does == PARKS)
		park(m, Z);
}

static void model_check(struct model *m)
{
	model_assert(atomic_load_explicit(&m->job, memory_order_relaxed) == TAKEN ||
			     m->futexes[S].woken || m->futexes[Z].woken || m->futexes[B].woken ||
			     atomic_load_explicit(&m->dispatcher, memory_order_relaxed),
		     "a published job is taken, or a worker was told");
}

#include "tests/model/run.h"
