/* SPDX-License-Identifier: MIT */
/*
 * busy.c - tasks of a known length
 *
 * spin is a leaf of n rounds of arithmetic, each of them a few cycles; tree forks n such leaves
 * through a binary tree. pit has as many nested forks, each followed by a leaf. At the bottom it
 * sets a flag in the client's buffer, and runs a tree.
 */
#include <errno.h>
#include <stdatomic.h>

#include <forkd/task.h>

#include "tests/bench/work.h"

#define LEAVES_MAX (INT64_C(1) << 40)

FK_LEAF_TASK(int64_t, spin, (int64_t, i, int64_t, rounds))
{
	return work_leaf(i, rounds);
}

FK_TASK(int64_t, leaves, (int64_t, first, int64_t, n, int64_t, rounds), int64_t x; int64_t y;)
{
	if (n == 1)
		FK_LEAF(work_leaf(first, rounds));
}
FK_BODY(leaves)
{
	FK_FORK(x, leaves, self->first, self->n / 2, self->rounds);
	FK_CALL(y, leaves, self->first + self->n / 2, self->n - self->n / 2, self->rounds);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(leaves)

FK_TASK(int64_t, tree, (int64_t, n, int64_t, rounds), int64_t sum;)
{
	if (n < 1 || n > LEAVES_MAX)
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(tree)
{
	FK_CALL(sum, leaves, 0, self->n, self->rounds);
	FK_RETURN(self->sum);
}
FK_END(tree)

FK_FINE_TASK(int64_t, nested, (int64_t, n, _Atomic uint32_t *, flag, int64_t, rounds),
	     int64_t below;
	     int64_t own;)
{
	if (n < 0)
		FK_LEAF(0);
}
FK_BODY(nested)
{
	self->own = 0;
	if (self->n > 0) {
		FK_FORK(below, nested, self->n - 1, self->flag, self->rounds);
		FK_CALL(own, spin, self->n, self->rounds);
	} else {
		/* Relaxed: only the flag is passed. */
		atomic_store_explicit(self->flag, 1, memory_order_relaxed);
		FK_CALL(below, leaves, 0, LEAVES_MAX, self->rounds);
	}
	FK_JOIN();
	FK_RETURN(self->below + self->own);
}
FK_END(nested)

FK_TASK(int64_t, pit, (int64_t, n, int64_t, rounds, struct fk_iobuf, flag), int64_t sum;)
{
	if (n < 1 || flag.size < sizeof(uint32_t))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(pit)
{
	FK_CALL(sum, nested, self->n, self->flag.data, self->rounds);
	FK_RETURN(self->sum);
}
FK_END(pit)

FK_EXPORT(spin, 0, "A hash of i in the given rounds")
FK_EXPORT(tree, 0, "The sum of n such hashes, a fork for each")
FK_EXPORT(pit, FK_EXPORT_IN_PLACE,
	  "A tree without end under n forks; flag, a 32-bit number, is 1 from then on")
FK_MODULE(busy, "Tasks of a known length")
