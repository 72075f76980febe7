/* SPDX-License-Identifier: MIT */
/* hostile_rings: the contents that a client may leave in the rings of its uid, and the next client
 * of that uid */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "common/util.h"
#include "shm/wake.h"
#include "tests/support/hostile.h"
#define CHECK_TIMEOUT 280
#include "tests/support/check_unit.h"

static struct daemon d;

static uint64_t draw(void)
{
	static uint64_t seed = 88172645463325252u;

	return xorshift64(&seed);
}

#define SLOT_KEPT UINT64_MAX

/* Contents that a client leaves in a slot. */
enum slot {
	KEPT, /* unchanged */
	FREE_LATER,
	FREE_BEFORE,
	FULL_BEFORE,
	FULL_LATER,
	FULL_NOW,
	FULL_ODD, /* every other one */
	MIXED,
};

/* A word with the lap's low 32 bits; full: of a record that no client has. */
static uint64_t slot_word(uint64_t lap, bool full)
{
	return lap << 32 | (full ? RING_FULL_BIT | ring_payload(1023, 31, 65535) : 0);
}

/* Contents that a client leaves in every ring of its uid before it dies. */
static const struct wreck {
	const char *name;
	uint64_t tail; /* from the next honest job's position on */
	bool fixed;    /* tail is absolute */
	enum slot slot;
} wrecks[] = {
	{ "a tail one too far", 1, false, KEPT },
	{ "a tail five too far", 5, false, KEPT },
	{ "a tail a lap too far", RING_SLOTS, false, KEPT },
	{ "a tail one too low", UINT64_MAX, false, KEPT },
	{ "a tail of zero", 0, true, KEPT },
	{ "a tail of 2^63", UINT64_C(1) << 63, true, KEPT },
	{ "a tail of 2^64 - 1", UINT64_MAX, true, KEPT },
	{ "slots free for laps to come", 0, false, FREE_LATER },
	{ "slots free for laps that were", 0, false, FREE_BEFORE },
	{ "slots full of the lap that was", 0, false, FULL_BEFORE },
	{ "slots full of laps to come", 0, false, FULL_LATER },
	{ "slots full of this lap", 0, false, FULL_NOW },
	{ "every other slot full of this lap", 5, false, FULL_ODD },
	{ "slots of all kinds", 5, false, MIXED },
};

/* lap: of the position; distance: from the next honest job's, in slots. */
static uint64_t wrecked_slot(enum slot slot, uint64_t lap, uint64_t distance)
{
	switch (slot) {
	case KEPT:
		return SLOT_KEPT;
	case FREE_LATER:
	case FULL_LATER:
		return slot_word(lap + 1 + distance % 77, slot == FULL_LATER);
	case FREE_BEFORE:
		return slot_word(lap - 1 - distance % 77, false);
	case FULL_BEFORE:
		return slot_word(lap - 1, true);
	case FULL_NOW:
		return slot_word(lap, true);
	case FULL_ODD:
		return distance % 2 ? slot_word(lap, true) : SLOT_KEPT;
	case MIXED:
		return draw() % 2 ? slot_word(lap + draw() % 7 - 3, draw() % 2) : draw();
	}
	return SLOT_KEPT;
}

static const struct wreck *wreck;

static void wrecker(void)
{
	fk_client *hostile = hostile_open();

	for (uint32_t i = 0; i < hostile->n_workers; i++) {
		struct ring *ring = &hostile->tenant->rings[i];
		uint64_t next = atomic_load(&ring->tail);

		for (uint64_t k = 0; k < RING_SLOTS; k++) {
			_Atomic uint64_t *slot = &ring->slots[(next + k) % RING_SLOTS];
			uint64_t word = wrecked_slot(wreck->slot, (next + k) / RING_SLOTS, k);

			if (word != SLOT_KEPT)
				atomic_store(slot, word);
		}
		atomic_store(&ring->tail, wreck->fixed ? wreck->tail : next + wreck->tail);
	}
	(void)raise(SIGKILL);
}

START_TEST(entries_left_in_the_rings_of_a_uid_do_not_block_the_next_client)
{
	uint64_t garbage;

	(void)hostile_setup(&d);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(wrecks); i++) {
		int status;

		wreck = &wrecks[i % ARRAY_SIZE(wrecks)];
		/* Not always at the same position of the rings, nor in the same lap. */
		for (size_t k = 0; k < 2 + i; k++)
			ck_assert_int_eq(daemon_reap(daemon_client(honest_late, HOSTILE_UID)), 0);
		garbage = daemon_counter(&d, "malformed_slots");
		ck_assert_int_eq(daemon_reap(daemon_client(wrecker, HOSTILE_UID)), 256 + SIGKILL);
		status = daemon_reap(daemon_client(honest_late, HOSTILE_UID));
		ck_assert_msg(status == 0, "after %s the next client ended with %d", wreck->name,
			      status);
		printf("%s: %" PRIu64 " words thrown away\n", wreck->name,
		       daemon_counter(&d, "malformed_slots") - garbage);
	}
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

CHECK_MAIN("hostile_rings")
