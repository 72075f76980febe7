/* SPDX-License-Identifier: MIT */
/*
 * tasks.h - tasks that several tests use, in the module of the file that includes it
 *
 * Trees and chains that end, each with a known result, and tasks that do not end. The latter count
 * themselves in tasks_reached, and some of them end once tasks_opened is set. All are exported.
 */
#pragma once

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include <forkd/task.h>

#include "tests/support/fib.h"

static _Atomic uint64_t tasks_reached; /* tasks that have reached their endless part */
static _Atomic uint32_t tasks_opened;  /* 1: held and until end */

FK_LEAF_TASK(int64_t, leaf, (int64_t, n))
{
	return n;
}

/* Depth through calls, and through forks. */
FK_TASK(int64_t, called, (int64_t, n), int64_t x;)
{
	if (n == 0)
		FK_LEAF(0);
}
FK_BODY(called)
{
	FK_CALL(x, called, self->n - 1);
	FK_RETURN(self->x + 1);
}
FK_END(called)

FK_TASK(int64_t, forked, (int64_t, n), int64_t x;)
{
	if (n == 0)
		FK_LEAF(0);
}
FK_BODY(forked)
{
	FK_FORK(x, forked, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x + 1);
}
FK_END(forked)

/* Fails at the bottom of a chain; in a tree, at its leaves 3 and, from 100, after its join. */
FK_TASK(int64_t, fails_below, (int64_t, n), int64_t x;)
FK_NO_LEAF(fails_below)
{
	if (self->n == 0)
		FK_FAIL(-EDOM);
	FK_FORK(x, fails_below, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(fails_below)

FK_TASK(int64_t, failing, (int64_t, n), int64_t x; int64_t y;)
{
	if (n == 3)
		FK_LEAF_FAIL(77);
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(failing)
{
	FK_FORK(x, failing, self->n - 1);
	FK_FORK(y, failing, self->n - 2);
	FK_JOIN();
	if (self->n == 100)
		FK_FAIL(78);
	FK_RETURN(self->x + self->y);
}
FK_END(failing)

/* Forks forever. */
FK_TASK(int64_t, flat, (int64_t, n), int64_t x;)
FK_NO_LEAF(flat)
{
	atomic_fetch_add(&tasks_reached, 1);
	for (;;) {
		FK_FORK(x, leaf, 0);
		FK_JOIN();
	}
}
FK_END(flat)

/* A tree that, for n of about 50 or more, does not end within any test. */
FK_TASK(int64_t, wide, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(wide)
{
	atomic_fetch_add_explicit(&tasks_reached, 1, memory_order_relaxed);
	if (self->n == 0)
		FK_RETURN(1);
	FK_FORK(x, wide, self->n - 1);
	FK_CALL(y, wide, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(wide)

/* held is a leaf until tasks_opened; until forks until then. */
FK_LEAF_TASK(int64_t, held, (int64_t, n))
{
	atomic_fetch_add(&tasks_reached, 1);
	while (!atomic_load(&tasks_opened))
		sched_yield();
	return n;
}

FK_TASK(int64_t, until, (int64_t, n), int64_t x;)
FK_NO_LEAF(until)
{
	atomic_fetch_add(&tasks_reached, 1);
	while (!atomic_load(&tasks_opened)) {
		FK_FORK(x, leaf, 0);
		FK_JOIN();
	}
	FK_RETURN(self->n);
}
FK_END(until)

FK_EXPORT(leaf, 0, "ends at once")
FK_EXPORT(fib, 0, "forks")
FK_EXPORT(called, 0, "depth by calls")
FK_EXPORT(forked, 0, "depth by forks")
FK_EXPORT(fails_below, 0, "fails at the bottom")
FK_EXPORT(failing, 0, "fails")
FK_EXPORT(flat, 0, "forks for ever")
FK_EXPORT(wide, 0, "wide")
FK_EXPORT(held, 0, "a long leaf")
FK_EXPORT(until, 0, "forks until told")
