/* SPDX-License-Identifier: MIT */
/*
 * shm/tenant.h - the tenant segment: the submission rings of one uid
 *
 * WRITERS AND READERS
 *   Mapped by all clients of that uid, the pool and the manager. Clients write slots, tails and
 *   summary bits; the pool frees slots and clears summary bits. The pool trusts no value in it.
 *
 * THE SUMMARY
 *   One bit per ring. A producer sets it after publishing. A consumer clears it, checks the ring
 *   once more, and sets the bit again if the ring is not empty.
 *   S1. After a producer's wake_published() its ring has the bit set, or a consumer cleared it and
 *       will see the job when it checks the ring.
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

	/* ORDER summary/mark [S1]: release, the slot precedes the bit. Pairs with tenant_clear().
	 * Unconditional, so a consumer that clears the bit later sees the slot. Not acquire: a
	 * producer reads nothing that consumers write before they clear the bit. It checks for
	 * sleepers after a fence (shm/wake.h). */
	atomic_fetch_or_explicit(word, bit, memory_order_release);
}

/* Consumer, before its last check of the ring. */
static inline void tenant_clear(struct tenant_segment *tenant, uint32_t ring)
{
	/* ORDER summary/mark [S1]: acquire, pairs with tenant_mark(). Not release: no thread
	 * acquires from a cleared bit. The marks of other rings in the word stay released, because
	 * this is a read-modify-write. */
	atomic_fetch_and_explicit(&tenant->summary[ring / 64], ~(UINT64_C(1) << ring % 64),
				  memory_order_acquire);
}

/* Returns true if a ring may have jobs. Relaxed: the caller has made a full fence (S1). */
static inline int tenant_is_marked(const struct tenant_segment *tenant)
{
	uint64_t any = 0;

	for (uint32_t i = 0; i < TENANT_SUMMARY_WORDS; i++)
		any |= load_relaxed(&tenant->summary[i]);
	return any != 0;
}
