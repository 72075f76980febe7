/* SPDX-License-Identifier: MIT */
/* modules/search.c, compiled in, with its memory counted; the matches are compared with those of a
 * loop over every offset. */
#define CHECK_TIMEOUT 120

#include "tests/support/counted.h"

#include "modules/search.c"

#include <pthread.h>

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/shipped.h"

#define DATA	8u
#define OUT	(512u << 10)
#define PATTERN ((1u << 20) - (70u << 10))
#define MOST	400000u

struct places_args {
	struct job_ref data, pattern, out;
};

static uint64_t random_state = 88172645463325252u;

static uint32_t naive(const char *data, uint32_t n, const char *pattern, uint32_t m,
		      int64_t *places, uint32_t room)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i + m <= n; i++)
		if (data[i] == pattern[0] && memcmp(data + i, pattern, m) == 0) {
			if (found < room)
				places[found] = i;
			found++;
		}
	return found;
}

/* The task must find this number of matches. */
static void counts(const char *task, const struct places_args *args, uint32_t size, int64_t places)
{
	int64_t count;

	run(task, args, size);
	result(&count, sizeof(count));
	ck_assert_int_eq(count, places);
}

/* Searches the first n bytes of the heap for the m bytes at PATTERN. Returns the number of
 * matches. */
static uint32_t compare(uint32_t n, uint32_t m, uint32_t room)
{
	static int64_t right[30000];
	struct places_args args = { { DATA, n }, { PATTERN, m }, { OUT, room * 8 } };
	int64_t *places = (int64_t *)(rig.heap + OUT);
	uint32_t n_right = naive(rig.heap + DATA, n, rig.heap + PATTERN, m, right, room);

	ck_assert_uint_le(room, ARRAY_SIZE(right));
	memset(places, 0xee, (room + 1) * sizeof(*places));
	counts("search:places_bytes", &args, sizeof(args), n_right);
	ck_assert_msg(memcmp(places, right, min(n_right, room) * sizeof(*right)) == 0,
		      "places of %u bytes among %u", m, n);
	for (uint32_t i = min(n_right, room); i <= room; i++)
		ck_assert_int_eq(places[i], (int64_t)0xeeeeeeeeeeeeeeee);
	counts("search:count_bytes", &args, 2 * sizeof(args.data), n_right);
	nothing_is_left();
	return n_right;
}

static void fill(const char *letters)
{
	for (uint32_t i = 0; i < MOST; i++)
		rig.heap[DATA + i] = letters[xorshift64(&random_state) % strlen(letters)];
}

static void pattern_is(const char *text)
{
	memcpy(rig.heap + PATTERN, text, strlen(text));
}

START_TEST(every_match_is_found_once_in_every_mode)
{
	static const char *const patterns[] = { "a",	"ab",	 "aa",	      "aba",
						"abab", "aabaa", "bbbbbbbbbb" };

	for_each_mode (m, &fk_module) {
		for (uint32_t rare = 0; rare < 2; rare++) {
			fill(rare ? "aaabcdefghijklmnopqrstuv" : "ab");
			for (uint32_t i = 0; i < ARRAY_SIZE(patterns); i++) {
				pattern_is(patterns[i]);
				(void)compare(MOST, (uint32_t)strlen(patterns[i]), 30000);
			}
		}
	}
}
END_TEST

START_TEST(matches_across_the_ends_of_pieces_are_found_once)
{
	static const char needle[] = "needle";

	start_mode(1, &fk_module);
	pattern_is(needle);
	for (uint32_t off = 0; off <= 12; off++) {
		memset(rig.heap + DATA, '.', MOST);
		for (uint32_t piece = 1; piece * PIECE < MOST; piece++)
			memcpy(rig.heap + DATA + piece * PIECE - 6 + off, needle, 6);
		ck_assert_uint_eq(compare(MOST, 6, 100), 3);
		/* And a match that ends with the data. */
		ck_assert_uint_eq(compare(PIECE + off, 6, 100), 1);
		ck_assert_uint_eq(compare(PIECE + off - 1, 6, 100), 0);
	}
}
END_TEST

START_TEST(patterns_of_any_length_are_found)
{
	static const uint32_t lengths[] = { 1, 2, 3, 255, 256, 257, 5000, PATTERN_MOST };

	start_mode(1, &fk_module);
	fill("ab");
	for (uint32_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		memcpy(rig.heap + PATTERN, rig.heap + DATA + PIECE - lengths[i] / 2, lengths[i]);
		ck_assert_uint_ge(compare(MOST, lengths[i], 30000), 1);
		/* Data of the pattern's length, and shorter. */
		(void)compare(lengths[i], lengths[i], 10);
		ck_assert_uint_eq(compare(lengths[i] - 1, lengths[i], 10), 0);
	}
}
END_TEST

/* A search that restarts after each match takes minutes for this. */
START_TEST(pattern_that_matches_everywhere_is_found_in_linear_time)
{
	struct places_args args = { { DATA, MOST }, { PATTERN, PATTERN_MOST }, { OUT, 8000 } };
	const int64_t *places;

	start_mode(1, &fk_module);
	places = (int64_t *)(rig.heap + OUT);
	memset(rig.heap + DATA, 'a', MOST);
	memset(rig.heap + PATTERN, 'a', PATTERN_MOST);
	counts("search:places_bytes", &args, sizeof(args), MOST - PATTERN_MOST + 1);
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(places[i], i);
	/* All except its last byte match. */
	rig.heap[PATTERN + PATTERN_MOST - 1] = 'b';
	counts("search:count_bytes", &args, 2 * sizeof(args.data), 0);
}
END_TEST

START_TEST(text_is_found)
{
	struct places_args args = { { DATA, 11 }, { PATTERN, 2 }, { OUT, 16 } };
	int64_t *places;

	start_mode(1, &fk_module);
	memcpy(rig.heap + DATA, "say so, say", 11);
	memcpy(rig.heap + PATTERN, "say", 4);
	args.pattern.size = 3;
	counts("search:places", &args, sizeof(args), 2);
	places = (int64_t *)(rig.heap + OUT);
	ck_assert_int_eq(places[0], 0);
	ck_assert_int_eq(places[1], 8);
	counts("search:count", &args, 2 * sizeof(args.data), 2);
}
END_TEST

START_TEST(invalid_patterns_and_output_sizes_are_an_error)
{
	static const struct places_args cases[] = {
		{ { DATA, 100 }, { PATTERN, 0 }, { OUT, 80 } },
		{ { DATA, 100 }, { PATTERN, PATTERN_MOST + 1 }, { OUT, 80 } },
		{ { DATA, 100 }, { PATTERN, 1 }, { OUT, 81 } },
	};

	start_mode(1, &fk_module);
	for (uint32_t i = 0; i < ARRAY_SIZE(cases); i++)
		refused("search:places_bytes", &cases[i], sizeof(cases[i]), -EINVAL);
	refused("search:count_bytes", &cases[0], 2 * sizeof(struct job_ref), -EINVAL);
}
END_TEST

static _Atomic bool writing;

static void *write_on(void *arg)
{
	(void)arg;
	while (atomic_load_explicit(&writing, memory_order_relaxed)) {
		uint64_t x = xorshift64(&random_state);

		if (x % 4)
			((volatile char *)rig.heap)[DATA + x % MOST] = (char)('a' + (x >> 32) % 2);
		else
			((volatile char *)rig.heap)[PATTERN + x % 16] = (char)('a' + (x >> 32) % 2);
	}
	return NULL;
}

/* If there are more matches while they are written than were counted, they would not fit. */
START_TEST(data_that_changes_while_it_is_searched_stays_in_bounds)
{
	struct places_args args = { { DATA, MOST }, { PATTERN, 3 }, { OUT, 50000 * 8 } };
	int64_t *places, count;
	pthread_t thread;

	start_mode(1, &fk_module);
	places = (int64_t *)(rig.heap + OUT);
	fill("ab");
	memset(rig.heap + PATTERN, 'a', 16);
	memset(places, 0xee, 50001 * 8);
	atomic_store(&writing, true);
	ck_assert_int_eq(pthread_create(&thread, NULL, write_on, NULL), 0);
	for (int i = 0; i < 100; i++) {
		int wrong = 0;

		args.pattern.size = 1 + (uint32_t)i % 16;
		run("search:places_bytes", &args, sizeof(args));
		result(&count, sizeof(count));
		for (int64_t k = 1; k < min(count, INT64_C(50000)); k++)
			wrong += places[k] <= places[k - 1] || places[k] >= MOST;
		ck_assert_int_eq(wrong, 0);
		ck_assert_int_eq(places[50000], (int64_t)0xeeeeeeeeeeeeeeee);
	}
	atomic_store(&writing, false);
	pthread_join(thread, NULL);
	nothing_is_left();
}
END_TEST

START_TEST(memory_is_freed_if_an_allocation_fails)
{
	struct places_args args = { { DATA, MOST }, { PATTERN, 3 }, { OUT, 800 } };

	gives_back_when_it_fails("search:places_bytes", &args, sizeof(args), NULL);
}
END_TEST

CHECK_MAIN("search")
