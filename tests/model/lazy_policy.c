/* SPDX-License-Identifier: MIT */
/*
 * lazy_policy.c - while a worker is active, each group has a thief (lazy_policy.h, L1 to L5, L7)
 *
 * THE PROGRAM
 *   Worker Y finds a job and reaches its first fork. Worker S, the last searcher of its group or
 *   not, goes to sleep, or already sleeps. Worker Z does one of these:
 *       - It goes to sleep as well.
 *       - It becomes busy with a job that never forks.
 *       - It becomes busy with a stolen strand, and wakes a worker of its group for the rest.
 *       - It is a client that wakes S.
 *       - It goes offline; or it was offline, returns and goes to sleep.
 *   They are in one group or in two; there are 28 instances in turn. A worker that is woken after
 *   its thread has ended has the debt, which its waker passes on.
 *
 * WHAT MUST BE TRUE
 *   In the end Y is active, so no group is in need. A worker that the state does not show asleep
 *   does not sleep. The words for the machine agree with the states.
 *
 * MUTANTS
 * 	MUTANT_WAKE	 a thread with a debt takes a sleeper out of the state and does not wake it
 * 	MUTANT_CHARGE	 Y drops its debt
 * 	MUTANT_PASS	 a woken thread does not pass the debt on
 * 	MUTANT_ORDER	 a sleeper is in the state before its word says SLEEPING
 * 	MUTANT_LAST	 the last searcher of a group sleeps although a worker is active
 * 	MUTANT_FENCE	 the sleeper's fence is dropped
 * 	MUTANT_PARK	 a thread that goes offline does not pass on its debt
 * 	MUTANT_PARKED	 the bit of an offline worker is visible only after its transition
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#include "shm/fence.h"
#include "shm/wake.h"

#pragma push_macro("atomic_load_explicit")
#ifdef MUTANT_LAST
/* The one word of 32 bits that lazy_policy.h reads is active. */
#undef atomic_load_explicit
#define atomic_load_explicit(object, order)                                                        \
	(sizeof(*(object)) == 4 ? 0 : __atomic_load_n((uint64_t *)(object), __ATOMIC_ACQUIRE))
#endif
#ifdef MUTANT_FENCE
#define fence_full()                                                                               \
	do {                                                                                       \
		if (sizeof(__func__) != sizeof("lazy_sleep"))                                      \
			(fence_full)();                                                            \
	} while (0)
#endif

#include "daemon/core/lazy_policy.h"

#undef fence_full
#pragma pop_macro("atomic_load_explicit")

#define MODEL_THREADS 3

#define Y 0u
#define S 1u
#define Z 2u

/* What Z does. */
#define SLEEPS	0u
#define RUNS	1u
#define CLIENT	2u
#define NOTHING 3u
#define SPREADS 4u
#define PARKS	5u
#define RETURNS 6u

struct model {
	struct lazy lazy;
	struct lazy_seat seats[3];
	_Alignas(64) _Atomic uint32_t words[3];
	struct model_futex futexes[3];
	uint32_t z_does;
	int s_sleeps; /* it does so from the start */
	int ended[3]; /* asleep; each thread its own, and its waker */
};

static void model_init(struct model *m, uint32_t instance)
{
	static const uint32_t groups[4][3] = { { 0, 0, 0 }, { 0, 1, 0 }, { 0, 1, 1 }, { 0, 0, 1 } };

	model_zero(m);
	m->z_does = instance / 4 % 7;
	m->s_sleeps = m->z_does == NOTHING;
	lazy_init(&m->lazy, m->seats, 3, groups[instance % 4], instance % 4 ? 2 : 1);
	for (uint32_t i = 0; i < 3; i++) {
		model_futex_init(&m->futexes[i]);
		lazy_turn_looking(&m->lazy, i);
		wake_store(&m->words[i], WAKE_LOOKING);
	}
	if (m->z_does == RETURNS) {
		(void)wake_parked(&m->words[Z]);
		lazy_park(&m->lazy, Z);
	}
	/* Inactive workers sleep. */
	for (uint32_t i = 1; i < 3; i++) {
		if (i == S ? !m->s_sleeps : m->z_does != CLIENT && m->z_does != NOTHING)
			continue;
		m->ended[i] =
			model_wait(&m->futexes[i], &m->words[i], wake_prepare(&m->words[i]), i);
		lazy_sleep(&m->lazy, i);
	}
}

/* A sleeper that was taken out of the state is woken. */
static void rouse(struct model *m, uint32_t picked)
{
	uint32_t value = wake_load(&m->words[picked]);

#ifndef MUTANT_WAKE
	/* pool_wake_word() */
	if (wake_state(value) == WAKE_SLEEPING &&
	    atomic_compare_exchange_strong_explicit(&m->words[picked], &value,
						    (value & ~WAKE_STATE) | WAKE_LOOKING,
						    memory_order_relaxed, memory_order_relaxed))
		model_wake(&m->futexes[picked]);
#else
	(void)value;
#endif
}

/* A woken thread passes on; one that has ended here, by its waker. */
static void serve(struct model *m, uint32_t worker)
{
	uint32_t picked;

	while ((picked = lazy_pick(&m->lazy, worker)) != LAZY_NOBODY) {
		rouse(m, picked);
#ifdef MUTANT_PASS
		return;
#endif
		worker = picked;
	}
}

static void turn_busy(struct model *m, uint32_t worker, int forks)
{
	enum lazy_debt charge;

	lazy_turn_busy(&m->lazy, worker);
	wake_busy(&m->words[worker]);
	charge = lazy_debt(&m->lazy, worker);
#ifdef MUTANT_CHARGE
	if (worker == Y)
		return;
#endif
	if (charge == LAZY_NOW || (charge == LAZY_AT_FORK && forks))
		serve(m, worker);
}

/* worker_spread() */
static void spread(struct model *m, uint32_t worker)
{
	uint32_t picked =
		lazy_wake(&m->lazy, lazy_group_of(&m->lazy, worker), m->seats[worker].bit);

	if (picked == LAZY_NOBODY)
		return;
	rouse(m, picked);
	serve(m, picked);
}

static void go_to_sleep(struct model *m, uint32_t worker)
{
	enum lazy_rest rest;
	uint32_t sleeping;

#ifdef MUTANT_ORDER
	rest = lazy_sleep(&m->lazy, worker);
	model_stumble();
	sleeping = wake_prepare(&m->words[worker]);
#else
	sleeping = wake_prepare(&m->words[worker]);
	rest = lazy_sleep(&m->lazy, worker);
#endif
	if (rest == LAZY_SLEEPS) {
		m->ended[worker] =
			model_wait(&m->futexes[worker], &m->words[worker], sleeping, worker);
		if (m->ended[worker])
			return;
	}
	wake_store(&m->words[worker], WAKE_LOOKING);
	if (rest == LAZY_TIMED_INDEBTED ||
	    (rest == LAZY_SLEEPS && !lazy_rise(&m->lazy, worker, LAZY_ROUSED)))
		serve(m, worker);
}

/* worker_park(), up to its sleep. */
static void park(struct model *m, uint32_t worker)
{
	uint32_t parked = wake_parked(&m->words[worker]);
	uint32_t picked;

#ifdef MUTANT_PARKED
	struct lazy_group *group = lazy_group_of(&m->lazy, worker);

	atomic_fetch_or_explicit(&group->state, lazy_bit(&m->lazy, worker), memory_order_acq_rel);
	lazy_note(&m->lazy, group);
	model_stumble();
	atomic_fetch_or_explicit(&group->parked, lazy_bit(&m->lazy, worker), memory_order_relaxed);
	(fence_full)();
#else
	lazy_park(&m->lazy, worker);
#endif
#ifndef MUTANT_PARK
	picked = lazy_pass(&m->lazy, worker);
	if (picked != LAZY_NOBODY) {
		rouse(m, picked);
		serve(m, picked);
	}
#else
	(void)picked;
#endif
	m->ended[worker] = model_wait(&m->futexes[worker], &m->words[worker], parked, worker);
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == Y)
		turn_busy(m, Y, 1);
	if (thread == S && !m->s_sleeps)
		go_to_sleep(m, S);
	if (thread != Z)
		return;
	if (m->z_does == SLEEPS)
		go_to_sleep(m, Z);
	if (m->z_does == RUNS || m->z_does == SPREADS)
		turn_busy(m, Z, 0);
	if (m->z_does == SPREADS)
		spread(m, Z);
	if (m->z_does == PARKS)
		park(m, Z);
	if (m->z_does == RETURNS) {
		wake_store(&m->words[Z], WAKE_LOOKING);
		(void)lazy_rise(&m->lazy, Z, LAZY_ROUSED);
		lazy_return(&m->lazy, Z);
		go_to_sleep(m, Z);
	}
	if (m->z_does == CLIENT && wake_state(wake_load(&m->words[S])) == WAKE_SLEEPING)
		model_wake(&m->futexes[S]);
}

static void model_check(struct model *m)
{
	uint64_t needs_thief = 0;
	uint32_t active = 0;

	/* Woken threads continue. */
	for (uint32_t i = 1; i < 3; i++) {
		struct lazy_group *group = lazy_group_of(&m->lazy, i);

		if (!m->ended[i])
			continue;
		model_assert(m->futexes[i].woken || lazy_load(group) & lazy_bit(&m->lazy, i),
			     "a sleeper taken out of the state is woken");
		if (m->futexes[i].woken && lazy_load(group) & lazy_bit(&m->lazy, i))
			(void)lazy_rise(&m->lazy, i, LAZY_ROUSED);
	}
	for (uint32_t c = 0; c < m->lazy.n_groups; c++) {
		struct lazy_group *group = &m->lazy.groups[c];

		model_assert(!lazy_in_need(group, lazy_load(group)),
			     "while a worker is active each group has a thief, or all are busy");
		needs_thief |= (uint64_t)lazy_in_need(group, lazy_load(group)) << c;
		active += lazy_busy(lazy_load(group)) > 0;
	}
	model_assert(atomic_load_explicit(&m->lazy.needs_thief, memory_order_relaxed) ==
			     needs_thief,
		     "needs_thief says what the states say");
	model_assert(atomic_load_explicit(&m->lazy.active, memory_order_relaxed) == active,
		     "active says what the states say");
}

#include "tests/model/run.h"
