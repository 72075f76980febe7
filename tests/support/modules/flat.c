/* SPDX-License-Identifier: MIT */
/*
 * flat.c - fork, fork, fork ... join
 *
 * The flat loop of tests/bench/work.h: every leaf has its own slot, and the sum of the slots is the
 * result. The slots are destinations of forks, but they are on the root's heap, or in fill in the
 * client's memory.
 */
#include <errno.h>
#include <stdlib.h>

#include <forkd/task.h>

#include "tests/bench/work.h"

FK_LEAF_TASK(uint32_t, leaf, (int64_t, i, int64_t, rounds))
{
	return work_leaf(i, rounds);
}

/* The same without rounds: a few instructions. */
FK_FINE_LEAF_TASK(uint32_t, light, (int64_t, i))
{
	return work_leaf(i, 0);
}

/* Owns the slots. */
FK_DECLARE(int64_t, leaves, (uint32_t *, out, int64_t, n, int64_t, rounds), int64_t i;)
FK_UNWIND(leaves)
{
	free(self->out);
}
FK_DEFINE_UNWIND(int64_t, leaves, (uint32_t *, out, int64_t, n, int64_t, rounds))
FK_NO_LEAF(leaves)
{
	int64_t sum = 0;

	if (!self->out)
		FK_FAIL(-ENOMEM);
	if (self->rounds)
		for (self->i = 0; self->i < self->n; self->i++)
			FK_FORK(out[self->i], leaf, self->i, self->rounds);
	else
		for (self->i = 0; self->i < self->n; self->i++)
			FK_FORK(out[self->i], light, self->i);
	FK_JOIN();
	sum = 0;
	for (int64_t i = 0; i < self->n; i++)
		sum += self->out[i];
	free(self->out);
	FK_RETURN(sum);
}
FK_END(leaves)

FK_TASK(int64_t, rounds, (int64_t, n, int64_t, rounds), int64_t sum;)
{
	if (n <= 0)
		FK_LEAF(0);
}
FK_BODY(rounds)
{
	FK_CALL(sum, leaves, calloc((size_t)self->n, sizeof(uint32_t)), self->n, self->rounds);
	FK_RETURN(self->sum);
}
FK_END(rounds)

FK_TASK(int64_t, flat, (int64_t, n), int64_t sum;)
{
	if (n <= 0)
		FK_LEAF(0);
}
FK_BODY(flat)
{
	FK_CALL(sum, rounds, self->n, 0);
	FK_RETURN(self->sum);
}
FK_END(flat)

FK_TASK(fk_void, fill, (struct fk_iobuf, out, int64_t, rounds), uint32_t *slots; int64_t n;
	int64_t i;)
{
	if (out.size < sizeof(uint32_t))
		FK_LEAF();
}
FK_BODY(fill)
{
	self->slots = self->out.data;
	self->n = (int64_t)(self->out.size / sizeof(*self->slots));
	for (self->i = 0; self->i < self->n; self->i++)
		FK_FORK(slots[self->i], leaf, self->i, self->rounds);
	FK_JOIN();
	FK_RETURN();
}
FK_END(fill)

FK_EXPORT(flat, 0, "The sum of n hashes, a fork for each")
FK_EXPORT(rounds, 0, "The same with leaves of the given rounds")
FK_EXPORT(fill, FK_EXPORT_IN_PLACE,
	  "The same leaves, left in the client's own array of 32-bit numbers")
FK_MODULE(flat, "A flat loop of leaves")
