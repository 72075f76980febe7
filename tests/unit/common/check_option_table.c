/* SPDX-License-Identifier: MIT */
/* option_table: the rows of options.def are valid, and lookups by name. */
#include "common/option_table.h"

#include <string.h>

#include "common/option_value.h"
#include "tests/support/check_unit.h"

START_TEST(each_name_is_unique)
{
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		ck_assert_ptr_eq(option_find(option_rows[i].name), &option_rows[i]);
		for (size_t j = 0; j < OPTION_FLAGS; j++)
			ck_assert_str_ne(option_rows[i].name, option_flags[j].name);
	}
	ck_assert_ptr_null(option_find(""));
	ck_assert_ptr_null(option_find("config"));
	ck_assert_ptr_null(option_find("Workers"));
}
END_TEST

START_TEST(every_default_is_a_value)
{
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const struct option_row *row = &option_rows[i];
		struct option_fault fault;
		uint64_t field = 0;

		ck_assert_msg(option_value_set(row, &field, row->def, &fault) == 0, "%s = %s",
			      row->name, row->def);
		option_value_fini(row, &field);
		ck_assert_uint_le(row->min, row->max);
	}
}
END_TEST

START_TEST(help_is_a_sentence)
{
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const char *help = option_rows[i].help;

		if (help)
			ck_assert_msg(help[0] >= 'A' && help[0] <= 'Z' &&
					      help[strlen(help) - 1] == '.',
				      "%s: %s", option_rows[i].name, help);
	}
}
END_TEST

/* A name of a field in GROUP() that is misspelt does not compile. */
START_TEST(first_option_begins_a_group_and_hidden_ones_begin_none)
{
	ck_assert_str_eq(option_group(&option_rows[0]), "Socket");
	ck_assert_str_eq(option_group(option_find("memory-max")), "Memory");
	ck_assert_ptr_null(option_group(option_find("arena-max")));
	for (size_t i = 0; i < OPTION_ROWS; i++)
		ck_assert(option_rows[i].help || !option_group(&option_rows[i]));
}
END_TEST

START_TEST(nearest_name_is_found_among_visible_options)
{
	ck_assert_str_eq(option_nearest("wrokers", false), "workers");
	ck_assert_str_eq(option_nearest("jobs_max", false), "jobs-max");
	ck_assert_str_eq(option_nearest("hepl", true), "help");
	ck_assert_str_eq(option_nearest("sto", false), "stop-timeout");
	/* These are not visible. */
	ck_assert_ptr_null(option_nearest("hepl", false));
	ck_assert_ptr_null(option_nearest("fork-mode", true));
	ck_assert_ptr_null(option_nearest("pool", true));
	/* More than a third of the letters differs. */
	ck_assert_ptr_null(option_nearest("slice", false));
	ck_assert_ptr_null(option_nearest("worker-count", true));
	ck_assert_ptr_null(option_nearest("", true));
	/* Longer than any name: no index is out of bounds. */
	ck_assert_ptr_null(option_nearest("a-name-that-is-longer-than-any-option-has", true));
}
END_TEST

START_TEST(some_options_can_be_changed_while_forkd_runs)
{
	ck_assert(option_is_runtime(option_find("scheduler")));
	ck_assert(option_is_runtime(option_find("spin")));
	ck_assert(!option_is_runtime(option_find("workers")));
	ck_assert(option_is_reloadable(option_find("spin")));
	ck_assert(option_is_reloadable(option_find("allow-tasks")));
	ck_assert(option_is_reloadable(option_find("module-dir")));
	ck_assert(!option_is_runtime(option_find("allow-tasks")));
	ck_assert(!option_is_reloadable(option_find("workers")));
	ck_assert(!option_is_reloadable(option_find("socket")));
	ck_assert(!option_is_reloadable(option_find("sandbox")));
	ck_assert(!option_is_reloadable(option_find("fork-mode")));
	ck_assert(!option_is_runtime(option_find("fork-mode")));
}
END_TEST

CHECK_MAIN("option_table")
