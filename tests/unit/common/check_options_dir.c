/* SPDX-License-Identifier: MIT */
/* options_dir: which files of NAME.d are read, in which order, and the location in errors. The
 * tests run in their own directory. */
#include "common/options_dir.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/options_args.h"
#include "common/util.h"
#include "tests/support/options.h"

static char home[] = "check_options_dir.XXXXXX";

static void begin(void)
{
	init();
	(void)strcpy(home, "check_options_dir.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(home));
	ck_assert_int_eq(chdir(home), 0);
	ck_assert_int_eq(mkdir("conf.d", 0755), 0);
}

static void end(void)
{
	ck_assert_int_eq(system("rm -rf conf conf.d"), 0);
	ck_assert_int_eq(chdir(".."), 0);
	ck_assert_int_eq(rmdir(home), 0);
	fini();
}

#undef CHECK_SETUP
#undef CHECK_TEARDOWN
#define CHECK_SETUP    begin
#define CHECK_TEARDOWN end

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
}

/* Parses a command line that names the file. */
static int parse(const char *more)
{
	const char *argv[] = { "forkd", "--config=conf", more, NULL };
	enum options_action action;
	struct options parsed;
	int r;

	error.text[0] = '\0';
	r = options_args_parse(&parsed, more ? 3 : 2, (char **)(uintptr_t)argv, &action, &error);
	if (r == 0) {
		fini();
		o = parsed;
	}
	return r;
}

START_TEST(later_file_overrides_earlier_and_main_file)
{
	write_file("conf", "workers = 1\njobs-max = 1\nspin = 1us\nallow = 1\n");
	write_file("conf.d/9.conf", "jobs-max = 9\n");
	write_file("conf.d/10.conf", "[forkd]\njobs-max = 10\nspin = 10us\nallow = 10\n");
	write_file("conf.d/B.conf", "allow = 3\n");
	write_file("conf.d/a.conf", "allow = 4\ndeny = 1\n");
	ck_assert_int_eq(parse(NULL), 0);
	ck_assert_uint_eq(o.workers, 1);
	ck_assert_uint_eq(o.jobs_max, 9);
	ck_assert_uint_eq(o.spin, 10000);
	ck_assert_uint_eq(o.allow->n, 4);
	ck_assert_uint_eq(o.allow->entries[1].id, 10);
	ck_assert_uint_eq(o.allow->entries[2].id, 3);
	ck_assert_uint_eq(o.allow->entries[3].id, 4);
	ck_assert_str_eq(o.allow->entries[3].where, "conf.d/a.conf:1");
	ck_assert_uint_eq(o.deny->n, 1);
	ck_assert_int_eq(parse("--jobs-max=7"), 0);
	ck_assert_uint_eq(o.jobs_max, 7);
	/* An empty value clears the list. */
	write_file("conf.d/b.conf", "allow =\n");
	ck_assert_int_eq(parse(NULL), 0);
	ck_assert_ptr_null(o.allow);
}
END_TEST

START_TEST(files_of_other_names_are_not_read)
{
	write_file("conf", "workers = 1\n");
	write_file("conf.d/.hidden.conf", "workers = 2\n");
	write_file("conf.d/x.conf.dpkg-old", "workers = 3\n");
	write_file("conf.d/x.conf~", "workers = 4\n");
	write_file("conf.d/conf", "workers = 5\n");
	/* As systemd's drop-in files are masked. */
	ck_assert_int_eq(symlink("/dev/null", "conf.d/masked.conf"), 0);
	ck_assert_int_eq(parse(NULL), 0);
	ck_assert_uint_eq(o.workers, 1);
}
END_TEST

START_TEST(directory_may_be_missing_and_must_be_one)
{
	write_file("conf", "workers = 1\n");
	ck_assert_int_eq(rmdir("conf.d"), 0);
	ck_assert_int_eq(parse(NULL), 0);
	ck_assert_uint_eq(o.workers, 1);
	write_file("conf.d", "workers = 2\n");
	FAILS(parse(NULL), -ENOTDIR, "conf.d: cannot be read: Not a directory");
}
END_TEST

START_TEST(error_names_the_file_and_its_line)
{
	write_file("conf", "workers = 1\n");
	write_file("conf.d/5.conf", "\nworkers = 0\n");
	write_file("conf.d/6.conf", "wrong\n");
	FAILS(parse(NULL), -ERANGE, "conf.d/5.conf:2: workers: bad value \"0\"");
	write_file("conf.d/5.conf", "\nworkers = 2\n");
	FAILS(parse(NULL), -EBADMSG, "conf.d/6.conf:1: not understood");
	write_file("conf.d/6.conf", "allow = 1,1\n");
	FAILS(parse(NULL), -EINVAL, "conf.d/6.conf:1: allow: bad value");
	ck_assert_int_eq(unlink("conf.d/6.conf"), 0);
	ck_assert_int_eq(mkdir("conf.d/6.conf", 0755), 0);
	FAILS(parse(NULL), -EINVAL, "conf.d/6.conf: not a regular file");
	ck_assert_int_eq(rmdir("conf.d/6.conf"), 0);
	ck_assert_int_eq(symlink("nowhere", "conf.d/6.conf"), 0);
	FAILS(parse(NULL), -ENOENT, "conf.d/6.conf: cannot be opened: No such file");
	ck_assert_int_eq(unlink("conf.d/6.conf"), 0);
	ck_assert_int_eq(mkfifo("conf.d/6.conf", 0600), 0);
	FAILS(parse(NULL), -EINVAL, "conf.d/6.conf: not a regular file");
}
END_TEST

CHECK_MAIN("options_dir")
