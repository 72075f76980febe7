/* SPDX-License-Identifier: MIT */
/* fiber_tree.h - the tree of fib.h as a task of fibers, and tasks in which fibers and frames call
 * each other */
#pragma once

#include <stdint.h>

#include <forkd/fiber.h>

#include "tests/support/fib.h"

struct node {
	int64_t n;
	int64_t result;
};

static void add_up(void *arg)
{
	struct node *self = arg, left, right;
	struct fk_counter both = FK_COUNTER;

	self->result = self->n;
	if (self->n < 2)
		return;
	left.n = self->n - 1;
	right.n = self->n - 2;
	(void)fk_fiber_spawn(add_up, &left, &both);
	(void)fk_fiber_spawn(add_up, &right, &both);
	if (fk_counter_wait(&both, 0) == 0)
		self->result = left.result + right.result;
}

FK_FIBER_TASK(int64_t, tree, (int64_t, n))
{
	struct node root = { .n = n };

	add_up(&root);
	return root.result;
}

/* A fiber that runs frames. */
FK_FIBER_TASK(int64_t, calls, (int64_t, n))
{
	int64_t sum = 0, x = 0;

	for (int i = 0; i < 10; i++)
		if (FK_FIBER_CALL(&x, fib, n) == 0)
			sum += x;
	return sum;
}

/* Frames that run fibers. */
FK_TASK(int64_t, both, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(both)
{
	FK_FORK(x, tree, self->n);
	FK_CALL(y, calls, self->n);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(both)
