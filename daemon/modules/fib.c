/* SPDX-License-Identifier: MIT */
/*
 * modules/fib.c - the n-th Fibonacci number by naive recursion
 *
 * A fork at every call and no other work, so it measures the cost of a fork. The tree has 2 * fib(n
 * + 1) - 1 tasks, half of them leaves without a frame. The result of n < 2 is n, also for negative
 * n. An n whose result exceeds 64 bits (93) would take centuries, or exceed the stack limit of a
 * job.
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
