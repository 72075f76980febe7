/* SPDX-License-Identifier: MIT */
#include "tests/bench/bots/bots.h"

static void multiply(const struct product *of, int n)
{
	struct product products[STRASSEN_PRODUCTS];

	if (n == STRASSEN_LEAF) {
		strassen_leaf(of);
		return;
	}
	for (int i = 0; i < STRASSEN_PRODUCTS; i++) {
		strassen_factors(of, i, n / 2, &products[i]);
#pragma omp task shared(products)
		multiply(&products[i], n / 2);
	}
#pragma omp taskwait
	strassen_combine(products, n / 2, of);
}

void bots_run(int threads)
{
#pragma omp parallel num_threads(threads)
#pragma omp single
	multiply(&strassen_root, strassen_n);
}
