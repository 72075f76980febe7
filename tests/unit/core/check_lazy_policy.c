/* SPDX-License-Identifier: MIT */
/* daemon/core/lazy_policy.h and daemon/core/spin_policy.h step by step. check_lazy_pool.c tests
 * them in pools, tests/model/lazy_policy.c their interleavings. */
#include <check.h>
#include <string.h>

#include "common/util.h"
#include "daemon/core/lazy_policy.h"
#include "daemon/core/spin_policy.h"
#include "tests/support/check_unit.h"

/* ------------------------------------------------------------------------ the lazy */

static struct lazy lazy;
static struct lazy_seat seats[LAZY_MAX];

/* All workers search. */
static void make(uint32_t n, const uint32_t *groups, uint32_t n_groups)
{
	memset(&lazy, 0, sizeof(lazy));
	lazy_init(&lazy, seats, n, groups, n_groups);
	for (uint32_t i = 0; i < n; i++)
		lazy_turn_looking(&lazy, i);
	ck_assert_uint_eq(atomic_load(&lazy.active), 0);
	ck_assert_uint_eq(atomic_load(&lazy.needs_thief), 0);
}

static void all_sleep(void)
{
	for (uint32_t i = 0; i < lazy.n; i++)
		ck_assert_int_eq(lazy_sleep(&lazy, i), LAZY_SLEEPS);
	ck_assert_uint_eq(atomic_load(&lazy.needs_thief), UINT64_MAX >> (64 - lazy.n_groups));
}

static uint32_t looking(uint32_t group)
{
	return lazy_looking(&lazy.groups[group], lazy_load(&lazy.groups[group]));
}

START_TEST(node_is_a_group_and_a_large_node_is_split_evenly)
{
	uint32_t groups[200], members[LAZY_GROUPS] = { 0 };

	for (uint32_t i = 0; i < 200; i++)
		groups[i] = i < 112 ? 1 : i % 2 * 2; /* 44, 112 and 44 workers */
	make(200, groups, 3);
	ck_assert_uint_eq(lazy.n_groups, 4);
	for (uint32_t i = 0; i < 200; i++) {
		const struct lazy_group *group = lazy_group_of(&lazy, i);

		ck_assert_uint_eq(groups[lazy_member(&lazy, group, 0)], groups[i]);
		ck_assert_uint_eq(lazy_member(&lazy, group, seats[i].bit), i);
		members[seats[i].group]++;
	}
	ck_assert_uint_eq(members[0], 44);
	ck_assert_uint_eq(members[1], 56);
	ck_assert_uint_eq(members[2], 56);
	ck_assert_uint_eq(members[3], 44);
}
END_TEST

START_TEST(more_nodes_than_groups_are_merged)
{
	uint32_t groups[256];

	for (uint32_t i = 0; i < 256; i++)
		groups[i] = i;
	make(256, groups, 256);
	ck_assert_uint_eq(lazy.n_groups, 5);
	make(64, groups, 64);
	ck_assert_uint_eq(lazy.n_groups, 64);
	make(LAZY_MAX, NULL, 0);
	ck_assert_uint_eq(lazy.n_groups, LAZY_GROUPS);
	for (uint32_t c = 0; c < LAZY_GROUPS; c++)
		ck_assert_uint_eq(lazy.groups[c].n, LAZY_GROUP);
}
END_TEST

START_TEST(last_searcher_of_a_group_stays_awake_while_a_worker_is_busy)
{
	static const uint32_t groups[] = { 0, 0, 0, 1, 1 };

	make(5, groups, 2);
	lazy_turn_busy(&lazy, 0);
	ck_assert_int_eq(lazy_sleep(&lazy, 1), LAZY_SLEEPS);
	ck_assert_int_eq(lazy_sleep(&lazy, 2), LAZY_TIMED);
	ck_assert_int_eq(lazy_sleep(&lazy, 3), LAZY_SLEEPS);
	ck_assert_int_eq(lazy_sleep(&lazy, 4), LAZY_TIMED);
	ck_assert_int_eq(lazy_debt(&lazy, 0), LAZY_NO_DEBT);
	lazy_turn_looking(&lazy, 0);
	ck_assert_int_eq(lazy_sleep(&lazy, 4), LAZY_SLEEPS);
	ck_assert_int_eq(lazy_sleep(&lazy, 2), LAZY_SLEEPS);
	ck_assert_int_eq(lazy_sleep(&lazy, 0), LAZY_SLEEPS);
	ck_assert_uint_eq(atomic_load(&lazy.needs_thief), 3);
}
END_TEST

START_TEST(only_busy_worker_is_charged_for_its_first_fork_and_the_second_at_once)
{
	static const uint32_t groups[] = { 0, 0, 1, 1 };

	make(4, groups, 2);
	all_sleep();
	ck_assert(lazy_rise(&lazy, 0, LAZY_ROUSED));
	ck_assert_uint_eq(atomic_load(&lazy.needs_thief), 2);
	lazy_turn_busy(&lazy, 0);
	ck_assert_uint_eq(atomic_load(&lazy.needs_thief), 3);
	ck_assert_int_eq(lazy_debt(&lazy, 0), LAZY_AT_FORK);
	ck_assert(lazy_rise(&lazy, 3, LAZY_ROUSED));
	lazy_turn_busy(&lazy, 3);
	ck_assert_int_eq(lazy_debt(&lazy, 3), LAZY_NOW);
	ck_assert_int_eq(lazy_debt(&lazy, 0), LAZY_NOW);
	/* Its own group first, then the other one; then no worker is needed. */
	ck_assert_uint_eq(lazy_pick(&lazy, 3), 2);
	ck_assert_uint_eq(lazy_pick(&lazy, 2), 1);
	ck_assert_uint_eq(lazy_pick(&lazy, 1), LAZY_NOBODY);
	ck_assert_int_eq(lazy_debt(&lazy, 0), LAZY_NO_DEBT);
	ck_assert_uint_eq(atomic_load(&lazy.active), 2);
}
END_TEST

START_TEST(wake_duty_passed_on_wakes_one_worker_in_each_group)
{
	uint32_t groups[64], woken = 0, who = 9;

	for (uint32_t i = 0; i < 64; i++)
		groups[i] = i / 8;
	make(64, groups, 8);
	all_sleep();
	ck_assert(lazy_rise(&lazy, 9, LAZY_ROUSED));
	lazy_turn_busy(&lazy, 9);
	while ((who = lazy_pick(&lazy, who)) != LAZY_NOBODY)
		woken++;
	ck_assert_uint_eq(woken, 8);
	for (uint32_t c = 0; c < 8; c++)
		ck_assert_uint_eq(looking(c), 1);
	ck_assert_uint_eq(atomic_load(&lazy.needs_thief), 0);
}
END_TEST

START_TEST(nearest_sleeper_and_nearest_group_are_woken_first)
{
	static const uint16_t near[] = { 6, 9, 8, 0, 10, 4, 3, 12, 1 };
	uint32_t groups[16];

	for (uint32_t i = 0; i < 16; i++)
		groups[i] = i / 4;
	make(16, groups, 4);
	lazy_set_near(&lazy, 1, near, ARRAY_SIZE(near));
	all_sleep();
	ck_assert_uint_eq(lazy_wake(&lazy, &lazy.groups[0], 2), 2);
	ck_assert_uint_eq(lazy_wake(&lazy, &lazy.groups[0], 2), 3);
	ck_assert_uint_eq(lazy_wake(&lazy, &lazy.groups[0], 2), 1);
	ck_assert_uint_eq(lazy_wake(&lazy, &lazy.groups[0], 2), 0);
	ck_assert_uint_eq(lazy_wake(&lazy, &lazy.groups[0], 2), LAZY_NOBODY);
	ck_assert_uint_eq(lazy_pick(&lazy, 5), 5); /* this worker itself sleeps */
	ck_assert_uint_eq(lazy_pick(&lazy, 5), 8);
	ck_assert_uint_eq(lazy_pick(&lazy, 5), 12);
	ck_assert_uint_eq(lazy_pick(&lazy, 5), LAZY_NOBODY);
}
END_TEST

START_TEST(sleeper_is_picked_once)
{
	make(3, NULL, 0);
	all_sleep();
	ck_assert(lazy_rise(&lazy, 1, LAZY_WOKEN));
	ck_assert(!lazy_rise(&lazy, 1, LAZY_WOKEN));
	ck_assert(!lazy_rise(&lazy, 1, LAZY_ROUSED));
	ck_assert_uint_eq(looking(0), 1);
	ck_assert(lazy_rise(&lazy, 2, LAZY_ROUSED));
	ck_assert(!lazy_rise(&lazy, 2, LAZY_WOKEN));
	ck_assert_uint_eq(looking(0), 2);
}
END_TEST

START_TEST(timed_sleep_does_not_count_as_spin)
{
	make(2, NULL, 0);
	ck_assert(lazy_spins(&lazy.groups[0]));
	lazy_timed_sleep(&lazy, 1);
	ck_assert(lazy_spins(&lazy.groups[0]));
	ck_assert_uint_eq(lazy_timed_sleeper(&lazy, &lazy.groups[0], 0), 1);
	lazy_turn_busy(&lazy, 0);
	ck_assert(!lazy_spins(&lazy.groups[0]));
	lazy_timed_sleep_end(&lazy, 1);
	ck_assert(lazy_spins(&lazy.groups[0]));
	ck_assert_uint_eq(lazy_timed_sleeper(&lazy, &lazy.groups[0], 0), LAZY_NOBODY);
}
END_TEST

START_TEST(offline_worker_is_woken_only_by_name)
{
	make(3, NULL, 0);
	lazy_park(&lazy, 1);
	ck_assert_uint_eq(looking(0), 2);
	ck_assert_uint_eq(atomic_load(&lazy.needs_thief), 0);
	ck_assert_int_eq(lazy_sleep(&lazy, 0), LAZY_SLEEPS);
	ck_assert_int_eq(lazy_sleep(&lazy, 2), LAZY_SLEEPS);
	ck_assert_uint_eq(lazy_asleep(lazy_load(&lazy.groups[0])), 3);
	ck_assert_uint_eq(lazy_wake(&lazy, &lazy.groups[0], 1), 2);
	ck_assert_uint_eq(lazy_wake(&lazy, &lazy.groups[0], 1), 0);
	ck_assert_uint_eq(lazy_wake(&lazy, &lazy.groups[0], 1), LAZY_NOBODY);
	ck_assert(lazy_rise(&lazy, 1, LAZY_WOKEN));
	ck_assert(!lazy_rise(&lazy, 1, LAZY_ROUSED));
	/* Back in its group. */
	lazy_return(&lazy, 1);
	ck_assert_uint_eq(looking(0), 3);
	all_sleep();
	ck_assert_uint_eq(lazy_wake(&lazy, &lazy.groups[0], 1), 1);
}
END_TEST

START_TEST(group_of_busy_and_offline_workers_needs_no_searcher)
{
	make(3, NULL, 0);
	lazy_turn_busy(&lazy, 0);
	lazy_park(&lazy, 1);
	lazy_park(&lazy, 2);
	ck_assert_uint_eq(atomic_load(&lazy.needs_thief), 0);
	ck_assert_int_eq(lazy_debt(&lazy, 0), LAZY_NO_DEBT);
	ck_assert_uint_eq(lazy_pick(&lazy, 0), LAZY_NOBODY);
	lazy_turn_looking(&lazy, 0);
	ck_assert_int_eq(lazy_sleep(&lazy, 0), LAZY_SLEEPS);
	ck_assert_uint_eq(atomic_load(&lazy.needs_thief), 1);
}
END_TEST

START_TEST(last_searcher_that_goes_offline_wakes_another_worker)
{
	static const uint32_t groups[] = { 0, 0, 0, 1 };

	make(4, groups, 2);
	ck_assert_int_eq(lazy_sleep(&lazy, 2), LAZY_SLEEPS);
	lazy_turn_busy(&lazy, 0);
	ck_assert_int_eq(lazy_debt(&lazy, 0), LAZY_NO_DEBT);
	lazy_park(&lazy, 1);
	ck_assert_uint_eq(atomic_load(&lazy.needs_thief), 1);
	ck_assert_uint_eq(lazy_pass(&lazy, 1), 2);
	ck_assert_uint_eq(lazy_pass(&lazy, 1), LAZY_NOBODY);
	ck_assert_uint_eq(atomic_load(&lazy.needs_thief), 0);
}
END_TEST

/* ------------------------------------------------------------------------ the spin */

START_TEST(unrewarded_spin_is_shortened_and_tried_again)
{
	struct spin spin;
	uint32_t whole = 0;

	spin_init(&spin);
	ck_assert_uint_eq(spin_limit(&spin, 1600000), 1600000);
	for (uint32_t i = 0; i < 10; i++)
		spin_learn(&spin, 1600001, 1600000);
	ck_assert_uint_eq(spin_limit(&spin, 1600000), 100000);
	for (uint32_t i = 0; i < 2 * SPIN_TRY; i++)
		whole += spin_limit(&spin, 1600000) == 1600000;
	ck_assert_uint_eq(whole, 2);
	for (uint32_t i = 0; i < 4; i++)
		spin_learn(&spin, 1600000, 1600000);
	ck_assert_uint_eq(spin_limit(&spin, 1600000), 1600000);
	ck_assert_uint_eq(spin_limit(&spin, 0), 0);
}
END_TEST

START_TEST(spin_is_at_least_as_long_as_a_sleep_costs)
{
	struct spin spin;

	spin_init(&spin);
	for (uint32_t i = 0; i < 10; i++)
		spin_learn(&spin, 50001, 50000);
	ck_assert_uint_eq(spin.share, 1);
	ck_assert_uint_eq(spin_limit(&spin, 50000), SPIN_FLOOR);
	ck_assert_uint_eq(spin_limit(&spin, SPIN_FLOOR), SPIN_FLOOR);
	ck_assert_uint_eq(spin_limit(&spin, SPIN_FLOOR - 1), SPIN_FLOOR - 1);
	ck_assert_uint_eq(spin_limit(&spin, 7), 7);
}
END_TEST

CHECK_MAIN("lazy")
