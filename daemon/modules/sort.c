/* SPDX-License-Identifier: MIT */
/*
 * modules/sort.c - parallel merge sort of a buffer of numbers, in place
 *
 * WHAT IT IS
 *   FK_SORT of forkd/algorithm.h, on numbers of 64 bits. The second buffer comes from malloc().
 *
 * INVARIANTS
 *   I1. The buffer is the client's own memory, and may change at any moment: FK_SORT stays within
 *       bounds (algorithm.h, I2), and comes out with garbage.
 */
#include <errno.h>

#include <forkd/algorithm.h>

#include "modules/array.h"

static inline bool less_i64(const int64_t *a, const int64_t *b)
{
	return *a < *b;
}

/* What is not a number stands last, so that this is an order. */
static inline bool less_f64(const double *a, const double *b)
{
	return *a < *b || (*b != *b && *a == *a);
}

FK_SORT(sort_i64, int64_t, less_i64)
FK_SORT(sort_f64, double, less_f64)

FK_TASK(fk_void, i64, (struct fk_buf, data), )
{
	if (!array_is_whole(data))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(i64)
{
	FK_CALL_VOID(sort_i64, self->data.data, NULL, self->data.size / 8, 0);
	FK_RETURN();
}
FK_END(i64)

FK_TASK(fk_void, f64, (struct fk_buf, data), )
{
	if (!array_is_whole(data))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(f64)
{
	FK_CALL_VOID(sort_f64, self->data.data, NULL, self->data.size / 8, 0);
	FK_RETURN();
}
FK_END(f64)

FK_EXPORT(i64, "data:iobuf -> ", FK_EXPORT_CHANGING_BUFFERS,
	  "Sorts a buffer of 64-bit integers in place")
FK_EXPORT(f64, "data:iobuf -> ", FK_EXPORT_CHANGING_BUFFERS,
	  "Sorts a buffer of 64-bit floating point numbers in place, NaN last")
FK_MODULE(sort, "Parallel merge sort")
