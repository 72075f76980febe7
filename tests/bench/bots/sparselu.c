/* SPDX-License-Identifier: MIT */
#include "tests/bench/bots/bots.h"

static void factorize(int k)
{
	const float *diagonal = *lu_block(k, k);

	for (int i = k + 1; i < lu_n; i++) {
		if (*lu_block(k, i))
			lu_forward(diagonal, *lu_block(k, i));
		if (*lu_block(i, k))
			lu_divide(diagonal, *lu_block(i, k));
	}
	for (int i = k + 1; i < lu_n; i++)
		for (int j = k + 1; j < lu_n; j++)
			if (*lu_block(i, k) && *lu_block(k, j))
				lu_update(*lu_block(i, k), *lu_block(k, j), lu_block(i, j));
}

void bots_run(int threads)
{
	(void)threads;
	for (int k = 0; k < lu_n; k++) {
		lu_factor(*lu_block(k, k));
		factorize(k);
	}
}
