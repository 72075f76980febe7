/* SPDX-License-Identifier: MIT */
#include <forkd/pool.hpp>

#include "tests/bench/bots/bots.h"

static void factorize(int k)
{
	const float *diagonal = *lu_block(k, k);

	fk::parallel_for(k + 1, lu_n, [&](int i) {
		if (*lu_block(k, i))
			lu_forward(diagonal, *lu_block(k, i));
		if (*lu_block(i, k))
			lu_divide(diagonal, *lu_block(i, k));
	});
	fk::parallel_for(k + 1, lu_n, [&](int i) {
		for (int j = k + 1; j < lu_n; j++)
			if (*lu_block(i, k) && *lu_block(k, j))
				lu_update(*lu_block(i, k), *lu_block(k, j), lu_block(i, j));
	});
}

void bots_run(int threads)
{
	fk::pool pool(threads);

	pool.parallel_invoke([] {
		for (int k = 0; k < lu_n; k++) {
			lu_factor(*lu_block(k, k));
			factorize(k);
		}
	});
}
