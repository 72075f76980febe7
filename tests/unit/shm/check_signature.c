/* SPDX-License-Identifier: MIT */
/* check_signature.c - the parser of signatures */
#include "shm/signature.h"

#include <errno.h>
#include <string.h>

#include "common/util.h"
#include "shm/limits.h"
#include "tests/support/check_unit.h"

START_TEST(arguments_and_results_get_names_types_and_offsets)
{
	struct signature s;

	ck_assert_int_eq(signature_parse("n:i64, t:str, x:f64, d:buf, io:iobuf -> a:i64, b:f64", &s,
					 NULL),
			 0);
	ck_assert_uint_eq(s.n_args, 5);
	ck_assert_uint_eq(s.n_results, 2);
	ck_assert_uint_eq(s.args_size, 8 + 16 + 8 + 16 + 16);
	ck_assert_uint_eq(s.results_size, 16);
	ck_assert_str_eq(s.args[0].name, "n");
	ck_assert_str_eq(s.args[4].name, "io");
	ck_assert_uint_eq(s.args[0].type, SIGNATURE_I64);
	ck_assert_uint_eq(s.args[1].type, SIGNATURE_STR);
	ck_assert_uint_eq(s.args[2].type, SIGNATURE_F64);
	ck_assert_uint_eq(s.args[3].type, SIGNATURE_BUF);
	ck_assert_uint_eq(s.args[4].type, SIGNATURE_IOBUF);
	ck_assert_uint_eq(s.args[1].offset, 8);
	ck_assert_uint_eq(s.args[2].offset, 24);
	ck_assert_uint_eq(s.args[4].offset, 48);
	ck_assert_uint_eq(s.results[1].offset, 8);
	ck_assert_uint_eq(s.results[1].type, SIGNATURE_F64);
}
END_TEST

START_TEST(names_spaces_and_lists_may_be_missing)
{
	struct signature s;

	ck_assert_int_eq(signature_parse("->", &s, NULL), 0);
	ck_assert_uint_eq(s.n_args + s.n_results + s.args_size + s.results_size, 0);
	ck_assert_int_eq(signature_parse("data:iobuf -> ", &s, NULL), 0);
	ck_assert_uint_eq(s.n_args, 1);
	ck_assert_uint_eq(s.n_results, 0);
	ck_assert_int_eq(signature_parse("i64,f64->f64", &s, NULL), 0);
	ck_assert_uint_eq(s.n_args, 2);
	ck_assert_str_eq(s.args[1].name, "");
	ck_assert_int_eq(signature_parse("\t i64 :i64 ,  x : f64  -> i64 ", &s, NULL), 0);
	ck_assert_str_eq(s.args[0].name, "i64");
	ck_assert_str_eq(s.args[1].name, "x");
}
END_TEST

START_TEST(error_is_shown_at_its_position)
{
	static const struct {
		const char *text;
		int err;
		int at;
	} bad[] = {
		{ "", -EINVAL, 0 },
		{ "n:i64", -EINVAL, 5 },
		{ "n:i32 -> i64", -EINVAL, 2 },
		{ "n: -> i64", -EINVAL, 3 },
		{ "i64, -> i64", -EINVAL, 5 },
		{ ", i64 -> i64", -EINVAL, 0 },
		{ "i64 - > i64", -EINVAL, 4 },
		{ "i64 -> i64 x", -EINVAL, 11 },
		{ "i64 -> i64,", -EINVAL, 11 },
		{ "i64 -> str", -EINVAL, 6 },
		{ "i64 -> i64 -> i64", -EINVAL, 11 },
		{ "i6 -> i64", -EINVAL, 0 },
		{ "i644 -> i64", -EINVAL, 0 },
		{ "9:i64 -> i64", -EINVAL, 0 },
		{ "a_name_of_24_characters_:i64 ->", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct signature s = { .n_args = 77 };
		const char *where = NULL;

		ck_assert_msg(signature_parse(bad[i].text, &s, &where) == bad[i].err, "%s",
			      bad[i].text);
		ck_assert_msg(where - bad[i].text == bad[i].at, "%s: at %d, not %d", bad[i].text,
			      (int)(where - bad[i].text), bad[i].at);
		ck_assert_uint_eq(s.n_args, 77);
	}
}
END_TEST

START_TEST(signature_too_large_for_a_record_is_refused)
{
	struct signature s;
	char text[256] = "";

	for (uint32_t i = 0; i < SIGNATURE_MAX_ARGS; i++)
		(void)strcat(text, i ? ",str" : "str");
	(void)strcat(text, "->");
	ck_assert_int_eq(signature_parse(text, &s, NULL), 0);
	ck_assert_uint_eq(s.args_size, LIMIT_ARGS);
	(void)memmove(text + 4, text, strlen(text) + 1);
	(void)memcpy(text, "i64,", 4);
	ck_assert_int_eq(signature_parse(text, &s, NULL), -E2BIG);

	ck_assert_int_eq(signature_parse("->i64,i64,i64,i64,i64,i64,i64,f64", &s, NULL), 0);
	ck_assert_uint_eq(s.results_size, LIMIT_RESULT);
	ck_assert_int_eq(signature_parse("->i64,i64,i64,i64,i64,i64,i64,f64,f64", &s, NULL),
			 -E2BIG);
}
END_TEST

START_TEST(hash_distinguishes_names_and_signatures)
{
	uint64_t hash = signature_hash("fib:fib", "n:i64 -> i64");

	ck_assert(hash == signature_hash("fib:fib", "n:i64 -> i64"));
	ck_assert(hash != signature_hash("fib:fix", "n:i64 -> i64"));
	ck_assert(hash != signature_hash("fib:fib", "n:f64 -> i64"));
	ck_assert(signature_hash("ab", "c") != signature_hash("a", "bc"));
}
END_TEST

START_TEST(references_are_distinguished_from_numbers)
{
	ck_assert(!signature_is_reference(SIGNATURE_I64));
	ck_assert(!signature_is_reference(SIGNATURE_F64));
	ck_assert(signature_is_reference(SIGNATURE_STR));
	ck_assert(signature_is_reference(SIGNATURE_BUF));
	ck_assert(signature_is_reference(SIGNATURE_IOBUF));
	ck_assert_str_eq(signature_type_name(SIGNATURE_IOBUF), "iobuf");
	ck_assert_str_eq(signature_type_name((enum signature_type)99), "?");
}
END_TEST

CHECK_MAIN("signature")
