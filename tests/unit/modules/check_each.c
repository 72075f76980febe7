/* SPDX-License-Identifier: MIT */
/* forkd/algorithm/each.h: for_each, for_range and map against plain loops. */
#define CHECK_TIMEOUT 300

#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <forkd/algorithm.h>

#include "tests/support/algorithm.h"
#include "tests/support/check_unit.h"

/* ---------------------------------------------------------------- for each */

static int64_t numbers[MAX + GUARD];

static void add_to(int64_t *x, int64_t context)
{
	*x += context;
}

static int fail_at(int64_t *x, int64_t context)
{
	*x += 1;
	return x - numbers == context ? -EDOM : 0;
}

static void mark(int64_t i)
{
	numbers[i - ask.from]++;
}

static int fail_range(int64_t i, int64_t context)
{
	return i == context ? 77 : 0;
}

FK_FOR_EACH(each_add, int64_t, add_to, int64_t)
FK_FOR_EACH(each_fail, int64_t, fail_at, int64_t)
FK_FOR_RANGE(range_mark, mark)
FK_FOR_RANGE(range_fail, fail_range, int64_t)

JOB_VOID(job_each, each_add, numbers, ask.n, ask.grain, 3)
JOB_VOID(job_each_fail, each_fail, numbers, ask.n, ask.grain, ask.fails_at)
JOB_VOID(job_range, range_mark, ask.from, ask.to, ask.grain)
JOB_VOID(job_range_fail, range_fail, ask.from, ask.to, ask.grain, ask.fails_at)

START_TEST(for_each_visits_each_element_once)
{
	for_each_mode (m, &fk_module) {
		for_each_size_and_grain () {
			memset(numbers, 0, sizeof(numbers));
			run(job_each);
			for (size_t i = 0; i < MAX + GUARD; i++)
				must(numbers[i] == (i < ask.n ? 3 : 0));
		}
	}
}
END_TEST

START_TEST(for_range_visits_each_number_once)
{
	static const int64_t froms[] = { 0, -500, INT64_MIN, INT64_MAX - 4999 };

	for_each_mode (m, &fk_module) {
		for (size_t f = 0; f < sizeof(froms) / sizeof(froms[0]); f++)
			for_each_size_and_grain () {
				ask.from = froms[f];
				ask.to = ask.from + (int64_t)ask.n;
				memset(numbers, 0, sizeof(numbers));
				run(job_range);
				for (size_t i = 0; i < MAX; i++)
					must(numbers[i] == (i < ask.n));
			}
		/* A reversed range is empty. */
		ask.from = INT64_MAX;
		ask.to = INT64_MIN;
		memset(numbers, 0, sizeof(numbers));
		run(job_range);
		for (size_t i = 0; i < MAX; i++)
			must(numbers[i] == 0);
	}
}
END_TEST

/* If each fork is stolen, their number is that of the leaves minus one. */
START_TEST(leaves_have_the_length_of_the_grain)
{
	static const struct {
		size_t n, grain, leaves;
	} cases[] = {
		{ 1024, 1, 1024 },
		{ 1024, 64, 16 },
		{ 1024, 1023, 2 },
		{ 1024, 1024, 1 },
		{ FK_LEAF_BYTES / sizeof(int64_t), 0, 1 },
		{ FK_LEAF_BYTES / sizeof(int64_t) + 1, 0, 2 },
		{ 1024, SIZE_MAX, 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rig_start(&rig, 1, &fk_module, true);
		ask.n = cases[i].n;
		ask.grain = cases[i].grain;
		run(job_each);
		ck_assert_uint_eq(rig_counter(&rig, steals), cases[i].leaves - 1);
		rig_stop(&rig);
	}
	ck_assert_uint_eq(FK_GRAIN(1), 2001);
	ck_assert_uint_eq(FK_GRAIN(1000000), 1);
}
END_TEST

/* Returns the end of the leaf of the i-th of n elements. */
static size_t leaf_end(size_t first, size_t n, size_t i)
{
	if (n <= FK_GRAIN_OF(ask.grain, int64_t))
		return first + n;
	return i < first + n / 2 ? leaf_end(first, n / 2, i)
				 : leaf_end(first + n / 2, n - n / 2, i);
}

START_TEST(failing_function_fails_the_job)
{
	for_each_mode (m, &fk_module) {
		ask.n = 4999;
		for (size_t g = 0; g < N_GRAINS; g++) {
			ask.grain = grains[g];
			for (ask.fails_at = 0; ask.fails_at < 4999; ask.fails_at += 833) {
				size_t end = leaf_end(0, ask.n, (size_t)ask.fails_at);

				memset(numbers, 0, sizeof(numbers));
				fails("algorithm:job_each_fail", -EDOM);
				/* The leaf did not continue after it, and no element was visited
				 * twice. */
				must(numbers[ask.fails_at] == 1);
				for (size_t i = 0; i < MAX; i++)
					must(numbers[i] <= (i < ask.n));
				for (size_t i = (size_t)ask.fails_at + 1; i < end; i++)
					must(numbers[i] == 0);
				ask.from = -4999;
				ask.to = 4999;
				fails("algorithm:job_range_fail", 77);
			}
		}
		/* A job without a failing element succeeds, and the pool still works. */
		ask.fails_at = 5000;
		run(job_each_fail);
		run(job_range_fail);
	}
}
END_TEST

/* ---------------------------------------------------------------- map */

static int32_t small[MAX + GUARD];

static int64_t squared(const int32_t *x)
{
	return (int64_t)*x * *x;
}

static int64_t plus(const int64_t *x, int64_t context)
{
	return *x + context;
}

FK_MAP(map_squares, int32_t, int64_t, squared)
FK_MAP(map_plus, int64_t, int64_t, plus, int64_t)
JOB_VOID(job_squares, map_squares, small, numbers, ask.n, ask.grain)
JOB_VOID(job_plus, map_plus, numbers, numbers, ask.n, ask.grain, 5)

START_TEST(map_is_the_plain_loop)
{
	for (size_t i = 0; i < MAX; i++)
		small[i] = (int32_t)random_next();
	for_each_mode (m, &fk_module) {
		for_each_size_and_grain () {
			memset(numbers, 0, sizeof(numbers));
			run(job_squares);
			for (size_t i = 0; i < MAX; i++)
				must(numbers[i] == (i < ask.n ? (int64_t)small[i] * small[i] : 0));
			run(job_plus);
			for (size_t i = 0; i < MAX; i++)
				must(numbers[i] ==
				     (i < ask.n ? (int64_t)small[i] * small[i] + 5 : 0));
		}
	}
}
END_TEST

/* Small elements mapped to large ones, which determine the length of a leaf; and the reverse. */
struct large {
	int64_t numbers[FK_LEAF_BYTES / 4 / sizeof(int64_t)];
};

static struct large spread_out[64];

static struct large spread(const int32_t *x)
{
	return (struct large){ { [1] = *x } };
}

static int32_t collect(const struct large *x)
{
	return (int32_t)x->numbers[1];
}

FK_MAP(map_spread, int32_t, struct large, spread)
FK_MAP(map_collect, struct large, int32_t, collect)
JOB_VOID(job_spread, map_spread, small, spread_out, 64, 0)
JOB_VOID(job_collect, map_collect, spread_out, small + 64, 64, 0)

START_TEST(larger_type_determines_the_leaf_of_a_map)
{
	for (int32_t i = 0; i < 64; i++)
		small[i] = i + 1;
	rig_start(&rig, 1, &fk_module, true);
	run(job_spread);
	ck_assert_uint_eq(rig_counter(&rig, steals), 64 / 4 - 1);
	run(job_collect);
	ck_assert_uint_eq(rig_counter(&rig, steals), 2 * (64 / 4 - 1));
	rig_stop(&rig);
	for (int32_t i = 0; i < 64; i++)
		ck_assert_int_eq(small[64 + i], i + 1);
}
END_TEST

FK_MODULE(algorithm, "Algorithms, to be tested")

CHECK_MAIN("each")
