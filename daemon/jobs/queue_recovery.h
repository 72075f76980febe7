/* SPDX-License-Identifier: MIT */
/*
 * queue_recovery.h - recovers jobs that the last pool had QUEUED, and chains that it was walking
 *
 * Threads: intake_add_*(): the channel's thread.
 *
 * INVARIANTS
 *     I1. No job of a chain can end before its ring's word refers to the rest of the chain, or is
 *         off the ring: once it has ended its record may belong to another job, with another next,
 *         and be partly written. Within a pool that holds because a drain queues its jobs
 *         afterwards. Jobs that the last pool had QUEUED are queued here only after their tenant's
 *         rings were adjusted. The words at the heads are moved past the QUEUED jobs of their
 *         chains: requeue_place_ring(). Only those words: a dying pool works on the head's word,
 *         and later words are intact.
 *     I2. If the rings cannot be mapped, no thread reads them while a client of that time exists,
 *         and QUEUED jobs run (clients.h, I4).
 *
 *   If the pool dies: the next one does the same again, from the same ledger.
 */
#pragma once

#include <stdint.h>

#include "shm/ledger.h"
#include "shm/ring.h"

struct pool;

/* Finds the rows of a client that the last pool had QUEUED, and admits them; called while none of
 * its words can be accepted. */
void requeue_find(struct pool *pool, uint32_t client);

/* Moves the word at the head of a ring along its chain past the QUEUED jobs. Then it refers to the
 * rest, or leaves the ring. Must be called before any job that was QUEUED when the last pool died
 * can run. Cyclic or merging chains end all the same: an honest client has each of its QUEUED rows
 * in at most one chain, so there are at most that many steps. */
void requeue_place_ring(struct pool *pool, uint32_t tenant, struct ring *ring,
			struct ledger_ring *side);

/* Queues the rows of requeue_find(): the rings are repaired, or will never be read. */
void requeue_push(struct pool *pool, uint32_t client);
