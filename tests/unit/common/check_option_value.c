/* SPDX-License-Identifier: MIT */
/* option_value: each type from text. An invalid value is refused, changes nothing, and the message
 * names the allowed values. Through options_set(), which adds the location and the option. */
#include "common/option_value.h"

#include <errno.h>

#include <hwloc.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "tests/support/options.h"

#define MS UINT64_C(1000000)

START_TEST(sizes_take_binary_units)
{
	ck_assert_int_eq(set("heap-max", "65536"), 0);
	ck_assert_uint_eq(o.heap_max, 65536);
	ck_assert_int_eq(set("heap-max", "100K"), 0);
	ck_assert_uint_eq(o.heap_max, 102400);
	ck_assert_int_eq(set("heap-max", "3 M"), 0);
	ck_assert_uint_eq(o.heap_max, 3 << 20);
	ck_assert_int_eq(set("heap-max", "1T"), 0);
	ck_assert_uint_eq(o.heap_max, UINT64_C(1) << 40);
}
END_TEST

START_TEST(auto_is_a_size_if_allowed)
{
	_cleanup_free_ char *first = NULL, *second = NULL;

	ck_assert_int_eq(set("arena-max", "20M"), 0);
	ck_assert_uint_eq(o.arena_max, 20 << 20);
	first = printed();
	ck_assert_ptr_nonnull(strstr(first, "\narena-max = 20M\n"));
	ck_assert_ptr_nonnull(strstr(first, "\nmodule-memory-max = auto\n"));
	ck_assert_int_eq(set("arena-max", "auto"), 0);
	ck_assert_uint_eq(o.arena_max, 0);
	second = printed();
	ck_assert_ptr_nonnull(strstr(second, "\narena-max = auto\n"));
	FAILS(set("arena-max", "0"), -ERANGE,
	      "must be auto, or a size (bytes, or with K, M, G, T) from 16M to 16T");
	ck_assert_int_eq(set("stack-max", "auto"), -EINVAL);
}
END_TEST

START_TEST(auto_is_a_number_of_workers)
{
	_cleanup_free_ char *text = NULL;

	ck_assert_int_eq(set("workers", "4"), 0);
	ck_assert_uint_eq(o.workers, 4);
	ck_assert_int_eq(set("workers", "auto"), 0);
	ck_assert_uint_eq(o.workers, 0);
	text = printed();
	ck_assert_ptr_nonnull(strstr(text, "\nworkers = auto\n"));
	FAILS(set("workers", "0"), -ERANGE,
	      "bad value \"0\": must be auto, or a whole number from 1 to 256");
	ck_assert_int_eq(set("clients-max", "auto"), -EINVAL);
}
END_TEST

START_TEST(durations_take_units_and_have_a_default_unit)
{
	ck_assert_int_eq(set("stop-timeout", "2"), 0);
	ck_assert_uint_eq(o.stop_timeout, 2000 * MS);
	ck_assert_int_eq(set("stop-timeout", "250ms"), 0);
	ck_assert_uint_eq(o.stop_timeout, 250 * MS);
	ck_assert_int_eq(set("stop-timeout", "2min"), 0);
	ck_assert_uint_eq(o.stop_timeout, 120000 * MS);
	ck_assert_int_eq(set("spin", "7"), 0);
	ck_assert_uint_eq(o.spin, 7000);
	ck_assert_int_eq(set("spin", "7ns"), 0);
	ck_assert_uint_eq(o.spin, 7);
}
END_TEST

START_TEST(cpu_lists_become_bitmaps)
{
	ck_assert_int_eq(set("cpus", "0-2,8"), 0);
	ck_assert_ptr_nonnull(o.cpus);
	ck_assert_int_eq(hwloc_bitmap_weight(o.cpus), 4);
	ck_assert_int_eq(hwloc_bitmap_isset(o.cpus, 8), 1);
	ck_assert_int_eq(hwloc_bitmap_isset(o.cpus, 3), 0);
	ck_assert_int_eq(set("cpus", ""), 0);
	ck_assert_ptr_null(o.cpus);
}
END_TEST

START_TEST(invalid_value_is_refused_and_changes_nothing)
{
	static const struct {
		const char *name;
		const char *value;
		int code;
		bool twice; /* an entry of a list */
	} bad[] = {
		{ "workers", "", -EINVAL },
		{ "workers", "x", -EINVAL },
		{ "workers", "-1", -EINVAL },
		{ "workers", " 1", -EINVAL },
		{ "workers", "+1", -EINVAL },
		{ "workers", "4 of them", -EINVAL },
		{ "workers", "1025", -ERANGE },
		{ "workers", "0", -ERANGE },
		{ "workers", "Auto", -EINVAL },
		{ "workers", "18446744073709551616", -ERANGE },
		{ "clients-max", "0", -ERANGE },
		{ "clients-max", "1001", -ERANGE },
		{ "jobs-max", "16385", -ERANGE },
		{ "user-clients-max", "1001", -ERANGE },
		{ "user-clients-max", "-1", -EINVAL },
		{ "user-clients-max", "5,6", -EINVAL, true },
		{ "user-clients-max", "5,*:6", -EINVAL, true },
		{ "user-clients-max", "1000:1001", -ERANGE },
		{ "user-clients-max", "alice", -EINVAL },
		{ "user-jobs-max", "16384001", -ERANGE },
		{ "user-shared-memory-max", "17T", -ERANGE },
		{ "user-shared-memory-max", "1000:64Q", -EINVAL },
		{ "default-deadline", "86401s", -ERANGE },
		{ "default-deadline", "1000:1d", -EINVAL },
		{ "allow", ",", -EINVAL },
		{ "allow", "1000,", -EINVAL },
		{ "allow", "1000:5", -EINVAL },
		{ "allow", "@", -EINVAL },
		{ "allow", "@@50", -ENOENT },
		{ "allow", "**", -ENOENT },
		{ "allow", "@*", -ENOENT },
		{ "allow", "5x", -EINVAL },
		{ "allow", "@4294967295", -EINVAL },
		{ "allow", "18446744073709551616", -ERANGE },
		{ "deny", "1000,1000", -EINVAL, true },
		{ "user", "0,1", -EINVAL },
		{ "user", "@0", -EINVAL },
		{ "user", "*", -EINVAL },
		{ "user", "no-such-user-here", -ENOENT },
		{ "socket-group", "0,1", -EINVAL },
		{ "socket-group", "*", -EINVAL },
		{ "socket-group", "no-group-of-that-name", -ENOENT },
		{ "deny", "@0,@root", -EINVAL, true },
		{ "deny", "no-such-user-here", -ENOENT },
		{ "deny", "@no-group-of-that-name", -ENOENT },
		{ "deny", "a name that has more than sixty-three letters is not looked up at all",
		  -EINVAL },
		{ "allow-tasks", "1000", -EINVAL },
		{ "allow-tasks", "1000:", -EINVAL },
		{ "allow-tasks", "fib:fib", -EINVAL },
		{ "allow-tasks", "1000:fib", -EINVAL },
		{ "allow-tasks", "1000:fib:a b", -EINVAL },
		{ "allow-tasks", "1000:fib:f\\ib", -EINVAL },
		{ "allow-tasks", "1000:fib:fib,1000:fib:fib", -EINVAL, true },
		{ "allow-tasks", ":fib:fib", -EINVAL },
		{ "allow-tasks",
		  "1000:a_module_with_a_long_name_that_is_long_enough:and_a_task_of_the_same_kind",
		  -EINVAL },
		{ "socket", "", -EINVAL },
		{ "socket", "forkd.sock", -EINVAL },
		{ "socket",
		  "/1234567890123456789012345678901234567890123456789012345678901234567890"
		  "12345678901234567890123456789012345678",
		  -ERANGE },
		{ "socket", "/run/a ;b", -EINVAL },
		{ "socket", "/run/a\nb", -EINVAL },
		{ "socket", "/run/a ", -EINVAL },
		{ "socket-mode", "0888", -EINVAL },
		{ "socket-mode", "1777", -ERANGE },
		{ "heap-max", "64Q", -EINVAL },
		{ "heap-max", "64MM", -EINVAL },
		{ "heap-max", "63K", -ERANGE },
		{ "heap-max", "18014398509481984K", -ERANGE },
		{ "arena-max", "0", -ERANGE },
		{ "arena-max", "15M", -ERANGE },
		{ "arena-max", "Auto", -EINVAL },
		{ "arena-max", "", -EINVAL },
		{ "module-memory-max", "17T", -ERANGE },
		{ "memory-max", "auto 1G", -EINVAL },
		{ "hang-timeout", "-1s", -EINVAL },
		{ "hang-timeout", "86401s", -ERANGE },
		{ "stop-timeout", "5d", -EINVAL },
		{ "stop-timeout", "3601s", -ERANGE },
		{ "quarantine-task-crashes", "1001", -ERANGE },
		{ "quarantine-task-crashes", "-1", -EINVAL },
		{ "quarantine-user-crashes", "1001", -ERANGE },
		{ "quarantine-window", "0", -ERANGE },
		{ "quarantine-window", "86401s", -ERANGE },
		{ "quarantine-time", "0", -ERANGE },
		{ "quarantine-time", "86401s", -ERANGE },
		{ "scheduler", "laz", -EINVAL },
		{ "scheduler", "lazy|busy", -EINVAL },
		{ "scheduler", "", -EINVAL },
		{ "sandbox", "on", -EINVAL },
		{ "log-level", "loud", -EINVAL },
		{ "cpus", "a", -EINVAL },
		{ "cpus", "1-", -EINVAL },
		{ "cpus", "3-1", -EINVAL },
		{ "cpus", "1,,2", -EINVAL },
		{ "cpus", "1,", -EINVAL },
		{ "cpus", "0x3", -EINVAL },
		{ "cpus", "8192", -ERANGE },
		{ "cpus", "0-4294967295", -ERANGE },
		{ "connection-weight", "0", -ERANGE },
		{ "connection-weight", "10001", -ERANGE },
		{ "user-weights", "1000", -EINVAL },
		{ "user-weights", "1000:", -EINVAL },
		{ "user-weights", ":5", -EINVAL },
		{ "user-weights", "1000:5,", -EINVAL },
		{ "user-weights", "1000:5,,1001:5", -EINVAL },
		{ "user-weights", "1000:5;1001:5", -EINVAL },
		{ "user-weights", "1000:-5", -EINVAL },
		{ "user-weights", "1000:5,1000:6", -EINVAL, true },
		{ "user-weights", "root:5,0:6", -EINVAL, true },
		{ "user-weights", "1000:10001", -ERANGE },
		{ "user-weights", "4294967295:5", -EINVAL },
		{ "user-weights", "18446744073709551616:5", -ERANGE },
		{ "user-weights", "no-such-user-here:5", -ENOENT },
	};
	_cleanup_free_ char *before = NULL;

	before = printed();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_free_ char *after = NULL;
		char expected[64];
		int r = set(bad[i].name, bad[i].value);

		ck_assert_msg(r == bad[i].code, "%s = \"%s\": %d", bad[i].name, bad[i].value, r);
		(void)snprintf(expected, sizeof(expected), "here: %s: bad value \"", bad[i].name);
		ck_assert_error(expected);
		(void)snprintf(expected, sizeof(expected), "\"%.6s", bad[i].value);
		ck_assert_error(expected);
		ck_assert_error(bad[i].twice   ? "it is in the list already"
				: r == -ENOENT ? "there is no "
					       : "must be ");
		after = printed();
		ck_assert_str_eq(before, after);
	}
}
END_TEST

START_TEST(error_names_the_allowed_values)
{
	ck_assert_int_eq(set("workers", "many"), -EINVAL);
	ck_assert_str_eq(error.text, "here: workers: bad value \"many\": must be auto, or a whole "
				     "number from 1 to 256");
	FAILS(set("heap-max", "1"), -ERANGE, "from 64K to 1T");
	FAILS(set("spin", "2s"), -ERANGE,
	      "must be a duration (in us, or with ns, us, ms, s, min or h) from 0 to 1s");
	FAILS(set("scheduler", "eager"), -EINVAL, "must be lazy or busy");
	FAILS(set("log-level", "x"), -EINVAL, "must be error, warning, notice, info or debug");
	FAILS(set("socket-mode", "9"), -EINVAL, "octal permissions from 0000 to 0777");
}
END_TEST

/* One of each kind; the table has values for the others. */
static const char *const kinds[][3] = {
	{ "socket", "/run/a", "/run/b" },	   { "workers", "2", "auto" },
	{ "socket-mode", "0600", "0660" },	   { "stack-max", "1M", "2M" },
	{ "shared-memory-max", "100M", "auto" },   { "spin", "1us", "2us" },
	{ "scheduler", "lazy", "busy" },	   { "cpus", "0-3,8", "" },
	{ "allow", "1000,@50", "@50,1000" },	   { "user-weights", "1:2,3:4", "1:2" },
	{ "user-jobs-max", "1:2", "1:3" },	   { "user-shared-memory-max", "1:2M", "" },
	{ "allow-tasks", "1:a:b,1:c:d", "1:a:b" }, { "socket-group", "50", "" },
	{ "default-deadline", "1:2s", "1:3s" },
};

START_TEST(copy_is_equal_and_another_value_is_not)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct option_row *row = option_find(kinds[i][0]);
		struct options copy, other;

		init();
		ck_assert_int_eq(set(kinds[i][0], kinds[i][1]), 0);
		ck_assert_int_eq(options_copy(&o, &copy), 0);
		for (size_t k = 0; k < OPTION_ROWS; k++)
			ck_assert(option_value_equals(&option_rows[k],
						      option_field(&option_rows[k], &o),
						      option_field(&option_rows[k], &copy)));
		option_value_fini(row, option_field(row, &o));
		ck_assert_int_eq(set(kinds[i][0], kinds[i][2]), 0);
		ck_assert_int_eq(options_copy(&o, &other), 0);
		ck_assert_msg(!option_value_equals(row, option_field(row, &o),
						   option_field(row, &copy)),
			      "%s", row->name);
		option_value_swap(row, option_field(row, &o), option_field(row, &copy));
		ck_assert(option_value_equals(row, option_field(row, &copy),
					      option_field(row, &other)));
		ck_assert(!option_value_equals(row, option_field(row, &o),
					       option_field(row, &other)));
		/* Each has its own memory, which is freed once. */
		options_fini(&o);
		options_fini(&copy);
		options_fini(&other);
	}
}
END_TEST

CHECK_MAIN("option_value")
