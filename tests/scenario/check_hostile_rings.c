/* SPDX-License-Identifier: MIT */
/*
 * hostile_rings: what a client may leave in the rings of its uid, and the next client of that uid
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static uint64_t tail_kept(uint64_t next)
{
	return next;
}

static uint64_t tail_one_more(uint64_t next)
{
	return next + 1;
}

static uint64_t tail_five_more(uint64_t next)
{
	return next + 5;
}

static uint64_t tail_lap_more(uint64_t next)
{
	return next + RING_SLOTS;
}

static uint64_t tail_one_less(uint64_t next)
{
	return next - 1;
}

static uint64_t tail_zero(uint64_t next)
{
	(void)next;
	return 0;
}

static uint64_t tail_huge(uint64_t next)
{
	(void)next;
	return UINT64_C(1) << 63;
}

static uint64_t tail_last(uint64_t next)
{
	(void)next;
	return UINT64_MAX;
}

static uint64_t slot_kept(uint64_t lap, uint64_t distance)
{
	(void)lap;
	(void)distance;
	return SLOT_KEPT;
}

/* A word with the lap's low 32 bits; full: of a record that nobody has. */
static uint64_t slot_word(uint64_t lap, bool full)
{
	return lap << 32 | (full ? RING_FULL_BIT | ring_payload(1023, 31, 65535) : 0);
}

static uint64_t slot_free_later(uint64_t lap, uint64_t distance)
{
	return slot_word(lap + 1 + distance % 77, false);
}

static uint64_t slot_free_before(uint64_t lap, uint64_t distance)
{
	return slot_word(lap - 1 - distance % 77, false);
}

static uint64_t slot_full_before(uint64_t lap, uint64_t distance)
{
	(void)distance;
	return slot_word(lap - 1, true);
}

static uint64_t slot_full_later(uint64_t lap, uint64_t distance)
{
	return slot_word(lap + 1 + distance % 77, true);
}

static uint64_t slot_full_now(uint64_t lap, uint64_t distance)
{
	(void)distance;
	return slot_word(lap, true);
}

static uint64_t slot_full_odd(uint64_t lap, uint64_t distance)
{
	return distance % 2 ? slot_word(lap, true) : SLOT_KEPT;
}

static uint64_t slot_mixed(uint64_t lap, uint64_t distance)
{
	(void)distance;
	return draw() % 2 ? slot_word(lap + draw() % 7 - 3, draw() % 2) : draw();
}

/* What a client leaves in every ring of its uid before it dies; next: the position of the next
 * honest job, as the tail said; lap: that position's. */
static const struct wreck {
	const char *name;
	uint64_t (*tail)(uint64_t next);
	uint64_t (*slot)(uint64_t lap, uint64_t distance); /* distance: from next, in slots */
} wrecks[] = {
	{ "a tail one too far", tail_one_more, slot_kept },
	{ "a tail five too far", tail_five_more, slot_kept },
	{ "a tail a lap too far", tail_lap_more, slot_kept },
	{ "a tail one too low", tail_one_less, slot_kept },
	{ "a tail of zero", tail_zero, slot_kept },
	{ "a tail of 2^63", tail_huge, slot_kept },
	{ "a tail of 2^64 - 1", tail_last, slot_kept },
	{ "slots free for laps to come", tail_kept, slot_free_later },
	{ "slots free for laps that were", tail_kept, slot_free_before },
	{ "slots full of the lap that was", tail_kept, slot_full_before },
	{ "slots full of laps to come", tail_kept, slot_full_later },
	{ "slots full of this lap", tail_kept, slot_full_now },
	{ "every other slot full of this lap", tail_five_more, slot_full_odd },
	{ "slots of all kinds", tail_five_more, slot_mixed },
};

static const struct wreck *wreck;

static void wrecker(void)
{
	fk_client *hostile = hostile_open();

	for (uint32_t i = 0; i < hostile->n_workers; i++) {
		struct ring *ring = &hostile->tenant->rings[i];
		uint64_t next = atomic_load(&ring->tail);

		for (uint64_t k = 0; k < RING_SLOTS; k++) {
			_Atomic uint64_t *slot = &ring->slots[(next + k) % RING_SLOTS];
			uint64_t word = wreck->slot((next + k) / RING_SLOTS, k);

			if (word != SLOT_KEPT)
				atomic_store(slot, word);
		}
		atomic_store(&ring->tail, wreck->tail(next));
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
		/* Not always at the same place of the rings, nor in the same lap. */
		for (size_t k = 0; k < 2 + i; k++)
			ck_assert_int_eq(daemon_reap(daemon_client(honest_late, HOSTILE_UID)), 0);
		garbage = daemon_counter(&d, "garbage");
		ck_assert_int_eq(daemon_reap(daemon_client(wrecker, HOSTILE_UID)), 256 + SIGKILL);
		status = daemon_reap(daemon_client(honest_late, HOSTILE_UID));
		ck_assert_msg(status == 0, "after %s the next client ended with %d", wreck->name,
			      status);
		printf("%s: %" PRIu64 " words thrown away\n", wreck->name,
		       daemon_counter(&d, "garbage") - garbage);
	}
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

CHECK_MAIN("hostile_rings")
