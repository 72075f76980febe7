/* SPDX-License-Identifier: MIT */
/* fiber_tasks_trees.h - tasks that are trees: of fibers, of frames, and of each within the other */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "tests/support/fiber_rig.h"
#include "tests/support/fiber_tree.h"

FK_EXPORT(tree, 0, "The n-th Fibonacci number, a fiber for each call")
FK_EXPORT(calls, 0, "Ten times the n-th Fibonacci number, by frames")
FK_EXPORT(both, 0, "Eleven times the n-th Fibonacci number")

FK_DECLARE(int64_t, nested, (int64_t, n), int64_t x;)

FK_FIBER_TASK(int64_t, nested_fiber, (int64_t, n))
{
	int64_t x = 0;

	if (n && FK_FIBER_CALL(&x, nested, n - 1) < 0)
		return -1;
	return x + (n > 0);
}

FK_DEFINE(int64_t, nested, (int64_t, n))
FK_NO_LEAF(nested)
{
	if (self->n % 2) {
		FK_FORK(x, nested_fiber, self->n);
		FK_JOIN();
	} else {
		FK_CALL(x, nested_fiber, self->n);
	}
	FK_RETURN(self->x);
}
FK_END(nested)
FK_EXPORT(nested, 0, "Frames in fibers in frames")

static void yields_thrice(void *arg)
{
	int64_t *n = arg;

	for (int i = 0; i < 3; i++)
		(void)fk_fiber_yield();
	*n += 1;
}

FK_FIBER_TASK(int64_t, yielding_leaf, (int64_t, n))
{
	struct fk_counter one = FK_COUNTER;

	(void)fk_fiber_yield();
	(void)fk_fiber_spawn(yields_thrice, &n, &one);
	(void)fk_fiber_yield();
	(void)fk_counter_wait(&one, 0);
	return n - 1;
}

/* Frames whose continuations are in the deque while fibers below them yield. */
FK_TASK(int64_t, yielding, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(yielding)
{
	if (self->n < 2) {
		FK_CALL(x, yielding_leaf, self->n);
		FK_RETURN(self->x);
	}
	FK_FORK(x, yielding, self->n - 1);
	FK_CALL(y, yielding, self->n - 2);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(yielding)
FK_EXPORT(yielding, 0, "The n-th Fibonacci number, whose leaves are fibers")

static void late(void *arg)
{
	(void)arg;
	for (int i = 0; i < 5; i++)
		(void)fk_fiber_yield();
	atomic_fetch_add(&ended, 1);
}

/* Waits for no child. */
FK_FIBER_TASK(int64_t, leaves_orphans, (int64_t, n))
{
	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(late, NULL, NULL);
	return n;
}

FK_TASK(int64_t, orphans, (int64_t, n), int64_t x;)
FK_NO_LEAF(orphans)
{
	FK_CALL(x, leaves_orphans, self->n);
	FK_RETURN(atomic_load(&ended));
}
FK_END(orphans)
FK_EXPORT(orphans, 0, "How many of its fibers had ended when their task had")
