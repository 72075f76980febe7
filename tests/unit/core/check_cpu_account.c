/* SPDX-License-Identifier: MIT */
/* check_cpu_account.c - unit: whose time a worker is using. The test is the clock; threads are in
 * tests/model/cpu_account.c, CPU clocks in check_cpu_time.c. */
#include "daemon/core/cpu_account.h"

#include "common/clock.h"
#include "tests/support/check_unit.h"

#define START (5 * NSEC_PER_SEC) /* times are multiples of ACCOUNT_UNIT */
#define US    UINT64_C(3200)

START_TEST(each_moment_is_charged_once)
{
	struct account account = { 0 };
	uint32_t row;

	account_open(&account, 7, START);
	ck_assert_uint_eq(account_row(&account), 7);
	ck_assert_uint_eq(account_settle(&account, START + 3 * US, &row), 3 * US);
	ck_assert_uint_eq(row, 7);
	/* At the same moment there is nothing more. */
	ck_assert_uint_eq(account_settle(&account, START + 3 * US, &row), 0);
	ck_assert_uint_eq(row, ACCOUNT_NOBODY);
	ck_assert_uint_eq(account_close(&account, START + 5 * US, &row), 2 * US);
	ck_assert_uint_eq(row, 7);
}
END_TEST

START_TEST(a_closed_account_charges_nobody)
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

START_TEST(an_older_clock_charges_nothing_and_changes_nothing)
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

START_TEST(the_next_job_has_what_was_charged_too_much)
{
	struct account account = { 0 };
	uint32_t row;

	account_open(&account, 7, START);
	ck_assert_uint_eq(account_settle(&account, START + 5 * US, &row), 5 * US);
	/* The clock was put back: the thread had no CPU for 4 of these. */
	ck_assert_uint_eq(account_close(&account, START + US, &row), 0);
	account_open(&account, 8, START + US);
	ck_assert_uint_eq(account_settle(&account, START + 4 * US, &row), 0);
	ck_assert_uint_eq(account_close(&account, START + 7 * US, &row), 2 * US);
	ck_assert_uint_eq(row, 8);
	/* That is made up for. */
	account_open(&account, 9, START + 7 * US);
	ck_assert_uint_eq(account_close(&account, START + 8 * US, &row), US);
}
END_TEST

START_TEST(a_cpu_clock_goes_on_from_its_last_reading)
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
	/* Of 3 more it had a CPU for 1. */
	ck_assert_uint_eq(account_set_cpu(&account, 2 * US, START + 3 * US), 2 * US);
	ck_assert_uint_eq(account_cpu(&account, START + 4 * US), 3 * US);
	/* Two clocks are not read at the same moment: one may be ahead. */
	ck_assert_uint_eq(account_set_cpu(&account, 3 * US + 1, START + 4 * US), 0);
}
END_TEST

START_TEST(a_strand_of_many_hours_is_charged_for_all_of_them)
{
	const uint64_t hour = 3600 * NSEC_PER_SEC;
	struct account account = { 0 };
	uint64_t sum = 0, ns;
	uint32_t row;

	account_open(&account, 7, START);
	/* A look each hour, as the dispatcher's, and none for four. */
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
