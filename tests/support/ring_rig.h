/* SPDX-License-Identifier: MIT */
/* ring_rig.h - a ring, its consumer's head, and writes that any client can make */
#pragma once

#include <inttypes.h>
#include <stdbool.h>

#include "common/util.h"
#include "shm/ring.h"
#include "tests/support/check_unit.h"

static struct ring ring;
static uint64_t head;

static inline void set_tail(uint64_t tail)
{
	atomic_store_explicit(&ring.tail, tail, memory_order_relaxed);
}

static inline uint64_t tail(void)
{
	return atomic_load_explicit(&ring.tail, memory_order_relaxed);
}

static inline void set_slot(uint64_t slot, uint64_t word)
{
	atomic_store_explicit(&ring.slots[slot], word, memory_order_relaxed);
}

static inline uint64_t slot_word(uint64_t slot)
{
	return atomic_load_explicit(&ring.slots[slot], memory_order_relaxed);
}

/* Makes an empty ring whose next position is this. */
static inline void start_at(uint64_t position)
{
	for (uint64_t i = 0; i < RING_SLOTS; i++) {
		uint64_t p = position + i;

		set_slot(p % RING_SLOTS, (p / RING_SLOTS & UINT32_MAX) << 32);
	}
	set_tail(position);
	head = position;
}

static inline uint64_t push(uint32_t payload)
{
	uint64_t position = UINT64_MAX;

	ck_assert_int_eq(ring_push(&ring, payload, &position), RING_OK);
	return position;
}

static inline uint32_t pop(void)
{
	uint32_t payload = UINT32_MAX;

	ck_assert_int_eq(ring_peek(&ring, head, &payload), RING_OK);
	ring_consume(&ring, head++);
	return payload;
}

static inline enum ring_status peek(void)
{
	uint32_t payload;

	return ring_peek(&ring, head, &payload);
}
