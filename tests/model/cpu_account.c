/* SPDX-License-Identifier: MIT */
/*
 * cpu_account.c - the time that a worker uses is charged once (daemon/core/cpu_account.h)
 *
 * THE PROGRAM
 *   A worker opens its account for one job, closes it, and does the same for a second. At the same
 *   time two other threads settle it. Each read by the owner advances the clock; settlers only
 *   read.
 *
 * WHAT MUST BE TRUE
 *   Each job was charged exactly the time from its open to its close. No settler that succeeds with
 *   its charge has a later time than the owner.
 *
 * MUTANTS
 *   MUTANT_SETTLE  settlers store the word
 *   MUTANT_CLOSE   the owner closes by a load and a store
 */
#include <stdatomic.h>
#include <stdint.h>

#include "tests/model/model.h"

#ifdef MUTANT_SETTLE
#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(object, expected, value, success, failure)         \
	(model_stumble(), atomic_store_explicit(object, value, success), *(expected) != 0)
#endif
#ifdef MUTANT_CLOSE
static uint64_t load_store(_Atomic uint64_t *object, uint64_t value)
{
	uint64_t old = atomic_load_explicit(object, memory_order_relaxed);

	model_stumble();
	atomic_store_explicit(object, value, memory_order_relaxed);
	return old;
}
#undef atomic_exchange_explicit
#define atomic_exchange_explicit(object, value, order) load_store(object, value)
#endif

#include "daemon/core/cpu_account.h"

#define MODEL_THREADS 3

#define STEP (UINT64_C(16) << ACCOUNT_UNIT) /* ns */

#ifdef MODEL_ONCE
#define LOOKS 1u
#else
#define LOOKS 4u
#endif

struct model {
	_Alignas(64) struct account account;
	_Alignas(64) _Atomic uint64_t clock; /* ns */
	_Alignas(64) _Atomic uint64_t charged[2];
	/* the owner's */
	_Alignas(64) uint64_t used[2];
};

static void model_init(struct model *m, uint32_t instance)
{
	uint64_t start = instance * STEP;

	model_zero(m);
	/* Also just before the time wraps. */
	if (instance % 2)
		start = (ACCOUNT_TIME_MASK << ACCOUNT_UNIT) - instance % 8 * STEP;
	atomic_store_explicit(&m->clock, start, memory_order_relaxed);
}

static void charge(struct model *m, uint32_t row, uint64_t ns)
{
	if (row != ACCOUNT_NOBODY)
		atomic_fetch_add_explicit(&m->charged[row], ns, memory_order_relaxed);
}

static uint64_t clock_step(struct model *m)
{
	return atomic_fetch_add_explicit(&m->clock, STEP, memory_order_relaxed) + STEP;
}

static void owner(struct model *m)
{
	for (uint32_t job = 0; job < 2; job++) {
		uint64_t opened = clock_step(m);
		uint64_t closed;
		uint32_t row;

		account_open(&m->account, job, opened);
		model_stumble();
		(void)clock_step(m);
		model_stumble();
		closed = clock_step(m);
		charge(m, job, account_close(&m->account, closed, &row));
		m->used[job] = closed - opened;
	}
}

static void settler(struct model *m)
{
	for (uint32_t looks = 0; looks < LOOKS; looks++) {
		uint64_t now = atomic_load_explicit(&m->clock, memory_order_relaxed);
		uint32_t row;
		uint64_t ns;

		model_stumble();
		ns = account_settle(&m->account, now, &row);
		charge(m, row, ns);
	}
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == 0)
		owner(m);
	else
		settler(m);
}

static void model_check(struct model *m)
{
	for (uint32_t job = 0; job < 2; job++)
		model_assert(atomic_load_explicit(&m->charged[job], memory_order_relaxed) ==
				     m->used[job],
			     "what was used is charged, once");
}

#include "tests/model/run.h"
