/* SPDX-License-Identifier: MIT */
#include <forkd/pool.h>
#include <forkd/task.h>

#include "tests/bench/bots/bots.h"

FK_TASK(fk_void, multiply, (const struct product *, of, int, n),
	struct product products[STRASSEN_PRODUCTS];
	int i;)
{
	if (n == STRASSEN_LEAF) {
		strassen_leaf(of);
		FK_LEAF();
	}
}
FK_BODY(multiply)
{
	for (self->i = 0; self->i < STRASSEN_PRODUCTS; self->i++) {
		strassen_factors(self->of, self->i, self->n / 2, &self->products[self->i]);
		FK_FORK_VOID(multiply, &self->products[self->i], self->n / 2);
	}
	FK_JOIN();
	strassen_combine(self->products, self->n / 2, self->of);
	FK_RETURN();
}
FK_END(multiply)

void bots_run(int threads)
{
	fk_client *pool;

	fk_open_local(&(struct fk_local_options){ .workers = (uint32_t)threads }, &pool);
	FK_RUN(pool, NULL, multiply, &strassen_root, strassen_n);
	fk_close(pool);
}
