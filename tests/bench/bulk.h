/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/deque.h"

/*
 * Purpose
 *   The owner's side of daemon/core/deque.h for bench_deque: the private part of the array, and
 *   batches. All calls of deque.h are here.
 *
 * Threads
 *   bulk_steal(): any thread. All others: the owner.
 *
 * Invariants
 *   I1. [floor, bottom) is private: only the owner writes there, because no thief that reads there
 *       succeeds (deque.h, I3).
 *   I2. Positions start at 0 again whenever the owner finds its deque empty.
 */

#define BULK_SIZE (UINT64_C(1) << 22)

struct bulk {
	struct deque deque;
	struct fk_entry *floor;
	struct fk_entry *bottom;
};

/* entries: BULK_SIZE of them. */
static inline void bulk_init(struct bulk *bulk, struct fk_entry *entries)
{
	deque_init(&bulk->deque, entries, BULK_SIZE);
	bulk->floor = bulk->bottom = entries;
}

static inline bool bulk_has_room(const struct bulk *bulk, uint64_t n)
{
	return n <= (uint64_t)(bulk->deque.entries + BULK_SIZE - bulk->bottom);
}

/* Pushes a batch onto the private part. Returns false if there is no room. */
static inline bool bulk_push(struct bulk *bulk, const uint64_t *items, uint64_t n)
{
	if (!bulk_has_room(bulk, n))
		return false;
	deque_copy_in(bulk->bottom, items, n);
	bulk->bottom += n;
	return true;
}

/* Pushes a batch that is published at once; nothing is private. Returns false if there is no
 * room. */
static inline bool bulk_push_public(struct bulk *bulk, const uint64_t *items, uint64_t n)
{
	if (!bulk_has_room(bulk, n))
		return false;
	deque_push_all(&bulk->deque, bulk->floor, items, n);
	bulk->floor += n;
	bulk->bottom = bulk->floor;
	return true;
}

/* Publishes the n oldest private entries. */
static inline void bulk_publish(struct bulk *bulk, uint64_t n)
{
	bulk->floor += n;
	deque_publish(&bulk->deque, n);
}

static inline uint64_t bulk_private(const struct bulk *bulk)
{
	return (uint64_t)(bulk->bottom - bulk->floor);
}

/* Pops the newest item. Returns false if the deque is empty, including its public part. */
static inline bool bulk_pop(struct bulk *bulk, uint64_t *ret_item)
{
	if (bulk->bottom == bulk->floor) {
		bulk->floor -= deque_reclaim(&bulk->deque);
		if (bulk->bottom == bulk->floor) {
			deque_reset(&bulk->deque);
			bulk->floor = bulk->bottom = bulk->deque.entries;
			return false;
		}
	}
	*ret_item = atomic_load_explicit(&(--bulk->bottom)->word, memory_order_relaxed);
	return true;
}

/* Steals the oldest items: `percent` of the public ones, at most max. Returns their number; 0:
 * none, or another thread was faster. */
static inline uint64_t bulk_steal(struct bulk *bulk, uint64_t percent, uint64_t *ret_items,
				  uint64_t max)
{
	uint32_t share = (uint32_t)((percent * DEQUE_ALL + 99) / 100);
	uint64_t want = (deque_size(&bulk->deque) * percent + 99) / 100;
	uint64_t n;

	if (!want || deque_steal_share(&bulk->deque, share, ret_items, want < max ? want : max,
				       &n) != DEQUE_STOLEN)
		return 0;
	return n;
}
