/* SPDX-License-Identifier: MIT */
/*
 * options_file: what a forkd.conf may look like, and that an error names its line.
 */
#include "common/options_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "tests/check_unit.h"
#include "tests/options.h"

/* options_file_read() of a text. */
static int read_text(const char *text)
{
	_cleanup_fclose_ FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

	ck_assert_ptr_nonnull(f);
	error.text[0] = '\0';
	return options_file_read(&o, f, "forkd.conf", &error);
}

START_TEST(a_file_sets_options_with_and_without_section)
{
	init();
	ck_assert_int_eq(read_text("# forkd\n\nworkers = 3\n  scheduler=busy ; as we like it\n"
				   "cpus =\n"),
			 0);
	ck_assert_uint_eq(o.workers, 3);
	ck_assert_uint_eq(o.scheduler, OPTIONS_SCHEDULER_BUSY);
	ck_assert_int_eq(read_text("[forkd]\nworkers = 4\n"), 0);
	ck_assert_uint_eq(o.workers, 4);
	options_fini(&o);
}
END_TEST

START_TEST(an_error_in_a_file_names_its_line)
{
	char longest[10000];

	init();
	ck_assert_int_eq(read_text("\n# x\nworkers = none\nmax-jobs = none\n"), -EINVAL);
	ck_assert_error("forkd.conf:3: workers: bad value \"none\"");
	ck_assert_int_eq(read_text("workers = 2\nspni = 1us\n"), -ENOENT);
	ck_assert_error("forkd.conf:2: unknown option \"spni\", did you mean \"spin\"?");
	ck_assert_int_eq(read_text("[workers]\nworkers = 2\n"), -ENOENT);
	ck_assert_error("forkd.conf:2: unknown section \"[workers]\"");
	ck_assert_int_eq(read_text("workers = 2\nworkers\n"), -EBADMSG);
	ck_assert_error("forkd.conf:2: not understood");
	ck_assert_int_eq(read_text("workers\nworkers = none\n"), -EBADMSG);
	ck_assert_error("forkd.conf:1: not understood");
	ck_assert_int_eq(read_text("workers = 2\n  workers 3\n"), -EBADMSG);

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	memcpy(longest, "socket = /", 10);
	ck_assert_int_eq(read_text(longest), -EBADMSG);
	ck_assert_error("forkd.conf:1: line too long");
	options_fini(&o);
}
END_TEST

CHECK_MAIN("options_file", a_file_sets_options_with_and_without_section,
	   an_error_in_a_file_names_its_line)
