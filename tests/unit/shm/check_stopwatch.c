/* SPDX-License-Identifier: MIT */
#include "shm/stopwatch.h"

#include "tests/support/check_unit.h"

static struct stopwatch watch;

static void assert_read(uint64_t now, uint64_t ns)
{
	ck_assert_uint_eq(stopwatch_read(&watch, now), ns);
}

START_TEST(stopwatch_shows_the_time_that_it_ran_and_advances_while_it_runs)
{
	assert_read(1000, 0);
	stopwatch_set(&watch, true, 1000);
	assert_read(1000, 0);
	assert_read(1700, 700);
	stopwatch_set(&watch, false, 2000);
	assert_read(2000, 1000);
	assert_read(9000, 1000);
	stopwatch_set(&watch, true, 10000);
	assert_read(10001, 1001);
	stopwatch_clear(&watch);
	assert_read(20000, 0);
}
END_TEST

START_TEST(start_and_stop_twice_change_nothing)
{
	stopwatch_set(&watch, false, 100);
	stopwatch_set(&watch, true, 1000);
	stopwatch_set(&watch, true, 2000);
	assert_read(3000, 2000);
	stopwatch_set(&watch, false, 3000);
	stopwatch_set(&watch, false, 4000);
	assert_read(5000, 2000);
}
END_TEST

/* Of two threads, or of one that has read the clock earlier. */
START_TEST(time_before_the_start_counts_as_0)
{
	stopwatch_set(&watch, true, 1000);
	assert_read(990, 0);
	stopwatch_set(&watch, false, 1000);
	stopwatch_set(&watch, true, 5000);
	stopwatch_set(&watch, false, 4000);
	assert_read(9000, 0);
	stopwatch_set(&watch, true, 10000);
	stopwatch_set(&watch, false, 10300);
	stopwatch_set(&watch, true, 11000);
	assert_read(10900, 200);
}
END_TEST

START_TEST(years_fit_in_its_word)
{
	const uint64_t year = UINT64_C(31556952000000000);

	stopwatch_set(&watch, true, 100 * year);
	assert_read(130 * year, 30 * year);
	stopwatch_set(&watch, false, 130 * year);
	stopwatch_set(&watch, true, 131 * year);
	assert_read(140 * year, 39 * year);
}
END_TEST

CHECK_MAIN("stopwatch")
