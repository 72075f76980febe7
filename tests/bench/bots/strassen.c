/* SPDX-License-Identifier: MIT */
#include "tests/bench/bots/bots.h"

static void multiply(struct square a, struct square b, struct square c, int n)
{
	struct square products[STRASSEN_PRODUCTS];

	if (n == STRASSEN_LEAF) {
		strassen_leaf(a, b, c);
		return;
	}
	for (int i = 0; i < STRASSEN_PRODUCTS; i++) {
		struct square left;
		struct square right;

		products[i] = square_new(n / 2);
		strassen_factors(a, b, i, n / 2, &left, &right);
		multiply(left, right, products[i], n / 2);
		square_free(left);
		square_free(right);
	}
	strassen_combine(products, n / 2, c);
	for (int i = 0; i < STRASSEN_PRODUCTS; i++)
		square_free(products[i]);
}

void bots_run(int threads)
{
	(void)threads;
	multiply(strassen_a, strassen_b, strassen_c, strassen_n);
}
