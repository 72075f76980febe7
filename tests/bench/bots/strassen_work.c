/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bots/bots.h"

#define CHECKED_N 256 /* compared with the plain product up to this side */

#define SQUARE_REST 72 /* numbers behind a square */

int strassen_n;
struct product strassen_root;

/* The rest makes blocks that follow each other begin at different offsets within a page. Rows of
 * several squares at the same offset slow the serial program by half. */
static struct square square_new(int n)
{
	return (struct square){ malloc((size_t)(n * n + SQUARE_REST) * sizeof(double)), n };
}

static void product_fini(const struct product *product)
{
	free(product->left.at);
	free(product->right.at);
	free(product->result.at);
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

void strassen_leaf(const struct product *of)
{
	multiply(of->left, of->right, of->result, STRASSEN_LEAF);
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

void strassen_factors(const struct product *of, int i, int n, struct product *ret_product)
{
	ret_product->left = sum(of->left, left_signs[i], n);
	ret_product->right = sum(of->right, right_signs[i], n);
	ret_product->result = square_new(n);
}

void strassen_combine(const struct product *m, int n, const struct product *of)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			int at = i * n + j;
			double *upper = of->result.at + (size_t)i * (size_t)of->result.stride + j;
			double *lower = upper + (size_t)n * (size_t)of->result.stride;

			upper[0] = m[0].result.at[at] + m[3].result.at[at] - m[4].result.at[at] +
				   m[6].result.at[at];
			upper[n] = m[2].result.at[at] + m[4].result.at[at];
			lower[0] = m[1].result.at[at] + m[3].result.at[at];
			lower[n] = m[0].result.at[at] - m[1].result.at[at] + m[2].result.at[at] +
				   m[5].result.at[at];
		}
	for (int i = 0; i < STRASSEN_PRODUCTS; i++)
		product_fini(&m[i]);
}

void bots_prepare(int size)
{
	uint64_t random = 1;

	product_fini(&strassen_root);
	strassen_n = size;
	strassen_root = (struct product){ square_new(size), square_new(size), square_new(size) };
	for (int i = 0; i < size * size; i++) {
		strassen_root.left.at[i] = bots_random(&random) % 1000;
		strassen_root.right.at[i] = bots_random(&random) % 1000;
		strassen_root.result.at[i] = 0;
	}
}

/* All numbers are integers that a double holds, so every result is exact. */
uint64_t bots_result(void)
{
	size_t bytes = (size_t)(strassen_n * strassen_n) * sizeof(double);
	uint64_t hash = 1;

	for (int i = 0; i < strassen_n * strassen_n; i++)
		hash = bots_hash(hash, (uint64_t)strassen_root.result.at[i]);
	if (strassen_n <= CHECKED_N) {
		struct square plain = square_new(strassen_n);

		multiply(strassen_root.left, strassen_root.right, plain, strassen_n);
		if (memcmp(plain.at, strassen_root.result.at, bytes))
			hash = 0;
		free(plain.at);
	}
	return hash;
}
