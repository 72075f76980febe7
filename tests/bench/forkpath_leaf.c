/* SPDX-License-Identifier: MIT */
/*
 * forkpath_leaf.c - a loop nest in a first block, forked in a nest of loops
 *
 * The computation of blocks.h: a coarse task whose first block calls a static function of loops,
 * forked in loops around it. forkpath compares three forms, which return the same number for the
 * same n:
 * - fresh: a body that runs in registers; make bench has it next to its peers
 * - resumed: a body that the worker loop has resumed
 * - plain: the same loops around a call of the plain function
 */
#include <errno.h>

#include <forkd/task.h>

#include "tests/bench/blocks.h"

FK_LEAF_TASK(fk_void, block, (int64_t, i, int64_t, j, int64_t, k))
{
	if (i == k || j == k)
		return;
	blocks_multiply(blocks_rows[i], blocks_columns[j], blocks_all[i][j]);
}

#define FORK_ALL()                                                                                 \
	for (self->k = 0; self->k < self->n; self->k++) {                                          \
		for (self->i = 0; self->i < BLOCKS_ROW; self->i++)                                 \
			for (self->j = 0; self->j < BLOCKS_ROW; self->j++)                         \
				FK_FORK_VOID(block, self->i, self->j, self->k % BLOCKS_ROW);       \
		FK_JOIN();                                                                         \
	}

FK_TASK(int64_t, fresh, (int64_t, n), int64_t i; int64_t j; int64_t k;)
{
	if (n > BLOCKS_TIMES)
		FK_LEAF_FAIL(-ERANGE);
	blocks_fill();
}
FK_BODY(fresh)
{
	FORK_ALL();
	FK_RETURN(blocks_sum());
}
FK_END(fresh)

FK_TASK(int64_t, resumed, (int64_t, n), int64_t i; int64_t j; int64_t k; void *memory;)
{
	if (n > BLOCKS_TIMES)
		FK_LEAF_FAIL(-ERANGE);
	blocks_fill();
}
FK_BODY(resumed)
{
	/* A body that allocates leaves its registers. */
	FK_ALLOC(memory, 1);
	FORK_ALL();
	FK_RETURN(blocks_sum());
}
FK_END(resumed)

FK_LEAF_TASK(int64_t, plain, (int64_t, n))
{
	if (n > BLOCKS_TIMES)
		FK_LEAF_FAIL(-ERANGE);
	blocks_fill();
	for (int64_t k = 0; k < n; k++)
		for (int64_t i = 0; i < BLOCKS_ROW; i++)
			for (int64_t j = 0; j < BLOCKS_ROW; j++)
				blocks_update(i, j, k % BLOCKS_ROW);
	return blocks_sum();
}

FK_EXPORT(fresh, 0, "Forks in a body that runs in registers")
FK_EXPORT(resumed, 0, "Forks in a body that was resumed")
FK_EXPORT(plain, 0, "Calls a plain function")
FK_MODULE(leaf, "Cost of a leaf compared with a plain function")
