/* SPDX-License-Identifier: MIT */
/* unwind_tasks.h - the tasks of check_unwind.c: tasks that never end, that fail, and that hold
 * resources when this happens */
#pragma once

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/core/job_abort.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

static struct rig rig;
/* Counts of frames that hold a resource. */
static _Atomic uint64_t begun, ended, given_back;

/* ------------------------------------------------------------------------ shapes */

FK_FINE_TASK(int64_t, fine_flat, (int64_t, n), int64_t x;)
FK_NO_LEAF(fine_flat)
{
	atomic_fetch_add(&tasks_reached, 1);
	for (;;) {
		FK_FORK(x, leaf, 0);
		FK_JOIN();
	}
}
FK_END(fine_flat)

/* Calls forever, and never forks. */
FK_TASK(int64_t, calls, (int64_t, n), int64_t x;)
FK_NO_LEAF(calls)
{
	atomic_fetch_add(&tasks_reached, 1);
	for (;;)
		FK_CALL(x, leaf, 0);
}
FK_END(calls)

FK_TASK(fk_void, nothing, (int64_t, n), int64_t x;)
{
	if (n < 2)
		FK_LEAF();
}
FK_BODY(nothing)
{
	FK_CALL(x, fib, self->n);
	FK_RETURN();
}
FK_END(nothing)

/* Forks forever, and never joins. */
FK_TASK(int64_t, heap, (int64_t, n), int64_t x;)
FK_NO_LEAF(heap)
{
	atomic_fetch_add(&tasks_reached, 1);
	for (self->x = 0;; self->x++)
		FK_FORK_VOID(nothing, self->x % 4);
}
FK_END(heap)

FK_TASK(int64_t, by_forks, (int64_t, n), int64_t x;)
FK_NO_LEAF(by_forks)
{
	if (self->n == 0) {
		FK_CALL(x, flat, 0);
		FK_RETURN(0);
	}
	FK_FORK(x, by_forks, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x + 1);
}
FK_END(by_forks)

FK_TASK(int64_t, by_calls, (int64_t, n), int64_t x;)
FK_NO_LEAF(by_calls)
{
	if (self->n == 0) {
		FK_CALL(x, flat, 0);
		FK_RETURN(0);
	}
	FK_CALL(x, by_calls, self->n - 1);
	FK_RETURN(self->x + 1);
}
FK_END(by_calls)

/* Forks and calls in turn, coarse and fine-grained, with continuations that do work. */
FK_FINE_DECLARE(int64_t, by_both_fine, (int64_t, n), int64_t x; int64_t y;)

FK_TASK(int64_t, by_both, (int64_t, n), int64_t x[2]; int64_t i;)
FK_NO_LEAF(by_both)
{
	if (self->n <= 0) {
		FK_CALL(x[0], fine_flat, 0);
		FK_RETURN(0);
	}
	self->i = 0;
	FK_FORK(x[self->i++], by_both_fine, self->n - 1);
	FK_CALL(x[self->i++], fib, 5);
	FK_JOIN();
	FK_RETURN(self->x[0] + 1);
}
FK_END(by_both)

FK_DEFINE(int64_t, by_both_fine, (int64_t, n))
FK_NO_LEAF(by_both_fine)
{
	FK_CALL(x, by_both, self->n - 1);
	FK_FORK(y, leaf, 1);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(by_both_fine)

/* ------------------------------------------------------------------------ what frames hold */

FK_DECLARE(int64_t, owner, (int64_t, n), char *memory; int64_t x; int64_t y; int64_t z;)
FK_FINE_DECLARE(int64_t, fine_owner, (int64_t, n), char *memory; int64_t x; int64_t y;)

static char *own(int64_t n)
{
	char *memory = malloc(24);

	atomic_fetch_add_explicit(&begun, 1, memory_order_relaxed);
	memset(memory, (int)n, 24);
	return memory;
}

static void disown(char *memory, int64_t n, _Atomic uint64_t *why)
{
	if (memory[0] != (char)n || memory[23] != (char)n)
		abort(); /* of another frame */
	atomic_fetch_add_explicit(why, 1, memory_order_relaxed);
	free(memory);
}

FK_UNWIND(owner)
{
	disown(self->memory, self->n, &given_back);
}

FK_DEFINE_UNWIND(int64_t, owner, (int64_t, n))
{
	if (n < 0)
		FK_LEAF(1);
}
FK_BODY(owner)
{
	self->memory = own(self->n);
	FK_FORK(x, owner, self->n - 1);
	FK_CALL(y, fine_owner, self->n - 1);
	FK_JOIN();
	FK_FORK(z, owner, self->n - 4);
	FK_JOIN();
	disown(self->memory, self->n, &ended);
	FK_RETURN(self->x + self->y + self->z);
}
FK_END(owner)

FK_UNWIND(fine_owner)
{
	disown(self->memory, self->n, &given_back);
}

FK_DEFINE_UNWIND(int64_t, fine_owner, (int64_t, n))
{
	if (n < 0)
		FK_LEAF(1);
}
FK_BODY(fine_owner)
{
	self->memory = own(self->n);
	FK_CALL(x, owner, self->n - 2);
	FK_FORK(y, fine_owner, self->n - 1);
	FK_JOIN();
	disown(self->memory, self->n, &ended);
	FK_RETURN(self->x + self->y);
}
FK_END(fine_owner)

/* Fails far below. */
FK_LEAF_TASK(int64_t, fails, (int64_t, n))
{
	FK_LEAF_FAIL((int)n);
}

/* The slow path builds the only frame that holds a resource, between frames that hold none. */
FK_DECLARE(int64_t, holder, (int64_t, n), char *memory; int64_t x;)
FK_UNWIND(holder)
{
	disown(self->memory, self->n, &given_back);
}
FK_DEFINE_UNWIND(int64_t, holder, (int64_t, n))
FK_NO_LEAF(holder)
{
	self->memory = own(self->n);
	FK_FORK(x, fails_below, 200); /* beyond the first stacklet, where C activations end */
	FK_JOIN();
	disown(self->memory, self->n, &ended);
	FK_RETURN(self->x);
}
FK_END(holder)

FK_TASK(int64_t, asks_above, (int64_t, n), int64_t x;)
FK_NO_LEAF(asks_above)
{
	if (self->n == 0) {
		worker_ask(worker_self());
		FK_FORK(x, holder, 3);
	} else {
		FK_FORK(x, asks_above, self->n - 1);
	}
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(asks_above)

/* A frame whose job has failed before its body began: its locals are undefined. */
FK_TASK(int64_t, dirties, (int64_t, n), unsigned char dirt[400];)
FK_NO_LEAF(dirties)
{
	memset(self->dirt, 0x5a, sizeof(self->dirt));
	__asm__ volatile("" : : "r"(self->dirt) : "memory");
	FK_RETURN(self->dirt[self->n]);
}
FK_END(dirties)

FK_TASK(int64_t, never_begins, (int64_t, n), int64_t x;)
FK_NO_LEAF(never_begins)
{
	FK_CALL(x, dirties, 7);
	FK_CALL(x, fails, -EXDEV);
	FK_CALL(x, holder, 3);
	FK_RETURN(self->x);
}
FK_END(never_begins)

/* ------------------------------------------------------------------------ failures */

/* Fails after another task has failed. */
FK_LEAF_TASK(int64_t, fails_late, (int64_t, row))
{
	while (!abort_get(rig.pool, (uint32_t)row).outcome)
		sched_yield();
	FK_LEAF_FAIL(99);
}

FK_TASK(int64_t, both_fail, (int64_t, row), int64_t x; int64_t y;)
FK_NO_LEAF(both_fail)
{
	FK_FORK(x, fails_late, self->row);
	FK_CALL(y, fails, 7);
	FK_FORK(y, fails_late, self->row);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(both_fail)

/* Fails while its siblings run, which never end; needs three workers or more. */
FK_TASK(int64_t, among_others, (int64_t, n), int64_t x; int64_t y; int64_t z;)
FK_NO_LEAF(among_others)
{
	FK_FORK(x, flat, 0);
	FK_FORK(y, wide, 60);
	while (!atomic_load(&tasks_reached))
		sched_yield();
	FK_FORK(z, fails, (int)self->n);
	FK_JOIN();
	FK_RETURN(0);
}
FK_END(among_others)

FK_EXPORT(fine_flat, 0, "forks for ever, fine-grained")
FK_EXPORT(calls, 0, "calls for ever")
FK_EXPORT(heap, 0, "forks for ever without a join")
FK_EXPORT(by_forks, 0, "deep by forks")
FK_EXPORT(by_calls, 0, "deep by calls")
FK_EXPORT(by_both, 0, "deep by both")
FK_EXPORT(owner, 0, "holds memory")
FK_EXPORT(fine_owner, 0, "holds memory, fine-grained")
FK_EXPORT(asks_above, 0, "holds memory in a frame of the slow path")
FK_EXPORT(never_begins, 0, "calls what never begins")
FK_EXPORT(both_fail, 0, "fails twice")
FK_EXPORT(among_others, 0, "fails while others run")
FK_MODULE(t, "test tasks")
