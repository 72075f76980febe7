/* SPDX-License-Identifier: MIT */
/*
 * msort.c - the merge sort of tests/bench/work.h
 *
 * The algorithm of every peer. The shipped module sort has another one.
 *
 * INVARIANTS
 *   I1. The buffers are the client's, and may change at any moment. All indices and ends of loops
 *       depend on sizes; the results of work_merge_split() are within such bounds.
 */
#include <errno.h>

#include <forkd/task.h>

#include "tests/bench/work.h"

FK_TASK(fk_void, merge,
	(const int64_t *, a, int64_t, na, const int64_t *, b, int64_t, nb, int64_t *, out),
	int64_t k;
	int64_t i;)
{
	if (na + nb <= WORK_MERGE_CUTOFF) {
		work_merge(a, na, b, nb, out);
		FK_LEAF();
	}
}
FK_BODY(merge)
{
	self->k = (self->na + self->nb) / 2;
	self->i = work_merge_split(self->a, self->na, self->b, self->nb, self->k);
	FK_FORK_VOID(merge, self->a, self->i, self->b, self->k - self->i, self->out);
	FK_CALL_VOID(merge, self->a + self->i, self->na - self->i, self->b + (self->k - self->i),
		     self->nb - self->k + self->i, self->out + self->k);
	FK_JOIN();
	FK_RETURN();
}
FK_END(merge)

FK_TASK(fk_void, halves, (int64_t *, a, int64_t *, tmp, int64_t, n, int64_t, to_tmp), )
{
	if (n <= WORK_SORT_CUTOFF) {
		work_sort_leaf(a, tmp, n, to_tmp);
		FK_LEAF();
	}
}
FK_BODY(halves)
{
	const int64_t *from;
	int64_t half;

	FK_FORK_VOID(halves, self->a, self->tmp, self->n / 2, !self->to_tmp);
	FK_CALL_VOID(halves, self->a + self->n / 2, self->tmp + self->n / 2, self->n - self->n / 2,
		     !self->to_tmp);
	FK_JOIN();
	from = self->to_tmp ? self->a : self->tmp;
	half = self->n / 2;
	FK_CALL_VOID(merge, from, half, from + half, self->n - half,
		     self->to_tmp ? self->tmp : self->a);
	FK_RETURN();
}
FK_END(halves)

FK_TASK(fk_void, msort, (struct fk_iobuf, data, struct fk_iobuf, tmp), )
{
	if (data.size != tmp.size || data.size % sizeof(int64_t) ||
	    ((uintptr_t)data.data | (uintptr_t)tmp.data) % _Alignof(int64_t))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(msort)
{
	FK_CALL_VOID(halves, self->data.data, self->tmp.data,
		     (int64_t)(self->data.size / sizeof(int64_t)), false);
	FK_RETURN();
}
FK_END(msort)

FK_EXPORT(msort, FK_EXPORT_IN_PLACE,
	  "Sorts a buffer of 64-bit integers in place, with a second one as large")
FK_MODULE(msort, "The merge sort of the benchmarks")
