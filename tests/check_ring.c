/* SPDX-License-Identifier: MIT */
/*
 * ring: what is pushed comes out, once and in order; and nothing that a client writes into slots or
 * tail makes anybody hang or leave the ring. tests/model/ring.c has the interleavings.
 */
#include "shm/ring.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "tests/check_unit.h"

static struct ring ring;
static uint64_t head;

static void set_tail(uint64_t tail)
{
	atomic_store_explicit(&ring.tail, tail, memory_order_relaxed);
}

static uint64_t tail(void)
{
	return atomic_load_explicit(&ring.tail, memory_order_relaxed);
}

static void set_slot(uint64_t slot, uint64_t word)
{
	atomic_store_explicit(&ring.slots[slot], word, memory_order_relaxed);
}

static uint64_t slot_word(uint64_t slot)
{
	return atomic_load_explicit(&ring.slots[slot], memory_order_relaxed);
}

/* An empty ring whose next position is this. */
static void start_at(uint64_t position)
{
	for (uint64_t i = 0; i < RING_SLOTS; i++) {
		uint64_t p = position + i;

		set_slot(p % RING_SLOTS, (p / RING_SLOTS & UINT32_MAX) << 32);
	}
	set_tail(position);
	atomic_store(&ring.astray, 0);
	head = position;
}

static uint64_t push(uint32_t payload)
{
	uint64_t position = UINT64_MAX;

	ck_assert_int_eq(ring_push(&ring, payload, &position), RING_OK);
	return position;
}

static uint32_t pop(void)
{
	uint32_t payload = UINT32_MAX;

	ck_assert_int_eq(ring_peek(&ring, head, &payload), RING_OK);
	ring_consume(&ring, head++);
	return payload;
}

static enum ring_status peek(void)
{
	uint32_t payload;

	return ring_peek(&ring, head, &payload);
}

START_TEST(a_new_ring_is_all_zeros_and_empty)
{
	ck_assert_int_eq(peek(), RING_EMPTY);
}
END_TEST

START_TEST(jobs_come_out_in_the_order_they_went_in)
{
	for (uint32_t i = 0; i < 10; i++)
		ck_assert_uint_eq(push(100 + i), i);
	for (uint32_t i = 0; i < 10; i++)
		ck_assert_uint_eq(pop(), 100 + i);
	ck_assert_int_eq(peek(), RING_EMPTY);
}
END_TEST

START_TEST(looking_takes_nothing)
{
	push(7);
	ck_assert_int_eq(peek(), RING_OK);
	ck_assert_int_eq(peek(), RING_OK);
	ck_assert_uint_eq(pop(), 7);
}
END_TEST

START_TEST(a_full_ring_takes_no_more_until_one_is_consumed)
{
	uint64_t position = 77;

	for (uint32_t i = 0; i < RING_SLOTS; i++)
		push(i);
	ck_assert_int_eq(ring_push(&ring, 9999, &position), RING_FULL);
	ck_assert_uint_eq(position, 77);
	ck_assert_uint_eq(pop(), 0);
	ck_assert_uint_eq(push(9999), RING_SLOTS);
	ck_assert_int_eq(ring_push(&ring, 9999, &position), RING_FULL);
	for (uint32_t i = 1; i < RING_SLOTS; i++)
		ck_assert_uint_eq(pop(), i);
	ck_assert_uint_eq(pop(), 9999);
	ck_assert_int_eq(peek(), RING_EMPTY);
}
END_TEST

START_TEST(every_payload_is_its_parts)
{
	uint32_t payload = ring_payload(1023, 31, 0xffff);

	ck_assert_uint_eq(payload, RING_PAYLOAD);
	ck_assert_uint_eq(ring_payload_client(payload), 1023);
	ck_assert_uint_eq(ring_payload_gen(payload), 31);
	ck_assert_uint_eq(ring_payload_job(payload), 0xffff);
	payload = ring_payload(513, 32 + 5, 0x8001);
	ck_assert_uint_eq(ring_payload_client(payload), 513);
	ck_assert_uint_eq(ring_payload_gen(payload), 5);
	ck_assert_uint_eq(ring_payload_job(payload), 0x8001);
	push(RING_PAYLOAD);
	push(0);
	ck_assert_uint_eq(pop(), RING_PAYLOAD);
	ck_assert_uint_eq(pop(), 0);
}
END_TEST

START_TEST(laps_pass_their_largest_number)
{
	start_at((UINT64_C(1) << 32) * RING_SLOTS - 3);
	for (uint32_t i = 0; i < 3 * RING_SLOTS; i++) {
		push(i);
		if (i >= 5)
			ck_assert_uint_eq(pop(), i - 5);
	}
	for (uint32_t i = 3 * RING_SLOTS - 5; i < 3 * RING_SLOTS; i++)
		ck_assert_uint_eq(pop(), i);
	ck_assert_int_eq(peek(), RING_EMPTY);
}
END_TEST

START_TEST(a_full_ring_is_full_where_the_laps_wrap)
{
	uint64_t position;

	start_at((UINT64_C(1) << 32) * RING_SLOTS - 3);
	for (uint32_t i = 0; i < RING_SLOTS; i++)
		push(i);
	ck_assert_int_eq(ring_push(&ring, 1, &position), RING_FULL);
	for (uint32_t i = 0; i < RING_SLOTS; i++)
		ck_assert_uint_eq(pop(), i);
}
END_TEST

/* A producer died between its CAS and the tail: the job is there, the tail lags. */
START_TEST(a_tail_that_lags_is_helped_forward)
{
	for (uint32_t i = 0; i < 5; i++)
		push(i);
	set_tail(0);
	ck_assert_uint_eq(push(5), 5);
	ck_assert_uint_eq(tail(), 6);
	for (uint32_t i = 0; i < 6; i++)
		ck_assert_uint_eq(pop(), i);
	/* Also if what it lags behind was consumed, laps ago. */
	for (uint32_t i = 0; i < 3 * RING_SLOTS; i++) {
		push(i);
		pop();
	}
	set_tail(6);
	ck_assert_uint_eq(push(42), head);
	ck_assert_uint_eq(pop(), 42);
}
END_TEST

/* A producer read its slot, was stopped, and the ring went round: its CAS must fail. */
START_TEST(a_producer_that_was_stopped_for_a_lap_hits_nothing)
{
	uint64_t word = slot_word(0);

	for (uint32_t i = 0; i < RING_SLOTS; i++) {
		push(i);
		pop();
	}
	ck_assert_uint_eq(slot_word(0) & RING_FULL_BIT, 0);
	ck_assert(!atomic_compare_exchange_strong_explicit(
		&ring.slots[0], &word, word | RING_FULL_BIT | 1, memory_order_relaxed,
		memory_order_relaxed));
	ck_assert_int_eq(peek(), RING_EMPTY);
}
END_TEST

START_TEST(a_false_tail_far_ahead_comes_back_to_where_slots_are_free)
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

/* As the pool drains: what comes out of the ring until it is empty. */
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
			if (!ring_skip(&ring, head))
				return n;
			head++;
			break;
		default:
			break;
		}
	}
	ck_abort_msg("no end");
	return n;
}

START_TEST(jobs_that_a_false_tail_led_astray_are_found_at_the_next_drain)
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
			/* And from then on each at its place. */
			for (uint32_t n = 0; n < 3 * RING_SLOTS; n++) {
				push(n);
				ck_assert_uint_eq(drain(out, 8), 1);
				ck_assert_uint_eq(out[0], n);
			}
		}
}
END_TEST

START_TEST(a_full_slot_of_any_lap_is_a_job)
{
	start_at(0);
	set_slot(0, UINT64_C(5) << 32 | RING_FULL_BIT | 9);
	ck_assert_uint_eq(pop(), 9);
	ck_assert_uint_eq(slot_word(0), UINT64_C(1) << 32);
}
END_TEST

static uint64_t noise(void)
{
	static uint64_t state = 88172645463325252u;

	return xorshift64(&state);
}

/* Slots and tail as an enemy would have them; no word that looks like the jobs of this test. */
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

/* A drain, and how many of the jobs came out; the rest is words of the enemy's. */
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

START_TEST(whatever_stands_in_a_ring_what_is_pushed_from_then_on_comes_out_once)
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
				/* It may look full until the enemy is dead. */
				if (++tries == 8)
					atomic_store(&ring.astray, 1);
				out += drain_jobs(seen, n);
				ck_assert_uint_lt(tries, 16);
			}
			/* The enemy's death is seen. Afterwards nothing is seen any more but
			 * pushes. */
			if (i == end)
				atomic_store(&ring.astray, 1);
			if (i == end || noise() % 4 == 0)
				out += drain_jobs(seen, n);
		}
		out += drain_jobs(seen, n);
		ck_assert_msg(out == n, "round %" PRIu32 ": %" PRIu32 " of %" PRIu32 " jobs", round,
			      out, n);
	}
}
END_TEST

START_TEST(a_new_consumer_frees_what_the_last_one_had_taken)
{
	static const uint64_t starts[] = { 0, 5, RING_SLOTS - 1, 7 * RING_SLOTS };

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		start_at(starts[i]);
		ring_take_over(&ring, head);
		push(1);
		push(2);
		/* It died between the head's move and the slot. */
		ck_assert_int_eq(peek(), RING_OK);
		head++;
		ring_take_over(&ring, head);
		ck_assert_uint_eq(pop(), 2);
		ring_take_over(&ring, head);
		ck_assert_int_eq(peek(), RING_EMPTY);
		/* In the next lap nothing of it is left. */
		for (uint32_t n = 0; n < RING_SLOTS; n++) {
			push(n);
			ck_assert_uint_eq(pop(), n);
		}
		ck_assert_int_eq(peek(), RING_EMPTY);
	}
}
END_TEST

START_TEST(a_position_that_was_given_up_is_never_written)
{
	uint64_t word = 0, full = RING_FULL_BIT | 7;

	start_at(0);
	set_tail(2);
	ck_assert_int_eq(peek(), RING_EMPTY);
	ck_assert_int_eq(ring_skip(&ring, head), 1);
	/* A producer that had found position 0 free before. */
	ck_assert(!atomic_compare_exchange_strong(&ring.slots[0], &word, full));
	head++;
	/* One that is faster than the consumer. */
	word = 0;
	ck_assert_int_eq(peek(), RING_EMPTY);
	ck_assert(atomic_compare_exchange_strong(&ring.slots[1], &word, full));
	ck_assert_int_eq(ring_skip(&ring, head), 0);
	ck_assert_uint_eq(pop(), 7);
}
END_TEST

START_TEST(honest_tails_skip_nothing)
{
	start_at(0);
	for (uint32_t n = 0; n < 3 * RING_SLOTS; n++) {
		ck_assert_int_eq(ring_skip(&ring, head), 0);
		ck_assert_uint_eq(atomic_load(&ring.astray), 0);
		/* Every third producer dies before it moves the tail. */
		set_tail(push(n) + (n % 3 ? 1 : 0));
		ck_assert_uint_eq(pop(), n);
	}
	ck_assert_uint_eq(head, 3 * RING_SLOTS);
}
END_TEST

START_TEST(any_tail_gives_an_answer)
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

START_TEST(garbage_is_seen_reset_and_forgotten)
{
	static const uint64_t garbage[] = {
		UINT64_C(7) << 32,		  /* free, of a lap to come */
		(uint64_t)UINT32_MAX << 32,	  /* free, of a lap that was */
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

START_TEST(a_ring_full_of_noise_is_emptied_in_bounded_time)
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

#define PRODUCERS 3u
#define EACH	  30000u

static uint32_t written[PRODUCERS][EACH]; /* plain memory: ThreadSanitizer looks */

static void *produce(void *arg)
{
	uint32_t id = (uint32_t)(uintptr_t)arg;

	for (uint32_t i = 0; i < EACH; i++) {
		uint64_t position;

		written[id][i] = i + 1;
		while (ring_push(&ring, ring_payload(id, 0, i), &position) != RING_OK)
			sched_yield();
	}
	return NULL;
}

START_TEST(producers_side_by_side_lose_nothing_and_keep_their_order)
{
	pthread_t threads[PRODUCERS];
	uint32_t next[PRODUCERS] = { 0 };

	for (uintptr_t i = 0; i < PRODUCERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, produce, (void *)i), 0);
	for (uint32_t n = 0; n < PRODUCERS * EACH;) {
		enum ring_status status = peek();
		uint32_t payload, id;

		ck_assert_int_ne(status, RING_GARBAGE);
		if (status == RING_EMPTY) {
			sched_yield();
			continue;
		}
		payload = pop();
		id = ring_payload_client(payload);
		ck_assert_uint_lt(id, PRODUCERS);
		ck_assert_uint_eq(ring_payload_job(payload), next[id]);
		ck_assert_uint_eq(written[id][next[id]], next[id] + 1);
		next[id]++;
		n++;
	}
	for (uint32_t i = 0; i < PRODUCERS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_eq(peek(), RING_EMPTY);
}
END_TEST

/* Jobs of the child that was killed come out in order, and the ring serves the next one. */
START_TEST(a_producer_that_is_killed_wedges_nobody)
{
	struct ring *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t position, from = 0;

	ck_assert_ptr_ne(shared, MAP_FAILED);
	for (uint32_t round = 0; round < 50; round++) {
		uint32_t payload, expected = 0;
		pid_t child = fork();

		ck_assert_int_ge(child, 0);
		if (child == 0)
			for (uint32_t i = 0;; i++)
				while (ring_push(shared, i & 0xffff, &position) != RING_OK)
					;
		/* Past the ring's size, so that it is killed anywhere in a push. */
		while (expected < 2 * RING_SLOTS + 17 * round) {
			if (ring_peek(shared, from, &payload) != RING_OK)
				continue;
			ck_assert_uint_eq(payload, expected & 0xffff);
			expected++;
			ring_consume(shared, from++);
		}
		ck_assert_int_eq(kill(child, SIGKILL), 0);
		ck_assert_int_eq(waitpid(child, NULL, 0), child);
		while (ring_peek(shared, from, &payload) == RING_OK) {
			ck_assert_uint_eq(payload, expected & 0xffff);
			expected++;
			ring_consume(shared, from++);
		}
		ck_assert_int_eq(ring_peek(shared, from, &payload), RING_EMPTY);
		ck_assert_int_eq(ring_push(shared, 0x10000 + round, &position), RING_OK);
		ck_assert_uint_eq(position, from);
		ck_assert_int_eq(ring_peek(shared, from, &payload), RING_OK);
		ck_assert_uint_eq(payload, 0x10000 + round);
		ring_consume(shared, from++);
	}
	ck_assert_int_eq(munmap(shared, sizeof(*shared)), 0);
}
END_TEST

START_TEST(a_full_slot_may_stand_for_another_payload)
{
	static struct ring repointed;
	uint64_t position;
	uint32_t payload;

	for (uint64_t head = 0; head < 3 * RING_SLOTS; head++) {
		ck_assert_int_eq(ring_push(&repointed, 5, &position), RING_OK);
		ring_repoint(&repointed, head, 0x7fffffff);
		ck_assert_int_eq(ring_peek(&repointed, head, &payload), RING_OK);
		ck_assert_uint_eq(payload, 0x7fffffff);
		/* Producers go on behind it. */
		ck_assert_uint_eq(position, head);
		ring_consume(&repointed, head);
		ck_assert_int_eq(ring_peek(&repointed, head + 1, &payload), RING_EMPTY);
	}
}
END_TEST

CHECK_MAIN("ring", a_full_slot_may_stand_for_another_payload, a_new_ring_is_all_zeros_and_empty,
	   jobs_come_out_in_the_order_they_went_in, looking_takes_nothing,
	   a_full_ring_takes_no_more_until_one_is_consumed, every_payload_is_its_parts,
	   laps_pass_their_largest_number, a_full_ring_is_full_where_the_laps_wrap,
	   a_tail_that_lags_is_helped_forward, a_producer_that_was_stopped_for_a_lap_hits_nothing,
	   a_false_tail_far_ahead_comes_back_to_where_slots_are_free,
	   jobs_that_a_false_tail_led_astray_are_found_at_the_next_drain,
	   a_full_slot_of_any_lap_is_a_job, a_new_consumer_frees_what_the_last_one_had_taken,
	   whatever_stands_in_a_ring_what_is_pushed_from_then_on_comes_out_once,
	   a_position_that_was_given_up_is_never_written, honest_tails_skip_nothing,
	   any_tail_gives_an_answer, garbage_is_seen_reset_and_forgotten,
	   a_ring_full_of_noise_is_emptied_in_bounded_time,
	   producers_side_by_side_lose_nothing_and_keep_their_order,
	   a_producer_that_is_killed_wedges_nobody)
