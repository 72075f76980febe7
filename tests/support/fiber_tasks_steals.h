/* SPDX-License-Identifier: MIT */
/* fiber_tasks_steals.h - tasks of fibers that end only if others are stolen or run elsewhere */
#pragma once

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/support/fiber_rig.h"

static void opens(void *arg)
{
	(void)arg;
	atomic_store(&tasks_opened, 1);
}

static void counts(void *arg)
{
	atomic_fetch_add((_Atomic int64_t *)arg, 1);
}

/* The oldest of n fibers opens the gate. This fiber makes no runtime call until then. */
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
FK_EXPORT(opened, 0, "Waits in a loop for a fiber of its own")

static void spins(void *arg)
{
	(void)arg;
	while (!atomic_load(&tasks_opened))
		sched_yield();
}

/* The same, but the fiber that spins has spawned nothing and calls nothing of the runtime. */
FK_FIBER_TASK(int64_t, opened_below, (int64_t, n))
{
	struct fk_counter both = FK_COUNTER;

	(void)fk_fiber_spawn(opens, NULL, &both);
	(void)fk_fiber_spawn(spins, NULL, &both);
	(void)fk_counter_wait(&both, 0);
	return n;
}
FK_EXPORT(opened_below, 0, "A fiber that waits in a loop for one below it")

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

/* Fibers that yield until two of them run at the same time, on two workers. */
FK_FIBER_TASK(int64_t, meet, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;
	struct meeting meeting = { .present = 0 };

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(meets, &meeting, &all);
	(void)fk_counter_wait(&all, 0);
	return atomic_load(&meeting.ended);
}
FK_EXPORT(meet, 0, "Fibers of which two meet")

/* The frames that this fiber runs take the fiber it waits for off the deque. */
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
FK_EXPORT(behind, 0, "Yields until another fiber has run")
