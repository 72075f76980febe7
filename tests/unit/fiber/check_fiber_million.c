/* SPDX-License-Identifier: MIT */
/*
 * Very many parked fibers, on slabs and on shared stacks: the cost of each, all woken at once, and
 * all cancelled at once. FIBERS is their number; make soak-million has a million. The figures go to
 * the log.
 */
#define CHECK_TIMEOUT 600

#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <forkd/fiber.h>

#include "common/clock.h"
#include "tests/support/check_unit.h"
#include "tests/support/fiber_rig.h"

#define FIBERS	     100000
#define FIBER_SMALL  16384u /* bytes of stack requested */
#define FIBER_SHARED 1200u  /* maximum bytes of a parked fiber, with all its parts */
#define FIBER_SLAB   4700u

static struct fk_counter gate;
static _Atomic uint32_t kind;
static _Atomic bool all_wait;
static _Atomic uint64_t spawned_ns;

static void waits_at_gate(void *arg)
{
	struct fk_counter *begun = arg;

	(void)fk_counter_add(begun, -1);
	(void)fk_counter_wait(&gate, 0);
	atomic_fetch_add(&ended, 1);
}

FK_FIBER_TASK(int64_t, crowd, (int64_t, n))
{
	struct fk_counter running = FK_COUNTER, begun = FK_COUNTER_OF((uint32_t)n);
	int64_t i, r = 0;

	for (i = 0; i < n && r == 0; i++)
		r = fk_fiber_spawn_on(waits_at_gate, &begun, &running, atomic_load(&kind),
				      FIBER_SMALL);
	if (r < 0)
		return r;
	atomic_store(&spawned_ns, clock_ns());
	(void)fk_counter_wait(&begun, 0);
	atomic_store(&all_wait, true);
	(void)fk_counter_wait(&running, 0);
	return n;
}
FK_EXPORT(crowd, 0, "Runs n fibers that wait for one counter")
FK_MODULE(m, "What check_fiber_million runs")

/* Returns the resident bytes of this process, which include the whole pool. */
static uint64_t resident(void)
{
	char line[256];
	uint64_t kib = 0;
	FILE *file = fopen("/proc/self/status", "re");

	ck_assert_ptr_nonnull(file);
	while (!kib && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmRSS: %lu", (unsigned long *)&kib) != 1)
			kib = 0;
	(void)fclose(file);
	return kib << 10;
}

static int64_t fibers(void)
{
	const char *text = getenv("FIBERS");

	return text ? strtol(text, NULL, 10) : FIBERS;
}

static void park_all(uint32_t of, int64_t n)
{
	atomic_store(&kind, of);
	atomic_store(&all_wait, false);
	gate = FK_COUNTER_OF(1);
	start(2, false);
	atomic_store(&rig.pool->settings.stack_max, UINT64_C(64) << 30);
	submit(1, "m:crowd", n);
	while (!atomic_load(&all_wait))
		sched_yield();
	/* And the root. */
	await_waiting((uint64_t)n + 1);
}

static double ms(uint64_t from, uint64_t to)
{
	return (double)(to - from) / 1e6;
}

/* Parks n fibers, checks their cost, and wakes or cancels them. */
static void park_and_wake(uint32_t of, const char *name, uint64_t most, bool cancelled)
{
	uint64_t before, there, began, parked, over;
	int64_t n = fibers();

	before = resident();
	began = clock_ns();
	park_all(of, n);
	parked = clock_ns();
	there = resident();
	if (cancelled)
		rig_cancel(&rig, 1);
	else
		(void)fk_rt_counter_add(&gate, -1);
	ck_assert_uint_eq(rig_wait(&rig, 1), cancelled ? JOB_CANCELLED : JOB_DONE);
	over = clock_ns();
	ck_assert_uint_eq(atomic_load(&ended), (uint64_t)n);
	printf("%s: %ld fibers parked: %.2f GiB resident, %.2f of it before; %.0f bytes each; "
	       "spawned in %.0f ms, all parked after %.0f ms, %s and ended in %.0f ms\n",
	       name, (long)n, (double)there / (1 << 30), (double)before / (1 << 30),
	       (double)(there - before) / (double)n, ms(began, atomic_load(&spawned_ns)),
	       ms(began, parked), cancelled ? "cancelled" : "woken", ms(parked, over));
	(void)fflush(stdout);
#ifndef FK_SANITIZE /* which needs more memory for each fiber */
	ck_assert_uint_le((there - before) / (uint64_t)n, most);
#else
	(void)most;
#endif
	stop();
}

START_TEST(fibers_on_slabs_cost_a_page_each)
{
	park_and_wake(FK_STACK_SLAB, "slabs", FIBER_SLAB, false);
}
END_TEST

START_TEST(fibers_on_shared_stacks_cost_what_they_use)
{
	park_and_wake(FK_STACK_SHARED, "shared", FIBER_SHARED, false);
}
END_TEST

START_TEST(fibers_on_guarded_stacks_wait_as_well)
{
	park_and_wake(FK_STACK_GUARDED, "guarded", FIBER_SLAB, false);
}
END_TEST

START_TEST(all_fibers_are_cancelled_at_once)
{
	park_and_wake(FK_STACK_SLAB, "slabs", FIBER_SLAB, true);
	park_and_wake(FK_STACK_SHARED, "shared", FIBER_SHARED, true);
}
END_TEST

CHECK_MAIN("fiber_million")
