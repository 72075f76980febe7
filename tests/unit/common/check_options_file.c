/* SPDX-License-Identifier: MIT */
/* options_file: the syntax of forkd.conf; an error names its line. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "tests/support/options.h"

START_TEST(file_sets_options_with_and_without_section)
{
	ck_assert_int_eq(read_text("# forkd\n\nworkers = 3\n  scheduler=busy ; as we like it\n"
				   "cpus =\n"),
			 0);
	ck_assert_uint_eq(o.workers, 3);
	ck_assert_uint_eq(o.scheduler, OPTIONS_SCHEDULER_BUSY);
	ck_assert_int_eq(read_text("[forkd]\nworkers = 4\n"), 0);
	ck_assert_uint_eq(o.workers, 4);
	ck_assert_int_eq(read_text("workers = 5\n\v\f\rspin = 3us\n"), 0);
	ck_assert_uint_eq(o.workers, 5);
	ck_assert_uint_eq(o.spin, 3000);
}
END_TEST

START_TEST(error_in_a_file_names_its_line)
{
	char longest[10000];

	FAILS(read_text("\n# x\nworkers = none\njobs-max = none\n"), -EINVAL,
	      "forkd.conf:3: workers: bad value \"none\"");
	FAILS(read_text("workers = 2\nspni = 1us\n"), -ENOENT,
	      "forkd.conf:2: unknown option \"spni\", did you mean \"spin\"?");
	FAILS(read_text("[forkd]\n  [workers]\n\n# 4\nworkers = 2\n"), -ENOENT,
	      "forkd.conf:2: unknown section \"[workers]\"");
	FAILS(read_text("workers = 2\nworkers\n"), -EBADMSG, "forkd.conf:2: not understood");
	FAILS(read_text("workers\nworkers = none\n"), -EBADMSG, "forkd.conf:1: not understood");
	ck_assert_int_eq(read_text("workers = 2\n  workers 3\n"), -EBADMSG);

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	memcpy(longest, "socket = /", 10);
	FAILS(read_text(longest), -EBADMSG, "forkd.conf:1: line too long");
}
END_TEST

START_TEST(list_may_have_several_lines)
{
	ck_assert_int_eq(read_text("allow-tasks = 1:fib:*, 1:sort:i64\nworkers = 2\n"
				   "allow-tasks = *:uts:*\nallow = 1,2 ; and no more\n"),
			 0);
	ck_assert_uint_eq(o.allow_tasks->n, 3);
	ck_assert_uint_eq(o.allow->n, 2);
	FAILS(read_text("allow = 3\n\nallow = no-such-user\nworkers = none\n"), -ENOENT,
	      "forkd.conf:3: allow: bad value \"no-such-user\": there is no user ");
	FAILS(read_text("allow-tasks =\nallow-tasks = 5:a:b\ndeny = @no-such-group\n"), -ENOENT,
	      "forkd.conf:3: deny: bad value \"@no-such-group\": there is no group ");
	ck_assert_uint_eq(o.allow_tasks->n, 1);
}
END_TEST

START_TEST(text_after_an_error_is_not_read)
{
	static const char *const bad[] = { "workers", "[forkd", "[ ;]", "workers ; = 3", "x\fy" };
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		init();
		(void)snprintf(text, sizeof(text), "jobs-max = 7\n%s\nworkers = 4\n", bad[i]);
		FAILS(read_text(text), -EBADMSG, "forkd.conf:2: not understood");
		ck_assert_uint_eq(o.jobs_max, 7);
		ck_assert_uint_eq(o.workers, 0);
	}
}
END_TEST

/* inih would not see the text after it. */
START_TEST(line_with_a_nul_is_an_error)
{
	static const char text[] = "jobs-max = 7\nworkers = 4\0none\nclients-max = 3\n";

	FAILS(read_bytes(text, sizeof(text) - 1), -EBADMSG,
	      "forkd.conf:2: there is a NUL byte in this line");
	ck_assert_uint_eq(o.jobs_max, 7);
	ck_assert_uint_eq(o.workers, 0);
	ck_assert_uint_eq(o.clients_max, 256);
}
END_TEST

START_TEST(byte_order_mark_is_not_part_of_the_first_name)
{
	ck_assert_int_eq(read_text("\xef\xbb\xbf  workers = 3\n"), 0);
	ck_assert_uint_eq(o.workers, 3);
}
END_TEST

CHECK_MAIN("options_file")
