/* SPDX-License-Identifier: MIT */
/*
 * Fibers of each kind of stack, mainly shared stacks: their contents are the same after each wait,
 * at the same address. They stay on their worker, and migrate if that worker goes offline. Calls
 * that a shared stack forbids are refused. The tasks are those of check_fiber.c, with a kind that
 * the test chooses, and some others.
 */
#define CHECK_TIMEOUT 120

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <forkd/fiber.h>

static _Atomic uint32_t kind; /* of stack, for the fibers that tasks spawn */

#undef fk_fiber_spawn
#define fk_fiber_spawn(fn, arg, counter)                                                           \
	fk_fiber_spawn_on(fn, arg, counter, atomic_load(&kind), FK_FIBER_STACK)

#include "common/clock.h"
#include "daemon/sched/cpu_parking.h"
#include "daemon/engine/slow_path.h"
#include "daemon/fiber/shared_stack.h"
#include "shm/wake.h"
#include "tests/support/check_unit.h"
#include "tests/support/fiber_rig.h"
#include "tests/support/fiber_tasks_ends.h"
#include "tests/support/fiber_tasks_own.h"
#include "tests/support/fiber_tasks_steals.h"
#include "tests/support/fiber_tasks_trees.h"
#include "tests/support/fiber_tasks_waits.h"

FK_MODULE(t, "What check_fiber_shared runs")

/* of: the kind of stack for the fibers that tasks spawn. */
static void start_on(uint32_t of, uint32_t workers, bool forced)
{
	atomic_store(&kind, of);
	start(workers, forced);
}

/* ------------------------------------------------------------------------ as with any stack */

START_TEST(fibers_have_the_same_results_on_slabs)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		start_on(FK_STACK_SLAB, workers, false);
		for (int i = 0; i < 5; i++)
			ck_assert_int_eq(rig_call(&rig, "t:both", 10), 11 * 55);
		ck_assert_int_eq(rig_call(&rig, "t:barriers", 500), 2000);
		stop();
	}
}
END_TEST

static void do_all(void)
{
	ck_assert_int_eq(rig_call(&rig, "t:many", 300), 300);
	ck_assert_int_eq(rig_call(&rig, "t:levels", 20), 0);
	ck_assert_int_eq(rig_call(&rig, "t:barriers", 200), 800);
	ck_assert_int_eq(rig_call(&rig, "t:told", 10), 10);
	/* Two of its tree's fibers have shared stacks: they spawn none with a counter there. */
	ck_assert_int_eq(rig_call(&rig, "t:busy", 20), 10 * 21 + 7 + 6);
	ck_assert_int_eq(rig_call(&rig, "t:own", 50), 0);
	atomic_store(&tasks_opened, 0);
	ck_assert_int_eq(rig_call(&rig, "t:behind", 10), 55);
	ck_assert_int_eq(rig_call(&rig, "t:yielding", 8), 21);
	atomic_store(&ended, 0);
	ck_assert_int_eq(rig_call(&rig, "t:orphans", 30), 30);
}

START_TEST(fibers_have_the_same_results_on_shared_stacks)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		start_on(FK_STACK_SHARED, workers, false);
		for (int i = 0; i < 5; i++)
			do_all();
		ck_assert_uint_gt(rig_counter(&rig, fiber_copies), 0);
		ck_assert_uint_gt(rig_counter(&rig, fiber_copied_bytes),
				  rig_counter(&rig, fiber_copies));
		stop();
	}
}
END_TEST

START_TEST(fibers_have_the_same_results_if_every_fork_is_stolen)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start_on(FK_STACK_SHARED, workers, true);
		do_all();
		stop();
	}
}
END_TEST

START_TEST(fibers_have_the_same_results_with_the_schedule_fuzzer)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		rig_prepare = shake;
		start_on(FK_STACK_SHARED, workers, false);
		for (int i = 0; i < 3; i++)
			do_all();
		stop();
	}
}
END_TEST

static void make_deques_short(struct pool *pool)
{
	for (uint32_t i = 0; i < pool->n_workers; i++)
		pool->workers[i].engine.fk.end = pool->workers[i].engine.fk.bottom + 10;
}

START_TEST(fibers_have_the_same_results_with_full_deques)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		rig_prepare = make_deques_short;
		start_on(FK_STACK_SHARED, workers, false);
		ck_assert_int_eq(rig_call(&rig, "t:many", 1000), 1000);
		ck_assert_int_eq(rig_call(&rig, "t:levels", 20), 0);
		ck_assert_int_eq(rig_call(&rig, "t:barriers", 200), 800);
		stop();
	}
}
END_TEST

START_TEST(signals_and_requests_at_any_moment_do_no_harm)
{
	pthread_t storm;

	for (uint32_t workers = 1; workers <= 2; workers++) {
		start_on(FK_STACK_SHARED, workers, false);
		storm = quiet_storm_begin(&rig);
		for (int i = 0; i < 5; i++)
			do_all();
		quiet_storm_end(storm);
		stop();
	}
}
END_TEST

/* ------------------------------------------------------------------------ what is on the stack */

struct keeper {
	struct fk_counter *round; /* each fiber counts it down in each round */
	uint32_t n_rounds;
	uint32_t who;
	_Atomic uint32_t wrong;
	_Atomic uint32_t moved;
};

#define KEEPER_MOST 2000u

/* Fills part of its stack, waits, and checks that the contents are the same. */
static __attribute__((noinline)) void keeps(struct keeper *self, uint32_t round, uint32_t depth)
{
	uint32_t size = 1 + (self->who * 37 + round * 11 + depth) % KEEPER_MOST;
	volatile uint32_t words[KEEPER_MOST];
	volatile uint32_t *volatile at = words;

	for (uint32_t i = 0; i < size; i++)
		words[i] = self->who * 1000003 + round * 1009 + depth * 101 + i;
	if (depth) {
		keeps(self, round, depth - 1);
	} else {
		if (fk_counter_add(&self->round[round], -1) != 0 ||
		    (round % 3 == 1 && fk_fiber_yield() != 0) ||
		    (round % 3 == 2 && fk_fiber_sleep(1000) != 0) ||
		    fk_counter_wait(&self->round[round], 0) != 0)
			atomic_fetch_add(&self->wrong, 1);
	}
	for (uint32_t i = 0; i < size; i++)
		if (words[i] != self->who * 1000003 + round * 1009 + depth * 101 + i)
			atomic_fetch_add(&self->wrong, 1);
	if (at != words)
		atomic_fetch_add(&self->wrong, 1);
}

static void keeper(void *arg)
{
	struct keeper *self = arg;
	struct worker *w = worker_self();

	for (uint32_t i = 0; i < self->n_rounds; i++) {
		keeps(self, i, (self->who + i) % 5);
		if (worker_self() != w)
			atomic_fetch_add(&self->moved, 1);
		w = worker_self();
	}
}

#define KEEPERS 40u

/* Returns the number of errors, plus 1000 for each fiber that migrated to another worker. */
FK_FIBER_TASK(int64_t, keepers, (int64_t, rounds))
{
	struct keeper *all = calloc(KEEPERS, sizeof(*all));
	struct fk_counter *round = calloc((size_t)rounds, sizeof(*round));
	struct fk_counter running = FK_COUNTER;
	int64_t wrong = 0;

	for (int64_t i = 0; i < rounds; i++)
		round[i] = FK_COUNTER_OF(KEEPERS);
	for (uint32_t i = 0; i < KEEPERS; i++) {
		all[i] = (struct keeper){ .round = round, .n_rounds = (uint32_t)rounds, .who = i };
		if (fk_fiber_spawn(keeper, &all[i], &running) < 0)
			return -1;
	}
	(void)fk_counter_wait(&running, 0);
	for (uint32_t i = 0; i < KEEPERS; i++)
		wrong += all[i].wrong + 1000 * all[i].moved;
	free(all);
	free(round);
	return wrong;
}
FK_EXPORT_RESULTS(keepers, (int64_t, wrong), 0, "Fibers that keep much on their stacks")

START_TEST(shared_stack_has_the_same_contents_after_each_wait)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		start_on(FK_STACK_SHARED, workers, false);
		for (int i = 0; i < 5; i++)
			ck_assert_int_eq(rig_call(&rig, "t:keepers", 30), 0);
		ck_assert_uint_ge(rig_counter(&rig, fiber_copies), 5 * 30);
		stop();
	}
}
END_TEST

static void alone(void *arg)
{
	_Atomic bool *over = arg;

	for (int i = 0; i < 1000; i++)
		(void)fk_fiber_yield();
	atomic_store(over, true);
}

FK_FIBER_TASK(int64_t, loner, (int64_t, n))
{
	struct fk_counter running = FK_COUNTER;
	_Atomic bool over = false;

	(void)fk_fiber_spawn(alone, (void *)&over, &running);
	while (!atomic_load(&over))
		(void)fk_fiber_yield();
	(void)fk_counter_wait(&running, 0);
	return n;
}
FK_EXPORT(loner, 0, "Yields with one other")

START_TEST(fiber_alone_on_its_stack_is_never_copied)
{
	start_on(FK_STACK_SHARED, 1, false);
	ck_assert_int_eq(rig_call(&rig, "t:loner", 1), 1);
	ck_assert_uint_ge(rig_counter(&rig, fiber_yields), 1000);
	ck_assert_uint_eq(rig_counter(&rig, fiber_copies), 0);
	stop();
}
END_TEST

/* The stack of its caller has other users when this fiber ends. */
FK_FIBER_TASK(int64_t, says_late, (int64_t, n))
{
	for (int i = 0; i < 20; i++)
		(void)fk_fiber_yield();
	return n;
}

static _Atomic int32_t said[8];
static _Atomic int64_t callers;

static void misuses(void *arg)
{
	struct fk_counter here = FK_COUNTER, there = FK_COUNTER_OF(1);
	int64_t x = 5;

	(void)arg;
	said[0] = fk_fiber_spawn(nothing, NULL, &here);
	said[1] = fk_fiber_spawn(nothing, &x, NULL);
	said[2] = fk_counter_wait(&there, 0);
	said[3] = fk_fiber_spawn_on(nothing, NULL, &here, FK_STACK_GUARDED, FK_FIBER_STACK);
	said[4] = fk_fiber_spawn_on(nothing, NULL, NULL, FK_STACK_SHARED, FIBER_SHARED_STACK + 1);
	said[5] = fk_fiber_spawn(nothing, arg, NULL);
	/* The result is stored on its stack, which other fibers use in the meantime. */
	for (int64_t i = 0, n = atomic_fetch_add(&callers, 1); i < 20; i++)
		if (FK_FIBER_CALL(&x, says_late, 100 * i + n) != 0 || x != 100 * i + n)
			said[6]--;
}

FK_FIBER_TASK(int64_t, misused, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;

	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(misuses, NULL, &all);
	(void)fk_counter_wait(&all, 0);
	return 0;
}
FK_EXPORT(misused, 0, "Fibers that leave things on their stacks")

START_TEST(calls_that_a_shared_stack_forbids_are_refused)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start_on(FK_STACK_SHARED, workers, false);
		ck_assert_int_eq(rig_call(&rig, "t:misused", 10), 0);
		for (int i = 0; i < 5; i++)
			ck_assert_msg(said[i] == -EINVAL, "%d: %d", i, said[i]);
		ck_assert_int_eq(said[5], 0);
		ck_assert_int_eq(said[6], 0);
		stop();
	}
}
END_TEST

/* ------------------------------------------------------------------------ turns */

START_TEST(yielding_fiber_runs_after_all_others)
{
	start_on(FK_STACK_SHARED, 1, false);
	ck_assert_int_eq(rig_call(&rig, "t:rounds", 5), 0);
	ck_assert_uint_ge(rig_counter(&rig, fiber_yields), 15);
	stop();
}
END_TEST

struct relay {
	_Atomic int64_t turn;
	int64_t n;
};

struct runner {
	struct relay *relay;
	int64_t who;
};

static void runs_relay(void *arg)
{
	struct runner *self = arg;
	int64_t turn;

	while ((turn = atomic_load(&self->relay->turn)) < self->relay->n) {
		if (turn % 6 == self->who)
			atomic_store(&self->relay->turn, turn + 1);
		(void)fk_fiber_yield();
	}
}

/* Three fibers with their own stacks and three on a shared stack only yield until it is their
 * turn. */
FK_FIBER_TASK(int64_t, relay, (int64_t, n))
{
	struct relay relay = { .n = n };
	struct fk_counter all = FK_COUNTER;
	struct runner runners[6];

	for (int64_t i = 0; i < 6; i++) {
		runners[i] = (struct runner){ &relay, i };
		(void)fk_fiber_spawn_on(runs_relay, &runners[i], &all,
					i % 2 ? FK_STACK_SHARED : FK_STACK_GUARDED, FK_FIBER_STACK);
	}
	(void)fk_counter_wait(&all, 0);
	return relay.turn;
}
FK_EXPORT(relay, 0, "Fibers of both kinds take turns")

START_TEST(fibers_on_both_kinds_of_stacks_alternate)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start_on(FK_STACK_SHARED, workers, false);
		ck_assert_int_eq(rig_call(&rig, "t:relay", 3000), 3000);
		/* A few rounds for each turn at most, not until a timer expires. */
		if (workers == 1)
			ck_assert_uint_le(rig_counter(&rig, fiber_yields), 3000 * 24);
		stop();
	}
}
END_TEST

START_TEST(queued_job_preempts_fibers_that_only_yield)
{
	start_on(FK_STACK_SHARED, 1, false);
	submit(1, "t:yields", 0);
	await_reached();
	ck_assert_int_eq(rig_call(&rig, "t:fib", 10), 55);
	atomic_store(&tasks_opened, 1);
	ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	stop();
}
END_TEST

/* ------------------------------------------------------------------------ offline workers */

static void choose(uint64_t usable)
{
	const uint64_t bits[LIMIT_WORKERS / 64] = { usable };

	park_choose(rig.pool, bits, (uint32_t)__builtin_popcountll(usable), 0);
}

static struct fk_counter gate;
static _Atomic uint32_t went_on[4]; /* fibers that resumed, per worker */
static _Atomic uint32_t came_to;    /* the worker of a parked fiber */

static void waits_at_gate(void *arg)
{
	struct fk_counter *begun = arg;
	volatile uint64_t mark = (uintptr_t)&mark;

	atomic_store(&came_to, worker_self()->index);
	(void)fk_counter_add(begun, -1);
	(void)fk_counter_wait(&gate, 0);
	atomic_fetch_add(&went_on[worker_self()->index], 1);
	if (mark != (uintptr_t)&mark)
		atomic_fetch_add(&tasks_reached, 1000);
	atomic_fetch_add(&tasks_reached, 1);
}

FK_FIBER_TASK(int64_t, at_gate, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER, *begun = malloc(sizeof(*begun));

	*begun = FK_COUNTER_OF((uint32_t)n);
	for (int64_t i = 0; i < n; i++)
		(void)fk_fiber_spawn(waits_at_gate, begun, &all);
	(void)fk_counter_wait(begun, 0);
	atomic_store(&tasks_opened, 1);
	(void)fk_counter_wait(&all, 0);
	free(begun);
	return n;
}
FK_EXPORT(at_gate, 0, "Fibers that wait until the test lets them go")

/* n fibers park, some on each worker. */
static void submit_waiting(uint32_t job, int64_t n)
{
	gate = FK_COUNTER_OF(1);
	for (int i = 0; i < 4; i++)
		atomic_store(&went_on[i], 0);
	atomic_store(&tasks_reached, 0);
	atomic_store(&tasks_opened, 0);
	submit(job, "t:at_gate", n);
	while (!atomic_load(&tasks_opened))
		sched_yield();
}

static bool rests(uint32_t worker, uint32_t state)
{
	return wake_state(wake_load(&rig.pool->workers[worker].board->wake)) == state;
}

static void open_gate(void)
{
	(void)fk_rt_counter_add(&gate, -1);
}

static uint32_t holder_of(uint32_t shared)
{
	return atomic_load(&rig.pool->fibers->shared_stacks.shared_stacks[shared].holder);
}

START_TEST(fibers_of_an_offline_worker_migrate_and_return)
{
	uint32_t gone = 0, back = 0;

	start_on(FK_STACK_SHARED, 2, false);
	for (int i = 0; i < 30; i++) {
		uint32_t stays, goes;
		bool went;

		submit_waiting(1, 200);
		goes = atomic_load(&came_to);
		stays = 1 - goes;
		choose(1u << stays);
		while (!rests(goes, WAKE_PARKED))
			sched_yield();
		open_gate();
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
		ck_assert_uint_eq(atomic_load(&tasks_reached), 200);
		/* Fibers that had begun on the other worker have migrated. */
		ck_assert_uint_eq(went_on[stays], 200);
		went = holder_of(goes) == stays;
		gone += went;
		/* And after the other worker is back. */
		choose(3);
		submit_waiting(1, 200);
		open_gate();
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
		ck_assert_uint_eq(atomic_load(&tasks_reached), 200);
		back += went && holder_of(goes) == goes;
	}
	ck_assert_uint_gt(gone, 0);
	ck_assert_uint_gt(back, 0);
	stop();
}
END_TEST

/* Workers go offline and return all the time. */
static _Atomic bool flicker_over;

static void *flicker(void *arg)
{
	uint64_t set = 1;

	while (!atomic_load(&flicker_over)) {
		choose(set);
		set = set % 15 + 1;
		for (int i = 0; i < 100; i++)
			sched_yield();
	}
	choose(15);
	return arg;
}

START_TEST(workers_go_offline_at_any_moment)
{
	pthread_t thread;

	for (uint32_t workers = 2; workers <= 4; workers += 2) {
		start_on(FK_STACK_SHARED, workers, false);
		atomic_store(&flicker_over, false);
		ck_assert_int_eq(pthread_create(&thread, NULL, flicker, NULL), 0);
		for (int i = 0; i < 10; i++) {
			ck_assert_int_eq(rig_call(&rig, "t:keepers", 20) % 1000, 0);
			do_all();
		}
		atomic_store(&flicker_over, true);
		pthread_join(thread, NULL);
		stop();
	}
}
END_TEST

/* ------------------------------------------------------------------------ ends before the end */

START_TEST(cancel_ends_waits_of_fibers)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start_on(FK_STACK_SHARED, workers, false);
		for (int i = 0; i < 20; i++) {
			uint64_t before = rig_counter(&rig, fiber_parks);

			atomic_store(&cut, 0);
			submit(1, "t:forever", 50);
			await_waiting(before + 51);
			see_cancelled(1);
			ck_assert_uint_eq(atomic_load(&cut), 51);
		}
		stop();
	}
}
END_TEST

START_TEST(cancel_at_any_moment_ends_the_job)
{
	for (uint32_t workers = 1; workers <= 2; workers++) {
		start_on(FK_STACK_SHARED, workers, false);
		for (uint32_t i = 0; i < 300; i++) {
			(void)cancel_after(i % 100 * 10000, "t:busy", 40);
		}
		stop();
	}
}
END_TEST

static _Atomic uint32_t no_memory;
static _Atomic int64_t came_to_gate;

static __attribute__((noinline)) void waits_if_it_can(void *arg)
{
	(void)arg;
	if (fk_fiber_yield() == -ENOMEM)
		atomic_fetch_add(&no_memory, 1);
	atomic_fetch_add(&came_to_gate, 1);
	if (fk_counter_wait(&gate, 0) == -ENOMEM)
		atomic_fetch_add(&no_memory, 1);
	if (fk_fiber_sleep(1000) == -ENOMEM)
		atomic_fetch_add(&no_memory, 1);
}

/* With this much on their stacks, at most 40 of 180 fibers have memory to wait (512 * 200 / 2560),
 * even if all others have ended. */
static void waits_deep_if_it_can(void *arg)
{
	char some[2560];

	__asm__ volatile("" : : "r"(some) : "memory");
	waits_if_it_can(arg);
	__asm__ volatile("" : : "r"(some) : "memory");
}

static int64_t spawn_and_wait(void (*run)(void *), int64_t n)
{
	struct fk_counter all = FK_COUNTER;
	int64_t begun = 0;

	gate = FK_COUNTER_OF(1);
	atomic_store(&came_to_gate, 0);
	while (begun < n && fk_fiber_spawn(run, NULL, &all) == 0)
		begun++;
	/* Fibers that could wait are at the gate. */
	while (atomic_load(&came_to_gate) < begun)
		(void)fk_fiber_yield();
	(void)fk_counter_add(&gate, -1);
	(void)fk_counter_wait(&all, 0);
	return begun;
}

FK_FIBER_TASK(int64_t, short_of_memory, (int64_t, n))
{
	return spawn_and_wait(waits_if_it_can, n);
}
FK_EXPORT(short_of_memory, 0, "Fibers of which some have no memory to wait with")

FK_FIBER_TASK(int64_t, short_and_deep, (int64_t, n))
{
	return spawn_and_wait(waits_deep_if_it_can, n);
}
FK_EXPORT(short_and_deep, 0, "Fibers of which most have no memory to wait with")

START_TEST(wait_without_memory_returns_an_error)
{
	start_on(FK_STACK_SHARED, 1, false);
	atomic_store(&no_memory, 0);
	/* Enough for all records, and for some of the stacks. */
	atomic_store(&rig.pool->settings.stack_max, 64 * 1024 + 512 * 200);
	ck_assert_int_eq(rig_call(&rig, "t:short_and_deep", 180), 180);
	ck_assert_uint_ge(atomic_load(&no_memory), 180 - 40);
	ck_assert_uint_lt(atomic_load(&no_memory), 3 * 180);
	stop();
}
END_TEST

static _Atomic int32_t shrunk;

static __attribute__((noinline)) void waits_deep(struct fk_counter *begun)
{
	char much[60000];

	__asm__ volatile("" : : "r"(much) : "memory");
	(void)fk_counter_add(begun, -1);
	(void)fk_counter_wait(&gate, 0);
	__asm__ volatile("" : : "r"(much) : "memory");
}

/* Yields with 20000 bytes on its stack. */
static __attribute__((noinline)) int32_t yields_deep(void)
{
	char some[20000];
	int32_t r;

	__asm__ volatile("" : : "r"(some) : "memory");
	r = fk_fiber_yield();
	__asm__ volatile("" : : "r"(some) : "memory");
	return r;
}

static void waits_with_less(void *arg)
{
	waits_deep(arg);
	atomic_store(&shrunk, yields_deep());
}

/* A parked fiber has much on its stack; others use the rest of the job's limit. */
FK_FIBER_TASK(int64_t, shrinks, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER, begun = FK_COUNTER_OF(1);

	gate = FK_COUNTER_OF(1);
	(void)fk_fiber_spawn(waits_with_less, &begun, &all);
	(void)fk_counter_wait(&begun, 0);
	while (rig_counter(&rig, fiber_parks) < 2)
		(void)fk_fiber_yield();
	while (fk_fiber_spawn(nothing, NULL, &all) == 0)
		n++;
	(void)fk_counter_add(&gate, -1);
	(void)fk_counter_wait(&all, 0);
	return n;
}
FK_EXPORT(shrinks, 0, "A fiber that waits with less than before, without memory")

START_TEST(fiber_with_less_on_its_stack_needs_no_memory)
{
	start_on(FK_STACK_SHARED, 1, false);
	atomic_store(&shrunk, 1);
	atomic_store(&rig.pool->settings.stack_max, 256 * 1024);
	ck_assert_int_gt(rig_call(&rig, "t:shrinks", 0), 0);
	ck_assert_int_eq(atomic_load(&shrunk), 0);
	stop();
}
END_TEST

static _Atomic int32_t last_yield;

static void yields_until_over(void *arg)
{
	(void)arg;
	while (!fk_fiber_is_over()) {
		if (yields_deep() == -ENOMEM)
			atomic_store(&tasks_reached, 1);
	}
	atomic_store(&last_yield, yields_deep());
}

FK_FIBER_TASK(int64_t, yields_in_vain, (int64_t, n))
{
	struct fk_counter all = FK_COUNTER;

	(void)fk_fiber_spawn(yields_until_over, NULL, &all);
	(void)fk_counter_wait(&all, 0);
	return n;
}
FK_EXPORT(yields_in_vain, 0, "A fiber that yields, and has no memory for that")

START_TEST(fiber_without_memory_gets_the_cancellation_of_its_job)
{
	start_on(FK_STACK_SHARED, 1, false);
	atomic_store(&last_yield, 1);
	/* The task's own stack, its frame and a record, but no copy. */
	atomic_store(&rig.pool->settings.stack_max, FK_FIBER_STACK + 20 * 1024);
	submit(1, "t:yields_in_vain", 0);
	await_reached();
	see_cancelled(1);
	ck_assert_int_eq(atomic_load(&last_yield), -ECANCELED);
	stop();
}
END_TEST

/* A fiber that cannot leave its stack continues, whatever requests its worker gets. */
START_TEST(fiber_that_cannot_leave_a_shared_stack_does_not_yield)
{
	pthread_t storm;

	for (uint32_t workers = 1; workers <= 2; workers++) {
		start_on(FK_STACK_SHARED, workers, false);
		atomic_store(&no_memory, 0);
		atomic_store(&rig.pool->settings.stack_max, 64 * 1024 + 512 * 200);
		storm = quiet_storm_begin(&rig);
		for (int i = 0; i < 20; i++)
			ck_assert_int_gt(rig_call(&rig, "t:short_of_memory", 180), 100);
		quiet_storm_end(storm);
		ck_assert_uint_gt(atomic_load(&no_memory), 100);
		stop();
	}
}
END_TEST

CHECK_MAIN("fiber_shared")
