/* SPDX-License-Identifier: MIT */
/*
 * shm/tenant.h - the tenant segment: the submission rings of one uid
 *
 * WRITERS AND READERS
 *   Mapped by all clients of that uid, the pool and the manager. Clients write slots, tails and
 *   summary bits; the pool frees slots and clears summary bits. Nothing in it is believed.
 *
 * THE SUMMARY
 *   One bit per ring. A producer sets it after publishing; a consumer clears it, then looks at the
 *   ring once more and sets it again if something is there.
 *   S1. After a producer's wake_published(), its job's ring has its bit set, or a consumer that
 *       cleared the bit later looks at the ring and sees the job.
 *
 * If a peer dies: a producer between slot and bit: the manager sets all bits on every client's
 * death.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "shm/limits.h"
#include "shm/ring.h"
#include "shm/segment.h"

#define TENANT_SUMMARY_WORDS (LIMIT_WORKERS / 64)

struct tenant_segment {
	struct segment head;
	/* the manager writes once */
	uint32_t tenant; /* its slot */
	uint32_t uid;
	uint32_t n_rings;
	uint32_t reserved0;
	uint8_t reserved1[48];
	/* clients and pool write */
	_Alignas(64) _Atomic uint64_t summary[TENANT_SUMMARY_WORDS];
	uint8_t reserved2[64 - TENANT_SUMMARY_WORDS * 8];
	struct ring rings[];
};

_Static_assert(sizeof(struct tenant_segment) == 192, "head, constants, summary");

static inline uint64_t tenant_segment_size(uint32_t n_rings)
{
	uint64_t size = sizeof(struct tenant_segment) + (uint64_t)n_rings * sizeof(struct ring);

	return (size + 4095) & ~UINT64_C(4095);
}

/* Producer, after a push onto ring; before wake_published(). */
static inline void tenant_mark(struct tenant_segment *tenant, uint32_t ring)
{
	_Atomic uint64_t *word = &tenant->summary[ring / 64];
	uint64_t bit = UINT64_C(1) << ring % 64;

	/* ORDER summary/mark [S1]: release, the slot comes before the bit; an unconditional
	 * read-modify-write, so that a consumer that clears the bit after it sees the slot. Pairs
	 * with tenant_clear(). Not acquire: a producer reads nothing that consumers write before
	 * they clear the bit, and it looks for sleepers after a fence (shm/wake.h). */
	atomic_fetch_or_explicit(word, bit, memory_order_release);
}

/* Consumer, before its last look at the ring. */
static inline void tenant_clear(struct tenant_segment *tenant, uint32_t ring)
{
	/* ORDER summary/mark [S1]: acquire, pairs with tenant_mark(). Not release: no thread
	 * acquires from a cleared bit, and marks of other rings that were in the word before stay
	 * released, because this is a read-modify-write. */
	atomic_fetch_and_explicit(&tenant->summary[ring / 64], ~(UINT64_C(1) << ring % 64),
				  memory_order_acquire);
}

/* May any ring hold something? After a full fence: S1. Relaxed: the fence. */
static inline int tenant_is_marked(const struct tenant_segment *tenant)
{
	uint64_t any = 0;

	for (uint32_t i = 0; i < TENANT_SUMMARY_WORDS; i++)
		any |= load_relaxed(&tenant->summary[i]);
	return any != 0;
}
