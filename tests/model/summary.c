/* SPDX-License-Identifier: MIT */
/*
 * summary.c - a ring that is not empty has its summary bit set (shm/tenant.h, S1)
 *
 * THE PROGRAM
 *   Two producers push and mark; a consumer that finds the bit clears it and empties the ring.
 *
 * WHAT MUST BE TRUE
 *   In the end, a job that is still in the ring has its bit.
 *
 * MUTANTS
 *   MUTANT_CLEAR    the consumer clears after it has emptied the ring
 *   MUTANT_MARK     the producers mark before they push
 *   MUTANT_RMW      the bit is set and cleared by a load and a store
 *   MUTANT_RELEASE  the bit is set relaxed
 *   MUTANT_ACQUIRE  the bit is cleared relaxed
 */
#include <stdatomic.h>
#include <stdint.h>

#include "tests/model/model.h"

#define RING_SLOTS 4u

#include "shm/ring.h"

#ifdef MUTANT_RELEASE
#define memory_order_release memory_order_relaxed
#endif
#ifdef MUTANT_ACQUIRE
#define memory_order_acquire memory_order_relaxed
#endif
#ifdef MUTANT_RMW
#undef atomic_fetch_or_explicit
#define atomic_fetch_or_explicit(object, bits, order)                                              \
	atomic_store_explicit(object, atomic_load_explicit(object, memory_order_relaxed) | (bits), \
			      memory_order_release)
#undef atomic_fetch_and_explicit
#define atomic_fetch_and_explicit(object, bits, order)                                             \
	atomic_store_explicit(object, atomic_load_explicit(object, memory_order_relaxed) & (bits), \
			      memory_order_release)
#endif

#include "shm/tenant.h"

#undef memory_order_release
#undef memory_order_acquire

#define MODEL_THREADS 3

#define RING 1u /* of two */

#ifdef MODEL_ONCE
#define LOOKS 2u
#else
#define LOOKS 8u
#endif

struct model {
	_Alignas(64) char tenant[sizeof(struct tenant_segment) + 2 * sizeof(struct ring)];
	uint64_t head;
};

static struct tenant_segment *tenant_of(struct model *m)
{
	return (struct tenant_segment *)(void *)m->tenant;
}

static void model_init(struct model *m, uint32_t instance)
{
	(void)instance;
	model_zero(m);
}

static void producer(struct model *m, uint32_t i)
{
	struct tenant_segment *tenant = tenant_of(m);
	uint64_t position;

#ifdef MUTANT_MARK
	tenant_mark(tenant, RING);
	model_stumble();
	ring_push(&tenant->rings[RING], i, &position);
#else
	ring_push(&tenant->rings[RING], i, &position);
	tenant_mark(tenant, RING);
#endif
}

static int marked(struct model *m)
{
	uint64_t word = atomic_load_explicit(&tenant_of(m)->summary[0], memory_order_relaxed);

	return (word >> RING & 1) != 0;
}

static int look(struct model *m)
{
	uint32_t payload;

	return ring_peek(&tenant_of(m)->rings[RING], m->head, &payload) == RING_OK;
}

static void consumer(struct model *m)
{
	struct tenant_segment *tenant = tenant_of(m);

	for (uint32_t looks = 0; looks < LOOKS; looks++) {
		if (!marked(m))
			continue;
#ifndef MUTANT_CLEAR
		tenant_clear(tenant, RING);
#endif
		while (look(m))
			ring_consume(&tenant->rings[RING], m->head++);
#ifdef MUTANT_CLEAR
		model_stumble();
		tenant_clear(tenant, RING);
#endif
	}
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread < 2)
		producer(m, thread);
	else
		consumer(m);
}

static void model_check(struct model *m)
{
	model_assert(!look(m) || marked(m), "a job in the ring has its summary bit");
}

#include "tests/model/run.h"
