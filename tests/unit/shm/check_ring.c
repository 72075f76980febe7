/* SPDX-License-Identifier: MIT */
/* ring: pushed jobs are consumed once and in order, even if a producer dies. tests/model/ring.c has
 * the interleavings, check_ring_astray.c malformed contents. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/ring_rig.h"

START_TEST(new_ring_is_all_zeros_and_empty)
{
	ck_assert_int_eq(peek(), RING_EMPTY);
}
END_TEST

START_TEST(jobs_are_consumed_in_order)
{
	for (uint32_t i = 0; i < 10; i++)
		ck_assert_uint_eq(push(100 + i), i);
	for (uint32_t i = 0; i < 10; i++)
		ck_assert_uint_eq(pop(), 100 + i);
	ck_assert_int_eq(peek(), RING_EMPTY);
}
END_TEST

START_TEST(peek_consumes_nothing)
{
	push(7);
	ck_assert_int_eq(peek(), RING_OK);
	ck_assert_int_eq(peek(), RING_OK);
	ck_assert_uint_eq(pop(), 7);
}
END_TEST

START_TEST(full_ring_accepts_no_job_until_one_is_consumed)
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

START_TEST(laps_wrap)
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

START_TEST(full_ring_is_full_where_the_laps_wrap)
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

/* A producer died between its CAS and the tail: the job is in the ring, the tail lags. */
START_TEST(lagging_tail_is_advanced)
{
	for (uint32_t i = 0; i < 5; i++)
		push(i);
	set_tail(0);
	ck_assert_uint_eq(push(5), 5);
	ck_assert_uint_eq(tail(), 6);
	for (uint32_t i = 0; i < 6; i++)
		ck_assert_uint_eq(pop(), i);
	/* Even if those jobs were consumed laps ago. */
	for (uint32_t i = 0; i < 3 * RING_SLOTS; i++) {
		push(i);
		pop();
	}
	set_tail(6);
	ck_assert_uint_eq(push(42), head);
	ck_assert_uint_eq(pop(), 42);
}
END_TEST

/* A producer read its slot, was stopped, and the ring went through a lap: its CAS must fail. */
START_TEST(producer_stopped_for_a_lap_overwrites_nothing)
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

START_TEST(honest_tails_skip_nothing)
{
	start_at(0);
	for (uint32_t n = 0; n < 3 * RING_SLOTS; n++) {
		ck_assert_int_eq(ring_skip(&ring, head), RING_EMPTY);
		ck_assert(!(atomic_load(&ring.tail) & RING_ASTRAY));
		/* Every third producer dies before it advances the tail. */
		set_tail(push(n) + (n % 3 ? 1 : 0));
		ck_assert_uint_eq(pop(), n);
	}
	ck_assert_uint_eq(head, 3 * RING_SLOTS);
}
END_TEST

START_TEST(new_consumer_frees_slots_of_the_last_one)
{
	static const uint64_t starts[] = { 0, 5, RING_SLOTS - 1, 7 * RING_SLOTS };

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		start_at(starts[i]);
		ring_take_over(&ring, head);
		push(1);
		push(2);
		/* The consumer died between the move of the head and the slot. */
		ck_assert_int_eq(peek(), RING_OK);
		head++;
		ring_take_over(&ring, head);
		ck_assert_uint_eq(pop(), 2);
		ring_take_over(&ring, head);
		ck_assert_int_eq(peek(), RING_EMPTY);
		/* In the next lap no trace of it is left. */
		for (uint32_t n = 0; n < RING_SLOTS; n++) {
			push(n);
			ck_assert_uint_eq(pop(), n);
		}
		ck_assert_int_eq(peek(), RING_EMPTY);
	}
}
END_TEST

START_TEST(full_slot_may_be_changed_to_another_payload)
{
	static struct ring repointed;
	uint64_t position;
	uint32_t payload;

	for (uint64_t head = 0; head < 3 * RING_SLOTS; head++) {
		ck_assert_int_eq(ring_push(&repointed, 5, &position), RING_OK);
		ring_repoint(&repointed, head, 0x7fffffff);
		ck_assert_int_eq(ring_peek(&repointed, head, &payload), RING_OK);
		ck_assert_uint_eq(payload, 0x7fffffff);
		/* Producers continue after it. */
		ck_assert_uint_eq(position, head);
		ring_consume(&repointed, head);
		ck_assert_int_eq(ring_peek(&repointed, head + 1, &payload), RING_EMPTY);
	}
}
END_TEST

#define PRODUCERS 3u
#define EACH	  30000u

static uint32_t written[PRODUCERS][EACH]; /* not atomic: ThreadSanitizer checks it */

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

START_TEST(concurrent_producers_lose_nothing_and_keep_their_order)
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

/* Jobs of the killed child are consumed in order, and the ring serves the next producer. */
START_TEST(killed_producer_does_not_block_the_ring)
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
		/* More than the ring's size, so that it is killed anywhere in a push. */
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

CHECK_MAIN("ring")
