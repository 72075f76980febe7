/* SPDX-License-Identifier: MIT */
/*
 * roots.c - a root deque that has jobs has its bit set (daemon/core/mark.h, daemon/core/deque.h)
 *
 * THE PROGRAM
 *   The owner pushes a job to its deque and sets its bit, twice. Two thieves that find the bit
 *   steal. A thief that finds the deque empty clears the bit and checks once more, as
 *   worker_clear_roots() does.
 *
 * WHAT MUST BE TRUE
 *   In the end, a deque that has jobs has its bit set.
 *
 * MUTANTS
 *   MUTANT_RELEASE  the bit is set relaxed
 *   MUTANT_ACQUIRE  the bit is cleared relaxed
 * 	MUTANT_ONCE     a thief does not check once more
 *   MUTANT_EARLY    the owner sets the bit before it pushes
 *   MUTANT_TWICE    the bits are set by a load and a store
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#define DEQUE_WORD_BY_WORD
#include "daemon/core/deque.h"

#pragma push_macro("atomic_fetch_or_explicit")
#if defined(MUTANT_RELEASE)
#define memory_order_release memory_order_relaxed
#elif defined(MUTANT_ACQUIRE)
#define memory_order_acquire memory_order_relaxed
#elif defined(MUTANT_TWICE)
#undef atomic_fetch_or_explicit
#define atomic_fetch_or_explicit(object, bits, order)                                              \
	({                                                                                         \
		uint64_t model_old = atomic_load_explicit(object, memory_order_acquire);           \
		model_stumble();                                                                   \
		atomic_store_explicit(object, model_old | (bits), memory_order_release);           \
	})
#endif

#include "daemon/core/mark.h"

#undef memory_order_release
#undef memory_order_acquire
#pragma pop_macro("atomic_fetch_or_explicit")

#define MODEL_THREADS 3

#define WORKER 1u
#define JOBS   2u
#ifdef MODEL_ONCE
#define LOOKS 2u
#else
#define LOOKS 8u
#endif

struct model {
	struct deque deque;
	struct fk_entry entries[8];
	_Alignas(64) _Atomic uint64_t words[1];
};

static void model_init(struct model *m, uint32_t instance)
{
	(void)instance;
	deque_init(&m->deque, m->entries, 8);
	atomic_store_explicit(&m->words[0], 0, memory_order_relaxed);
}

static int marked(struct model *m)
{
	return (int)(atomic_load_explicit(&m->words[0], memory_order_relaxed) >> WORKER & 1);
}

static void owner(struct model *m)
{
	for (uint64_t job = 0; job < JOBS; job++) {
#ifdef MUTANT_EARLY
		mark_set(m->words, WORKER);
		model_stumble();
#endif
		deque_push_all(&m->deque, &m->entries[job], &job, 1);
#ifndef MUTANT_EARLY
		mark_set(m->words, WORKER);
#endif
	}
}

static void thief(struct model *m)
{
	uint64_t job, n;

	for (uint32_t look = 0; look < LOOKS; look++) {
		if (!marked(m) || deque_steal(&m->deque, &job, 1, &n) != DEQUE_EMPTY)
			continue;
		mark_clear(m->words, WORKER);
#ifndef MUTANT_ONCE
		if (deque_size(&m->deque))
			mark_set(m->words, WORKER);
#endif
	}
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == 0)
		owner(m);
	else
		thief(m);
}

static void model_check(struct model *m)
{
	model_assert(!deque_size(&m->deque) || marked(m), "a deque with jobs has its bit");
}

#include "tests/model/run.h"
