/* SPDX-License-Identifier: MIT */
/*
 * The shipped modules, from their shared objects, on one, two and eight workers. Also with every
 * fork treated as stolen and the C stack overwritten: a variable that is missing from the frame
 * gives a wrong result here.
 */
#define CHECK_TIMEOUT 120

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <forkd/client.h>

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/shipped.h"

static const struct fk_module *load(const char *name)
{
	const char *build = getenv("top_builddir");
	const struct fk_module *module;
	char path[4096], error[512] = "";
	struct stat st;

	snprintf(path, sizeof(path), "%s/daemon/modules/.libs/%s.so", build ? build : ".", name);
	ck_assert_msg(module_open(path, &module, &st, error, sizeof(error)) == 0, "%s: %s", path,
		      error);
	return module;
}

START_TEST(fib_is_correct_in_every_mode)
{
	for_each_mode (m, load("fib")) {
		ck_assert_int_eq(rig_call(&rig, "fib:fib", 21), 10946);
		if (modes[m].forced)
			/* Each inner node forks once, and all forks were stolen. */
			ck_assert_uint_eq(rig_counter(&rig, steals), 17710);
	}
}
END_TEST

START_TEST(nqueens_is_correct_in_every_mode)
{
	for_each_mode (m, load("nqueens")) {
		ck_assert_int_eq(rig_call(&rig, "nqueens:nqueens", 8), 92);
		ck_assert_int_eq(rig_call(&rig, "nqueens:nqueens", 1), 1);
		ck_assert_int_eq(rig_call(&rig, "nqueens:nqueens", 3), 0);
	}
}
END_TEST

START_TEST(integrate_is_correct_in_every_mode)
{
	struct {
		double n, eps;
	} args = { 10, 1e-6 };

	for_each_mode (m, load("integrate")) {
		double area;

		run("integrate:integrate", &args, sizeof(args));
		result(&area, sizeof(area));
		/* x^4/4 + x^2/2 at 10. */
		ck_assert_double_eq_tol(area, 2550, 1e-2);
	}
}
END_TEST

static void count_tree(const char *tree, int64_t nodes)
{
	struct job_ref ref = { 64, strlen(tree) };
	int64_t found[3];

	memcpy(rig.heap + 64, tree, strlen(tree));
	run("uts:uts", &ref, sizeof(ref));
	result(found, sizeof(found));
	ck_assert_int_eq(found[0], nodes);
}

START_TEST(uts_counts_t1_in_every_mode)
{
	for_each_mode (m, load("uts"))
		count_tree("T1", 4130071);
}
END_TEST

START_TEST(uts_counts_t3_in_every_mode)
{
	for_each_mode (m, load("uts"))
		count_tree("T3", 4112897);
}
END_TEST

START_TEST(unknown_tree_fails_the_job)
{
	struct job_ref ref = { 64, 2 };

	start_mode(0, load("uts"));
	memcpy(rig.heap + 64, "T9", 2);
	refused("uts:uts", &ref, sizeof(ref), -EINVAL);
}
END_TEST

START_TEST(sort_is_correct_in_every_mode)
{
	enum { N = 100000 };
	struct job_ref ref = { 0, N * sizeof(int64_t) };

	for_each_mode (m, load("sort")) {
		int64_t *data;
		uint64_t x = 88172645463325252u, sum = 0, after = 0;

		data = (int64_t *)rig.heap;
		for (int i = 0; i < N; i++) {
			data[i] = (int64_t)xorshift64(&x);
			sum += x;
		}
		run("sort:i64", &ref, sizeof(ref));
		for (int i = 0; i < N; i++) {
			after += (uint64_t)data[i];
			if (i)
				ck_assert_int_le(data[i - 1], data[i]);
		}
		ck_assert_uint_eq(sum, after);
	}
}
END_TEST

START_TEST(sort_puts_nan_last)
{
	enum { N = 50000, NANS = 500 };
	struct job_ref ref = { 0, N * sizeof(double) };

	for_each_mode (m, load("sort")) {
		double *data;
		int wrong = 0;

		data = (double *)rig.heap;
		for (int i = 0; i < N; i++)
			data[i] = i % (N / NANS) ? i * INT64_C(7919) % N - 0.5 * N : (double)NAN;
		data[N - 1] = -(double)INFINITY;
		run("sort:f64", &ref, sizeof(ref));
		ck_assert(data[0] == -(double)INFINITY);
		for (int i = 1; i < N; i++)
			wrong += i < N - NANS ? !(data[i - 1] <= data[i]) : !isnan(data[i]);
		ck_assert_int_eq(wrong, 0);
	}
}
END_TEST

/* Overwrites the array that is being sorted, until it is told to stop. */
static _Atomic bool scribbling;

static void *scribble(void *arg)
{
	_Atomic int64_t *data = arg;

	for (uint64_t x = 1; atomic_load_explicit(&scribbling, memory_order_relaxed); x++)
		atomic_store_explicit(&data[x * 40503 % 30000], (int64_t)(x * x),
				      memory_order_relaxed);
	return NULL;
}

START_TEST(sort_of_a_changing_buffer_stays_within_it)
{
	enum { N = 30000, GUARD = 4096, ROUNDS = 50 };
	struct job_ref ref = { GUARD, N * sizeof(int64_t) };
	pthread_t thread;
	int64_t *data;
	int wrong = 0;

	start_mode(1, load("sort"));
	memset(rig.heap, 0xee, 2 * GUARD + N * sizeof(int64_t));
	data = (int64_t *)(rig.heap + GUARD);
	atomic_store(&scribbling, true);
	ck_assert_int_eq(pthread_create(&thread, NULL, scribble, data), 0);
	for (int i = 0; i < ROUNDS; i++)
		run("sort:i64", &ref, sizeof(ref));
	atomic_store(&scribbling, false);
	pthread_join(thread, NULL);
	for (int i = 0; i < GUARD; i++) {
		wrong += (unsigned char)rig.heap[i] != 0xee;
		wrong += (unsigned char)rig.heap[GUARD + N * sizeof(int64_t) + (size_t)i] != 0xee;
	}
	ck_assert_int_eq(wrong, 0);
	/* After the changes have ended, it is sorted. */
	run("sort:i64", &ref, sizeof(ref));
	for (int i = 1; i < N; i++)
		wrong += data[i - 1] > data[i];
	ck_assert_int_eq(wrong, 0);
}
END_TEST

#define ARRAY_N 60000

static const struct job_ref array_ref = { 8, ARRAY_N * sizeof(int64_t) };

START_TEST(tasks_on_integers_are_correct_in_every_mode)
{
	static int64_t numbers[ARRAY_N];
	int64_t min = INT64_MAX, max = INT64_MIN, extremes[2], sum;
	uint64_t x = 88172645463325252u, right = 0;

	for (int i = 0; i < ARRAY_N; i++) {
		numbers[i] = (int64_t)xorshift64(&x);
		right += x;
		min = numbers[i] < min ? numbers[i] : min;
		max = numbers[i] > max ? numbers[i] : max;
	}
	for_each_mode (m, load("array")) {
		int64_t *data;
		uint64_t prefix = 0;
		int wrong = 0;

		data = (int64_t *)(rig.heap + array_ref.offset);
		memcpy(data, numbers, sizeof(numbers));
		run("array:sum_i64", &array_ref, sizeof(array_ref));
		result(&sum, sizeof(sum));
		ck_assert_uint_eq((uint64_t)sum, right);
		run("array:minmax_i64", &array_ref, sizeof(array_ref));
		result(extremes, sizeof(extremes));
		ck_assert_int_eq(extremes[0], min);
		ck_assert_int_eq(extremes[1], max);
		run("array:prefix_i64", &array_ref, sizeof(array_ref));
		result(&sum, sizeof(sum));
		ck_assert_uint_eq((uint64_t)sum, right);
		for (int i = 0; i < ARRAY_N; i++) {
			prefix += (uint64_t)numbers[i];
			wrong += (uint64_t)data[i] != prefix;
		}
		ck_assert_int_eq(wrong, 0);
	}
}
END_TEST

struct stats {
	int64_t n;
	double min, max, mean, sd;
};

START_TEST(tasks_on_real_numbers_are_correct_and_equal_in_every_mode)
{
	struct {
		struct job_ref ref;
		double factor;
	} scale = { array_ref, -2.0 };
	double first_sum = 0, sum, squares = 0;
	struct stats first = { 0 }, stats;

	for_each_mode (m, load("array")) {
		double *data;
		int wrong = 0;

		data = (double *)(rig.heap + array_ref.offset);
		/* 0.1, 1.1, ..., far from 0, in another order. */
		for (int i = 0; i < ARRAY_N; i++)
			data[i] = 1e6 + 0.1 + i * INT64_C(7919) % ARRAY_N;
		run("array:sum_f64", &array_ref, sizeof(array_ref));
		result(&sum, sizeof(sum));
		run("array:stats_f64", &array_ref, sizeof(array_ref));
		result(&stats, sizeof(stats));
		if (m == 0) {
			first_sum = sum;
			first = stats;
		}
		ck_assert(memcmp(&sum, &first_sum, sizeof(sum)) == 0);
		ck_assert(memcmp(&stats, &first, sizeof(stats)) == 0);
		run("array:scale_f64", &scale, sizeof(scale));
		for (int i = 0; i < ARRAY_N; i++)
			wrong += data[i] != -2.0 * (1e6 + 0.1 + i * INT64_C(7919) % ARRAY_N);
		ck_assert_int_eq(wrong, 0);
	}
	ck_assert_double_eq_tol(first_sum, ARRAY_N * (1e6 + 0.1 + (ARRAY_N - 1) / 2.0), 0.1);
	ck_assert_int_eq(first.n, ARRAY_N);
	ck_assert(first.min == 1e6 + 0.1);
	ck_assert(first.max == 1e6 + 0.1 + (ARRAY_N - 1));
	ck_assert_double_eq_tol(first.mean, 1e6 + 0.1 + (ARRAY_N - 1) / 2.0, 1e-6);
	for (int i = 0; i < ARRAY_N; i++)
		squares += (i - (ARRAY_N - 1) / 2.0) * (i - (ARRAY_N - 1) / 2.0);
	ck_assert_double_eq_tol(first.sd, sqrt(squares / (ARRAY_N - 1)), 1e-6);
}
END_TEST

START_TEST(histogram_counts_each_number_once_in_every_mode)
{
	enum { BINS = 10 };
	struct {
		struct job_ref data;
		double low, high;
		struct job_ref counts;
	} args = { array_ref, -1.0, 4.0, { 8 + ARRAY_N * 8, BINS * 8 } };

	for_each_mode (m, load("array")) {
		int64_t right[BINS] = { 0 }, *counts, outside, left_out = 0;
		double *data;

		data = (double *)(rig.heap + array_ref.offset);
		counts = (int64_t *)(rig.heap + args.counts.offset);
		memset(counts, 0xee, (BINS + 1) * 8);
		for (int i = 0; i < ARRAY_N; i++) {
			/* Quarters, so that the ends of every bin are exact. */
			data[i] = (double)(i * INT64_C(7919) % 32) / 4 - 2.0;
			if (i % 100 == 99)
				data[i] = i % 200 == 99 ? (double)NAN : -(double)INFINITY;
			if (data[i] >= -1.0 && data[i] < 4.0)
				right[(int)((data[i] + 1.0) * 2)]++;
			else
				left_out++;
		}
		run("array:histogram_f64", &args, sizeof(args));
		result(&outside, sizeof(outside));
		ck_assert_int_eq(outside, left_out);
		ck_assert(memcmp(counts, right, sizeof(right)) == 0);
		ck_assert_int_eq(counts[BINS], (int64_t)0xeeeeeeeeeeeeeeee);
	}
}
END_TEST

/* More bins than numbers; one bin; a width that is not a number. */
START_TEST(histograms_of_odd_shapes_stay_in_bounds)
{
	struct {
		struct job_ref data;
		double low, high;
		struct job_ref counts;
	} args = { { 8, 3 * 8 }, 0.0, 1.0, { 64, 100000 * 8 } };
	int64_t *counts, outside, sum = 0;
	double *data;

	start_mode(1, load("array"));
	data = (double *)(rig.heap + 8);
	counts = (int64_t *)(rig.heap + 64);
	data[0] = 0.0;
	data[1] = nextafter(1.0, 0.0);
	data[2] = 1.0;
	run("array:histogram_f64", &args, sizeof(args));
	result(&outside, sizeof(outside));
	ck_assert_int_eq(outside, 1);
	ck_assert_int_eq(counts[0], 1);
	ck_assert_int_eq(counts[99999], 1);
	for (int i = 0; i < 100000; i++)
		sum += counts[i];
	ck_assert_int_eq(sum, 2);
	args.counts.size = 8;
	args.low = -1.7e308;
	args.high = 1.7e308;
	run("array:histogram_f64", &args, sizeof(args));
	ck_assert_int_eq(counts[0], 3);
	args.data.size = 0;
	run("array:histogram_f64", &args, sizeof(args));
	ck_assert_int_eq(counts[0], 0);
}
END_TEST

START_TEST(malformed_arrays_fail_the_job)
{
	static const struct {
		const char *task;
		struct job_ref data;
		double low, high;
		struct job_ref counts;
		int code;
	} cases[] = {
		{ "array:sum_i64", { 8, 7 }, 0, 0, { 0, 0 }, -EINVAL },
		{ "array:sum_f64", { 8, 12 }, 0, 0, { 0, 0 }, -EINVAL },
		{ "array:prefix_i64", { 8, 9 }, 0, 0, { 0, 0 }, -EINVAL },
		{ "array:minmax_i64", { 8, 0 }, 0, 0, { 0, 0 }, -ENODATA },
		{ "array:stats_f64", { 8, 0 }, 0, 0, { 0, 0 }, -ENODATA },
		{ "array:stats_f64", { 8, 4 }, 0, 0, { 0, 0 }, -EINVAL },
		{ "array:scale_f64", { 8, 15 }, 1, 0, { 0, 0 }, -EINVAL },
		{ "array:histogram_f64", { 8, 8 }, 1, 1, { 16, 8 }, -EINVAL },
		{ "array:histogram_f64", { 8, 8 }, 0, (double)NAN, { 16, 8 }, -EINVAL },
		{ "array:histogram_f64", { 8, 8 }, 0, (double)INFINITY, { 16, 8 }, -EINVAL },
		{ "array:histogram_f64", { 8, 8 }, -(double)INFINITY, 1, { 16, 8 }, -EINVAL },
		{ "array:histogram_f64", { 8, 8 }, 0, 1, { 16, 0 }, -EINVAL },
		{ "array:histogram_f64", { 8, 8 }, 0, 1, { 16, 12 }, -EINVAL },
	};

	start_mode(1, load("array"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t size = !strcmp(cases[i].task, "array:histogram_f64") ? 48
			      : !strcmp(cases[i].task, "array:scale_f64")     ? 24
									      : 16;

		refused(cases[i].task, &cases[i].data, size, cases[i].code);
	}
}
END_TEST

START_TEST(invalid_numbers_fail_the_job)
{
	static const int64_t boards[] = { -1, 17, INT64_MIN, INT64_MAX, (INT64_C(1) << 32) + 8 };
	static const struct {
		double n, eps;
	} strips[] = {
		{ 1, 0 },
		{ 1, -1e-9 },
		{ 1, (double)NAN },
		{ (double)NAN, 1e-3 },
		{ (double)INFINITY, 1e-3 },
		{ -(double)INFINITY, 1e-3 },
	};

	start_mode(1, load("nqueens"));
	for (size_t i = 0; i < sizeof(boards) / sizeof(boards[0]); i++)
		refused("nqueens:nqueens", &boards[i], sizeof(boards[i]), -ERANGE);
	ck_assert_int_eq(rig_call(&rig, "nqueens:nqueens", 0), 1);
	start_mode(1, load("integrate"));
	for (size_t i = 0; i < sizeof(strips) / sizeof(strips[0]); i++)
		refused("integrate:integrate", &strips[i], sizeof(strips[i]), -EINVAL);
	/* Documented: below 2 the number itself. */
	start_mode(1, load("fib"));
	ck_assert_int_eq(rig_call(&rig, "fib:fib", -1), -1);
	ck_assert_int_eq(rig_call(&rig, "fib:fib", INT64_MIN), INT64_MIN);
}
END_TEST

/* Ends at the limits of a double: no crash, and no endless loop. */
START_TEST(integral_with_ends_out_of_range_terminates)
{
	static const struct {
		double n, eps;
	} strips[] = {
		{ 1.7e308, 1 }, { -1.7e308, 1 }, { 1e-310, 5e-324 }, { 1e3, (double)INFINITY },
		{ -10, 1e-3 },
	};

	for_each_mode (m, load("integrate")) {
		for (size_t i = 0; i < sizeof(strips) / sizeof(strips[0]); i++)
			run("integrate:integrate", &strips[i], sizeof(strips[i]));
	}
}
END_TEST

START_TEST(unknown_tree_name_of_any_length_fails)
{
	static const uint64_t sizes[] = { 0, 1, 2, 3, 1000, 100000 };

	start_mode(1, load("uts"));
	memset(rig.heap, 'T', 100000);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct job_ref ref = { 0, sizes[i] };

		refused("uts:uts", &ref, sizeof(ref), -EINVAL);
	}
}
END_TEST

/* The sorts have the same checks as the arrays, and no others. */
START_TEST(malformed_array_is_not_sorted)
{
	static const struct job_ref refs[] = { { 0, 7 }, { 8, 1 }, { 8, 4097 } };

	start_mode(1, load("sort"));
	for (size_t i = 0; i < sizeof(refs) / sizeof(refs[0]); i++) {
		refused("sort:i64", &refs[i], sizeof(refs[i]), -EINVAL);
		refused("sort:f64", &refs[i], sizeof(refs[i]), -EINVAL);
	}
	run("sort:i64", &(struct job_ref){ 0, 0 }, sizeof(struct job_ref));
}
END_TEST

START_TEST(reference_outside_the_heap_fails_the_job)
{
	static const struct job_ref refs[] = {
		{ 0, UINT64_MAX }, { UINT64_MAX, 8 }, { UINT64_MAX - 7, 16 },
		{ 4, 8 },	   { 1 << 20, 8 },
	};

	start_mode(1, load("sort"));
	for (size_t i = 0; i < sizeof(refs) / sizeof(refs[0]); i++)
		refused("sort:i64", &refs[i], sizeof(refs[i]), -FK_E_REFERENCE);
}
END_TEST

CHECK_MAIN("modules")
