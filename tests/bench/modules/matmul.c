/* SPDX-License-Identifier: MIT */
/*
 * matmul.c - matrix multiplication, divide and conquer
 *
 * matmul of tests/bench/kernel.c as tasks: a benchmark of fork and join, without tuning for a CPU's
 * caches and vectors. So it does not ship.
 *
 * INVARIANTS
 *   I1. Both children of a fork write to different parts of c. The two calls that write to the same
 *       part run one after the other.
 */
#include <errno.h>

#include <forkd/task.h>

#include "tests/bench/kernel.h"

#define EDGE_MAX (INT64_C(1) << 20)

FK_TASK(fk_void, multiply,
	(const float *, a, const float *, b, float *, c, int64_t, m, int64_t, k, int64_t, n,
	 int64_t, stride), )
{
	if (m <= KERNEL_MATMUL_EDGE && k <= KERNEL_MATMUL_EDGE && n <= KERNEL_MATMUL_EDGE) {
		kernel_matmul(a, b, c, m, k, n, stride);
		FK_LEAF();
	}
}
FK_BODY(multiply)
{
	if (self->m >= self->k && self->m >= self->n) {
		FK_FORK_VOID(multiply, self->a, self->b, self->c, self->m / 2, self->k, self->n,
			     self->stride);
		FK_CALL_VOID(multiply, self->a + self->m / 2 * self->stride, self->b,
			     self->c + self->m / 2 * self->stride, self->m - self->m / 2, self->k,
			     self->n, self->stride);
		FK_JOIN();
	} else if (self->n >= self->k) {
		FK_FORK_VOID(multiply, self->a, self->b, self->c, self->m, self->k, self->n / 2,
			     self->stride);
		FK_CALL_VOID(multiply, self->a, self->b + self->n / 2, self->c + self->n / 2,
			     self->m, self->k, self->n - self->n / 2, self->stride);
		FK_JOIN();
	} else {
		FK_CALL_VOID(multiply, self->a, self->b, self->c, self->m, self->k / 2, self->n,
			     self->stride);
		FK_CALL_VOID(multiply, self->a + self->k / 2, self->b + self->k / 2 * self->stride,
			     self->c, self->m, self->k - self->k / 2, self->n, self->stride);
	}
	FK_RETURN();
}
FK_END(multiply)

static bool square(struct fk_buf buf, int64_t n)
{
	return buf.size == (uint64_t)(n * n) * sizeof(float) &&
	       (uintptr_t)buf.data % _Alignof(float) == 0;
}

FK_TASK(fk_void, matmul, (struct fk_buf, a, struct fk_buf, b, struct fk_iobuf, c, int64_t, n), )
{
	if (n < 1 || n > EDGE_MAX || !square(a, n) || !square(b, n) || !square(FK_BUF(c), n))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(matmul)
{
	FK_CALL_VOID(multiply, self->a.data, self->b.data, self->c.data, self->n, self->n, self->n,
		     self->n);
	FK_RETURN();
}
FK_END(matmul)

FK_EXPORT(matmul, FK_EXPORT_IN_PLACE, "c += a * b, all of them n x n matrices of float")
FK_MODULE(matmul, "Matrix multiplication")
