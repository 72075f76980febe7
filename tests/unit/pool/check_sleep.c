/* SPDX-License-Identifier: MIT */
/*
 * The loads of a sleep and of a wake: the atomic loads of the workers' and the intake's code in
 * each step of tests/support/sleep_steps.h, counted for several numbers of workers and tenants. One
 * thread makes the steps, so the counts are exact on any machine. bench_sleep measures their time.
 */
#include <stdatomic.h>
#include <stdint.h>

static __thread uint64_t loads; /* of the thread that makes the steps */

#undef atomic_load_explicit
#ifdef __clang__
#define atomic_load_explicit(object, order) (loads++, __c11_atomic_load(object, order))
#else
#define atomic_load_explicit(object, order) (loads++, __atomic_load_n(object, order))
#endif

#include "tests/support/sleep_steps.h"

#include <string.h>

#include "common/util.h"
#include "tests/support/check_unit.h"

static uint64_t counted[SLEEP_OPERATIONS];

static void sleep_measure(enum sleep_operation operation, struct pool *pool,
			  void (*prepare)(struct pool *pool), void (*run)(struct pool *pool),
			  void (*undo)(struct pool *pool))
{
	/* The first time warms up; the second time counts. */
	for (uint32_t i = 0; i < 2; i++) {
		if (prepare)
			prepare(pool);
		loads = 0;
		run(pool);
		counted[operation] = loads;
		if (undo)
			undo(pool);
	}
}

#define SIZES 4u

static const uint32_t workers[SIZES] = { 8, 32, 64, 128 };
static const char *const machines[SIZES] = { "numa:2 core:4 pu:1", "numa:2 core:16 pu:1",
					     "numa:2 core:32 pu:1", "numa:2 core:64 pu:1" };

/* Sets loads[operation] for these numbers of workers and tenants. */
static void count(uint32_t size, uint32_t tenants, uint64_t ret_loads[SLEEP_OPERATIONS])
{
	sleep_run(machines[size], workers[size], tenants);
	memcpy(ret_loads, counted, sizeof(counted));
}

/* Words with a bit for each worker. */
static uint32_t words(uint32_t size)
{
	return (workers[size] + 63) / 64;
}

/* Two, of the group with which the dispatcher does not begin. */
#define OTHER_CELL 2u

START_TEST(loads_of_a_sleep_and_a_wake_do_not_depend_on_workers_and_tenants)
{
	static const enum sleep_operation steady[] = { SLEEP_BESIDE, SLEEP_WAKE, SLEEP_WAKE_ANY,
						       SLEEP_TURN };
	uint64_t least[SLEEP_OPERATIONS], now[SLEEP_OPERATIONS];

	count(0, 1, least);
	for (uint32_t size = 0; size < SIZES; size++) {
		for (uint32_t tenants = 1; tenants <= LIMIT_TENANTS; tenants *= 4) {
			count(size, tenants, now);
			for (uint32_t i = 0; i < ARRAY_SIZE(steady); i++)
				ck_assert_msg(now[steady[i]] <= least[steady[i]] + OTHER_CELL,
					      "%s, %u workers, %u tenants: %llu loads, not %llu",
					      sleep_names[steady[i]], workers[size], tenants,
					      (unsigned long long)now[steady[i]],
					      (unsigned long long)least[steady[i]]);
		}
	}
}
END_TEST

START_TEST(last_searcher_reads_each_tenant_once_and_no_worker)
{
	uint64_t one[SLEEP_OPERATIONS], now[SLEEP_OPERATIONS];

	for (uint32_t size = 0; size < SIZES; size++) {
		count(size, 1, one);
		/* Only the words of bits, of the one tenant and of the root deques. */
		ck_assert_uint_le(one[SLEEP_LAST], 32 + 2 * words(size));
		for (uint32_t tenants = 4; tenants <= LIMIT_TENANTS; tenants *= 4) {
			/* The address of its segment, and its summary. */
			uint64_t more = (tenants - 1) * (1 + words(size));

			count(size, tenants, now);
			ck_assert_uint_le(now[SLEEP_LAST], one[SLEEP_LAST] + more);
			ck_assert_uint_le(now[SLEEP_NAP], one[SLEEP_NAP] + more);
		}
	}
}
END_TEST

START_TEST(search_reads_a_bounded_number_of_tenants)
{
	uint64_t one[SLEEP_OPERATIONS], now[SLEEP_OPERATIONS];

	for (uint32_t size = 0; size < SIZES; size++) {
		count(size, 1, one);
		count(size, LIMIT_TENANTS, now);
		ck_assert_uint_le(now[SLEEP_LOOK],
				  one[SLEEP_LOOK] + (DRAIN_SCAN_SOME - 1) * (1 + words(size)));
	}
}
END_TEST

CHECK_MAIN("sleep")
