/* SPDX-License-Identifier: MIT */
/* forkd/algorithm/fold.h: folds against plain loops. */
#define CHECK_TIMEOUT 300

#include <check.h>
#include <stdint.h>
#include <string.h>

#include <forkd/algorithm.h>

#include "tests/support/algorithm.h"
#include "tests/support/check_unit.h"

static int64_t numbers[MAX];

static struct affine follow_number(struct affine f, int64_t i, const int64_t *table)
{
	return follow(f, &table[i - ask.from]);
}

static double add_inverse(double sum, const int64_t *x, double context)
{
	return sum + context / (double)*x;
}

FK_FOLD(fold_affine, int64_t, struct affine, ((struct affine){ 1, 0 }), follow, compose)
FK_FOLD_RANGE(fold_numbers, struct affine, ((struct affine){ 1, 0 }), follow_number, compose,
	      const int64_t *)
FK_FOLD(fold_double, int64_t, double, 0.0, add_inverse, fk_add_f64, double)

static struct affine affine;
static double real;

JOB(job_fold, struct affine, affine, fold_affine, numbers, ask.n, ask.grain)
JOB(job_fold_range, struct affine, affine, fold_numbers, ask.from, ask.to, ask.grain, numbers)
JOB(job_fold_double, double, real, fold_double, numbers, ask.n, ask.grain, 0.1)

START_TEST(fold_combines_in_the_order_of_the_array)
{
	fill_random(numbers);
	for_each_mode (m, &fk_module) {
		for_each_size_and_grain () {
			struct affine right = { 1, 0 };

			for (size_t i = 0; i < ask.n; i++)
				right = follow(right, &numbers[i]);
			affine = (struct affine){ 0, 0 };
			run(job_fold);
			ck_assert_uint_eq(affine.a, right.a);
			ck_assert_uint_eq(affine.b, right.b);
			ask.from = -100;
			ask.to = ask.from + (int64_t)ask.n;
			affine = (struct affine){ 0, 0 };
			run(job_fold_range);
			ck_assert_uint_eq(affine.a, right.a);
			ck_assert_uint_eq(affine.b, right.b);
		}
	}
}
END_TEST

/* The tree that algorithm.h promises. */
static double fold_reference(const int64_t *data, size_t n, size_t grain)
{
	double sum = 0;

	if (n > grain)
		return fold_reference(data, n / 2, grain) +
		       fold_reference(data + n / 2, n - n / 2, grain);
	for (size_t i = 0; i < n; i++)
		sum = add_inverse(sum, &data[i], 0.1);
	return sum;
}

START_TEST(floating_point_fold_depends_only_on_n_and_grain)
{
	double right[N_GRAINS];

	for (size_t i = 0; i < MAX; i++)
		numbers[i] = (int64_t)i - 9999 + (i == 9999);
	for (size_t g = 0; g < N_GRAINS; g++)
		right[g] = fold_reference(numbers, MAX, FK_GRAIN_OF(grains[g], int64_t));
	/* Otherwise any order would do. */
	ck_assert(right[0] != right[1] && right[1] != right[2] && right[2] != right[3]);
	ask.n = MAX;
	for_each_mode (m, &fk_module) {
		for (size_t g = 0; g < N_GRAINS; g++) {
			ask.grain = grains[g];
			run(job_fold_double);
			ck_assert(memcmp(&real, &right[g], sizeof(real)) == 0);
		}
	}
}
END_TEST

FK_MODULE(algorithm, "Algorithms, to be tested")

CHECK_MAIN("fold")
