/* SPDX-License-Identifier: MIT */
/*
 * modules/fib.c - the n-th Fibonacci number by naive recursion
 *
 * A fork at every call and nothing to do besides: the cost of a fork and of nothing else. The tree
 * has 2 * fib(n + 1) - 1 tasks, half of them leaves that never take a frame. What is below 2 is its
 * own result, negative numbers too; an n whose result has more than 64 bits (93) takes centuries,
 * or more stack than a job may have, before it could overflow.
 */
#include <forkd/task.h>

FK_FINE_TASK(int64_t, fib, (int64_t, n), int64_t x; int64_t y;)
{
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(fib)
{
	FK_FORK(x, fib, self->n - 1);
	FK_CALL(y, fib, self->n - 2);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(fib)

FK_EXPORT(fib, 0, "The n-th Fibonacci number, a fork at every call")
FK_MODULE(fib, "Fibonacci numbers: the cost of a fork")
