/* SPDX-License-Identifier: MIT */
#include <forkd/pool.h>

#include "tests/bench/bots/bots.h"

static void edges(int64_t first, int64_t last, void *context)
{
	int k = *(int *)context;
	const float *diagonal = *lu_block(k, k);

	for (int i = (int)first; i < last; i++) {
		if (*lu_block(k, i))
			lu_forward(diagonal, *lu_block(k, i));
		if (*lu_block(i, k))
			lu_divide(diagonal, *lu_block(i, k));
	}
}

static void interior(int64_t first, int64_t last, void *context)
{
	int k = *(int *)context;

	for (int i = (int)first; i < last; i++)
		for (int j = k + 1; j < lu_n; j++)
			if (*lu_block(i, k) && *lu_block(k, j))
				lu_update(*lu_block(i, k), *lu_block(k, j), lu_block(i, j));
}

static void factorize(fk_client *pool, int k)
{
	fk_for(pool, k + 1, lu_n, edges, &k);
	fk_for(pool, k + 1, lu_n, interior, &k);
}

void bots_run(int threads)
{
	fk_client *pool;

	fk_open_local(&(struct fk_local_options){ .workers = (uint32_t)threads }, &pool);
	for (int k = 0; k < lu_n; k++) {
		lu_factor(*lu_block(k, k));
		factorize(pool, k);
	}
	fk_close(pool);
}
