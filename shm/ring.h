/* SPDX-License-Identifier: MIT */
/*
 * shm/ring.h - bounded MPSC ring of jobs, one per worker and tenant
 *
 * WHO WRITES, WHO READS
 *   Producers: the clients of one uid, from any thread; slots and tail are theirs and nothing in
 *   them is believed. Consumer: one worker of the pool at a time, the holder of the consumer flag;
 *   the head lives in the arena, where no client can reach it.
 *
 * THE SLOT
 *   One 64-bit word { lap:32, full:1, payload:31 }. The word is the publication: a producer's one
 *   CAS claims and publishes at once, so there is no moment in between at which it could die.
 *	FREE(lap)          lap << 32            waits for the producer of this lap
 *	FULL(lap, payload) lap << 32 | 1 << 31 | payload
 *   Position p belongs to slot p % RING_SLOTS and lap p / RING_SLOTS.
 *
 * INVARIANTS
 *   I1. A slot goes FREE(l) -> FULL(l, x) by a producer's CAS, FULL(l, x) -> FREE(l + 1) by the
 *       consumer, who may make it FULL(l, y) before (ring_repoint()); laps only grow. A producer
 *       that was stopped for long can hit its slot only in the lap it read: 2^32 laps, or 2^42
 *       jobs, later the word would be the same again.
 *   I2. The tail is a hint: whoever finds its slot taken helps it forward. As long as all are
 *       honest, every position below it was claimed, and it lags behind what was claimed by one
 *       at most: who claims p has found it at p. A hint that fits no slot is corrected by the laps
 *       found; one that points beyond the head, at slots that are free, leads honest jobs there,
 *       and the consumer follows: it gives the positions in between up (ring_skip()).
 *       With astray set it looks at all slots, puts false laps right and the tail behind the last
 *       full one.
 *   I3. Jobs of one producer that go through one ring are consumed in the order of their CASes.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   Producer before its CAS: nothing has happened. After it: the job is submitted, the tail lags
 *   by one and is helped. Consumer (the pool): the row in the ledger is written before the head
 *   moves and the slot is freed, so that the next pool finds the job in exactly one place, or in
 *   both with equal generations, which it sees; ring_take_over() frees the slot where the head has
 *   moved and the slot was not freed yet. Between a position's end in ring_skip() and the
 *   head's move: the next pool finds garbage there, resets it and skips it again.
 *   A producer that has left garbage: the manager sets astray in all rings of its uid and sees to
 *   a drain, so that the next ones find the ring in order, and whatever they have pushed by then
 *   is found.
 *
 * Compiles with C11 alone: tests/model/ring.c runs this file.
 */
#ifndef SHM_RING_H
#define SHM_RING_H

#include <stdatomic.h>
#include <stdint.h>

/* Where a test can kill a producer; in no other build. */
#ifdef FK_CRASH_SITES
#include "common/crash.h"
#define RING_CRASH(site) FK_CRASH(site)
#else
#define RING_CRASH(site) ((void)0)
#endif

#ifndef RING_SLOTS
#define RING_SLOTS 1024u
#endif

#define RING_FULL_BIT UINT64_C(0x80000000)
#define RING_PAYLOAD  UINT64_C(0x7fffffff)

struct ring {
	/* clients write, clients read */
	_Alignas(64) _Atomic uint64_t tail;
	_Atomic uint32_t
		astray; /* all slots are to be looked at; the manager and the pool write too */
	/* clients and pool write, both read */
	_Alignas(64) _Atomic uint64_t slots[RING_SLOTS];
};

enum ring_status {
	RING_OK,      /* pushed; or a job is there */
	RING_FULL,    /* no room */
	RING_EMPTY,   /* nothing there */
	RING_GARBAGE, /* free, but for another lap, as nobody honest leaves it; it was reset */
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

/*
 * Publishes a payload. Any thread of any client. Lock-free.
 * Returns RING_OK or RING_FULL. Sets *ret_position (for tests and statistics) on RING_OK.
 */
static inline enum ring_status ring_push(struct ring *ring, uint32_t payload,
					 uint64_t *ret_position)
{
	uint64_t p = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	for (uint32_t tries = 0; tries < 4 * RING_SLOTS; tries++) {
		_Atomic uint64_t *slot = &ring->slots[p % RING_SLOTS];
		uint64_t lap = (p / RING_SLOTS) & UINT32_MAX;
		uint64_t word = atomic_load_explicit(slot, memory_order_relaxed);
		uint64_t word_lap = word >> 32;

		if (word_lap == lap && !(word & RING_FULL_BIT)) {
			uint64_t full = lap << 32 | RING_FULL_BIT | (payload & RING_PAYLOAD);

			RING_CRASH(ring_claiming);
			/* ORDER ring/publish [R1]: release, so that who sees the word sees the job
			 * record behind it. Pairs with the acquire in ring_peek().
			 * ORDER ring/consume [R2]: nothing on this side: what a producer that finds
			 * the slot free writes next is the slot itself. Pairs
			 * with ring_consume(). */
			if (atomic_compare_exchange_strong_explicit(slot, &word, full,
								    memory_order_release,
								    memory_order_relaxed)) {
				uint64_t old = p;

				RING_CRASH(ring_claimed);
				/* ORDER ring/astray [R4]: release, the job comes before the tail,
				 * for those who find that the tail is false. Pairs with the load
				 * below. */
				atomic_compare_exchange_strong_explicit(&ring->tail, &old, p + 1,
									memory_order_release,
									memory_order_relaxed);
				RING_CRASH(ring_pushed);
				*ret_position = p;
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
			/* Free for an earlier lap: the hint was false; the slot knows better. Jobs
			 * may have been led there, with nothing to tell of them but this.
			 * ORDER ring/astray [R4]: acquire, who has moved the tail here had
			 * published before; release, who sees the flag sees those slots. Pairs with
			 * the tail's CAS after a publication, and with ring_skip(). */
			(void)atomic_load_explicit(&ring->tail, memory_order_acquire);
			atomic_store_explicit(&ring->astray, 1, memory_order_release);
			next = word_lap * RING_SLOTS + p % RING_SLOTS;
			RING_CRASH(ring_false);
		} else {
			/* This position was claimed, in this lap, and the tail lags: help it. */
			RING_CRASH(ring_behind);
		}
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
	/* Of whatever lap: where somebody has put a false lap, the honest push with that one. */
	if (word & RING_FULL_BIT) {
		*ret_payload = (uint32_t)(word & RING_PAYLOAD);
		return RING_OK;
	}
	/* Relaxed: for this consumer itself. There may be more of it. */
	atomic_store_explicit(&ring->astray, 1, memory_order_relaxed);
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
		uint64_t word = atomic_load_explicit(slot, memory_order_relaxed);

		/* If the CAS fails, word is what a producer has made of it. */
		if (!(word & RING_FULL_BIT) && word != right)
			atomic_compare_exchange_strong_explicit(
				slot, &word, right, memory_order_relaxed, memory_order_relaxed);
		if (word & RING_FULL_BIT)
			reach = n + 1;
	}
	return reach;
}

/* How far a tail is ahead of a head, as slots tell positions apart: modulo their laps. */
#define RING_POSITIONS ((uint64_t)RING_SLOTS << 32)

static inline uint64_t ring_ahead(uint64_t tail, uint64_t head)
{
	return (tail - head) % RING_POSITIONS;
}

/* All slots are to be looked at: somebody says so, or the tail is nowhere near. */
static inline int ring_must_mend(struct ring *ring, uint64_t ahead)
{
	/* ORDER ring/astray [R4]: acquire, pairs with ring_push(). */
	return atomic_load_explicit(&ring->astray, memory_order_acquire) ||
	       (ahead > RING_SLOTS && ahead != RING_POSITIONS - 1);
}

/* True if ring_skip() is going to look at all slots. A hint, for who counts the steps. */
static inline int ring_is_astray(struct ring *ring, uint64_t head)
{
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	return ring_must_mend(ring, ring_ahead(tail, head));
}

/*
 * At an empty slot, before the consumer leaves the ring: true if somebody has led the tail beyond
 * it, so that jobs may stand behind an empty slot. The position is given up then, nobody will write
 * to it any more, and the head goes on to the next. A tail that is nowhere near is put back, to
 * behind the last job that it may have led astray. Holder of the consumer flag only.
 *
 * Relaxed, but for the flag: it decides by the slot's own order. If a producer claims the position
 * at the same moment, one of the two CASes on FREE(lap) fails; if ours does, a job is there, and
 * its producer has still to say so to whoever consumes.
 */
static inline int ring_skip(struct ring *ring, uint64_t head)
{
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	uint64_t ahead = ring_ahead(tail, head);
	uint64_t word = ((head / RING_SLOTS) & UINT32_MAX) << 32;
	uint64_t next = ((head / RING_SLOTS + 1) & UINT32_MAX) << 32;

	if (ring_must_mend(ring, ahead)) {
		uint64_t reach;

		/* First the flag: a producer that finds more sets it again.
		 * ORDER ring/astray [R4]: acquire, pairs with ring_push(). */
		atomic_exchange_explicit(&ring->astray, 0, memory_order_acquire);
		reach = ring_mend(ring, head);
		if (ahead > RING_SLOTS || ahead < reach) {
			if (!atomic_compare_exchange_strong_explicit(
				    &ring->tail, &tail, head + reach, memory_order_relaxed,
				    memory_order_relaxed)) {
				/* A producer was here, and wants another look of us. */
				atomic_store_explicit(&ring->astray, 1, memory_order_relaxed);
				return 0;
			}
			ahead = reach;
		}
	}
	if (ahead == 0 || ahead == RING_POSITIONS - 1)
		return 0; /* I2 */
	return atomic_compare_exchange_strong_explicit(&ring->slots[head % RING_SLOTS], &word, next,
						       memory_order_relaxed, memory_order_relaxed);
}

/*
 * A new consumer in the place of one that died: frees the last position that it took, if it did not
 * come to that. Before anybody else consumes.
 */
static inline void ring_take_over(struct ring *ring, uint64_t head)
{
	_Atomic uint64_t *slot = &ring->slots[(head - 1) % RING_SLOTS];
	uint64_t lap = ((head - 1) / RING_SLOTS) & UINT32_MAX;
	uint64_t word = atomic_load_explicit(slot, memory_order_relaxed);

	if (head && word >> 32 == lap && word & RING_FULL_BIT)
		/* ORDER ring/consume [R2]: release, as in ring_consume(). */
		atomic_store_explicit(slot, ((lap + 1) & UINT32_MAX) << 32, memory_order_release);
}

/*
 * Lets the full slot of position head stand for another payload: the rest of a chain, of which a
 * part was taken. Holder of the consumer flag only, before any job of that part can end.
 */
static inline void ring_repoint(struct ring *ring, uint64_t head, uint32_t payload)
{
	uint64_t lap = (head / RING_SLOTS) & UINT32_MAX;

	/* Relaxed: producers look at nothing but lap and full bit, which stay. Whoever starts the
	 * part's jobs gets them by a release of this thread's, so this comes before their ends. */
	atomic_store_explicit(&ring->slots[head % RING_SLOTS],
			      lap << 32 | RING_FULL_BIT | (payload & RING_PAYLOAD),
			      memory_order_relaxed);
}

/* Frees the slot of position head for the next lap, after what it held is in the ledger. */
static inline void ring_consume(struct ring *ring, uint64_t head)
{
	uint64_t next = (head / RING_SLOTS + 1) & UINT32_MAX;

	/* ORDER ring/consume [R2]: release: the reads of the slot's job come before a producer that
	 * finds the slot free. Pairs with the CAS in ring_push(), by the dependency on its result;
	 * relaxed there, because what a producer then writes is the slot itself. */
	atomic_store_explicit(&ring->slots[head % RING_SLOTS], next << 32, memory_order_release);
}

#endif
