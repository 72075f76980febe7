/* SPDX-License-Identifier: MIT */
/* forkd/algorithm/scan.h: scans compared with plain loops, and their memory. */
#define CHECK_TIMEOUT 300

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tests/support/counted.h"

#include <forkd/algorithm.h>

#include "tests/support/algorithm.h"
#include "tests/support/check_unit.h"
#include "tests/support/counted_fail.h"

static int64_t numbers[MAX], others[MAX];
static struct affine affine;
static double real;

static struct affine prefixes[MAX + GUARD];

static int64_t add_number(int64_t sum, const int64_t *x, int64_t context)
{
	return fk_add_i64(sum, (int64_t)((uint64_t)*x * (uint64_t)context));
}

static double add_real(double sum, const double *x)
{
	return sum + *x;
}

FK_SCAN(scan_affine, int64_t, struct affine, ((struct affine){ 1, 0 }), follow, compose)
FK_SCAN_EXCLUSIVE(scan_affine_exclusive, int64_t, struct affine, ((struct affine){ 1, 0 }), follow,
		  compose)
FK_SCAN(scan_sum, int64_t, int64_t, 0, add_number, fk_add_i64, int64_t)
FK_SCAN_EXCLUSIVE(scan_sum_exclusive, int64_t, int64_t, 0, add_number, fk_add_i64, int64_t)
FK_SCAN(scan_real, double, double, 0.0, add_real, fk_add_f64)

static int64_t total;
static double reals[MAX], running[MAX];
static void *mixed;

JOB(job_scan, struct affine, affine, scan_affine, numbers, prefixes, ask.n, ask.grain)
JOB(job_scan_exclusive, struct affine, affine, scan_affine_exclusive, numbers, prefixes, ask.n,
    ask.grain)
JOB(job_scan_in_place, int64_t, total, scan_sum, others, others, ask.n, ask.grain, 3)
JOB(job_scan_exclusive_in_place, int64_t, total, scan_sum_exclusive, others, others, ask.n,
    ask.grain, 3)
JOB(job_scan_real, double, real, scan_real, reals, running, ask.n, ask.grain)

static void expect_prefixes(bool exclusive)
{
	struct affine sum = { 1, 0 };

	for (size_t i = 0; i < ask.n; i++) {
		struct affine next = follow(sum, &numbers[i]);

		must(prefixes[i].a == (exclusive ? sum.a : next.a));
		must(prefixes[i].b == (exclusive ? sum.b : next.b));
		sum = next;
	}
	ck_assert_uint_eq(affine.a, sum.a);
	ck_assert_uint_eq(affine.b, sum.b);
	for (size_t i = ask.n; i < MAX + GUARD; i++)
		must((prefixes[i].a | prefixes[i].b) == 0);
}

START_TEST(scan_is_the_plain_loop)
{
	fill_random(numbers);
	for_each_mode (m, &fk_module) {
		for_each_size_and_grain () {
			memset(prefixes, 0, sizeof(prefixes));
			run(job_scan);
			expect_prefixes(false);
			memset(prefixes, 0, sizeof(prefixes));
			run(job_scan_exclusive);
			expect_prefixes(true);
		}
	}
}
END_TEST

START_TEST(scan_in_place_is_the_plain_loop)
{
	fill_random(numbers);
	for_each_mode (m, &fk_module) {
		for_each_size_and_grain () {
			for (int exclusive = 0; exclusive < 2; exclusive++) {
				int64_t sum = 0;

				memcpy(others, numbers, sizeof(others));
				if (exclusive)
					run(job_scan_exclusive_in_place);
				else
					run(job_scan_in_place);
				for (size_t i = 0; i < ask.n; i++) {
					int64_t next = add_number(sum, &numbers[i], 3);

					must(others[i] == (exclusive ? sum : next));
					sum = next;
				}
				ck_assert_int_eq(total, sum);
				for (size_t i = ask.n; i < MAX; i++)
					must(others[i] == numbers[i]);
			}
		}
	}
}
END_TEST

/* A number is read as one type and written as another, in the same place. */
static double add_converted(double sum, const int64_t *x)
{
	return sum + (double)*x;
}

FK_SCAN(scan_converted, int64_t, double, 0.0, add_converted, fk_add_f64)
FK_SCAN_EXCLUSIVE(scan_converted_exclusive, int64_t, double, 0.0, add_converted, fk_add_f64)
JOB(job_scan_converted, double, real, scan_converted, (const int64_t *)mixed, (double *)mixed,
    ask.n, ask.grain)
JOB(job_scan_converted_exclusive, double, real, scan_converted_exclusive, (const int64_t *)mixed,
    (double *)mixed, ask.n, ask.grain)

START_TEST(scan_in_place_into_another_type_of_the_same_size_is_the_plain_loop)
{
	mixed = malloc(MAX * sizeof(double));
	for_each_mode (m, &fk_module) {
		for_each_size_and_grain () {
			for (int exclusive = 0; exclusive < 2; exclusive++) {
				double sum = 0, out;

				for (size_t i = 0; i < ask.n; i++)
					((int64_t *)mixed)[i] = (int64_t)i * 3 - 5;
				if (exclusive)
					run(job_scan_converted_exclusive);
				else
					run(job_scan_converted);
				for (size_t i = 0; i < ask.n; i++) {
					double next = sum + (double)((int64_t)i * 3 - 5);

					memcpy(&out, (char *)mixed + i * sizeof(out), sizeof(out));
					must(out == (exclusive ? sum : next));
					sum = next;
				}
				ck_assert(real == sum);
			}
		}
	}
	free(mixed);
}
END_TEST

START_TEST(floating_point_scan_depends_only_on_n_and_grain)
{
	static double right[N_GRAINS][MAX];

	for (size_t i = 0; i < MAX; i++)
		reals[i] = 1.0 / ((double)i - 9999.5);
	ask.n = MAX;
	for_each_mode (m, &fk_module) {
		for (size_t g = 0; g < N_GRAINS; g++) {
			ask.grain = grains[g];
			run(job_scan_real);
			if (m == 0)
				memcpy(right[g], running, sizeof(running));
			ck_assert(memcmp(right[g], running, sizeof(running)) == 0);
		}
	}
	/* Otherwise any order would do. */
	ck_assert(memcmp(right[1], right[2], sizeof(running)) != 0);
	for (size_t i = 0; i < MAX; i++)
		must(fabs(right[1][i] - right[2][i]) < 1e-9);
}
END_TEST

/* A sum is as large as two elements. For two blocks, the way up and the way down fork once each. */
START_TEST(larger_type_determines_the_block_of_a_scan)
{
	fill_random(numbers);
	memset(prefixes, 0, sizeof(prefixes));
	ask.grain = 0;
	ask.n = FK_LEAF_BYTES / sizeof(struct affine);
	rig_start(&rig, 1, &fk_module, true);
	run(job_scan);
	ck_assert_uint_eq(rig_counter(&rig, steals), 0);
	ask.n *= 2;
	run(job_scan);
	ck_assert_uint_eq(rig_counter(&rig, steals), 2);
	expect_prefixes(false);
	rig_stop(&rig);
}
END_TEST

/* ---------------------------------------------------------------- memory */

/* More elements than any memory holds: the task must not access one before it fails. */
JOB(job_scan_huge, int64_t, total, scan_sum, others, others, SIZE_MAX / 2, 1, 3)

START_TEST(without_temporary_memory_a_scan_fails)
{
	start_mode(0, &fk_module);
	fails("algorithm:job_scan_huge", -ENOMEM);
}
END_TEST

static int64_t failing_add(int64_t sum, const int64_t *x)
{
	counted_fail_here();
	return fk_add_i64(sum, *x);
}

FK_SCAN(failing_scan, int64_t, int64_t, 0, failing_add, fk_add_i64)
JOB(job_failing_scan, int64_t, total, failing_scan, numbers, others, ask.n, ask.grain)

static void scan_works(void)
{
	memset(prefixes, 0, sizeof(prefixes));
	run(job_scan);
	expect_prefixes(false);
}

START_TEST(temporary_memory_is_freed_if_the_job_fails)
{
	counted_fail_in_the_middle("algorithm:job_failing_scan", NULL, scan_works);
}
END_TEST

START_TEST(temporary_memory_is_freed_if_an_allocation_fails)
{
	counted_fail_as_it_is_taken("algorithm:job_failing_scan", NULL);
}
END_TEST

FK_MODULE(algorithm, "Algorithms, to be tested")

CHECK_MAIN("scan")
