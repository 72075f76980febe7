/* SPDX-License-Identifier: MIT */
/* modules/array.c, compiled in, with its memory counted. check_modules.c tests the results of most
 * of its tasks, from the shared object. */
#define CHECK_TIMEOUT 60

#include "tests/support/counted.h"

#include "modules/array.c"

#include <check.h>

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/shipped.h"

#define N      30000
#define FIRST  8u /* offset of the arrays */
#define SECOND (FIRST + N * 8u)

START_TEST(histogram_frees_its_tables_if_their_allocation_fails)
{
	struct {
		struct job_ref data;
		double low, high;
		struct job_ref counts;
	} args = { { 8, 8000 }, -1.0, 4.0, { 8192, 80 } };

	gives_back_when_it_fails("array:histogram_f64", &args, sizeof(args), NULL);
}
END_TEST

/* Quarters, so that every sum is exact. */
START_TEST(sums_of_real_numbers_and_products_are_correct_in_every_mode)
{
	struct job_ref arrays[] = { { FIRST, N * 8 }, { SECOND, N * 8 } };

	for_each_mode (m, &fk_module) {
		double *a, *b, right = 0, got;
		int wrong = 0;

		a = (double *)(rig.heap + FIRST);
		b = (double *)(rig.heap + SECOND);
		for (int i = 0; i < N; i++) {
			a[i] = (double)(i * INT64_C(7919) % 1001) / 4;
			b[i] = (double)(i * INT64_C(104729) % 997 - 500);
			right += a[i] * b[i];
		}
		run("array:dot_f64", arrays, sizeof(arrays));
		result(&got, sizeof(got));
		ck_assert(got == right);
		run("array:prefix_f64", arrays, sizeof(arrays[0]));
		result(&got, sizeof(got));
		right = 0;
		for (int i = 0; i < N; i++) {
			right += (double)(i * INT64_C(7919) % 1001) / 4;
			wrong += a[i] != right;
		}
		ck_assert_int_eq(wrong, 0);
		ck_assert(got == right);
	}
}
END_TEST

/* As many as a leaf takes at a time, and any remainder. */
START_TEST(sums_and_extremes_of_any_length_are_correct)
{
	static const uint64_t lengths[] = { 0, 1, 15, 16, 17, 2047, 2048, 2049, 4100, N };

	start_mode(1, &fk_module);
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct job_ref arrays[] = { { FIRST, lengths[i] * 8 }, { SECOND, lengths[i] * 8 } };
		double *a = (double *)(rig.heap + FIRST), *b = (double *)(rig.heap + SECOND);
		double sum = 0, dot = 0, got, range[2];
		uint64_t n = lengths[i];

		for (uint64_t k = 0; k < N; k++) {
			a[k] = k < n ? (double)(k * 7919 % 1001) - 500 : 1e9;
			b[k] = (double)(k % 64);
			sum += k < n ? a[k] : 0;
			dot += k < n ? a[k] * b[k] : 0;
		}
		run("array:sum_f64", arrays, sizeof(arrays[0]));
		result(&got, sizeof(got));
		ck_assert_msg(got == sum, "%d numbers: %g, not %g", (int)n, got, sum);
		run("array:dot_f64", arrays, sizeof(arrays));
		result(&got, sizeof(got));
		ck_assert_msg(got == dot, "%d numbers: %g, not %g", (int)n, got, dot);
		if (n < 3)
			continue;
		/* Neither at an end nor special. */
		a[n / 2] = (double)NAN;
		a[n / 3] = 1000;
		a[n - 1] = -(double)INFINITY;
		run("array:minmax_f64", arrays, sizeof(arrays[0]));
		result(range, sizeof(range));
		ck_assert(isinf(range[0]) && range[0] < 0);
		ck_assert(range[1] == 1000);
	}
}
END_TEST

struct histogram_args {
	struct job_ref data;
	int64_t low, high;
	struct job_ref counts;
};

START_TEST(integers_are_counted_once_in_every_mode)
{
	static const struct {
		int64_t low, high;
		int bins;
	} cases[] = {
		{ -100, 100, 10 }, { -100, 101, 10 },		{ 0, 3, 10 },
		{ 5, 6, 1 },	   { INT64_MIN, INT64_MAX, 7 }, { -1, INT64_MAX, 1000 },
	};

	for_each_mode (m, &fk_module) {
		int64_t *data, *counts, outside;

		data = (int64_t *)(rig.heap + FIRST);
		counts = (int64_t *)(rig.heap + SECOND);
		for (int i = 0; i < N; i++)
			data[i] = i * INT64_C(7919) % 301 - 150;
		data[0] = INT64_MIN;
		data[1] = INT64_MAX;
		data[2] = INT64_MAX - 1;
		for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
			struct histogram_args args = { { FIRST, N * 8 },
						       cases[c].low,
						       cases[c].high,
						       { SECOND, (uint64_t)cases[c].bins * 8 } };
			/* Computes the number of values in a bin in another way. */
			__int128 range = (__int128)cases[c].high - cases[c].low;
			__int128 width = (range + cases[c].bins - 1) / cases[c].bins;
			int64_t right[1001] = { 0 };

			for (int i = 0; i < N; i++) {
				__int128 at = (__int128)data[i] - cases[c].low;

				right[at < 0 || at >= range ? cases[c].bins : (int)(at / width)]++;
			}
			run("array:histogram_i64", &args, sizeof(args));
			result(&outside, sizeof(outside));
			ck_assert_int_eq(outside, right[cases[c].bins]);
			for (int i = 0; i < cases[c].bins; i++)
				ck_assert_int_eq(counts[i], right[i]);
		}
		nothing_is_left();
	}
}
END_TEST

START_TEST(malformed_arrays_fail_the_job)
{
	static const struct histogram_args odd[] = {
		{ { FIRST, 8 }, 1, 1, { SECOND, 8 } },	{ { FIRST, 8 }, 1, 0, { SECOND, 8 } },
		{ { FIRST, 8 }, 0, 1, { SECOND, 0 } },	{ { FIRST, 9 }, 0, 1, { SECOND, 8 } },
		{ { FIRST, 8 }, 0, 1, { SECOND, 12 } },
	};
	struct job_ref arrays[] = { { FIRST, 80 }, { SECOND, 88 } };

	start_mode(1, &fk_module);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		refused("array:histogram_i64", &odd[i], sizeof(odd[i]), -EINVAL);
	refused("array:dot_f64", arrays, sizeof(arrays), -EINVAL);
	arrays[0].size = arrays[1].size = 12;
	refused("array:dot_f64", arrays, sizeof(arrays), -EINVAL);
	refused("array:prefix_f64", arrays, sizeof(arrays[0]), -EINVAL);
	refused("array:minmax_f64", arrays, sizeof(arrays[0]), -EINVAL);
	arrays[0].size = 0;
	refused("array:minmax_f64", arrays, sizeof(arrays[0]), -ENODATA);
	arrays[0].size = 16;
	((double *)(rig.heap + FIRST))[0] = ((double *)(rig.heap + FIRST))[1] = (double)NAN;
	refused("array:minmax_f64", arrays, sizeof(arrays[0]), -ENODATA);
}
END_TEST

CHECK_MAIN("array")
