/* SPDX-License-Identifier: MIT */
/* fiber_tasks_ends.h - tasks whose job ends before its fibers: they fail or are cancelled while
 * they wait */
#pragma once

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "tests/support/fiber_rig.h"
#include "tests/support/fiber_tasks_trees.h"
#include "tests/support/fiber_tasks_waits.h"

/* ------------------------------------------------------------------------ cancels */

static void waits_forever(void *arg)
{
	(void)wait_noted(arg, 0);
}

FK_FIBER_TASK(int64_t, forever, (int64_t, n))
{
	struct fk_counter never = FK_COUNTER_OF(1), all = FK_COUNTER;

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(waits_forever, &never, &all);
	return wait_noted(&all, 0);
}
FK_EXPORT(forever, 0, "Fibers that wait for what does not come")

struct pair {
	struct fk_counter to, fro;
};

static void pings(void *arg)
{
	struct pair *pair = arg;

	for (int i = 0; i < 20 && !fk_fiber_is_over(); i++) {
		(void)fk_counter_add(&pair->to, -1);
		(void)fk_fiber_yield();
	}
}

static void pongs(void *arg)
{
	struct pair *pair = arg;

	for (uint32_t i = 20; i-- && fk_counter_wait(&pair->to, i) == 0;)
		;
}

FK_FIBER_TASK(int64_t, busy, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	struct pair pairs[64];
	int64_t x = 0;

	for (int64_t i = 0; i < n; i++) {
		pairs[i].to = FK_COUNTER_OF(20);
		(void)fk_fiber_spawn(pongs, &pairs[i], &all);
		(void)fk_fiber_spawn(pings, &pairs[i], &all);
	}
	(void)FK_FIBER_CALL(&x, both, 8);
	(void)fk_counter_wait(&all, 0);
	return x;
}
FK_EXPORT(busy, 0, "Fibers that do a bit of everything")

/* When opened, waits for a counter that never reaches 0. */
FK_FIBER_TASK(int64_t, waits_when_opened, (int64_t, n))
{
	struct fk_counter never = FK_COUNTER_OF(1);

	atomic_fetch_add(&tasks_reached, 1);
	while (!atomic_load(&tasks_opened))
		sched_yield();
	(void)wait_noted(&never, 0);
	return n;
}
FK_EXPORT(waits_when_opened, 0, "Begins to wait late")

static void runs_until_opened(void *arg)
{
	int64_t *value = arg;

	atomic_fetch_add(&tasks_reached, 1);
	while (!atomic_load(&tasks_opened))
		sched_yield();
	*value = 1;
}

FK_FIBER_TASK(int64_t, outlasts, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	int64_t value = n;

	(void)fk_fiber_spawn(runs_until_opened, &value, &all);
	(void)wait_noted(&all, 0);
	return value;
}
FK_EXPORT(outlasts, 0, "Waits for a fiber that takes its time")

/* Two counters; circle() defines which fiber counts in which and waits for which. */
struct circle {
	struct fk_counter outer, inner, gate;
};

static void circle_waits(void *arg)
{
	struct circle *c = arg;

	(void)fk_counter_wait(&c->gate, 0);
}

static void circle_inner(void *arg)
{
	struct circle *c = arg;

	(void)fk_counter_wait(&c->outer, 1);
}

static void circle_outer(void *arg)
{
	struct circle *c = arg;

	(void)fk_fiber_spawn(circle_inner, c, &c->inner);
	(void)fk_counter_wait(&c->inner, 0);
}

/* outer counts two fibers: one waits for inner, one for the gate. The fiber of inner waits until
 * only the first of these two is left. This is not a deadlock, but would be one if each waited for
 * all. */
FK_FIBER_TASK(int64_t, circle, (int64_t, n))
{
	struct circle c = { FK_COUNTER, FK_COUNTER, FK_COUNTER_OF(1) };

	/* The order matters: when the inner fiber begins, outer counts both. */
	(void)fk_fiber_spawn(circle_waits, &c, &c.outer);
	(void)fk_fiber_spawn(circle_outer, &c, &c.outer);
	(void)fk_counter_wait(&c.outer, 0);
	return n;
}
FK_EXPORT(circle, 0, "Fibers that wait for some of others")

/* ------------------------------------------------------------------------ failures */

static void fails(void *arg)
{
	(void)arg;
	(void)fk_fiber_fail(-EDOM);
	(void)fk_fiber_fail(-ERANGE);
}

FK_FIBER_TASK(int64_t, one_fails, (int64_t, n))
{
	struct crowd crowd = { FK_COUNTER_OF((uint32_t)n), FK_COUNTER_OF(1), 0 };
	struct fk_counter all = FK_COUNTER;

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(joins_crowd, &crowd, &all);
	/* All of them have begun, so they are notified. */
	(void)fk_counter_wait(&crowd.out, 0);
	(void)fk_fiber_spawn(fails, NULL, &all);
	return wait_noted(&all, 0);
}
FK_EXPORT(one_fails, 0, "Fibers that wait, and one that fails")

static void notes_beginning(void *arg)
{
	(void)arg;
	atomic_fetch_add(&tasks_reached, 1);
}

/* These fibers are in the deque when the job fails. */
FK_FIBER_TASK(int64_t, fails_first, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(notes_beginning, NULL, &all);
	(void)fk_fiber_fail(-EDOM);
	if (fk_fiber_spawn(notes_beginning, NULL, &all) == -ECANCELED &&
	    fk_fiber_yield() == -ECANCELED)
		atomic_fetch_add(&cut, 1);
	return wait_noted(&all, 0);
}
FK_EXPORT(fails_first, 0, "Fails before its fibers begin")

FK_FIBER_TASK(int64_t, scope, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;

	for (int64_t i = 0; i < 5; i++)
		(void)fk_fiber_spawn(late, NULL, &all);
	(void)fk_fiber_yield();
	if (n == 0)
		(void)fk_fiber_fail(-EDOM);
	(void)fk_counter_wait(&all, 0);
	return n;
}

/* A tree of frames whose leaves are scopes that are still running when the last one fails. */
FK_TASK(int64_t, scopes, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(scopes)
{
	FK_FORK(x, scope, self->n);
	if (self->n)
		FK_CALL(y, scopes, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(scopes)
FK_EXPORT(scopes, 0, "Scopes of fibers, of which the last fails")

static struct fk_counter shared_gate;

FK_FIBER_TASK(int64_t, waits_shared, (int64_t, n))
{
	(void)fk_counter_wait(&shared_gate, 0);
	return n;
}

FK_FIBER_TASK(int64_t, tells_shared, (int64_t, n))
{
	(void)fk_counter_add(&shared_gate, -1);
	(void)fk_fiber_fail(-EDOM);
	return n;
}

/* A runnable fiber of one scope is in the deque when the frame that runs another scope unwinds. */
FK_TASK(int64_t, shared, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(shared)
{
	shared_gate = FK_COUNTER_OF(1);
	FK_FORK(x, waits_shared, self->n);
	FK_CALL(y, tells_shared, self->n);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(shared)
FK_EXPORT(shared, 0, "Two scopes that share a counter")

FK_FIBER_TASK(int64_t, calls_failing, (int64_t, n))
{
	int64_t x = 0;

	if (FK_FIBER_CALL(&x, failing, n) == -ECANCELED)
		atomic_fetch_add(&cut, 1);
	return x;
}
FK_EXPORT(calls_failing, 0, "A fiber whose frames fail")

/* Its own entry is in the deque below the fiber and the frames that the fiber calls. */
FK_TASK(int64_t, forks_failing, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(forks_failing)
{
	if (self->n == 0) {
		FK_CALL(y, calls_failing, 8);
		FK_RETURN(self->y);
	}
	FK_FORK(x, forks_failing, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(forks_failing)
FK_EXPORT(forks_failing, 0, "Forked frames above a fiber whose frames fail")
