/* SPDX-License-Identifier: MIT */
#include <forkd/pool.hpp>

#include "tests/bench/bots/bots.h"

static void multiply(const struct product *of, int n)
{
	struct product products[STRASSEN_PRODUCTS];

	if (n == STRASSEN_LEAF) {
		strassen_leaf(of);
		return;
	}
	fk::parallel_for(0, STRASSEN_PRODUCTS, [&](int i) {
		strassen_factors(of, i, n / 2, &products[i]);
		multiply(&products[i], n / 2);
	});
	strassen_combine(products, n / 2, of);
}

void bots_run(int threads)
{
	fk::pool pool(threads);

	pool.parallel_invoke([] { multiply(&strassen_root, strassen_n); });
}
