/* SPDX-License-Identifier: MIT */
/* fib.h - a tree of known size and result, as a task of the file that includes it */
#pragma once

#include <stdint.h>

#include <forkd/task.h>

FK_TASK(int64_t, fib, (int64_t, n), int64_t x; int64_t y;)
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
