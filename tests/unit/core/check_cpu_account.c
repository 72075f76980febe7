/* SPDX-License-Identifier: MIT */
/* check_cpu_account.c - which job a worker's time is charged to. The test provides the clock.
 * Threads are in tests/model/cpu_account.c, CPU clocks in check_cpu_time.c. */
#include "daemon/core/cpu_account.h"

#include "common/clock.h"
#include "tests/support/check_unit.h"

#define START (5 * NSEC_PER_SEC) /* times are multiples of ACCOUNT_UNIT */
#define US    UINT64_C(3200)

START_TEST(each_interval_is_charged_once)
{
	struct account account = { 0 };
	uint32_t row;

	account_open(&account, 7, START);
	ck_assert_uint_eq(account_row(&account), 7);
	ck_assert_uint_eq(account_settle(&account, START + 3 * US, &row), 3 * US);
	ck_assert_uint_eq(row, 7);
	/* At the same time there is nothing more to charge. */
	ck_assert_uint_eq(account_settle(&account, START + 3 * US, &row), 0);
	ck_assert_uint_eq(row, ACCOUNT_NOBODY);
	ck_assert_uint_eq(account_close(&account, START + 5 * US, &row), 2 * US);
	ck_assert_uint_eq(row, 7);
}
END_TEST

START_TEST(closed_account_charges_no_row)
{
	struct account account = { 0 };
	uint32_t row = 1;

	ck_assert_uint_eq(account_row(&account), ACCOUNT_NOBODY);
	ck_assert_uint_eq(account_settle(&account, START, &row), 0);
	ck_assert_uint_eq(row, ACCOUNT_NOBODY);
	ck_assert_uint_eq(account_close(&account, START, &row), 0);
	ck_assert_uint_eq(row, ACCOUNT_NOBODY);
	/* Row 0 is a job like any other. */
	account_open(&account, 0, START);
	ck_assert_uint_eq(account_close(&account, START + US, &row), US);
	ck_assert_uint_eq(row, 0);
	ck_assert_uint_eq(account_row(&account), ACCOUNT_NOBODY);
}
END_TEST

START_TEST(older_clock_charges_and_changes_nothing)
{
	struct account account = { 0 };
	uint32_t row;

	account_open(&account, 7, START);
	ck_assert_uint_eq(account_settle(&account, START - US, &row), 0);
	ck_assert_uint_eq(row, ACCOUNT_NOBODY);
	ck_assert_uint_eq(account_settle(&account, START + US, &row), US);
	ck_assert_uint_eq(account_close(&account, START, &row), 0);
	ck_assert_uint_eq(row, 7);
}
END_TEST

START_TEST(overcharge_is_deducted_from_the_next_job)
{
	struct account account = { 0 };
	uint32_t row;

	account_open(&account, 7, START);
	ck_assert_uint_eq(account_settle(&account, START + 5 * US, &row), 5 * US);
	/* The clock was set back: the thread had no CPU for 4 of these units. */
	ck_assert_uint_eq(account_close(&account, START + US, &row), 0);
	account_open(&account, 8, START + US);
	ck_assert_uint_eq(account_settle(&account, START + 4 * US, &row), 0);
	ck_assert_uint_eq(account_close(&account, START + 7 * US, &row), 2 * US);
	ck_assert_uint_eq(row, 8);
	/* The overcharge has been made up for. */
	account_open(&account, 9, START + 7 * US);
	ck_assert_uint_eq(account_close(&account, START + 8 * US, &row), US);
}
END_TEST

START_TEST(cpu_clock_continues_from_its_last_reading)
{
	struct account account = { 0 };

	ck_assert(account_is_stale(&account, START));
	ck_assert_uint_eq(account_cpu(&account, START), START);
	ck_assert_uint_eq(account_set_cpu(&account, US, START), START - US);
	ck_assert(!account_is_stale(&account, START));
	ck_assert(!account_is_stale(&account, START - US));
	ck_assert(!account_is_stale(&account, START + ACCOUNT_STALE - 1));
	ck_assert(account_is_stale(&account, START + ACCOUNT_STALE));
	ck_assert_uint_eq(account_cpu(&account, START + 2 * US), 3 * US);
	/* Of 3 more units the thread had a CPU for 1. */
	ck_assert_uint_eq(account_set_cpu(&account, 2 * US, START + 3 * US), 2 * US);
	ck_assert_uint_eq(account_cpu(&account, START + 4 * US), 3 * US);
	/* The two clocks are not read at the same time: one may be ahead. */
	ck_assert_uint_eq(account_set_cpu(&account, 3 * US + 1, START + 4 * US), 0);
}
END_TEST

START_TEST(strand_of_many_hours_is_charged_completely)
{
	const uint64_t hour = 3600 * NSEC_PER_SEC;
	struct account account = { 0 };
	uint64_t sum = 0, ns;
	uint32_t row;

	account_open(&account, 7, START);
	/* One settlement per hour, as the dispatcher does, and none for four hours. */
	for (uint32_t i = 1; i <= 40; i++) {
		sum += account_settle(&account, START + i * hour, &row);
		ck_assert_uint_eq(row, 7);
	}
	ns = account_close(&account, START + 44 * hour, &row);
	ck_assert_uint_eq(row, 7);
	ck_assert_uint_ge(sum + ns, 44 * hour - 4096);
	ck_assert_uint_le(sum + ns, 44 * hour + 4096);
}
END_TEST

CHECK_MAIN("account")
