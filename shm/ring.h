/* SPDX-License-Identifier: MIT */
/*
 * shm/ring.h - bounded MPSC ring of jobs, one per worker and tenant
 *
 * WRITERS AND READERS
 *   Producers: the clients of one uid, from any thread; slots and tail are theirs and nothing in
 *   them is believed. Consumer: one worker of the pool at a time, the holder of the consumer flag;
 *   the head lives in the arena, where no client can reach it.
 *
 * THE SLOT
 *   One 64-bit word { lap:32, full:1, payload:31 }. The word is the publication: a producer's one
 *   CAS claims and publishes at once, so there is no moment in between at which it could die.
 * 	FREE(lap)          lap << 32            waits for the producer of this lap
 * 	FULL(lap, payload) lap << 32 | 1 << 31 | payload
 *   Position p belongs to slot p % RING_SLOTS and lap p / RING_SLOTS.
 *
 * INVARIANTS
 *   I1. A slot goes FREE(l) -> FULL(l, x) by a producer's CAS, FULL(l, x) -> FREE(l + 1) by the
 *       consumer, which may make it FULL(l, y) before (ring_repoint()); laps only grow. A producer
 *       that was stopped for long can hit its slot only in the lap it read: 2^32 laps, or 2^42
 *       jobs, later the word would be the same again.
 *   I2. The tail is a hint: a producer that finds its slot taken helps it forward. As long as all
 *       are honest, every position below it was claimed, and it lags behind what was claimed by one
 *       at most: a producer that claims p has found the tail at p. A hint that fits no slot is
 *       corrected by the laps found; one that points beyond the head, at slots that are free, leads
 *       honest jobs there, and the consumer follows: it gives the positions in between up
 *       (ring_skip()). If RING_ASTRAY is set in the tail, the consumer looks at all slots, puts
 *       false laps right and the tail behind the last full slot. A producer that sets the tail
 *       back, or finds it set back, sets the flag.
 *   I3. Jobs of one producer that go through one ring are consumed in the order of their CASes.
 *
 * If a peer dies: producer before its CAS: nothing has happened. After it: the job is submitted,
 * the tail lags by one and is helped. Consumer (the pool): the row in the ledger is written before
 * the head moves and the slot is freed, so that the next pool finds the job in exactly one place,
 * or in both with equal generations, which it sees; ring_take_over() frees the slot where the head
 * has moved and the slot was not freed yet. Between a position's end in ring_skip() and the head's
 * move: the next pool finds garbage there, resets it and skips it again. A producer that has left
 * garbage: the manager sets the flag in all rings of its uid and sees to a drain, so that the next
 * ones find the ring in order, and whatever they have pushed by then is found.
 *
 * Compiles with C11 alone: tests/model/ring.c runs this file.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"

/* Where a test can kill a producer; in no other build. tests/model/ring.c defines its own. */
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

/* In the tail: all slots are to be looked at. */
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

/* How far a tail is ahead of a head, as slots tell positions apart: modulo their laps. So the flag
 * makes no difference. */
#define RING_POSITIONS ((uint64_t)RING_SLOTS << 32)

static inline uint64_t ring_ahead(uint64_t tail, uint64_t head)
{
	return (tail - head) % RING_POSITIONS;
}

/* All slots are to be looked at. Relaxed: a producer has released its job by its own change of the
 * tail [R4], and each change of the tail is a read-modify-write, which continues that release. */
static inline void ring_set_astray(struct ring *ring)
{
	atomic_fetch_or_explicit(&ring->tail, RING_ASTRAY, memory_order_relaxed);
}

/* A producer that has claimed p moves the tail behind it, or finds it set back: then the tail was
 * false, and the job is astray. */
static inline void ring_move_tail(struct ring *ring, uint64_t p)
{
	uint64_t old = p;

	/* ORDER ring/astray [R4]: release, the job comes before the tail, for a consumer that looks
	 * at all slots. Pairs with the CAS in ring_skip(). */
	if (atomic_compare_exchange_strong_explicit(&ring->tail, &old, p + 1, memory_order_release,
						    memory_order_relaxed))
		return;
	/* A read-modify-write sees the tail's last value, and ring_skip() sets the tail before it
	 * looks at the slots: either this thread sees that, or ring_skip() sees the job.
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
			 * lap. Jobs may have been led astray, and only the flag leads to them. It
			 * comes with the new position, in one step: a consumer that takes the flag
			 * too early would miss them. */
			next = (word_lap * RING_SLOTS + p % RING_SLOTS) | RING_ASTRAY;
			RING_CRASH(ring_false);
		} else {
			/* This position was claimed, in this lap, and the tail lags: help it. */
			RING_CRASH(ring_behind);
		}
		/* Relaxed: a read-modify-write of the tail, so that the producers that have moved
		 * it here release their jobs by it as well [R4]. */
		if (atomic_compare_exchange_strong_explicit(
			    &ring->tail, &hint, next, memory_order_relaxed, memory_order_relaxed))
			p = next;
		else
			p = hint;
	}
	return RING_FULL;
}

/*
 * Looks at the slot of position head. Holder of the consumer flag only.
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
	/* Of whatever lap: where a client has put a false lap, the honest push with that one. */
	if (word & RING_FULL_BIT) {
		*ret_payload = (uint32_t)(word & RING_PAYLOAD);
		return RING_OK;
	}
	/* There may be more of it. */
	ring_set_astray(ring);
	atomic_compare_exchange_strong_explicit(slot, &word, lap << 32, memory_order_relaxed,
						memory_order_relaxed);
	return RING_GARBAGE;
}

/*
 * Looks at every slot but the head's: those that are free get the lap that they should have.
 * Returns how far beyond the head the slot after the last full one is; 0 if none is full.
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

/* All slots are to be looked at: the flag is set, or the tail is nowhere near. */
static inline int ring_must_mend(uint64_t tail, uint64_t head)
{
	uint64_t ahead = ring_ahead(tail, head);

	return tail & RING_ASTRAY || (ahead > RING_SLOTS && ahead != RING_POSITIONS - 1);
}

/* True if ring_skip() is going to look at all slots. A hint, to count the steps. */
static inline int ring_is_astray(struct ring *ring, uint64_t head)
{
	return ring_must_mend(load_relaxed(&ring->tail), head);
}

/*
 * At an empty slot, before the consumer leaves the ring: if a producer has led the tail beyond it,
 * jobs may be behind the empty slot. The position is given up then: no producer writes to it any
 * more, and the consumer continues at the next one. A tail that is nowhere near is put back, to
 * behind the last job that it may have led astray. Holder of the consumer flag only.
 * Returns RING_EMPTY if no job is behind the slot; RING_SKIPPED; or RING_OK if a producer has
 * changed the ring in the meantime and the consumer has to look again. That producer may be stopped
 * before it sets the summary bit, so the jobs of others must not wait for it.
 *
 * Relaxed, except for the CAS below: tail and flag are one word, and the slot's own order decides
 * whether the position is given up. If a producer claims it at the same moment, one of the two
 * CASes on FREE(lap) fails; if ours does, a job is there.
 */
static inline enum ring_status ring_skip(struct ring *ring, uint64_t head)
{
	uint64_t tail = load_relaxed(&ring->tail);
	uint64_t word = ((head / RING_SLOTS) & UINT32_MAX) << 32;
	uint64_t next = ((head / RING_SLOTS + 1) & UINT32_MAX) << 32;
	uint64_t ahead = ring_ahead(tail, head);

	if (ring_must_mend(tail, head)) {
		/* First the tail and its flag: a producer that pushes beyond it from now on sets
		 * the flag again.
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
			/* A producer has moved the tail: the ring needs another look. */
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

/*
 * A new consumer replaces one that died: it frees the last position that the dead one took, if that
 * one did not. Call it before any other thread consumes.
 */
static inline void ring_take_over(struct ring *ring, uint64_t head)
{
	_Atomic uint64_t *slot = &ring->slots[(head - 1) % RING_SLOTS];
	uint64_t lap = ((head - 1) / RING_SLOTS) & UINT32_MAX;
	uint64_t word = load_relaxed(slot);

	if (head && word >> 32 == lap && word & RING_FULL_BIT)
		/* Relaxed: as in ring_consume(). */
		store_relaxed(slot, ((lap + 1) & UINT32_MAX) << 32);
}

/*
 * Changes the payload of the full slot of position head to the rest of a chain, of which a part was
 * taken. Only the holder of the consumer flag calls it, before any job of that part can end.
 */
static inline void ring_repoint(struct ring *ring, uint64_t head, uint32_t payload)
{
	uint64_t lap = (head / RING_SLOTS) & UINT32_MAX;

	/* Relaxed: producers look at nothing but lap and full bit, which stay. The worker of the
	 * part's jobs gets them by a release of this thread's, so this comes before their ends. */
	store_relaxed(&ring->slots[head % RING_SLOTS],
		      lap << 32 | RING_FULL_BIT | (payload & RING_PAYLOAD));
}

/* Frees the slot of position head for the next lap, after what it held is in the ledger. */
static inline void ring_consume(struct ring *ring, uint64_t head)
{
	uint64_t next = (head / RING_SLOTS + 1) & UINT32_MAX;

	/* Relaxed: a producer that finds the slot free writes the slot alone, and accesses to one
	 * slot keep their order. The job's record is written again only after the job's outcome
	 * (shm/job.h). The next consumer is ordered by the consumer role [R3]. */
	store_relaxed(&ring->slots[head % RING_SLOTS], next << 32);
}
