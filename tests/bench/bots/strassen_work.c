/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bots/bots.h"

#define CHECKED_N 256 /* compared with the plain product up to this side */

int strassen_n;
struct square strassen_a;
struct square strassen_b;
struct square strassen_c;

struct square square_new(int n)
{
	return (struct square){ malloc((size_t)(n * n) * sizeof(double)), n };
}

void square_free(struct square square)
{
	free(square.at);
}

static void multiply(struct square a, struct square b, struct square c, int n)
{
	for (int i = 0; i < n; i++) {
		double *restrict row = c.at + (size_t)i * (size_t)c.stride;

		memset(row, 0, (size_t)n * sizeof(*row));
		for (int k = 0; k < n; k++) {
			const double *restrict other = b.at + (size_t)k * (size_t)b.stride;
			double factor = a.at[(size_t)i * (size_t)a.stride + (size_t)k];

			for (int j = 0; j < n; j++)
				row[j] += factor * other[j];
		}
	}
}

void strassen_leaf(struct square a, struct square b, struct square c)
{
	multiply(a, b, c, STRASSEN_LEAF);
}

/*
 * Strassen, Gaussian Elimination is not Optimal, Numerische Mathematik 13, 1969. The factors of a
 * product are sums of quarters of a and of b: of the upper left, upper right, lower left, lower
 * right one.
 */
static const signed char left_signs[STRASSEN_PRODUCTS][4] = {
	{ 1, 0, 0, 1 }, { 0, 0, 1, 1 },	 { 1, 0, 0, 0 },  { 0, 0, 0, 1 },
	{ 1, 1, 0, 0 }, { -1, 0, 1, 0 }, { 0, 1, 0, -1 },
};
static const signed char right_signs[STRASSEN_PRODUCTS][4] = {
	{ 1, 0, 0, 1 }, { 1, 0, 0, 0 }, { 0, 1, 0, -1 }, { -1, 0, 1, 0 },
	{ 0, 0, 0, 1 }, { 1, 1, 0, 0 }, { 0, 0, 1, 1 },
};

/* Returns the sum of the quarters of a square, n x n each, with these signs. */
static struct square sum(struct square of, const signed char *signs, int n)
{
	struct square ret = square_new(n);

	for (int i = 0; i < n; i++) {
		const double *restrict upper = of.at + (size_t)i * (size_t)of.stride;
		const double *restrict lower = upper + (size_t)n * (size_t)of.stride;
		double *restrict row = ret.at + (size_t)i * (size_t)n;

		for (int j = 0; j < n; j++)
			row[j] = signs[0] * upper[j] + signs[1] * upper[n + j] +
				 signs[2] * lower[j] + signs[3] * lower[n + j];
	}
	return ret;
}

void strassen_factors(struct square a, struct square b, int i, int n, struct square *ret_left,
		      struct square *ret_right)
{
	*ret_left = sum(a, left_signs[i], n);
	*ret_right = sum(b, right_signs[i], n);
}

void strassen_combine(const struct square *m, int n, struct square c)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			int at = i * n + j;
			double *upper = c.at + (size_t)i * (size_t)c.stride + j;
			double *lower = upper + (size_t)n * (size_t)c.stride;

			upper[0] = m[0].at[at] + m[3].at[at] - m[4].at[at] + m[6].at[at];
			upper[n] = m[2].at[at] + m[4].at[at];
			lower[0] = m[1].at[at] + m[3].at[at];
			lower[n] = m[0].at[at] - m[1].at[at] + m[2].at[at] + m[5].at[at];
		}
}

void bots_prepare(int size)
{
	uint64_t random = 1;

	if (strassen_n != size) {
		strassen_n = size;
		strassen_a = square_new(size);
		strassen_b = square_new(size);
		strassen_c = square_new(size);
	}
	for (int i = 0; i < size * size; i++) {
		strassen_a.at[i] = bots_random(&random) % 1000;
		strassen_b.at[i] = bots_random(&random) % 1000;
		strassen_c.at[i] = 0;
	}
}

/* All numbers are integers that a double holds, so every result is exact. */
uint64_t bots_result(void)
{
	size_t bytes = (size_t)(strassen_n * strassen_n) * sizeof(double);
	uint64_t hash = 1;

	for (int i = 0; i < strassen_n * strassen_n; i++)
		hash = bots_hash(hash, (uint64_t)strassen_c.at[i]);
	if (strassen_n <= CHECKED_N) {
		struct square plain = square_new(strassen_n);

		multiply(strassen_a, strassen_b, plain, strassen_n);
		if (memcmp(plain.at, strassen_c.at, bytes))
			hash = 0;
		square_free(plain);
	}
	return hash;
}
