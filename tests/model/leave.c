/* SPDX-License-Identifier: MIT */
/*
 * leave.c - every published job is found, although only the last thief to leave a group checks the
 * rings again (daemon/core/lazy_policy.h, L6; shm/wake.h)
 *
 * THE PROGRAM
 *   One client publishes one job and acts as a publisher. Two workers of one group search: S goes
 *   to sleep; Z goes to sleep, becomes busy with another job, goes offline, or already naps. A
 *   third worker sleeps or is busy all the time. If it is busy, the last of the others naps instead
 *   of sleeping, and no nap ends here. There are eight instances in turn.
 *
 * WHAT MUST BE TRUE
 *   In the end the job was taken, or a sleeper that will check was woken, or the dispatcher was.
 *
 * MUTANTS
 * 	MUTANT_LOOK   the last one does not check
 * 	MUTANT_TIMED  a timed sleep is not marked, so that it counts as a search
 * 	MUTANT_BUSY   a worker that turns busy as the last one does not check
 * 	MUTANT_PARK   a worker that goes offline as the last one does not hand on the jobs it sees
 * 	MUTANT_EARLY  the check for another searcher precedes the transition
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

/* Goes to sleep. Returns true if it must check for jobs. */
static int lie_down(struct model *m, uint32_t worker)
{
	struct lazy_group *group = lazy_group_of(&m->lazy, worker);
#ifdef MUTANT_EARLY
	/* Itself and another, before it leaves: two that leave at once count each other. */
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

/* A client, and a worker that leaves a job to others. */
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
		/* It is awake since then, and checks. */
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
	/* Only the check of the last one sees a job that is published now. */
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

/* worker_turn_busy(), with another job */
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
