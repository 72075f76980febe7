/* SPDX-License-Identifier: MIT */
/*
 * shm/ring.h - bounded MPSC ring of jobs, one per worker and tenant
 *
 * WRITERS AND READERS
 *   Producers: the clients of one uid, from any thread. They write slots and tail, and no value
 *   there is trusted. Consumer: one worker of the pool at a time, the holder of the consumer role.
 *   The head is in the arena, which no client maps.
 *
 * THE SLOT
 *   One 64-bit word { lap:32, full:1, payload:31 }. One CAS of the word claims the slot and
 *   publishes the job, so a producer cannot die in between.
 * 	FREE(lap)          lap << 32            waits for the producer of this lap
 * 	FULL(lap, payload) lap << 32 | 1 << 31 | payload
 *   Position p belongs to slot p % RING_SLOTS and lap p / RING_SLOTS.
 *
 * INVARIANTS
 *   I1. A producer's CAS changes a slot from FREE(l) to FULL(l, x). The consumer changes FULL(l, x)
 *       to FREE(l + 1), and may make it FULL(l, y) before (ring_repoint()). Laps only grow. A
 *       delayed producer can fill its slot only in the lap that it read: the word repeats after
 *       2^32 laps, or 2^42 jobs.
 *   I2. The tail is a hint: a producer that finds its slot taken advances it. If all producers are
 *       honest, every position below the tail was claimed, and the tail lags by at most one: a
 *       producer that claims p has found the tail at p. A false tail is corrected:
 *       - If it fits no slot, a producer corrects it by the laps that it finds.
 *       - If it points beyond the head, at free slots, honest producers put jobs there. The
 *         consumer follows them and gives up the positions in between (ring_skip()).
 *       - If RING_ASTRAY is set in it, the consumer checks all slots, corrects false laps, and puts
 *         the tail after the last full slot. A producer that sets the tail back, or finds it set
 *         back, sets the flag.
 *   I3. Jobs of one producer that go through one ring are consumed in the order of their CASes.
 *
 * If a peer dies: a producer before its CAS: no effect. After it: the job is submitted, and the
 * tail lags by one. The manager sets the flag in all rings of the producer's uid and has them
 * drained, so any malformed slots that it left are corrected. Jobs that were pushed by then are
 * found.
 * The consumer (the pool): the row in the ledger is written first, then the head moves, then the
 * slot is freed. So the next pool finds the job in the ring or in the ledger, or in both with equal
 * generations. ring_take_over() frees a slot that the head has already passed. A pool that dies in
 * ring_skip(), before the head has moved, leaves a malformed slot, which the next pool resets and
 * skips again.
 *
 * Compiles with C11 alone: tests/model/ring.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"

/* A test can kill a producer here; no effect in other builds. tests/model/ring.c has its own. */
#ifdef RING_CRASH
#elif defined(FK_CRASH_SITES)
#include "common/crash_site.h"
#define RING_CRASH(site) FK_CRASH(site)
#else
#define RING_CRASH(site) ((void)0)
#endif

#ifndef RING_SLOTS
#define RING_SLOTS 1024u
#endif

#define RING_FULL_BIT UINT64_C(0x80000000)
#define RING_PAYLOAD  UINT64_C(0x7fffffff)

/* In the tail: all slots must be checked. */
#define RING_ASTRAY (UINT64_C(1) << 63)

struct ring {
	/* clients, pool and manager write; a position, and RING_ASTRAY */
	_Alignas(64) _Atomic uint64_t tail;
	/* clients and pool write, both read */
	_Alignas(64) _Atomic uint64_t slots[RING_SLOTS];
};

enum ring_status {
	RING_OK,      /* pushed; or a job is there */
	RING_FULL,    /* no room */
	RING_EMPTY,   /* nothing there */
	RING_GARBAGE, /* free, of another lap, as no honest producer leaves it; it was reset */
	RING_SKIPPED, /* the position was given up */
};

/* The payload: { client's generation:5, client:10, job:16 }. */
#define RING_JOB_BITS	 16u
#define RING_CLIENT_BITS 10u
#define RING_GEN_BITS	 5u

static inline uint32_t ring_payload(uint32_t client, uint32_t client_gen, uint32_t job)
{
	return (client_gen & 31u) << 26 | (client & 1023u) << 16 | (job & 0xffffu);
}

static inline uint32_t ring_payload_job(uint32_t payload)
{
	return payload & 0xffffu;
}

static inline uint32_t ring_payload_client(uint32_t payload)
{
	return payload >> 16 & 1023u;
}

static inline uint32_t ring_payload_gen(uint32_t payload)
{
	return payload >> 26 & 31u;
}

/* Returns how far a tail is ahead of a head, modulo the positions that slots can tell apart.
 * RING_ASTRAY has no effect on it. */
#define RING_POSITIONS ((uint64_t)RING_SLOTS << 32)

static inline uint64_t ring_ahead(uint64_t tail, uint64_t head)
{
	return (tail - head) % RING_POSITIONS;
}

/* Makes the consumer check all slots. Relaxed: a producer has released its job by its own change of
 * the tail [R4]. Each change of the tail is a read-modify-write, which continues that release. */
static inline void ring_set_astray(struct ring *ring)
{
	atomic_fetch_or_explicit(&ring->tail, RING_ASTRAY, memory_order_relaxed);
}

/* Moves the tail to p + 1, after a producer has claimed p. If it finds the tail set back, the tail
 * was false, and the job is astray. */
static inline void ring_move_tail(struct ring *ring, uint64_t p)
{
	uint64_t old = p;

	/* ORDER ring/astray [R4]: release, the job precedes the tail, for a consumer that checks
	 * all slots. Pairs with the CAS in ring_skip(). */
	if (atomic_compare_exchange_strong_explicit(&ring->tail, &old, p + 1, memory_order_release,
						    memory_order_relaxed))
		return;
	/* A read-modify-write sees the tail's last value, and ring_skip() sets the tail before it
	 * checks the slots. So either this thread sees that tail, or ring_skip() sees the job.
	 * ORDER ring/astray [R4]: release, as above. */
	old = atomic_fetch_add_explicit(&ring->tail, 0, memory_order_release);
	if (ring_ahead(old, p + 1) > RING_POSITIONS / 2)
		ring_set_astray(ring);
}

/*
 * Publishes a payload. Any thread of any client. Lock-free.
 * Returns RING_OK or RING_FULL. Sets *ret_position (for tests and statistics) on RING_OK.
 */
static inline enum ring_status ring_push(struct ring *ring, uint32_t payload,
					 uint64_t *ret_position)
{
	uint64_t p = load_relaxed(&ring->tail);

	for (uint32_t tries = 0; tries < 4 * RING_SLOTS; tries++) {
		_Atomic uint64_t *slot = &ring->slots[p % RING_SLOTS];
		uint64_t lap = (p / RING_SLOTS) & UINT32_MAX;
		uint64_t word = load_relaxed(slot);
		uint64_t word_lap = word >> 32;

		if (word_lap == lap && !(word & RING_FULL_BIT)) {
			uint64_t full = lap << 32 | RING_FULL_BIT | (payload & RING_PAYLOAD);

			RING_CRASH(ring_claiming);
			/* ORDER ring/publish [R1]: release, so that a reader of the word sees the
			 * job record behind it. Pairs with the acquire in ring_peek(). */
			if (atomic_compare_exchange_strong_explicit(slot, &word, full,
								    memory_order_release,
								    memory_order_relaxed)) {
				RING_CRASH(ring_claimed);
				ring_move_tail(ring, p);
				RING_CRASH(ring_pushed);
				*ret_position = p & ~RING_ASTRAY;
				return RING_OK;
			}
			continue;
		}
		uint64_t hint = p;
		uint64_t next = p + 1;

		if ((uint32_t)(word_lap - lap) >> 31) {
			/* A lap behind us. Honest: the consumer has not been here yet. */
			if (word_lap == ((lap - 1) & UINT32_MAX) && word & RING_FULL_BIT)
				return RING_FULL;
			/* Free for an earlier lap: the hint was false, and the slot has the right
			 * lap. The false hint may have led jobs astray, which are found only by the
			 * flag. One step sets the flag and the new position, or a consumer could
			 * take the flag too early. */
			next = (word_lap * RING_SLOTS + p % RING_SLOTS) | RING_ASTRAY;
			RING_CRASH(ring_false);
		} else {
			/* This position was claimed, in this lap, and the tail lags: help it. */
			RING_CRASH(ring_behind);
		}
		/* Relaxed: a read-modify-write of the tail, so that the producers that moved it
		 * here also release their jobs by it [R4]. */
		if (atomic_compare_exchange_strong_explicit(
			    &ring->tail, &hint, next, memory_order_relaxed, memory_order_relaxed))
			p = next;
		else
			p = hint;
	}
	return RING_FULL;
}

/*
 * Reads the slot of position head. Holder of the consumer role only.
 * Returns RING_OK and the payload, RING_EMPTY, or RING_GARBAGE after resetting the slot.
 */
static inline enum ring_status ring_peek(struct ring *ring, uint64_t head, uint32_t *ret_payload)
{
	_Atomic uint64_t *slot = &ring->slots[head % RING_SLOTS];
	uint64_t lap = (head / RING_SLOTS) & UINT32_MAX;
	/* ORDER ring/publish [R1]: acquire, pairs with the CAS in ring_push(). */
	uint64_t word = atomic_load_explicit(slot, memory_order_acquire);

	if (word == lap << 32)
		return RING_EMPTY;
	/* With any lap: if a client has stored a false lap, honest producers use that one. */
	if (word & RING_FULL_BIT) {
		*ret_payload = (uint32_t)(word & RING_PAYLOAD);
		return RING_OK;
	}
	/* Other slots may be malformed as well. */
	ring_set_astray(ring);
	atomic_compare_exchange_strong_explicit(slot, &word, lap << 32, memory_order_relaxed,
						memory_order_relaxed);
	return RING_GARBAGE;
}

/*
 * Checks every slot except the head's, and corrects the laps of free slots.
 * Returns the distance from the head to the slot after the last full one, or 0 if none is full.
 */
static inline uint64_t ring_mend(struct ring *ring, uint64_t head)
{
	uint64_t reach = 0;

	for (uint64_t n = 1; n < RING_SLOTS; n++) {
		_Atomic uint64_t *slot = &ring->slots[(head + n) % RING_SLOTS];
		uint64_t right = (((head + n) / RING_SLOTS) & UINT32_MAX) << 32;
		uint64_t word = load_relaxed(slot);

		/* If the CAS fails, word is what a producer has made of it. */
		if (!(word & RING_FULL_BIT) && word != right)
			atomic_compare_exchange_strong_explicit(
				slot, &word, right, memory_order_relaxed, memory_order_relaxed);
		if (word & RING_FULL_BIT)
			reach = n + 1;
	}
	return reach;
}

/* Returns true if all slots must be checked: the flag is set, or the tail is out of range. */
static inline int ring_must_mend(uint64_t tail, uint64_t head)
{
	uint64_t ahead = ring_ahead(tail, head);

	return tail & RING_ASTRAY || (ahead > RING_SLOTS && ahead != RING_POSITIONS - 1);
}

/* Returns true if ring_skip() will check all slots. A hint, to count the steps. */
static inline int ring_is_astray(struct ring *ring, uint64_t head)
{
	return ring_must_mend(load_relaxed(&ring->tail), head);
}

/*
 * Called at an empty slot, before the consumer leaves the ring. If a producer has led the tail
 * beyond it, jobs may be behind it. Then the position is given up: no producer writes to it any
 * more, and the consumer continues at the next one. A tail that is out of range is set to the
 * position after the last job. Holder of the consumer role only.
 * Returns RING_EMPTY if no job is behind the slot; RING_SKIPPED; or RING_OK if a producer has
 * changed the ring in the meantime and the consumer must check again. That producer may be stopped
 * before it sets the summary bit, and must not delay the jobs of others.
 *
 * Relaxed, except for the CAS below: tail and flag are one word, and the CAS of the slot decides
 * whether the position is given up. If a producer claims it at the same time, one of the two CASes
 * on FREE(lap) fails. If this one fails, the slot has a job.
 */
static inline enum ring_status ring_skip(struct ring *ring, uint64_t head)
{
	uint64_t tail = load_relaxed(&ring->tail);
	uint64_t word = ((head / RING_SLOTS) & UINT32_MAX) << 32;
	uint64_t next = ((head / RING_SLOTS + 1) & UINT32_MAX) << 32;
	uint64_t ahead = ring_ahead(tail, head);

	if (ring_must_mend(tail, head)) {
		/* First the tail and its flag: a producer that pushes beyond it later sets the flag
		 * again.
		 * ORDER ring/astray [R4]: acquire, the jobs of all that have changed the tail
		 * before. Pairs with ring_move_tail(). */
		if (!atomic_compare_exchange_strong_explicit(
			    &ring->tail, &tail, head, memory_order_acquire, memory_order_relaxed))
			return RING_OK;
		tail = head;
		ahead = ring_mend(ring, head);
		if (ahead && !atomic_compare_exchange_strong_explicit(
				     &ring->tail, &tail, head + ahead, memory_order_relaxed,
				     memory_order_relaxed)) {
			/* A producer has moved the tail: the ring must be checked again. */
			ring_set_astray(ring);
			return RING_OK;
		}
	}
	if (ahead == 0 || ahead == RING_POSITIONS - 1)
		return RING_EMPTY; /* I2 */
	return atomic_compare_exchange_strong_explicit(&ring->slots[head % RING_SLOTS], &word, next,
						       memory_order_relaxed, memory_order_relaxed)
		     ? RING_SKIPPED
		     : RING_OK;
}

/* Frees the last position that a dead consumer took, if that one did not free it. A new consumer
 * calls it before any other thread consumes. */
static inline void ring_take_over(struct ring *ring, uint64_t head)
{
	_Atomic uint64_t *slot = &ring->slots[(head - 1) % RING_SLOTS];
	uint64_t lap = ((head - 1) / RING_SLOTS) & UINT32_MAX;
	uint64_t word = load_relaxed(slot);

	if (head && word >> 32 == lap && word & RING_FULL_BIT)
		/* Relaxed: as in ring_consume(). */
		store_relaxed(slot, ((lap + 1) & UINT32_MAX) << 32);
}

/* Changes the payload of the full slot of position head to the rest of a chain, after a part was
 * taken. Holder of the consumer role only, before any job of that part can end. */
static inline void ring_repoint(struct ring *ring, uint64_t head, uint32_t payload)
{
	uint64_t lap = (head / RING_SLOTS) & UINT32_MAX;

	/* Relaxed: producers read only lap and full bit, which do not change. The workers of the
	 * part's jobs receive them by a release of this thread, so this store precedes the ends of
	 * these jobs. */
	store_relaxed(&ring->slots[head % RING_SLOTS],
		      lap << 32 | RING_FULL_BIT | (payload & RING_PAYLOAD));
}

/* Frees the slot of position head for the next lap, after its job is in the ledger. */
static inline void ring_consume(struct ring *ring, uint64_t head)
{
	uint64_t next = (head / RING_SLOTS + 1) & UINT32_MAX;

	/* Relaxed: a producer that finds the slot free writes only the slot, and accesses to one
	 * slot keep their order. The client writes the job's record again only after the job's
	 * outcome (shm/job.h). The next consumer is ordered by the consumer role [R3]. */
	store_relaxed(&ring->slots[head % RING_SLOTS], next << 32);
}
