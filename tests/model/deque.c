/* SPDX-License-Identifier: MIT */
/*
 * deque.c - every item is taken exactly once (daemon/core/deque.h)
 *
 * THE PROGRAM
 *   The owner pushes two items, publishes them one after the other, and pops what it can get. Then
 *   it does the same with two more, at the same positions of the array. Two thieves steal, one of
 *   them in bulk.
 *
 * WHAT MUST BE TRUE
 *   Exactly one of the three threads takes each of the four items, and sees what was stored in it.
 *
 * MUTANTS
 *   MUTANT_RELEASE  deque_publish() adds relaxed
 *   MUTANT_ACQUIRE  deque_steal() loads the word relaxed
 *   MUTANT_STEAL    a thief compares and stores in two steps
 *   MUTANT_PASSED   a thief's CAS comes before its reads of the entries
 * 	MUTANT_THIEF    a thief's CAS is relaxed: as MUTANT_PASSED, but only under IMM
 *   MUTANT_RECLAIM  the owner takes back in two steps
 *   MUTANT_PUBLISH  the owner publishes in two steps
 *   The acquires of deque_reclaim() have no mutant. Without them a thief could read an entry that
 *   the owner writes later. RC11 forbids that, and IMM sees a control dependency, which a C
 *   compiler may remove.
 */
#include <stdatomic.h>

#include "tests/model/model.h"

#ifdef MUTANT_RELEASE
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(object, n, order)                                                \
	__atomic_fetch_add((uint64_t *)(object), n, __ATOMIC_RELAXED)
#endif
#ifdef MUTANT_ACQUIRE
#define memory_order_acquire memory_order_relaxed
#endif
#ifdef MUTANT_STEAL
#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(object, old, value, order, failed)                 \
	(atomic_load_explicit(object, memory_order_relaxed) == *(old) &&                           \
	 (model_stumble(), atomic_store_explicit(object, value, memory_order_release), 1))
#endif
#ifdef MUTANT_PASSED
#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(object, old, value, order, failed)                 \
	(__atomic_compare_exchange_n((uint64_t *)(object), old, value, 0, __ATOMIC_RELAXED,        \
				     __ATOMIC_RELAXED) &&                                          \
	 (model_stumble(), deque_copy_out(ret_words, &deque->entries[position], k), 1))
#endif
#ifdef MUTANT_THIEF
#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(object, old, value, order, failed)                 \
	__atomic_compare_exchange_n((uint64_t *)(object), old, value, 0, __ATOMIC_RELAXED,         \
				    __ATOMIC_RELAXED)
#endif
#ifdef MUTANT_RECLAIM
#undef atomic_exchange_explicit
#define atomic_exchange_explicit(object, value, order)                                             \
	({                                                                                         \
		uint64_t model_old = atomic_load_explicit(object, memory_order_acquire);           \
		model_stumble();                                                                   \
		atomic_store_explicit(object, value, memory_order_release);                        \
		model_old;                                                                         \
	})
#endif
#ifdef MUTANT_PUBLISH
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(object, n, order)                                                \
	({                                                                                         \
		uint64_t model_old = atomic_load_explicit(object, memory_order_relaxed);           \
		model_stumble();                                                                   \
		atomic_store_explicit(object, model_old + (n), memory_order_release);              \
		model_old;                                                                         \
	})
#endif

#define DEQUE_WORD_BY_WORD
#include "daemon/core/deque.h"

#undef memory_order_acquire
/* The steps of run.h are not split. */
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(object, n, order) atomic_fetch_add(object, n)

#define MODEL_THREADS 3
#define ITEMS	      4u

struct model {
	struct deque deque;
	struct fk_entry entries[8];
	uint64_t floor, bottom; /* positions, the owner's */
	uint64_t data[ITEMS];
	uint8_t had[MODEL_THREADS][ITEMS];
};

static void model_init(struct model *m, uint32_t instance)
{
	(void)instance;
	deque_init(&m->deque, m->entries, 8);
	m->floor = m->bottom = 0;
	model_zero(&m->data);
	model_zero(&m->had);
}

static void have(struct model *m, uint32_t thread, uint64_t item)
{
	model_assert(item < ITEMS, "an item is one that was pushed");
	model_assert(m->data[item] == item + 100, "the thread that has an item sees what is in it");
	m->had[thread][item]++;
}

static void push(struct model *m, uint64_t item)
{
	m->data[item] = item + 100;
	atomic_store_explicit(&m->entries[m->bottom++].word, item, memory_order_relaxed);
}

static void publish(struct model *m)
{
	deque_publish(&m->deque, 1);
	m->floor++;
}

static void pop_all(struct model *m)
{
	for (;;) {
		if (m->bottom == m->floor) {
			uint64_t n = deque_reclaim(&m->deque);

			model_assert(n <= m->floor, "no more comes back than was public");
			m->floor -= n;
			if (!n)
				break;
		}
		m->bottom--;
		have(m, 0, atomic_load_explicit(&m->entries[m->bottom].word, memory_order_relaxed));
	}
	m->floor = m->bottom = 0;
	deque_reset(&m->deque);
}

static void owner(struct model *m)
{
	for (uint64_t item = 0; item < ITEMS; item += 2) {
		push(m, item);
		publish(m);
		push(m, item + 1);
		publish(m);
		pop_all(m);
	}
}

/* Thieves are faster than the owner: they poll for some time, to steal during its work. */
#ifdef MODEL_ONCE
#define LOOKS 2
#else
#define LOOKS 60
#endif

static void thief(struct model *m, uint32_t thread, uint64_t max)
{
	uint64_t items[2], n;

	for (int i = 0, stolen = 0; i < LOOKS && stolen < 2; i++) {
		if (deque_steal(&m->deque, items, max, &n) != DEQUE_STOLEN)
			continue;
		stolen++;
		for (uint64_t k = 0; k < n; k++)
			have(m, thread, items[k]);
	}
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread == 0)
		owner(m);
	else
		thief(m, thread, thread);
}

static void model_check(struct model *m)
{
	for (uint32_t item = 0; item < ITEMS; item++)
		model_assert(m->had[0][item] + m->had[1][item] + m->had[2][item] == 1,
			     "an item is had exactly once");
}

#include "tests/model/run.h"
