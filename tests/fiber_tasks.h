/* SPDX-License-Identifier: MIT */
/*
 * tests/fiber_tasks.h - the tasks of check_fiber.c, in its module
 */
#ifndef TESTS_FIBER_TASKS_H
#define TESTS_FIBER_TASKS_H

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/fiber.h>

#include "common/clock.h"
#include "daemon/fiber.h"
#include "tests/tasks.h"

static _Atomic uint32_t ended; /* what fibers note at their end */
static _Atomic uint32_t cut;   /* waits that ended with -ECANCELED */

/* Waits, and notes if the job was over first. */
static int wait_noted(struct fk_counter *counter, uint32_t value)
{
	int r = fk_counter_wait(counter, value);

	if (r == -ECANCELED)
		atomic_fetch_add(&cut, 1);
	return r;
}

/* ------------------------------------------------------------------------ trees */

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
FK_EXPORT(tree, "n:i64 -> i64", 0, "The n-th Fibonacci number, a fiber for each call")

FK_FIBER_TASK(int64_t, ten_calls, (int64_t, n))
{
	int64_t sum = 0, x = 0;

	for (int i = 0; i < 10; i++)
		if (FK_FIBER_CALL(&x, fib, n) == 0)
			sum += x;
	return sum;
}
FK_EXPORT(ten_calls, "n:i64 -> i64", 0, "Ten times the n-th Fibonacci number, by frames")

FK_TASK(int64_t, mixed, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(mixed)
{
	FK_FORK(x, tree, self->n);
	FK_CALL(y, ten_calls, self->n);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(mixed)
FK_EXPORT(mixed, "n:i64 -> i64", 0, "Eleven times the n-th Fibonacci number")

/* ------------------------------------------------------------------------ steals */

static void opens(void *arg)
{
	(void)arg;
	atomic_store(&tasks_opened, 1);
}

static void counts(void *arg)
{
	atomic_fetch_add((_Atomic int64_t *)arg, 1);
}

/* What opens the gate is the oldest of n fibers; this one comes to nothing meanwhile. */
FK_FIBER_TASK(int64_t, opened, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	_Atomic int64_t done = 1;

	for (int64_t i = 1; i < n; i++)
		(void)fk_fiber_spawn(counts, (void *)(uintptr_t)&done, &all);
	(void)fk_fiber_spawn(opens, NULL, &all);
	while (!atomic_load(&tasks_opened))
		sched_yield();
	(void)fk_counter_wait(&all, 0);
	return done;
}
FK_EXPORT(opened, "n:i64 -> i64", 0, "Waits in a loop for a fiber of its own")

static void spins(void *arg)
{
	(void)arg;
	while (!atomic_load(&tasks_opened))
		sched_yield();
}

/* The same, and who comes to nothing has spawned nothing, and calls nothing of the runtime. */
FK_FIBER_TASK(int64_t, opened_below, (int64_t, n))
{
	struct fk_counter both = FK_COUNTER;

	(void)fk_fiber_spawn(opens, NULL, &both);
	(void)fk_fiber_spawn(spins, NULL, &both);
	(void)fk_counter_wait(&both, 0);
	return n;
}
FK_EXPORT(opened_below, "n:i64 -> i64", 0, "A fiber that waits in a loop for one below it")

struct meeting {
	_Atomic uint32_t present;
	_Atomic bool met;
	_Atomic int64_t ended;
};

static void meets(void *arg)
{
	struct meeting *meeting = arg;

	while (!atomic_load(&meeting->met)) {
		if (atomic_fetch_add(&meeting->present, 1) > 0)
			atomic_store(&meeting->met, true);
		for (int i = 0; i < 1000 && !atomic_load(&meeting->met); i++)
			sched_yield();
		atomic_fetch_sub(&meeting->present, 1);
		(void)fk_fiber_yield();
	}
	atomic_fetch_add(&meeting->ended, 1);
}

/* Fibers that yield until two of them were at one place: on two workers. */
FK_FIBER_TASK(int64_t, meet, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	struct meeting meeting = { .present = 0 };

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(meets, &meeting, &all);
	(void)fk_counter_wait(&all, 0);
	return atomic_load(&meeting.ended);
}
FK_EXPORT(meet, "n:i64 -> i64", 0, "Fibers of which two meet")

struct crowd {
	struct fk_counter out; /* those that have not come to the gate */
	struct fk_counter gate;
	_Atomic int64_t ended;
};

static void joins_crowd(void *arg)
{
	struct crowd *crowd = arg;

	(void)fk_counter_add(&crowd->out, -1);
	(void)wait_noted(&crowd->gate, 0);
	atomic_fetch_add(&crowd->ended, 1);
}

static void opens_crowd(void *arg)
{
	struct crowd *crowd = arg;

	(void)fk_counter_add(&crowd->gate, -1);
}

FK_FIBER_TASK(int64_t, many, (int64_t, n))
{
	struct crowd crowd = { FK_COUNTER_OF((uint32_t)n - 1), FK_COUNTER_OF(1), 0 };
	struct fk_counter all = FK_COUNTER;

	for (int64_t i = 1; i < n; i++)
		if (fk_fiber_spawn(joins_crowd, &crowd, &all) < 0)
			return -1;
	(void)fk_counter_wait(&crowd.out, 0);
	(void)fk_fiber_spawn(opens_crowd, &crowd, &all);
	(void)fk_counter_wait(&all, 0);
	return crowd.ended + 1;
}
FK_EXPORT(many, "n:i64 -> i64", 0, "So many fibers at once")

/* ------------------------------------------------------------------------ turns, counters */

struct rounds {
	_Atomic uint32_t next;
	uint32_t turns[4 * 64];
};

struct turner {
	struct rounds *rounds;
	uint32_t who;
};

static void takes_turns(void *arg)
{
	struct turner *self = arg;

	for (int i = 0; i < 4; i++) {
		self->rounds->turns[atomic_fetch_add(&self->rounds->next, 1)] = self->who;
		(void)fk_fiber_yield();
	}
}

FK_FIBER_TASK(int64_t, rounds, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	struct turner turners[8];
	struct rounds rounds = { .next = 0 };

	for (uint32_t i = 0; i < n; i++) {
		turners[i] = (struct turner){ &rounds, i };
		(void)fk_fiber_spawn(takes_turns, &turners[i], &all);
	}
	(void)fk_counter_wait(&all, 0);
	for (uint32_t round = 0; round < 4; round++) {
		uint32_t seen = 0;

		for (uint32_t i = 0; i < n; i++)
			seen |= 1u << rounds.turns[round * (uint32_t)n + i];
		if (seen != (1u << n) - 1)
			return round + 1;
	}
	return 0;
}
FK_EXPORT(rounds, "n:i64 -> i64", 0, "The round in which a fiber had two turns, or 0")

static void yields_on(void *arg)
{
	(void)arg;
	atomic_fetch_add(&tasks_reached, 1);
	while (!atomic_load(&tasks_opened))
		(void)fk_fiber_yield();
}

FK_FIBER_TASK(int64_t, yields, (int64_t, n))
{
	struct fk_counter both = FK_COUNTER;

	(void)fk_fiber_spawn(yields_on, NULL, &both);
	(void)fk_fiber_spawn(yields_on, NULL, &both);
	(void)fk_counter_wait(&both, 0);
	return n;
}
FK_EXPORT(yields, "n:i64 -> i64", 0, "Two fibers that yield to each other")

struct level {
	struct fk_counter *counter;
	_Atomic uint32_t *down; /* how far it was counted, at least */
	uint32_t value;
	uint32_t wrong;
};

static void waits_for_level(void *arg)
{
	struct level *self = arg;

	self->wrong = fk_counter_wait(self->counter, self->value) != 0 ||
		      atomic_load(self->down) > self->value;
}

FK_FIBER_TASK(int64_t, levels, (int64_t, n))
{
	struct fk_counter counter = FK_COUNTER_OF((uint32_t)n);
	struct fk_counter all = FK_COUNTER;
	_Atomic uint32_t down = (uint32_t)n;
	struct level levels[64];
	int64_t wrong = 0;

	for (uint32_t i = 0; i < n; i++) {
		levels[i] = (struct level){ &counter, &down, i, 0 };
		(void)fk_fiber_spawn(waits_for_level, &levels[i], &all);
	}
	for (uint32_t i = 0; i < n; i++) {
		(void)fk_fiber_yield();
		atomic_fetch_sub(&down, 1);
		if (fk_counter_add(&counter, -1) < 0)
			return -1;
		/* This one has been let go. */
		if (fk_counter_wait(&all, (uint32_t)n - i - 1) < 0)
			return -2;
	}
	(void)fk_counter_wait(&all, 0);
	for (uint32_t i = 0; i < n; i++)
		wrong += levels[i].wrong;
	return wrong;
}
FK_EXPORT(levels, "n:i64 -> i64", 0, "Fibers that wait for values of one counter")

struct barrier {
	struct fk_counter *rounds;
	int64_t n;
	_Atomic int64_t passed;
};

static void passes_barriers(void *arg)
{
	struct barrier *barrier = arg;

	for (int64_t i = 0; i < barrier->n; i++) {
		(void)fk_counter_add(&barrier->rounds[i], -1);
		if (fk_counter_wait(&barrier->rounds[i], 0) == 0)
			atomic_fetch_add(&barrier->passed, 1);
	}
}

/* Four that wait for each other: the last one wakes those that are about to leave, too. */
FK_FIBER_TASK(int64_t, barriers, (int64_t, n))
{
	struct barrier barrier = { .rounds = calloc((size_t)n, sizeof(*barrier.rounds)), .n = n };
	struct fk_counter all = FK_COUNTER;

	for (int64_t i = 0; i < n; i++)
		barrier.rounds[i] = FK_COUNTER_OF(4);
	for (int i = 0; i < 4; i++)
		(void)fk_fiber_spawn(passes_barriers, &barrier, &all);
	(void)fk_counter_wait(&all, 0);
	free(barrier.rounds);
	return barrier.passed;
}
FK_EXPORT(barriers, "n:i64 -> i64", 0, "Four fibers that wait for each other, so often")

/* A frame, and not even its body. */
FK_TASK(int64_t, tells, (uintptr_t, counter))
{
	FK_LEAF(fk_counter_add((struct fk_counter *)counter, -1));
}
FK_NO_BODY(tells)
FK_END(tells)

FK_TASK(int64_t, teller, (uintptr_t, counter, int64_t, n), int64_t x; int64_t i;)
FK_NO_LEAF(teller)
{
	for (self->i = 0; self->i < self->n; self->i++) {
		FK_FORK(x, tells, self->counter);
		FK_JOIN();
		if (self->x < 0)
			break;
	}
	FK_RETURN(self->i);
}
FK_END(teller)

struct told {
	struct fk_counter counter;
	int64_t n;
};

static void waits_to_be_told(void *arg)
{
	struct told *told = arg;

	(void)fk_counter_wait(&told->counter, 0);
}

FK_FIBER_TASK(int64_t, told, (int64_t, n))
{
	struct told told = { .counter = FK_COUNTER_OF((uint32_t)n) };
	struct fk_counter all = FK_COUNTER;
	int64_t x = 0;

	for (int i = 0; i < 3; i++)
		(void)fk_fiber_spawn(waits_to_be_told, &told, &all);
	(void)fk_fiber_yield();
	if (FK_FIBER_CALL(&x, teller, (uintptr_t)&told.counter, n) < 0)
		return -1;
	(void)fk_counter_wait(&all, 0);
	return x;
}
FK_EXPORT(told, "n:i64 -> i64", 0, "Fibers that wait for frames")

/* ------------------------------------------------------------------------ errors */

#define FAILS(what, error)                                                                         \
	do {                                                                                       \
		if ((what) != (error))                                                             \
			return __LINE__;                                                           \
	} while (0)

static void nothing(void *arg)
{
	(void)arg;
}

FK_FIBER_TASK(int64_t, errors, (int64_t, n))
{
	struct fk_counter fibers = FK_COUNTER, numbers = FK_COUNTER_OF(2), none = { .fk_kind = 0 };
	struct fk_counter other;
	static struct fk_local keys[FK_LOCALS + 2];
	uint32_t places = 0;

	FAILS(fk_counter_add(&fibers, 1), -EINVAL);
	FAILS(fk_fiber_spawn(nothing, NULL, &numbers), -EINVAL);
	FAILS(fk_fiber_spawn_sized(nothing, NULL, NULL, 1 << 30), -EINVAL);
	FAILS(fk_fiber_spawn_on(nothing, NULL, NULL, FK_STACK_SLAB, 1 << 30), -EINVAL);
	FAILS(fk_fiber_spawn_on(nothing, NULL, NULL, 77, FK_FIBER_STACK), -EINVAL);
	FAILS(fk_fiber_spawn(nothing, NULL, &none), -EINVAL);
	FAILS(fk_counter_wait(&none, 0), -EINVAL);
	/* Nor is what was one, and is something else. */
	memset(&other, 0x5a, sizeof(other));
	FAILS(fk_counter_wait(&other, 0), -EINVAL);
	FAILS(fk_counter_add(&other, 1), -EINVAL);
	FAILS(fk_fiber_spawn(nothing, NULL, &other), -EINVAL);
	other = FK_COUNTER_OF(3);
	other.fk_kind = 7;
	FAILS(fk_counter_wait(&other, 3), -EINVAL);
	/* To wait for it again is allowed. */
	FAILS(fk_counter_wait(&fibers, 0), 0);
	FAILS(fk_counter_wait(&fibers, 0), 0);
	FAILS(fk_counter_add(&numbers, -3), -ERANGE);
	FAILS(fk_counter_add(&numbers, FK_COUNTER_MAX - 1), -ERANGE);
	FAILS(fk_counter_add(&numbers, INT32_MIN), -ERANGE);
	FAILS(fk_counter_add(&numbers, FK_COUNTER_MAX - 2), 0);
	FAILS(fk_counter_add(&numbers, 2 - (int32_t)FK_COUNTER_MAX), 0);
	FAILS(fk_counter_wait(&numbers, 2), 0);
	FAILS(fk_counter_wait(&fibers, 0), 0);
	FAILS(fk_fiber_is_over(), false);
	FAILS(fk_fiber_yield(), 0);
	for (uint32_t i = 0; i < FK_LOCALS + 2; i++)
		places += fk_fiber_local(&keys[i]) != NULL;
	/* Some of them may have been used by another test of this process. */
	FAILS(places <= FK_LOCALS, true);
	FAILS(fk_fiber_local(&keys[FK_LOCALS + 1]) == NULL, true);
	return n;
}
FK_EXPORT(errors, "n:i64 -> i64", 0, "The line of what is not as it should be, or 0")

FK_TASK(int64_t, no_fiber, (int64_t, n))
{
	struct fk_counter fibers = FK_COUNTER;
	static struct fk_local key;

	FK_LEAF(fk_fiber_spawn(nothing, NULL, NULL) != -EPERM ||
		fk_counter_wait(&fibers, 0) != -EPERM || fk_fiber_yield() != -EPERM ||
		fk_fiber_fail(-EDOM) != -EPERM || fk_fiber_is_over() ||
		fk_fiber_local(&key) != NULL || FK_FIBER_CALL(&n, fib, 1) != -EPERM);
}
FK_NO_BODY(no_fiber)
FK_END(no_fiber)
FK_EXPORT(no_fiber, "n:i64 -> i64", 0, "1 if a frame can do what only fibers can")

/* The fiber, alone in its family, stands in no list of those that wait. */
static int64_t is_listed(void)
{
	struct fiber_family *family = fiber_self()->family;
	int64_t n = 0;

	for (uint32_t i = 0; i < FIBER_SHARDS; i++)
		n += family->shards[i].parked.next != &family->shards[i].parked;
	return n;
}

FK_FIBER_TASK(int64_t, unlisted, (int64_t, n))
{
	struct fk_counter one = FK_COUNTER, never = FK_COUNTER_OF(1);

	for (int64_t i = 0; i < n; i++) {
		FAILS(fk_fiber_spawn(nothing, NULL, &one), 0);
		FAILS(fk_counter_wait(&one, 0), 0);
		FAILS(is_listed(), 0);
		FAILS(fk_counter_wait_until(&never, 0, clock_ns() + 1000), -ETIMEDOUT);
		FAILS(is_listed(), 0);
		FAILS(fk_fiber_sleep(1000), 0);
		FAILS(is_listed(), 0);
	}
	return 0;
}
FK_EXPORT(unlisted, "n:i64 -> i64", 0, "The line where a fiber that runs counts as one that waits")

static _Atomic uint32_t chained;

static void ends_chained(void *value);

static struct fk_local chain[3] = { FK_LOCAL(ends_chained), FK_LOCAL(ends_chained),
				    FK_LOCAL(ends_chained) };
static struct fk_local endless = FK_LOCAL(ends_chained);

/* The first sets the one before it, and that one the next: each takes a pass. */
static void ends_chained(void *value)
{
	uintptr_t i = (uintptr_t)value;

	atomic_fetch_add(&chained, 1);
	if (i == 9)
		*fk_fiber_local(&endless) = value;
	else if (i > 1)
		*fk_fiber_local(&chain[i - 2]) = (void *)(i - 1);
}

static void has_chain(void *arg)
{
	struct fk_local *key = (uintptr_t)arg == 9 ? &endless : &chain[(uintptr_t)arg - 1];

	/* In this order, so that what is set comes in the next pass. */
	for (int i = 0; i < 3; i++)
		(void)fk_fiber_local(&chain[i]);
	*fk_fiber_local(key) = arg;
}

FK_FIBER_TASK(int64_t, chained_ends, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;

	atomic_store(&chained, 0);
	(void)fk_fiber_spawn(has_chain, (void *)(uintptr_t)n, &all);
	(void)fk_counter_wait(&all, 0);
	return atomic_load(&chained);
}
FK_EXPORT(chained_ends, "n:i64 -> i64", 0, "How often data was ended that is set at the end")

/* ------------------------------------------------------------------------ data */

static void ends_value(void *value)
{
	free(value);
	atomic_fetch_add(&ended, 1);
}

static struct fk_local own_value = FK_LOCAL(ends_value);
static struct fk_local own_number = FK_LOCAL(NULL);

static void has_own(void *arg)
{
	_Atomic int64_t *wrong = arg;
	void **place = fk_fiber_local(&own_value);
	int *number = malloc(sizeof(*number));

	if (*place || *fk_fiber_local(&own_number))
		atomic_fetch_add(wrong, 1);
	*place = number;
	*fk_fiber_local(&own_number) = wrong;
	for (int i = 0; i < 3; i++) {
		*number = i;
		(void)fk_fiber_yield();
		if (*fk_fiber_local(&own_value) != number || *number != i)
			atomic_fetch_add(wrong, 1);
	}
}

FK_FIBER_TASK(int64_t, own, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	_Atomic int64_t wrong = 0;

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(has_own, (void *)(uintptr_t)&wrong, &all);
	(void)fk_counter_wait(&all, 0);
	return wrong;
}
FK_EXPORT(own, "n:i64 -> i64", 0, "Fibers with data of their own, and how many have found others'")

FK_FIBER_TASK_SIZED(int64_t, large, (int64_t, n), 1 << 20)
{
	volatile char *here = __builtin_alloca((size_t)n);

	for (int64_t i = 0; i < n; i += 1024)
		here[i] = 1;
	return n;
}
FK_EXPORT(large, "n:i64 -> i64", 0, "So many bytes of stack")

/* ------------------------------------------------------------------------ both worlds */

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
FK_EXPORT(nested, "n:i64 -> i64", 0, "Frames in fibers in frames")

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

/* Frames whose continuations stand in the deque while fibers below them yield. */
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
FK_EXPORT(yielding, "n:i64 -> i64", 0, "The n-th Fibonacci number, whose leaves are fibers")

static void late(void *arg)
{
	(void)arg;
	for (int i = 0; i < 5; i++)
		(void)fk_fiber_yield();
	atomic_fetch_add(&ended, 1);
}

/* Waits for none of them. */
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
FK_EXPORT(orphans, "n:i64 -> i64", 0, "How many of its fibers had ended when their task had")

/* ------------------------------------------------------------------------ slabs */

/* On a slab it may read below its stack. */
static void reads_below(void *arg)
{
	const struct fiber *f = worker_self()->fiber;

	*(int64_t *)arg = f->stack->kind == FIBER_STACK_SLAB && fiber_stack_intact(f->stack);
}

FK_FIBER_TASK(int64_t, on_slab, (int64_t, n))
{
	struct fk_counter one = FK_COUNTER;

	/* The one guard that there is this fiber has. */
	if (fk_fiber_spawn(reads_below, &n, &one) != -EMFILE)
		return -1;
	if (fk_fiber_spawn_on(reads_below, &n, &one, FK_STACK_SLAB, FK_FIBER_STACK) != 0)
		return -2;
	(void)fk_counter_wait(&one, 0);
	return n;
}
FK_EXPORT(on_slab, "n:i64 -> i64", 0,
	  "1 if a fiber is on a slab, and there is no guard for another")

static __attribute__((no_sanitize("address"))) void writes_below(void *arg)
{
	volatile char *below = worker_self()->fiber->stack->low - 8;

	(void)arg;
	*below = (char)~*below;
}

FK_FIBER_TASK(int64_t, beyond, (int64_t, n))
{
	struct fk_counter one = FK_COUNTER;

	(void)fk_fiber_spawn_on(writes_below, NULL, &one, FK_STACK_SLAB, FK_FIBER_STACK);
	(void)fk_counter_wait(&one, 0);
	return n;
}
FK_EXPORT(beyond, "n:i64 -> i64", 0, "Writes below a stack")

/* ------------------------------------------------------------------------ ends before the end */

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
FK_EXPORT(forever, "n:i64 -> i64", 0, "Fibers that wait for what does not come")

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
	(void)FK_FIBER_CALL(&x, mixed, 8);
	(void)fk_counter_wait(&all, 0);
	return x;
}
FK_EXPORT(busy, "n:i64 -> i64", 0, "Fibers that do a bit of everything")

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
	/* All of them have begun: they are told. */
	(void)fk_counter_wait(&crowd.out, 0);
	(void)fk_fiber_spawn(fails, NULL, &all);
	return wait_noted(&all, 0);
}
FK_EXPORT(one_fails, "n:i64 -> i64", 0, "Fibers that wait, and one that fails")

static void notes_beginning(void *arg)
{
	(void)arg;
	atomic_fetch_add(&tasks_reached, 1);
}

/* They are in the deque when the job fails. */
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
FK_EXPORT(fails_first, "n:i64 -> i64", 0, "Fails before its fibers begin")

FK_FIBER_TASK(int64_t, family, (int64_t, n))
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

/* A tree of frames whose leaves are families that are under way when the last one fails. */
FK_TASK(int64_t, families, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(families)
{
	FK_FORK(x, family, self->n);
	if (self->n)
		FK_CALL(y, families, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(families)
FK_EXPORT(families, "n:i64 -> i64", 0, "Families of fibers, of which the last fails")

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

/* A fiber of one family stands in the deque, awake, when the frame that runs another winds down. */
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
FK_EXPORT(shared, "n:i64 -> i64", 0, "Two families that share a counter")

FK_FIBER_TASK(int64_t, calls_failing, (int64_t, n))
{
	int64_t x = 0;

	if (FK_FIBER_CALL(&x, failing, n) == -ECANCELED)
		atomic_fetch_add(&cut, 1);
	return x;
}
FK_EXPORT(calls_failing, "n:i64 -> i64", 0, "A fiber whose frames fail")

/* Its own entry stands in the deque below the fiber and the frames that it calls. */
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
FK_EXPORT(forks_failing, "n:i64 -> i64", 0, "Forked frames above a fiber whose frames fail")

/* Waits for what does not come, when it is told to. */
FK_FIBER_TASK(int64_t, waits_when_opened, (int64_t, n))
{
	struct fk_counter never = FK_COUNTER_OF(1);

	atomic_fetch_add(&tasks_reached, 1);
	while (!atomic_load(&tasks_opened))
		sched_yield();
	(void)wait_noted(&never, 0);
	return n;
}
FK_EXPORT(waits_when_opened, "n:i64 -> i64", 0, "Begins to wait late")

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
FK_EXPORT(outlasts, "n:i64 -> i64", 0, "Waits for a fiber that takes its time")

FK_FIBER_TASK(int64_t, greedy, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	int64_t got = 0;
	int r = 0;

	for (int64_t i = 0; i < n && r == 0; i++) {
		r = fk_fiber_spawn(nothing, NULL, &all);
		got += r == 0;
	}
	(void)fk_counter_wait(&all, 0);
	return r == -ENOMEM ? got : -1;
}
FK_EXPORT(greedy, "n:i64 -> i64", 0, "How many fibers it could have at once")

/* Of two counters: who counts what, and waits for whom, stands at circle. */
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

/* outer counts one that waits for inner, and one that waits for the gate; inner one that waits
 * until of those only the first is left. No circle, but one if each waited for all. */
FK_FIBER_TASK(int64_t, circle, (int64_t, n))
{
	struct circle c = { FK_COUNTER, FK_COUNTER, FK_COUNTER_OF(1) };

	/* In this order: as soon as the inner one begins, outer counts both. */
	(void)fk_fiber_spawn(circle_waits, &c, &c.outer);
	(void)fk_fiber_spawn(circle_outer, &c, &c.outer);
	(void)fk_counter_wait(&c.outer, 0);
	return n;
}
FK_EXPORT(circle, "n:i64 -> i64", 0, "Fibers that wait for some of others")

static void opens_gate(void *arg)
{
	while (!atomic_load(&tasks_opened))
		sched_yield();
	(void)fk_counter_add(arg, -1);
}

FK_FIBER_TASK(int64_t, gated, (int64_t, n))
{
	struct fk_counter gate = FK_COUNTER_OF(1), all = FK_COUNTER;

	(void)fk_fiber_spawn(opens_gate, &gate, &all);
	if (fk_counter_wait(&gate, 0) < 0)
		n = -1;
	(void)fk_counter_wait(&all, 0);
	return n;
}
FK_EXPORT(gated, "n:i64 -> i64", 0, "Waits until all is opened")

struct duet {
	_Atomic bool over;
	_Atomic int64_t yields;
};

static void yields_along(void *arg)
{
	struct duet *duet = arg;

	while (!atomic_load(&duet->over)) {
		atomic_fetch_add(&duet->yields, 1);
		(void)fk_fiber_yield();
	}
}

/* Two that do nothing but yield, the other one n times. */
FK_FIBER_TASK(int64_t, duet, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	struct duet duet = { .over = false };

	(void)fk_fiber_spawn(yields_along, &duet, &all);
	while (atomic_load(&duet.yields) < n)
		(void)fk_fiber_yield();
	atomic_store(&duet.over, true);
	(void)fk_counter_wait(&all, 0);
	return n;
}
FK_EXPORT(duet, "n:i64 -> i64", 0, "Two that yield")

/* What it waits for is taken off the deque by the frames that it runs. */
FK_FIBER_TASK(int64_t, behind, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	int64_t x = 0;

	(void)fk_fiber_spawn(opens, NULL, &all);
	(void)FK_FIBER_CALL(&x, fib, n);
	while (!atomic_load(&tasks_opened))
		(void)fk_fiber_yield();
	(void)fk_counter_wait(&all, 0);
	return x;
}
FK_EXPORT(behind, "n:i64 -> i64", 0, "Yields until another fiber has run")

FK_MODULE(t, "What check_fiber runs")

#endif
