/* SPDX-License-Identifier: MIT */
/*
 * ring.c - each submitted job is taken out once, whole and in order, whatever others have left in
 * the ring (shm/ring.h, shm/tenant.h, shm/ledger.h)
 *
 * THE PROGRAM
 *   Two producers push jobs through a ring of RING_SLOTS slots. They write a job's record before
 *   the push, and set the ring's summary bit after it. If the bit is set, two workers drain the
 *   ring with the consumer role, as drain_ring() does. A drain at the end takes the remaining jobs,
 *   if the bit is set. The instance decides what else happens:
 * 	HONEST   nothing
 * 	FALSE    the ring has a false tail, and a free slot with a false lap
 * 	STOPPED  the same, and the second producer stops forever at some step of its pushes
 * 	KILLED   the second producer stops; the manager sees its end and sets the flag in the ring
 * 	HOSTILE  the second producer writes a false tail and a false lap, and is killed then
 * 	PASSED   one worker alone, which dies at some step with its pool; the next pool takes over
 *
 * WHAT MUST BE TRUE
 *   Each job of a producer that has not stopped is taken out once, with its record. Each other job
 *   is taken out at most once. An honest ring keeps the order of each producer (I3), and has no
 *   malformed slot and no position that is given up.
 *
 * MUTANTS
 *   MUTANT_RELEASE  ring_push() publishes relaxed
 * 	MUTANT_ACQUIRE  ring_peek() reads relaxed
 *   MUTANT_CAS      a slot is claimed by a load and a store
 *   MUTANT_LAP      slots carry no lap
 *   MUTANT_RECORD   the record is written after the push
 *   MUTANT_SKIP     a position is given up by a load and a store
 * of the correction of a false tail [R4]
 * 	MUTANT_TAIL     ring_push() moves the tail relaxed
 *   MUTANT_BEHIND   a producer that finds the tail changed releases nothing
 *   MUTANT_BLIND    it does not check if the tail was set back
 *   MUTANT_STORE    the flag is set by a load and a store
 *   MUTANT_TAKE     ring_skip() takes the flag relaxed
 *   MUTANT_ASTRAY   the manager does not set the flag
 * of the consumer role [R3] and of its end
 *   MUTANT_HOLD     the role is taken relaxed
 *   MUTANT_LEAVE    the role is given back relaxed
 *   MUTANT_ROLE     the role is taken by a load and a store
 *   MUTANT_OVER     the next pool does not free the last position
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/model/model.h"

#ifndef RING_SLOTS
#define RING_SLOTS 4u
#endif

/* The producer stops here forever, if the instance stops it at this step. */
#define RING_CRASH(site)                                                                           \
	do {                                                                                       \
		if (model_stops(ring, payload))                                                    \
			return RING_FULL;                                                          \
	} while (0)
struct ring;
static int model_stops(struct ring *ring, uint32_t payload);

#pragma push_macro("memory_order_release")
#pragma push_macro("memory_order_acquire")
#pragma push_macro("atomic_compare_exchange_strong_explicit")
#pragma push_macro("atomic_fetch_add_explicit")
#pragma push_macro("atomic_fetch_or_explicit")
#pragma push_macro("memory_order_release")
#pragma push_macro("memory_order_acquire")
#pragma push_macro("atomic_compare_exchange_strong_explicit")
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
/* The CAS on the tail with this value. */
#if defined(MUTANT_TAIL) || defined(MUTANT_TAKE)
#ifdef MUTANT_TAIL
#define MODEL_RELAXED "p + 1"
#else
#define MODEL_RELAXED "head"
#endif
#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(object, old, value, order, failed)                 \
	(sizeof(#value) == sizeof(MODEL_RELAXED) && sizeof(#object) == sizeof("&ring->tail")       \
		 ? __atomic_compare_exchange_n((uint64_t *)(object), old, value, 0,                \
					       __ATOMIC_RELAXED, __ATOMIC_RELAXED)                 \
		 : __atomic_compare_exchange_n((uint64_t *)(object), old, value, 0, order,         \
					       failed))
#endif
#if defined(MUTANT_BEHIND)
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(object, n, order)                                                \
	__atomic_fetch_add((uint64_t *)(object), n, __ATOMIC_RELAXED)
#elif defined(MUTANT_BLIND)
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(object, n, order) (p + 1)
#endif
#ifdef MUTANT_STORE
#undef atomic_fetch_or_explicit
#define atomic_fetch_or_explicit(object, bits, order)                                              \
	({                                                                                         \
		uint64_t model_old = atomic_load_explicit(object, memory_order_relaxed);           \
		model_stumble();                                                                   \
		atomic_store_explicit(object, model_old | (bits), memory_order_release);           \
	})
#endif

#include "shm/ring.h"

#pragma pop_macro("memory_order_release")
#pragma pop_macro("memory_order_acquire")
#pragma pop_macro("atomic_compare_exchange_strong_explicit")
#pragma pop_macro("atomic_fetch_add_explicit")
#pragma pop_macro("atomic_fetch_or_explicit")

#include "shm/tenant.h"

#if defined(MUTANT_HOLD)
#define memory_order_acquire memory_order_relaxed
#elif defined(MUTANT_LEAVE)
#define memory_order_release memory_order_relaxed
#elif defined(MUTANT_ROLE)
#define atomic_compare_exchange_strong_explicit(object, old, value, order, failed)                 \
	(atomic_load_explicit(object, memory_order_acquire) == *(old) &&                           \
	 (model_stumble(), atomic_store_explicit(object, value, memory_order_release), 1))
#endif

#include "shm/ledger.h"

#pragma pop_macro("memory_order_release")
#pragma pop_macro("memory_order_acquire")
#pragma pop_macro("atomic_compare_exchange_strong_explicit")

#define MODEL_THREADS 4

enum kind { HONEST, FALSE, STOPPED, KILLED, HOSTILE, PASSED, KINDS };

#define JOBS 3u /* of each producer */
#ifdef MODEL_ONCE
#define TRIES 2u
#define LOOKS 2u
#else
#define TRIES 20u
#define LOOKS 10u
#endif
#define BUDGET 16u /* steps of a drain */

struct model {
	enum kind kind;
	/* a tenant's segment with one ring */
	_Alignas(64) unsigned char tenant[sizeof(struct tenant_segment) + sizeof(struct ring)];
	struct ledger_ring side;
	/* plain memory, as a job's arguments are */
	uint64_t records[2][JOBS];
	uint32_t submitted[2]; /* pushed and marked */
	uint32_t steps;	       /* of the second producer, until it stops */
	/* the holder of the consumer role writes */
	uint32_t had[2][JOBS];
	uint32_t order[2]; /* 1 + the job that came out last */
	/* the ledger's rows: 1 for QUEUED */
	_Atomic uint32_t rows[2][JOBS];
	uint32_t life; /* steps until the worker dies */
	_Atomic uint32_t died;
	uint32_t next; /* the next pool has taken over */
};

static struct tenant_segment *tenant_of(struct model *m)
{
	return (struct tenant_segment *)(void *)m->tenant;
}

static struct ring *ring_of(struct model *m)
{
	return (struct ring *)(void *)(m->tenant + sizeof(struct tenant_segment));
}

static int model_stops(struct ring *ring, uint32_t payload)
{
	struct model *m =
		(struct model *)(void *)((unsigned char *)ring - sizeof(struct tenant_segment) -
					 offsetof(struct model, tenant));

	if (payload >> 16 != 1 || !m->steps)
		return 0;
	return --m->steps == 0;
}

/* The second lap; in some kinds a tail ahead of the head, and a slot with a false lap. */
static void model_init(struct model *m, uint32_t instance)
{
	static const uint64_t tails[] = { 2, 3, RING_SLOTS + 2, 3 * RING_SLOTS + 1 };
	struct ring *ring = ring_of(m);
	uint32_t step = instance / KINDS % 6;
	uint32_t variant = instance / KINDS / 6;

	m->kind = (enum kind)(instance % KINDS);
	atomic_store_explicit(&tenant_of(m)->summary[0], 0, memory_order_relaxed);
	atomic_store_explicit(&ring->tail, RING_SLOTS, memory_order_relaxed);
	for (uint32_t i = 0; i < RING_SLOTS; i++)
		atomic_store_explicit(&ring->slots[i], UINT64_C(1) << 32, memory_order_relaxed);
	atomic_store_explicit(&m->side.head, RING_SLOTS, memory_order_relaxed);
	atomic_store_explicit(&m->side.consumer, 0, memory_order_relaxed);
	if (m->kind == FALSE || m->kind == STOPPED || m->kind == KILLED) {
		atomic_store_explicit(&ring->tail, RING_SLOTS + tails[variant % 4],
				      memory_order_relaxed);
		atomic_store_explicit(&ring->slots[(RING_SLOTS - 1 + variant / 4) % RING_SLOTS],
				      (uint64_t)(variant / 8 % 3) << 32, memory_order_relaxed);
	}
	m->steps = m->kind == STOPPED || m->kind == KILLED ? 1 + step : 0;
	m->life = m->kind == PASSED ? 1 + step : 0;
	m->next = 0;
	atomic_store_explicit(&m->died, 0, memory_order_relaxed);
	for (uint32_t i = 0; i < 2; i++) {
		m->submitted[i] = m->order[i] = 0;
		for (uint32_t n = 0; n < JOBS; n++) {
			m->records[i][n] = 0;
			m->had[i][n] = 0;
			atomic_store_explicit(&m->rows[i][n], 0, memory_order_relaxed);
		}
	}
}

/* tenants_mark(): the manager, which has seen a client's end. */
static void manager(struct model *m)
{
#ifndef MUTANT_ASTRAY
	ring_set_astray(ring_of(m));
#endif
	tenant_mark(tenant_of(m), 0);
}

/* Exchanges that acquire. On CPUs whose stores reach all others at once (x86-64, AArch64) plain
 * stores to the tail have the same order. Under RC11 such a store can hide a job until the next
 * one. */
static void hostile(struct model *m)
{
	struct ring *ring = ring_of(m);
	uint64_t free = UINT64_C(1) << 32;

	(void)atomic_exchange_explicit(&ring->tail, RING_SLOTS + 3, memory_order_acq_rel);
	model_stumble();
	(void)atomic_compare_exchange_strong_explicit(&ring->slots[1], &free, UINT64_C(3) << 32,
						      memory_order_acq_rel, memory_order_relaxed);
	model_stumble();
	(void)atomic_exchange_explicit(&ring->tail, RING_SLOTS, memory_order_acq_rel);
}

static void producer(struct model *m, uint32_t i)
{
	uint32_t n = 0;

	if (i == 1 && m->kind == HOSTILE) {
		hostile(m);
		manager(m);
		return;
	}
	for (uint32_t tries = 0; n < JOBS && tries < TRIES; tries++) {
		int stops = i == 1 && m->steps;
		uint64_t position;
		enum ring_status status;

#ifndef MUTANT_RECORD
		m->records[i][n] = i * 1000 + n + 1;
#endif
		status = ring_push(ring_of(m), i << 16 | n, &position);
		if (stops && !m->steps)
			break;
		if (status != RING_OK) {
			model_stumble();
			continue;
		}
#ifdef MUTANT_RECORD
		m->records[i][n] = i * 1000 + n + 1;
#endif
		tenant_mark(tenant_of(m), 0);
		m->submitted[i] = ++n;
	}
	if (i == 1 && m->kind == KILLED)
		manager(m);
}

static enum ring_status skip(struct ring *ring, uint64_t head)
{
#ifdef MUTANT_SKIP
	/* ring_skip() with its CAS in two steps: the producer may run in between. */
	_Atomic uint64_t *slot = &ring->slots[head % RING_SLOTS];
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	model_stumble();
	if (tail - head - 1 < RING_SLOTS)
		atomic_store_explicit(slot, (head / RING_SLOTS + 1) << 32, memory_order_relaxed);
	return RING_EMPTY;
#else
	return ring_skip(ring, head);
#endif
}

static void accept(struct model *m, uint32_t payload)
{
	uint32_t i = payload >> 16, n = payload & 0xffff;

	model_assert(i < 2 && n < JOBS, "what comes out was pushed");
	model_assert(m->records[i][n] == i * 1000 + n + 1, "a job's record is whole");
	model_assert(!m->had[i][n]++, "a job comes out once");
	model_assert(m->kind != HONEST || n == m->order[i], "jobs of a producer come out in order");
	m->order[i] = n + 1;
	atomic_store_explicit(&m->rows[i][n], 1, memory_order_relaxed);
}

/* The worker dies here, with its pool. */
static int dies(struct model *m)
{
	return m->life && --m->life == 0;
}

/* drain_ring(). Returns false if it has died. */
static int drain(struct model *m, uint32_t worker)
{
	struct tenant_segment *tenant = tenant_of(m);
	struct ring *ring = ring_of(m);
	uint32_t payload, budget;
	uint64_t head;

	if (!ledger_ring_hold(&m->side, worker + 1))
		return 1;
	tenant_clear(tenant, 0);
	head = atomic_load_explicit(&m->side.head, memory_order_relaxed);
	for (budget = BUDGET; budget; budget--) {
		enum ring_status status = ring_peek(ring, head, &payload);

		model_assert(m->kind != HONEST || status != RING_GARBAGE,
			     "honest producers leave no garbage");
		if (status == RING_GARBAGE)
			continue;
		if (status == RING_EMPTY) {
			status = skip(ring, head);
			if (status == RING_EMPTY)
				break;
			if (status == RING_OK)
				continue;
			model_assert(m->kind != HONEST, "no tail is ahead of what was claimed");
		}
		if (dies(m))
			return 0;
		if (status == RING_OK)
			accept(m, payload);
		if (dies(m))
			return 0;
		/* [L1] of daemon/jobs/ring_drain.c */
		atomic_store_explicit(&m->side.head, ++head, memory_order_release);
		if (dies(m))
			return 0;
		if (status == RING_OK)
			ring_consume(ring, head - 1);
	}
	if (!budget)
		tenant_mark(tenant, 0);
	ledger_ring_leave(&m->side);
	return 1;
}

/* The next pool: intake_map_tenant(), requeue_place_ring(). */
static void take_over(struct model *m)
{
	struct ring *ring = ring_of(m);
	uint64_t head = atomic_load_explicit(&m->side.head, memory_order_relaxed);
	uint32_t payload;

	m->next = 1;
	m->life = 0;
	ledger_ring_leave(&m->side);
#ifndef MUTANT_OVER
	ring_take_over(ring, head);
#endif
	if (ring_peek(ring, head, &payload) == RING_OK &&
	    atomic_load_explicit(&m->rows[payload >> 16][payload & 0xffff], memory_order_relaxed)) {
		atomic_store_explicit(&m->side.head, head + 1, memory_order_release);
		ring_consume(ring, head);
	}
	manager(m);
}

static int marked(struct model *m)
{
	return tenant_is_marked(tenant_of(m));
}

static void consumer(struct model *m, uint32_t worker)
{
	for (uint32_t looks = 0; looks < LOOKS; looks++) {
		if (m->kind == PASSED && worker == 1 && !m->next) {
			if (!atomic_load_explicit(&m->died, memory_order_acquire))
				continue;
			take_over(m);
		}
		if (marked(m) && !drain(m, worker)) {
			atomic_store_explicit(&m->died, 1, memory_order_release);
			return;
		}
		model_stumble();
	}
}

static void model_thread(struct model *m, uint32_t thread)
{
	if (thread < 2)
		producer(m, thread);
	else
		consumer(m, thread - 2);
}

static void model_check(struct model *m)
{
	if (atomic_load_explicit(&m->died, memory_order_relaxed) && !m->next)
		take_over(m);
	m->life = 0;
	for (uint32_t drains = 0; drains < 4 && marked(m); drains++)
		(void)drain(m, 1);
	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t n = 0; n < m->submitted[i]; n++)
			model_assert(m->had[i][n], "a job that was submitted comes out");
}

#include "tests/model/run.h"
