/* SPDX-License-Identifier: MIT */
/*
 * loop.c - forkd's side of bench_compose
 *
 * sum adds up the leaves of compose_leaf.c, each of them forked.
 */
#include <errno.h>

#include <forkd/algorithm.h>

#include "tests/bench/compose.h"

static int64_t add_leaf(int64_t sum, int64_t i, int64_t rounds)
{
	return fk_add_i64(sum, compose_leaf(i, rounds));
}

FK_FOLD_RANGE(range, int64_t, 0, add_leaf, fk_add_i64, int64_t)

FK_TASK(int64_t, sum, (int64_t, leaves, int64_t, rounds), int64_t all;)
{
	if (leaves < 1)
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(sum)
{
	FK_CALL(all, range, 0, self->leaves, 1, self->rounds);
	FK_RETURN(self->all);
}
FK_END(sum)

FK_EXPORT(sum, 0, "The sum of the given number of leaves, a fork for each")
FK_MODULE(loop, "A parallel loop")
