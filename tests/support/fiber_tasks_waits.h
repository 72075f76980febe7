/* SPDX-License-Identifier: MIT */
/* fiber_tasks_waits.h - tasks of fibers that yield in turn, and that wait for counters, for each
 * other and for frames */
#pragma once

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/clock.h"
#include "daemon/fiber/self.h"
#include "tests/support/fiber_rig.h"

/* ------------------------------------------------------------------------ turns */

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
FK_EXPORT(rounds, 0, "The round in which a fiber had two turns, or 0")

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
FK_EXPORT(yields, 0, "Two fibers that yield to each other")

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

/* Two fibers that only yield; the other one yields n times. */
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
FK_EXPORT(duet, 0, "Two that yield")

/* ------------------------------------------------------------------------ counters */

struct crowd {
	struct fk_counter out; /* fibers that have not reached the gate */
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
FK_EXPORT(many, 0, "Runs n fibers at once")

struct level {
	struct fk_counter *counter;
	_Atomic uint32_t *down; /* smallest value that was seen */
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
		/* This fiber has been released. */
		if (fk_counter_wait(&all, (uint32_t)n - i - 1) < 0)
			return -2;
	}
	(void)fk_counter_wait(&all, 0);
	for (uint32_t i = 0; i < n; i++)
		wrong += levels[i].wrong;
	return wrong;
}
FK_EXPORT(levels, 0, "Fibers that wait for values of one counter")

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

/* Four fibers that wait for each other: the last one also wakes fibers that are about to park. */
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
FK_EXPORT(barriers, 0, "Four fibers that wait for each other, the given number of times")

/* A frame, and only its first block. */
FK_LEAF_TASK(int64_t, tells, (uintptr_t, counter))
{
	return fk_counter_add((struct fk_counter *)counter, -1);
}

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
FK_EXPORT(told, 0, "Fibers that wait for frames")

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
FK_EXPORT(gated, 0, "Waits until all is opened")

/* Checks that the fiber, alone in its scope, is in no list of waiting fibers. */
static int64_t is_listed(void)
{
	struct scope *scope = fiber_self()->scope;
	int64_t n = 0;

	for (uint32_t i = 0; i < FIBER_SHARDS; i++)
		n += scope->shards[i].parked.next != &scope->shards[i].parked;
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
FK_EXPORT(unlisted, 0, "The line where a fiber that runs counts as one that waits")
