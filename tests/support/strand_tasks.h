/* SPDX-License-Identifier: MIT */
/* strand_tasks.h - the tasks of check_slow_path.c: a way to each row of slow_path.c's table */
#pragma once

#include <sched.h>

#include "daemon/engine/slow_path.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

static struct rig rig;
static _Atomic uint64_t gate;

/* A child that sends a request to its own worker before it returns. */
FK_LEAF_TASK(int64_t, asking, (int64_t, n))
{
	worker_ask(worker_self());
	return n;
}

FK_TASK(int64_t, askers, (int64_t, n), int64_t x; int64_t sum; int64_t i;)
{
}
FK_BODY(askers)
{
	self->sum = 0;
	for (self->i = 0; self->i < self->n; self->i++) {
		FK_FORK(x, asking, 1);
		FK_JOIN();
		self->sum += self->x;
	}
	FK_RETURN(self->sum);
}
FK_END(askers)

/* Checks what its worker has published: each leaf except the first, which sends the request. */
static _Atomic uint32_t looks, hidden;

FK_LEAF_TASK(int64_t, looking, (int64_t, n))
{
	if (n == 0)
		worker_ask(worker_self());
	else if (n > 1 && !deque_size(&worker_self()->engine.frames))
		atomic_fetch_add(&hidden, 1);
	atomic_fetch_add(&looks, 1);
	return n;
}

FK_TASK(int64_t, forks_below, (int64_t, n), int64_t x; int64_t i;)
FK_NO_LEAF(forks_below)
{
	for (self->i = 0; self->i < self->n; self->i++) {
		FK_FORK(x, looking, self->i);
		FK_JOIN();
	}
	FK_RETURN(self->n);
}
FK_END(forks_below)

FK_TASK(int64_t, calls_below, (int64_t, n), int64_t x; int64_t i;)
FK_NO_LEAF(calls_below)
{
	for (self->i = 0; self->i < self->n; self->i++)
		FK_CALL(x, looking, self->i);
	FK_RETURN(self->n);
}
FK_END(calls_below)

/* Its worker has a request before it begins, as when a job starts: the first fork comes after
 * calls. */
FK_TASK(int64_t, calls_first, (int64_t, n), int64_t x;)
FK_NO_LEAF(calls_first)
{
	if (self->n) {
		FK_CALL(x, calls_first, self->n - 1);
		FK_RETURN(self->x);
	}
	FK_FORK(x, looking, 2);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(calls_first)

FK_TASK(int64_t, asked_first, (int64_t, n), int64_t x;)
{
	worker_ask(worker_self());
}
FK_BODY(asked_first)
{
	FK_CALL(x, calls_first, self->n);
	FK_RETURN(self->x);
}
FK_END(asked_first)

/* Has a continuation to steal above a child that forks, or calls, small tasks. */
FK_TASK(int64_t, above_forks, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(above_forks)
{
	FK_FORK(x, forks_below, self->n);
	FK_CALL(y, leaf, 1);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(above_forks)

FK_TASK(int64_t, above_calls, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(above_calls)
{
	FK_FORK(x, calls_below, self->n);
	FK_CALL(y, leaf, 1);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(above_calls)

/* Calls and never forks: a tree of fine-grained tasks, one of which has sent a request. */
FK_FINE_LEAF_TASK(int64_t, asks_once, (int64_t, n))
{
	worker_ask(worker_self());
	return n;
}

FK_FINE_TASK(int64_t, calls, (int64_t, n), int64_t x; int64_t y;)
{
	if (n < 1)
		FK_LEAF(1);
}
FK_BODY(calls)
{
	FK_CALL(x, calls, self->n - 1);
	FK_CALL(y, calls, self->n - 1);
	FK_RETURN(self->x + self->y);
}
FK_END(calls)

FK_FINE_TASK(int64_t, caller, (int64_t, n), int64_t x;)
{
}
FK_BODY(caller)
{
	FK_CALL(x, asks_once, 1);
	FK_CALL(x, calls, self->n);
	FK_RETURN(self->x);
}
FK_END(caller)

/* A child that does not end before its parent waits at the join. */
FK_LEAF_TASK(int64_t, gated, (int64_t, n))
{
	while (rig_counter(&rig, joins_waited) == atomic_load(&gate)) {
		for (uint32_t i = 0; i < rig.pool->n_workers; i++)
			worker_ask(&rig.pool->workers[i]);
		sched_yield();
	}
	return n;
}

FK_TASK(int64_t, waiter, (int64_t, n), int64_t x; int64_t y;)
{
}
FK_BODY(waiter)
{
	/* The first fork sets the limit, so that the second is published. */
	FK_FORK(y, asking, 1);
	FK_FORK(x, gated, self->n);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(waiter)

/* Leaves that end only when a thief has run their continuation. */

/* The same in a body. */
FK_TASK(int64_t, held_body, (int64_t, n))
FK_NO_LEAF(held_body)
{
	while (!atomic_load(&tasks_opened))
		sched_yield();
	FK_RETURN(self->n);
}
FK_END(held_body)

static void open_gate(void)
{
	atomic_store(&tasks_opened, 1);
}

/* The frame that opens the gate forks the leaf. */
FK_TASK(int64_t, opener, (int64_t, n), int64_t x[3]; int64_t i;)
FK_NO_LEAF(opener)
{
	self->i = 0;
	FK_FORK(x[self->i++], held, self->n);
	open_gate();
	FK_FORK(x[self->i++], held_body, 1);
	FK_JOIN();
	FK_RETURN(self->x[0] + self->x[1] + self->i);
}
FK_END(opener)

FK_TASK(int64_t, middle, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(middle)
{
	FK_CALL(x, held, self->n);
	FK_CALL(y, held_body, 1);
	FK_RETURN(self->x + self->y);
}
FK_END(middle)

/* The leaf is below it, through a call. */
FK_TASK(int64_t, opener_above, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(opener_above)
{
	FK_FORK(x, middle, self->n);
	open_gate();
	FK_CALL(y, leaf, 1);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(opener_above)

/* A fine-grained one. */
FK_FINE_TASK(int64_t, fine_opener, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(fine_opener)
{
	FK_FORK(x, held, self->n);
	open_gate();
	FK_FORK(y, leaf, 1);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(fine_opener)

/* Many frames deep; the oldest one opens the gate. */
FK_TASK(int64_t, deep_opener, (int64_t, n, int64_t, first), int64_t x; int64_t y;)
{
	if (n == 0) {
		while (!atomic_load(&tasks_opened))
			sched_yield();
		FK_LEAF(0);
	}
}
FK_BODY(deep_opener)
{
	FK_FORK(x, deep_opener, self->n - 1, 0);
	if (self->first)
		open_gate();
	FK_CALL(y, leaf, 1);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(deep_opener)

FK_TASK(int64_t, deep, (int64_t, n), int64_t x;)
FK_NO_LEAF(deep)
{
	FK_CALL(x, deep_opener, self->n, 1);
	FK_RETURN(self->x);
}
FK_END(deep)

/* Ordinary and fine-grained tasks, calls and forks, changing destinations, void results. */
FK_FINE_DECLARE(int64_t, mixed_fine, (int64_t, n), int64_t x; int64_t y;)

FK_LEAF_TASK(fk_void, mixed_add, (_Atomic int64_t *, sum, int64_t, n))
{
	atomic_fetch_add_explicit(sum, n, memory_order_relaxed);
}

FK_TASK(int64_t, mixed, (int64_t, n), int64_t x[3]; _Atomic int64_t sum; int64_t i;)
{
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(mixed)
{
	atomic_init(&self->sum, 0);
	self->i = 0;
	/* A destination that the compiler knows only if it does not begin at the fork. */
	FK_FORK(x[self->i], mixed_fine, self->n - 1);
	self->i = 1;
	FK_FORK_VOID(mixed_add, &self->sum, 5);
	FK_CALL(x[self->i++], mixed, self->n - 2);
	FK_JOIN();
	FK_FORK_VOID(mixed_add, &self->sum, -3);
	FK_FORK(x[self->i++], mixed, 1);
	FK_CALL_VOID(mixed_add, &self->sum, -2);
	FK_JOIN();
	FK_RETURN(self->x[0] + self->x[1] + self->x[2] - 1 + atomic_load(&self->sum));
}
FK_END(mixed)

FK_DEFINE(int64_t, mixed_fine, (int64_t, n))
{
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(mixed_fine)
{
	FK_CALL(x, mixed, self->n - 1);
	FK_FORK(y, mixed_fine, self->n - 2);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(mixed_fine)

/* As many arguments as a task can have: Fibonacci numbers times their sum, which is 1. */
#define TWELVE(n)                                                                                  \
	n, self->b, self->c, self->d, self->e, self->f, self->g, self->h, self->i, self->j,        \
		self->k, self->l
FK_TASK(int64_t, twelve,
	(int64_t, n, int64_t, b, int64_t, c, int64_t, d, int64_t, e, int64_t, f, int64_t, g,
	 int64_t, h, int64_t, i, int64_t, j, int64_t, k, int64_t, l),
	int64_t x;
	int64_t y;)
{
	if (n < 2)
		FK_LEAF(n * (b + c + d + e + f + g + h + i + j + k + l));
}
FK_BODY(twelve)
{
	FK_FORK(x, twelve, TWELVE(self->n - 1));
	FK_CALL(y, twelve, TWELVE(self->n - 2));
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(twelve)

FK_TASK(int64_t, of_twelve, (int64_t, n), int64_t x;)
FK_NO_LEAF(of_twelve)
{
	FK_CALL(x, twelve, self->n, 1, -2, 4, -8, 16, -32, 64, -128, 256, -512, 342);
	FK_RETURN(self->x);
}
FK_END(of_twelve)

FK_EXPORT(of_twelve, 0, "forks with twelve arguments")
FK_EXPORT(twelve, 0, "has twelve arguments")
FK_EXPORT(asked_first, 0, "calls, then forks")
FK_EXPORT(above_forks, 0, "forks below what can be stolen")
FK_EXPORT(above_calls, 0, "calls below what can be stolen")
FK_EXPORT(caller, 0, "calls")
FK_EXPORT(mixed, 0, "Fibonacci by all means")
FK_EXPORT(opener, 0, "opens behind a leaf")
FK_EXPORT(opener_above, 0, "opens above a called frame")
FK_EXPORT(fine_opener, 0, "opens behind a leaf, fine-grained")
FK_EXPORT(deep, 0, "opens far above a leaf")
FK_EXPORT(askers, 0, "children that raise attention")
FK_EXPORT(waiter, 0, "waits at its join")
FK_MODULE(t, "test tasks")
