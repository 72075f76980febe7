/* SPDX-License-Identifier: MIT */
/*
 * modules/fib.c - the n-th Fibonacci number by naive recursion
 *
 * A fork at every call and no other work, so it measures the cost of a fork. The tree has 2 * fib(n
 * + 1) - 1 tasks, half of them leaves without a frame.
 */
#include <errno.h>

#include <forkd/task.h>

#define FIB_MAX 92 /* the result of 93 does not fit into int64_t */

FK_FINE_TASK(int64_t, fib, (int64_t, n), int64_t x; int64_t y;)
{
	/* One comparison for a task that forks. */
	if ((uint64_t)n - 2 > FIB_MAX - 2) {
		if (n < 0 || n > FIB_MAX)
			FK_LEAF_FAIL(-ERANGE);
		FK_LEAF(n);
	}
}
FK_BODY(fib)
{
	FK_FORK(x, fib, self->n - 1);
	FK_CALL(y, fib, self->n - 2);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(fib)

FK_EXPORT(fib, 0, "The n-th Fibonacci number, n from 0 to 92, with a fork at every call")
FK_MODULE(fib, "Fibonacci numbers: the cost of a fork")
