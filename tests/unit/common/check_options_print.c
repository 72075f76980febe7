/* SPDX-License-Identifier: MIT */
/* options_print: printed options read back the same; help and manual have every option. */
#include "common/options_print.h"

#include <stdio.h>
#include <string.h>

#include <hwloc.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/option_table.h"
#include "common/util.h"
#include "tests/support/options.h"

#define MS UINT64_C(1000000)

START_TEST(printed_options_read_back_the_same)
{
	_cleanup_free_ char *first = NULL, *second = NULL;

	ck_assert_int_eq(set("cpus", "1,3-5"), 0);
	ck_assert_int_eq(set("heap-max", "1000001"), 0);
	ck_assert_int_eq(set("stop-timeout", "1500ms"), 0);
	ck_assert_int_eq(set("spin", "123ns"), 0);
	ck_assert_int_eq(set("user-weights", "1000:200,root:3,@50:4,*:5"), 0);
	ck_assert_int_eq(set("allow-tasks", "1000:fib:[a-z]*,@50:sort:?64,*:*"), 0);
	ck_assert_int_eq(set("deny", "@root"), 0);
	ck_assert_int_eq(set("user-clients-max", "7"), 0);
	ck_assert_int_eq(set("user-shared-memory-max", "1000:1000001,@50:1G"), 0);
	ck_assert_int_eq(set("socket-mode", "0600"), 0);
	ck_assert_int_eq(set("log-level", "debug"), 0);
	ck_assert_int_eq(set("module-dir", "/a directory/with blanks"), 0);
	first = printed();

	init();
	ck_assert_int_eq(read_text(first), 0);
	second = printed();
	ck_assert_str_eq(first, second);
	ck_assert_uint_eq(o.heap_max, 1000001);
	ck_assert_uint_eq(o.stop_timeout, 1500 * MS);
	ck_assert_uint_eq(o.spin, 123);
	ck_assert_uint_eq(o.user_weights->n, 4);
	ck_assert_str_eq(o.allow_tasks->entries[1].task, "sort:?64");
	ck_assert_int_eq(hwloc_bitmap_weight(o.cpus), 4);
	ck_assert_int_eq(options_log_level(&o), LOG_LEVEL_DEBUG);
}
END_TEST

/* forkd reads printed lists, in lines that a file may have. */
START_TEST(list_longer_than_a_line_reads_back_the_same)
{
	_cleanup_free_ char *first = NULL, *second = NULL;
	char task[64];

	for (uint32_t i = 0; i < 100; i++) {
		(void)snprintf(task, sizeof(task), "%u:module_%u:*_task", 4000000000u + i, i);
		ck_assert_int_eq(set("allow-tasks", task), 0);
	}
	first = printed();
	init();
	ck_assert_int_eq(read_text(first), 0);
	ck_assert_uint_eq(o.allow_tasks->n, 100);
	second = printed();
	ck_assert_str_eq(first, second);
}
END_TEST

START_TEST(help_and_manual_have_every_option_and_hide_the_pool)
{
	static const char *const names[] = {
#define OPTION(type, field, name, ...) name,
#define FLAG(...)
#include "common/options.def"
#undef OPTION
#undef FLAG
	};
	_cleanup_free_ char *help = NULL, *man = NULL;
	size_t size;
	FILE *f;

	f = open_memstream(&help, &size);
	ck_assert_ptr_nonnull(f);
	options_print_help(f);
	(void)fclose(f);
	f = open_memstream(&man, &size);
	ck_assert_ptr_nonnull(f);
	options_print_man(f, true);
	(void)fclose(f);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char text[64];

		(void)snprintf(text, sizeof(text), "  --%s=", names[i]);
		ck_assert_msg(strstr(help, text), "--help lacks %s", names[i]);
		(void)snprintf(text, sizeof(text), ".It Fl -%s Ns", names[i]);
		ck_assert_msg(strstr(man, text), "the manual lacks %s", names[i]);
	}
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		const char *group = option_group(&option_rows[i]);
		char text[128];

		if (!group)
			continue;
		(void)snprintf(text, sizeof(text), "\n%s:\n  --%s=", group, option_rows[i].name);
		ck_assert_msg(strstr(help, text), "--help lacks the group %s", group);
		(void)snprintf(text, sizeof(text), ".Ss %s\n.Bl -tag -width Ds\n.It Fl -%s ", group,
			       option_rows[i].name);
		ck_assert_msg(strstr(man, text), "the manual lacks the group %s", group);
	}
	ck_assert_ptr_null(strstr(help, "fork-mode"));
	ck_assert_ptr_null(strstr(man, "fork-mode"));
	ck_assert_ptr_nonnull(strstr(help, "--check-config"));
	ck_assert_ptr_null(strstr(help, "--pool"));
	ck_assert_ptr_null(strstr(man, "-pool"));
	/* The length of a path depends on the installation's prefix: it counts as one column. */
	for (const char *line = help; *line; line += strcspn(line, "\n") + 1) {
		size_t length = strcspn(line, "\n"), width = length;

		for (const char *p = line; (p = memchr(p, '/', length - (size_t)(p - line)));) {
			size_t path = strcspn(p, " )\n");

			width -= path - 1;
			p += path;
		}
		ck_assert_msg(width <= 100, "line too long: %.*s", (int)length, line);
	}
}
END_TEST

CHECK_MAIN("options_print")
