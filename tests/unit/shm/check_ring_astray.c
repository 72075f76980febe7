/* SPDX-License-Identifier: MIT */
/* ring_astray: no contents of slots or tail make a consumer hang or leave the ring, or lose jobs
 * that are pushed afterwards */
#include "tests/support/ring_rig.h"

START_TEST(false_tail_far_ahead_returns_to_free_slots)
{
	static const uint64_t tails[] = { RING_SLOTS, 5 * RING_SLOTS, UINT64_C(1) << 40,
					  UINT64_C(1) << 62 };

	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		start_at(0);
		set_tail(tails[i]);
		/* A position counts modulo the laps' 32 bits. */
		ck_assert_uint_eq(push(1) % (RING_SLOTS * (UINT64_C(1) << 32)), 0);
		ck_assert_uint_eq(push(2) % (RING_SLOTS * (UINT64_C(1) << 32)), 1);
		ck_assert_uint_eq(pop(), 1);
		ck_assert_uint_eq(pop(), 2);
	}
}
END_TEST

/* Returns what a drain takes until the ring is empty. */
static uint32_t drain(uint32_t *ret_payloads, uint32_t max)
{
	uint32_t n = 0;

	for (uint32_t looks = 0; looks < 8 * RING_SLOTS; looks++) {
		switch (peek()) {
		case RING_OK:
			ck_assert_uint_lt(n, max);
			ret_payloads[n++] = pop();
			break;
		case RING_EMPTY:
			switch (ring_skip(&ring, head)) {
			case RING_EMPTY:
				return n;
			case RING_SKIPPED:
				head++;
				break;
			default:
				break;
			}
			break;
		default:
			break;
		}
	}
	ck_abort_msg("no end");
	return n;
}

START_TEST(jobs_pushed_after_a_false_tail_are_found_by_the_next_drain)
{
	static const uint64_t leads[] = {
		1,
		2,
		5,
		RING_SLOTS - 3,
		RING_SLOTS - 1,
		RING_SLOTS,
		RING_SLOTS + 1,
		77 * RING_SLOTS + 9,
		(UINT64_C(1) << 62) + 5,
		UINT64_MAX - 4,
	};
	static const uint64_t starts[] = { 0, 3, RING_SLOTS - 2, 9 * RING_SLOTS + 700 };
	uint32_t out[8], n_out;

	for (size_t k = 0; k < sizeof(starts) / sizeof(starts[0]); k++)
		for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++) {
			start_at(starts[k]);
			/* As far as slots of this lap are free. */
			set_tail(head + leads[i]);
			push(1);
			push(2);
			n_out = drain(out, 8);
			ck_assert_msg(n_out == 2, "%u jobs, tail %" PRIu64 " beyond %" PRIu64,
				      n_out, leads[i], starts[k]);
			ck_assert_uint_eq(out[0] + out[1], 3);
			/* And from then on each job is at its position. */
			for (uint32_t n = 0; n < 3 * RING_SLOTS; n++) {
				push(n);
				ck_assert_uint_eq(drain(out, 8), 1);
				ck_assert_uint_eq(out[0], n);
			}
		}
}
END_TEST

START_TEST(skipped_position_is_never_written)
{
	uint64_t word = 0, full = RING_FULL_BIT | 7;

	start_at(0);
	set_tail(2);
	ck_assert_int_eq(peek(), RING_EMPTY);
	ck_assert_int_eq(ring_skip(&ring, head), RING_SKIPPED);
	/* A producer that had found position 0 free before. */
	ck_assert(!atomic_compare_exchange_strong(&ring.slots[0], &word, full));
	head++;
	/* A producer that is faster than the consumer. */
	word = 0;
	ck_assert_int_eq(peek(), RING_EMPTY);
	ck_assert(atomic_compare_exchange_strong(&ring.slots[1], &word, full));
	ck_assert_int_eq(ring_skip(&ring, head), RING_OK);
	ck_assert_uint_eq(pop(), 7);
}
END_TEST

START_TEST(full_slot_of_any_lap_is_a_job)
{
	start_at(0);
	set_slot(0, UINT64_C(5) << 32 | RING_FULL_BIT | 9);
	ck_assert_uint_eq(pop(), 9);
	ck_assert_uint_eq(slot_word(0), UINT64_C(1) << 32);
}
END_TEST

START_TEST(push_returns_for_any_tail)
{
	uint64_t random = 1;

	start_at(0);
	for (uint32_t i = 0; i < 100000; i++) {
		uint64_t position;

		random = random * 6364136223846793005u + 1442695040888963407u;
		set_tail(i % 3 ? random : random >> (random & 63));
		ring_push(&ring, i & RING_PAYLOAD, &position);
		if (i % 2 && peek() == RING_OK)
			pop();
	}
	set_tail(UINT64_MAX);
	ring_push(&ring, 1, &random);
}
END_TEST

START_TEST(malformed_slots_are_counted_and_reset)
{
	static const uint64_t garbage[] = {
		UINT64_C(7) << 32,		  /* free, of a future lap */
		(uint64_t)UINT32_MAX << 32,	  /* free, of a past lap */
		UINT64_C(5) << 32 | RING_PAYLOAD, /* a payload in a free slot */
		1,
		RING_PAYLOAD,
	};

	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		start_at(0);
		set_slot(0, garbage[i]);
		ck_assert_int_eq(peek(), RING_GARBAGE);
		ck_assert_int_eq(peek(), RING_EMPTY);
		set_tail(0);
		ck_assert_uint_eq(push(3), 0);
		ck_assert_uint_eq(pop(), 3);
	}
}
END_TEST

START_TEST(ring_of_random_words_is_emptied_in_bounded_steps)
{
	uint64_t random = 99;

	for (uint32_t i = 0; i < RING_SLOTS; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		set_slot(i, random);
	}
	set_tail(random);
	for (uint32_t i = 0; i < 2 * RING_SLOTS; i++) {
		if (peek() == RING_OK)
			pop();
		else if (peek() == RING_EMPTY)
			ring_consume(&ring, head++);
	}
	set_tail(head);
	for (uint32_t i = 0; i < RING_SLOTS; i++)
		push(i);
	for (uint32_t i = 0; i < RING_SLOTS; i++)
		ck_assert_uint_eq(pop(), i);
}
END_TEST

static uint64_t noise(void)
{
	static uint64_t state = 88172645463325252u;

	return xorshift64(&state);
}

/* Hostile slots and tail; no word equals a job of this test. */
static void spoil(void)
{
	uint64_t kind = noise() % 6, every = 1 + noise() % 200;

	for (uint64_t i = 0; i < RING_SLOTS; i++) {
		uint64_t lap = head / RING_SLOTS + noise() % 5 - 2;
		uint64_t full = noise() % 2 ? RING_FULL_BIT | 0x70000000 : 0;

		if (noise() % every)
			continue;
		if (noise() % 8 == 0)
			lap = noise() >> (noise() & 63);
		if (kind % 3)
			set_slot(i, (lap & UINT32_MAX) << 32 | full);
	}
	if (kind % 2)
		set_tail(noise() % 4 ? head + noise() % (3 * RING_SLOTS) - RING_SLOTS : noise());
}

/* Drains. Returns how many of the jobs were consumed; the rest are hostile words. */
static uint32_t drain_jobs(bool *seen, uint32_t n_jobs)
{
	static uint32_t out[4 * RING_SLOTS];
	uint32_t n = drain(out, 4 * RING_SLOTS), jobs = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (out[i] >= n_jobs)
			continue;
		ck_assert(!seen[out[i]]);
		seen[out[i]] = true;
		jobs++;
	}
	return jobs;
}

START_TEST(jobs_pushed_into_a_hostile_ring_are_consumed_once)
{
	for (uint32_t round = 0; round < 3000; round++) {
		bool seen[40] = { false };
		uint32_t n = 1 + (uint32_t)(noise() % 40), end = (uint32_t)noise() % n, out = 0;

		if (round % 50 == 0)
			start_at(noise() % 2 ? noise() % RING_SLOTS
					     : noise() % (UINT64_C(1) << 30));
		spoil();
		for (uint32_t i = 0; i < n; i++) {
			uint64_t position, tries = 0;

			while (ring_push(&ring, i, &position) != RING_OK) {
				/* It may look full until the hostile client has died. */
				if (++tries == 8)
					ring_set_astray(&ring);
				out += drain_jobs(seen, n);
				ck_assert_uint_lt(tries, 16);
			}
			/* The death of the hostile client is noticed. Afterwards only pushes are
			 * seen. */
			if (i == end)
				ring_set_astray(&ring);
			if (i == end || noise() % 4 == 0)
				out += drain_jobs(seen, n);
		}
		out += drain_jobs(seen, n);
		ck_assert_msg(out == n, "round %" PRIu32 ": %" PRIu32 " of %" PRIu32 " jobs", round,
			      out, n);
	}
}
END_TEST

CHECK_MAIN("ring_astray")
