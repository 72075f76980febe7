/* SPDX-License-Identifier: MIT */
#include "daemon/core/deque.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tests/support/check_unit.h"

#define CAPACITY 256u

struct owner {
	struct deque deque;
	struct fk_entry entries[CAPACITY];
	uint64_t floor, bottom; /* positions */
};

static void owner_init(struct owner *o)
{
	deque_init(&o->deque, o->entries, CAPACITY);
	o->floor = o->bottom = 0;
}

static void owner_push(struct owner *o, uint64_t word)
{
	atomic_store_explicit(&o->entries[o->bottom++].word, word, memory_order_relaxed);
}

static void owner_publish(struct owner *o, uint64_t k)
{
	deque_publish(&o->deque, k);
	o->floor += k;
}

/* Pops as the worker does: private entries first, then published ones that it reclaims. */
static bool owner_pop(struct owner *o, uint64_t *ret_word)
{
	if (o->bottom == o->floor) {
		uint64_t n = deque_reclaim(&o->deque);

		o->floor -= n;
		if (!n) {
			deque_reset(&o->deque);
			o->floor = o->bottom = 0;
			return false;
		}
	}
	*ret_word = atomic_load_explicit(&o->entries[--o->bottom].word, memory_order_relaxed);
	return true;
}

/* Checks that the owner has exactly these numbers. */
static void owner_has(struct owner *o, uint64_t newest, uint64_t oldest)
{
	uint64_t word;

	for (uint64_t i = newest; i >= oldest; i--) {
		ck_assert(owner_pop(o, &word));
		ck_assert_uint_eq(word, i);
	}
	ck_assert(!owner_pop(o, &word));
}

START_TEST(owner_pops_the_newest)
{
	struct owner o;

	owner_init(&o);
	for (uint64_t i = 1; i <= 5; i++)
		owner_push(&o, i);
	owner_has(&o, 5, 1);
}
END_TEST

START_TEST(thief_sees_nothing_private)
{
	struct owner o;
	uint64_t word, n;

	owner_init(&o);
	owner_push(&o, 1);
	ck_assert_int_eq(deque_steal(&o.deque, &word, 1, &n), DEQUE_EMPTY);
}
END_TEST

START_TEST(thief_takes_the_oldest)
{
	struct owner o;
	uint64_t word, n;

	owner_init(&o);
	for (uint64_t i = 1; i <= 5; i++)
		owner_push(&o, i);
	owner_publish(&o, 3);
	for (uint64_t i = 1; i <= 3; i++) {
		ck_assert_int_eq(deque_steal(&o.deque, &word, 1, &n), DEQUE_STOLEN);
		ck_assert_uint_eq(word, i);
	}
	ck_assert_int_eq(deque_steal(&o.deque, &word, 1, &n), DEQUE_EMPTY);
	owner_has(&o, 5, 4);
}
END_TEST

START_TEST(bulk_steal_takes_half_in_order)
{
	struct owner o;
	uint64_t words[16], n;

	owner_init(&o);
	for (uint64_t i = 1; i <= 9; i++)
		owner_push(&o, i);
	owner_publish(&o, 9);
	ck_assert_int_eq(deque_steal(&o.deque, words, 16, &n), DEQUE_STOLEN);
	ck_assert_uint_eq(n, 5);
	for (uint64_t i = 0; i < n; i++)
		ck_assert_uint_eq(words[i], i + 1);
	ck_assert_int_eq(deque_steal(&o.deque, words, 1, &n), DEQUE_STOLEN);
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(words[0], 6);
}
END_TEST

START_TEST(reclaim_returns_what_was_not_stolen)
{
	struct owner o;
	uint64_t word, n;

	owner_init(&o);
	for (uint64_t i = 1; i <= 4; i++)
		owner_push(&o, i);
	owner_publish(&o, 4);
	ck_assert_int_eq(deque_steal(&o.deque, &word, 1, &n), DEQUE_STOLEN);
	owner_has(&o, 4, 2);
}
END_TEST

/* A thief that read the word before a reclaim must fail, even if entries were published since. */
START_TEST(word_never_has_the_same_value_twice)
{
	struct owner o;
	uint64_t seen[64], n = 0, word;

	owner_init(&o);
	for (int round = 0; round < 8; round++) {
		owner_push(&o, 1);
		owner_push(&o, 2);
		owner_publish(&o, 1);
		seen[n++] = atomic_load(&o.deque.word);
		owner_publish(&o, 1);
		seen[n++] = atomic_load(&o.deque.word);
		while (owner_pop(&o, &word))
			;
	}
	for (uint64_t i = 0; i < n; i++)
		for (uint64_t k = 0; k < i; k++)
			ck_assert_uint_ne(seen[i], seen[k]);
}
END_TEST

/* Either the owner or a thief gets every item exactly once; each thief gets its items in order. */
#define ITEMS 200000u
struct stress {
	struct owner o;
	_Atomic uint32_t had[ITEMS];
	_Atomic uint32_t done;
};

static void *stress_thief(void *arg)
{
	struct stress *s = arg;
	uint64_t words[32], n;

	while (!atomic_load(&s->done)) {
		if (deque_steal(&s->o.deque, words, 1 + (uint64_t)rand() % 32, &n) !=
		    DEQUE_STOLEN) {
			sched_yield();
			continue;
		}
		for (uint64_t i = 0; i < n; i++)
			atomic_fetch_add(&s->had[words[i]], 1);
	}
	return NULL;
}

START_TEST(owner_and_three_thieves_get_each_item_once)
{
	struct stress *s = calloc(1, sizeof(*s));
	pthread_t thieves[3];
	uint64_t next = 0, word;
	unsigned int seed = 7;

	owner_init(&s->o);
	for (int i = 0; i < 3; i++)
		pthread_create(&thieves[i], NULL, stress_thief, s);
	while (next < ITEMS) {
		uint32_t pushes = (uint32_t)rand_r(&seed) % 12, pops = (uint32_t)rand_r(&seed) % 12;

		for (uint32_t i = 0; i < pushes && next < ITEMS && s->o.bottom < CAPACITY; i++)
			owner_push(&s->o, next++);
		uint64_t private = s->o.bottom - s->o.floor;

		if (private)
			owner_publish(&s->o, (uint64_t)rand_r(&seed) % (private + 1));
		for (uint32_t i = 0; i < pops && owner_pop(&s->o, &word); i++)
			atomic_fetch_add(&s->had[word], 1);
	}
	while (owner_pop(&s->o, &word))
		atomic_fetch_add(&s->had[word], 1);
	atomic_store(&s->done, 1);
	for (int i = 0; i < 3; i++)
		pthread_join(thieves[i], NULL);
	for (uint64_t i = 0; i < ITEMS; i++)
		ck_assert_uint_eq(s->had[i], 1);
	free(s);
}
END_TEST

#define MANY 10000u

static struct fk_entry many_entries[2 * MANY];
static uint64_t many_words[MANY], many_stolen[MANY];

START_TEST(thief_takes_any_share_at_once)
{
	struct deque deque;

	for (uint64_t i = 0; i < MANY; i++)
		many_words[i] = 7 * i + 1;
	for (uint32_t percent = 10; percent <= 100; percent += 5) {
		uint32_t share = percent == 100 ? DEQUE_ALL : percent * 256 / 100;
		uint64_t expected = (MANY * (uint64_t)share + 255) / 256, n;

		deque_init(&deque, many_entries, ARRAY_SIZE(many_entries));
		deque_push_all(&deque, many_entries, many_words, MANY);
		ck_assert_uint_eq(deque_size(&deque), MANY);
		ck_assert_int_eq(deque_steal_share(&deque, share, many_stolen, MANY, &n),
				 DEQUE_STOLEN);
		ck_assert_uint_eq(n, expected);
		ck_assert_int_eq(memcmp(many_stolen, many_words, n * sizeof(*many_words)), 0);
		ck_assert_uint_eq(deque_size(&deque), MANY - n);
		/* The rest, from where it stopped. */
		if (n < MANY) {
			uint64_t more;

			ck_assert_int_eq(deque_steal_share(&deque, DEQUE_ALL, many_stolen, MANY,
							   &more),
					 DEQUE_STOLEN);
			ck_assert_uint_eq(more, MANY - n);
			ck_assert_int_eq(
				memcmp(many_stolen, many_words + n, more * sizeof(*many_words)), 0);
		}
		ck_assert_int_eq(deque_steal_share(&deque, DEQUE_ONE, many_stolen, MANY, &n),
				 DEQUE_EMPTY);
	}
}
END_TEST

/* Several thieves take shares while the owner pushes batches and reclaims: no item twice. */
struct bulk {
	struct deque deque;
	struct fk_entry entries[4096];
	_Atomic uint8_t had[1 << 16];
	_Atomic uint32_t done;
};

static struct bulk bulk;

static void *bulk_thief(void *arg)
{
	uint32_t share = (uint32_t)(uintptr_t)arg;
	uint64_t words[4096], n;

	while (!atomic_load(&bulk.done) || deque_size(&bulk.deque)) {
		if (deque_steal_share(&bulk.deque, share, words, ARRAY_SIZE(words), &n) !=
		    DEQUE_STOLEN) {
			sched_yield();
			continue;
		}
		for (uint64_t i = 0; i < n; i++)
			atomic_fetch_add(&bulk.had[words[i]], 1);
	}
	return NULL;
}

START_TEST(batches_and_shares_lose_nothing)
{
	static const uint32_t shares[] = { DEQUE_ONE, 26, DEQUE_HALF, 154, DEQUE_ALL };
	pthread_t thieves[ARRAY_SIZE(shares)];
	struct fk_entry *floor = bulk.entries;
	uint64_t next = 0, words[600];
	uint32_t random = 1;

	deque_init(&bulk.deque, bulk.entries, ARRAY_SIZE(bulk.entries));
	for (uint32_t i = 0; i < ARRAY_SIZE(shares); i++)
		ck_assert_int_eq(pthread_create(&thieves[i], NULL, bulk_thief,
						(void *)(uintptr_t)shares[i]),
				 0);
	while (next < ARRAY_SIZE(bulk.had)) {
		uint64_t n, left;

		random = random * 1664525u + 1013904223u;
		n = min(random >> 22, ARRAY_SIZE(words) - 1) + 1;
		n = min(n, ARRAY_SIZE(bulk.had) - next);
		if (floor + n > bulk.entries + ARRAY_SIZE(bulk.entries) || random & 0x10000) {
			left = deque_reclaim(&bulk.deque);
			floor -= left;
			for (uint64_t i = 0; i < left; i++)
				atomic_fetch_add(&bulk.had[atomic_load(&floor[i].word)], 1);
			deque_reset(&bulk.deque);
			floor = bulk.entries;
		}
		for (uint64_t i = 0; i < n; i++)
			words[i] = next++;
		deque_push_all(&bulk.deque, floor, words, n);
		floor += n;
	}
	atomic_store(&bulk.done, 1);
	for (uint32_t i = 0; i < ARRAY_SIZE(shares); i++)
		pthread_join(thieves[i], NULL);
	for (uint32_t i = 0; i < ARRAY_SIZE(bulk.had); i++)
		ck_assert_uint_eq(atomic_load(&bulk.had[i]), 1);
}
END_TEST

START_TEST(indices_wrap)
{
	struct owner o;
	uint64_t word, n;

	owner_init(&o);
	/* State after 2^40 - 2 publications. */
	o.deque.split = (UINT64_C(1) << 40) - 2;
	atomic_store(&o.deque.word, o.deque.split << DEQUE_N_BITS);
	deque_reset(&o.deque);
	for (int round = 0; round < 4; round++) {
		for (uint64_t i = 1; i <= 3; i++)
			owner_push(&o, i);
		owner_publish(&o, 2);
		ck_assert_int_eq(deque_steal(&o.deque, &word, 1, &n), DEQUE_STOLEN);
		ck_assert_uint_eq(word, 1);
		for (uint64_t i = 3; i >= 2; i--) {
			ck_assert(owner_pop(&o, &word));
			ck_assert_uint_eq(word, i);
		}
		ck_assert(!owner_pop(&o, &word));
	}
}
END_TEST

CHECK_MAIN("deque")
