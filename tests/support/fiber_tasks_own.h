/* SPDX-License-Identifier: MIT */
/* fiber_tasks_own.h - tasks that check what each fiber owns: local data and a stack */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "daemon/fiber/fiber_types.h"
#include "tests/support/fiber_rig.h"

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
FK_EXPORT(own, 0, "Fibers with data of their own, and how many have found others'")

static _Atomic uint32_t chained;

static void ends_chained(void *value);

static struct fk_local chain[3] = { FK_LOCAL(ends_chained), FK_LOCAL(ends_chained),
				    FK_LOCAL(ends_chained) };
static struct fk_local endless = FK_LOCAL(ends_chained);

/* Each end() sets the value with the previous index, so each takes another pass. */
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

	/* In this order, so that end() sets a value for the next pass. */
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
FK_EXPORT(chained_ends, 0, "How often data was ended that is set at the end")

/* ------------------------------------------------------------------------ stacks */

FK_FIBER_TASK_SIZED(int64_t, large, (int64_t, n), 1 << 20)
{
	volatile char *here = __builtin_alloca((size_t)n);

	for (int64_t i = 0; i < n; i += 1024)
		here[i] = 1;
	return n;
}
FK_EXPORT(large, 0, "Uses n bytes of stack")

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
FK_EXPORT(greedy, 0, "How many fibers it could have at once")

/* On a slab it may read below its stack. */
static void reads_below(void *arg)
{
	const struct fiber_head *f = worker_self()->fiber.self;

	*(int64_t *)arg = f->stack->kind == FIBER_STACK_SLAB && fiber_stack_intact(f->stack);
}

FK_FIBER_TASK(int64_t, on_slab, (int64_t, n))
{
	struct fk_counter one = FK_COUNTER;

	/* This fiber has the only guard. */
	if (fk_fiber_spawn(reads_below, &n, &one) != -EMFILE)
		return -1;
	if (fk_fiber_spawn_on(reads_below, &n, &one, FK_STACK_SLAB, FK_FIBER_STACK) != 0)
		return -2;
	(void)fk_counter_wait(&one, 0);
	return n;
}
FK_EXPORT(on_slab, 0, "1 if a fiber is on a slab, and there is no guard for another")

static __attribute__((no_sanitize("address"))) void writes_below(void *arg)
{
	volatile char *below = worker_self()->fiber.self->stack->low - 8;

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
FK_EXPORT(beyond, 0, "Writes below a stack")
