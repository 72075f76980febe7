/* SPDX-License-Identifier: MIT */
/*
 * queue_recovery.h - what the last pool had QUEUED, and the chains that it was at work on
 *
 * Threads: intake_add_*(): the channel's thread.
 *
 * INVARIANTS
 *   I1. No job of a chain can end before the word of its ring stands for the rest of the chain, or
 *       is off the ring: once it has ended its record may be another job's, with another next, and
 *       be half filled. Within a pool that is so because what a drain takes is queued after it. Of
 *       what the last pool had QUEUED nothing is queued in this one before the words at the heads
 *       of its tenant's rings were put on by what is QUEUED of their chains: requeue_place_ring().
 *       Only those: a pool that dies is at work on the head's word, those behind it are whole.
 *   I2. If the rings cannot be mapped, no thread looks at them while a client of that time is
 *       there, and what is QUEUED runs (clients.h, I4).
 *
 * If a peer dies: the pool: the next one does it again, from the same ledger.
 */
#pragma once

#include <stdint.h>

#include "shm/ledger.h"
#include "shm/ring.h"

struct pool;

/* Finds the rows of a client that the last pool had QUEUED, and admits them; while none of its
 * words can be accepted. */
void requeue_find(struct pool *pool, uint32_t client);

/*
 * The word at the head of a ring, before anything that was QUEUED when the last pool died can run:
 * it goes on along its chain past the jobs that are QUEUED, and stands for the rest or leaves the
 * ring. Chains that are rings, or lead into each other, end all the same: an honest client has each
 * of its QUEUED rows in one chain at most, so there are no more steps than such rows.
 */
void requeue_place_ring(struct pool *pool, uint32_t tenant, struct ring *ring,
			struct ledger_ring *side);

/* Queues what requeue_find() found: the rings are in order, or will never be looked at. */
void requeue_push(struct pool *pool, uint32_t client);
