/* SPDX-License-Identifier: MIT */
/* fibers.c - workloads that are fibers alone; those in steps are in steps.c */
#include <errno.h>

#include <forkd/fiber.h>

#include "tests/bench/fiber_forkd.h"
#include "tests/bench/fiber_work.h"

FK_FIBER_TASK(int64_t, fib, (int64_t, n, int64_t, cutoff))
{
	if (n < 0 || cutoff < 1)
		return fk_fiber_fail(-EINVAL);
	return fiber_cut_fib(n, cutoff);
}
FK_EXPORT(fib, 0, "The n-th Fibonacci number, by fibers down to a cutoff")

FK_FIBER_TASK(int64_t, nqueens, (int64_t, n, int64_t, rows))
{
	if (n < 1 || n > WORK_BOARD_MAX || rows < 0 || rows > n)
		return fk_fiber_fail(-EINVAL);
	return fiber_cut_nqueens((int32_t)n, (int32_t)rows);
}
FK_EXPORT(nqueens, 0, "Ways to place n queens, by fibers for the given rows")

FK_MODULE(fibers, "Workloads that are fibers")
