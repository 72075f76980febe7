/* SPDX-License-Identifier: MIT */
/* number: valid numbers and units, and printed numbers read back the same. */
#include "common/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tests/support/check_unit.h"

START_TEST(number_begins_with_a_digit)
{
	static const char *const bad[] = { "", " 1", "+1", "-1", "x", "9" };
	const char *rest = NULL;
	uint64_t n = 7;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_int_eq(number_parse(bad[i], 8, &n, &rest), -EINVAL);
	ck_assert_int_eq(number_parse("18446744073709551616", 10, &n, &rest), -ERANGE);
	ck_assert_uint_eq(n, 7);
	ck_assert_ptr_null(rest);
	ck_assert_int_eq(number_parse("18446744073709551615,x", 10, &n, &rest), 0);
	ck_assert_uint_eq(n, UINT64_MAX);
	ck_assert_str_eq(rest, ",x");
	ck_assert_int_eq(number_parse("0644", 8, &n, &rest), 0);
	ck_assert_uint_eq(n, 0644);
}
END_TEST

START_TEST(unit_may_be_missing_if_there_is_a_default)
{
	uint64_t n = 7;

	ck_assert_int_eq(number_parse_unit("5", &number_durations, NULL, &n), -EINVAL);
	ck_assert_uint_eq(n, 7);
	ck_assert_int_eq(number_parse_unit("5", &number_durations, "ms", &n), 0);
	ck_assert_uint_eq(n, 5000000);
	ck_assert_int_eq(number_parse_unit("5us", &number_durations, "ms", &n), 0);
	ck_assert_uint_eq(n, 5000);
	ck_assert_int_eq(number_parse_unit("5", &number_sizes, "", &n), 0);
	ck_assert_uint_eq(n, 5);
	ck_assert_int_eq(number_parse_unit("5 K", &number_sizes, "", &n), 0);
	ck_assert_uint_eq(n, 5 << 10);
	ck_assert_int_eq(number_parse_unit("5k", &number_sizes, "", &n), -EINVAL);
	ck_assert_int_eq(number_parse_unit("5K ", &number_sizes, "", &n), -EINVAL);
}
END_TEST

START_TEST(product_that_overflows_is_refused)
{
	uint64_t n = 7;

	ck_assert_int_eq(number_parse_unit("16777216T", &number_sizes, "", &n), -ERANGE);
	ck_assert_uint_eq(n, 7);
	ck_assert_int_eq(number_parse_unit("16777215T", &number_sizes, "", &n), 0);
	ck_assert_int_eq(number_parse_unit("307445735min", &number_durations, NULL, &n), -ERANGE);
	ck_assert_int_eq(number_parse_unit("307445734min", &number_durations, NULL, &n), 0);
	ck_assert_uint_eq(n, UINT64_C(307445734) * 60000000000);
	ck_assert_int_eq(number_parse_unit("5124096h", &number_durations, NULL, &n), -ERANGE);
	ck_assert_int_eq(number_parse_unit("5124095h", &number_durations, NULL, &n), 0);
	ck_assert_uint_eq(n, UINT64_C(5124095) * 3600000000000);
}
END_TEST

static void reads_back(uint64_t value, const struct number_units *units, const char *want)
{
	char text[64] = "";
	FILE *f = fmemopen(text, sizeof(text), "w");
	uint64_t n = ~value;

	ck_assert_ptr_nonnull(f);
	number_print_unit(value, units, f);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_str_eq(text, want);
	/* The smallest unit of a duration is 1. */
	ck_assert_int_eq(number_parse_unit(text, units, "", &n), 0);
	ck_assert_uint_eq(n, value);
}

START_TEST(printed_number_reads_back_the_same)
{
	reads_back(0, &number_sizes, "0");
	reads_back(1023, &number_sizes, "1023");
	reads_back(1 << 20, &number_sizes, "1M");
	reads_back((1 << 20) + 1024, &number_sizes, "1025K");
	reads_back(UINT64_MAX, &number_sizes, "18446744073709551615");
	reads_back(0, &number_durations, "0");
	reads_back(1, &number_durations, "1ns");
	reads_back(UINT64_C(90000000000), &number_durations, "90s");
	reads_back(UINT64_C(120000000000), &number_durations, "2min");
	reads_back(UINT64_C(5400000000000), &number_durations, "90min");
	reads_back(UINT64_C(86400000000000), &number_durations, "24h");
}
END_TEST

CHECK_MAIN("number")
