/* SPDX-License-Identifier: MIT */
/*
 * tests/model/ring.c - every job that was pushed comes out once, whole and in order (shm/ring.h)
 *
 * THE PROGRAM
 *   Two producers push jobs through a ring of two slots, so that laps pass while they are at it; a
 *   job's record is written before its push. One consumer looks, reads the record and frees the
 *   slot. What it leaves is drained in the end.
 *
 * WHAT MUST BE TRUE
 *   Exactly what was pushed comes out, with its record, in the order of each producer (I3), and
 *   nothing of it is garbage; the consumer gives no position up.
 *
 * MUTANTS
 *   MUTANT_RELEASE  ring_push() publishes relaxed
 *   MUTANT_ACQUIRE  ring_peek() looks relaxed
 *   MUTANT_CAS      a slot is claimed by a load and a store
 *   MUTANT_LAP      slots carry no lap
 *   MUTANT_RECORD   the record is written after the push
 *   MUTANT_SKIP     a position is given up by a load and a store
 */
#include <stdatomic.h>
#include <stdint.h>

#include "tests/model/model.h"

#define RING_SLOTS 2u

#ifdef MUTANT_RELEASE
#define memory_order_release memory_order_relaxed
#endif
#ifdef MUTANT_ACQUIRE
#define memory_order_acquire memory_order_relaxed
#endif
#ifdef MUTANT_CAS
#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(object, old, value, order, failed)                 \
	({                                                                                         \
		uint64_t model_seen = atomic_load_explicit(object, memory_order_relaxed);          \
		int model_same = model_seen == *(old);                                             \
		model_stumble();                                                                   \
		if (model_same)                                                                    \
			atomic_store_explicit(object, value, order);                               \
		else                                                                               \
			*(old) = model_seen;                                                       \
		model_same;                                                                        \
	})
#endif
#ifdef MUTANT_LAP
#undef UINT32_MAX
#define UINT32_MAX 0u
#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(object, old, value, order, failed)                 \
	(model_stumble(), atomic_compare_exchange_weak_explicit(object, old, value, order, failed))
#endif

#include "shm/ring.h"

#undef memory_order_release
#undef memory_order_acquire

#define MODEL_THREADS 3

#ifdef MODEL_ONCE
#define JOBS  2u /* of each producer */
#define TRIES 1u
#define LOOKS 3u
#else
#define JOBS  6u
#define TRIES 40u
#define LOOKS 100u
#endif

struct model {
	struct ring ring;
	uint64_t records[2][JOBS]; /* plain memory, as a job's arguments are */
	uint32_t pushed[2];
	uint32_t popped[2];
	uint64_t head;
};

static void model_init(struct model *m, uint32_t instance)
{
	(void)instance;
	memset(m, 0, sizeof(*m));
}

static void producer(struct model *m, uint32_t i)
{
	uint32_t tries = 0;

	for (uint32_t n = 0; n < JOBS && tries < TRIES; tries++) {
		uint64_t position;

#ifndef MUTANT_RECORD
		m->records[i][n] = i * 1000 + n + 1;
#endif
		if (ring_push(&m->ring, i << 16 | n, &position) != RING_OK)
			continue;
#ifdef MUTANT_RECORD
		m->records[i][n] = i * 1000 + n + 1;
#endif
		n++;
		m->pushed[i] = n;
	}
}

#ifdef MUTANT_SKIP
/* ring_skip() with its CAS torn apart: the producer may be there in between. */
static int skip(struct ring *ring, uint64_t head)
{
	_Atomic uint64_t *slot = &ring->slots[head % RING_SLOTS];
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	model_stumble();
	if (tail - head - 1 < RING_SLOTS)
		atomic_store_explicit(slot, (head / RING_SLOTS + 1) << 32, memory_order_relaxed);
	return 0;
}
#else
static int skip(struct ring *ring, uint64_t head)
{
	return ring_skip(ring, head);
}
#endif

/* One look; returns whether something was there. */
static int consume(struct model *m)
{
	uint32_t payload, i, n;
	enum ring_status status = ring_peek(&m->ring, m->head, &payload);

	model_assert(status != RING_GARBAGE, "honest producers leave no garbage");
	if (status == RING_EMPTY) {
		model_assert(!skip(&m->ring, m->head), "no tail is ahead of what was claimed");
		return 0;
	}
	i = payload >> 16;
	n = payload & 0xffff;
	model_assert(i < 2 && n < JOBS, "what comes out was pushed");
	model_assert(n == m->popped[i], "jobs of a producer come out once and in order");
	model_assert(m->records[i][n] == i * 1000 + n + 1, "a job's record is whole");
	m->popped[i]++;
	ring_consume(&m->ring, m->head);
	m->head++;
	return 1;
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread < 2) {
		producer(m, thread);
		return;
	}
	for (uint32_t looks = 0; looks < LOOKS; looks++)
		consume(m);
}

static void model_check(struct model *m)
{
	while (consume(m))
		;
	model_assert(m->popped[0] == m->pushed[0] && m->popped[1] == m->pushed[1],
		     "all that was pushed comes out");
}

#include "tests/model/run.h"
