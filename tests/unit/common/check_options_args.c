/* SPDX-License-Identifier: MIT */
/*
 * options_args: precedence, flags, invalid command lines, options that only the command line has.
 */
#include "common/options_args.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/options_file.h"
#include "common/util.h"
#include "tests/support/options.h"

static enum options_action action; /* of the last command line */

static int parse(int argc, const char *const *argv)
{
	struct options parsed;
	int r;

	error.text[0] = '\0';
	r = options_args_parse(&parsed, argc, (char **)(uintptr_t)argv, &action, &error);
	if (r == 0) {
		options_fini(&o);
		o = parsed;
	}
	return r;
}

#define PARSE(...)                                                                                 \
	({                                                                                         \
		const char *parse_argv[] = { "forkd", __VA_ARGS__, NULL };                         \
		parse((int)ARRAY_SIZE(parse_argv) - 1, parse_argv);                                \
	})

static char config[64]; /* the option that names the file of write_config() */

static void write_config(const char *text)
{
	char path[] = "check_options.XXXXXX";
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
	(void)snprintf(config, sizeof(config), "--config=%s", path);
}

static void remove_config(void)
{
	ck_assert_int_eq(unlink(strchr(config, '=') + 1), 0);
}

START_TEST(command_line_overrides_the_file_which_overrides_defaults)
{
	write_config("workers = 3\njobs-max = 7\n");
	/* --config follows the option that it must not override */
	ck_assert_int_eq(PARSE("--workers=5", config), 0);
	ck_assert_int_eq(action, OPTIONS_RUN);
	ck_assert_uint_eq(o.workers, 5);
	ck_assert_uint_eq(o.jobs_max, 7);
	ck_assert_uint_eq(o.clients_max, 256);
	remove_config();
}
END_TEST

START_TEST(list_on_the_command_line_replaces_that_of_the_file)
{
	write_config("allow = 1\nallow = 2\ndeny = 3\n");
	ck_assert_int_eq(PARSE("--allow=4,5", "--allow=6", config), 0);
	ck_assert_uint_eq(o.allow->n, 3);
	ck_assert_uint_eq(o.allow->entries[0].id, 4);
	ck_assert_uint_eq(o.allow->entries[2].id, 6);
	ck_assert_uint_eq(o.deny->n, 1);
	ck_assert_int_eq(PARSE(config, "--allow="), 0);
	ck_assert_ptr_null(o.allow);
	FAILS(PARSE(config, "--allow=4", "--allow=4"), -EINVAL,
	      "command line: allow: bad value \"4\"");
	remove_config();
}
END_TEST

START_TEST(named_file_must_exist)
{
	FAILS(PARSE("--config", "/nonexistent/forkd.conf"), -ENOENT,
	      "/nonexistent/forkd.conf: cannot be opened: No such file");
}
END_TEST

START_TEST(file_that_is_not_regular_is_refused_without_waiting)
{
	char directory[] = "check_options.XXXXXX";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char path[64], option[96];
	int s;

	ck_assert_ptr_nonnull(mkdtemp(directory));
	(void)snprintf(path, sizeof(path), "%s/fifo", directory);
	(void)snprintf(option, sizeof(option), "--config=%s", path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	/* Without a writer, and with one that writes nothing. */
	FAILS(PARSE(option), -EINVAL, "/fifo: not a regular file: name one with --config");
	s = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(s, 0);
	FAILS(PARSE("--check-config", option), -EINVAL, "/fifo: not a regular file");
	(void)close(s);
	ck_assert_int_eq(unlink(path), 0);
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)strcpy(address.sun_path, path);
	ck_assert_int_eq(bind(s, (struct sockaddr *)&address, sizeof(address)), 0);
	FAILS(PARSE(option), -EINVAL, "/fifo: not a regular file");
	(void)close(s);
	ck_assert_int_eq(unlink(path), 0);
	(void)snprintf(option, sizeof(option), "--config=%s", directory);
	FAILS(PARSE(option), -EINVAL, "not a regular file");
	ck_assert_int_eq(rmdir(directory), 0);
	FAILS(PARSE("--config=/dev/zero"), -EINVAL, "/dev/zero: not a regular file");
	ck_assert_int_eq(PARSE("--config=/dev/null"), 0);
}
END_TEST

START_TEST(flags_are_actions)
{
	ck_assert_int_eq(PARSE("--help"), 0);
	ck_assert_int_eq(action, OPTIONS_HELP);
	ck_assert_int_eq(PARSE("--version"), 0);
	ck_assert_int_eq(action, OPTIONS_VERSION);
	ck_assert_int_eq(PARSE("--pool", "--workers", "2"), 0);
	ck_assert_int_eq(action, OPTIONS_POOL);
	ck_assert_uint_eq(o.workers, 2);
	ck_assert_int_eq(PARSE("--check-config", "--config=/dev/null"), 0);
	ck_assert_int_eq(action, OPTIONS_CHECK);
}
END_TEST

START_TEST(invalid_command_line_is_refused)
{
	action = OPTIONS_RUN;
	FAILS(PARSE("--config=/dev/null", "--workers=x"), -EINVAL,
	      "command line: workers: bad value \"x\"");
	FAILS(PARSE("--wrokers=1"), -ENOENT,
	      "unknown option \"--wrokers\", did you mean \"--workers\"?");
	FAILS(PARSE("--speed=1"), -ENOENT, "unknown option \"--speed\": see --help");
	FAILS(PARSE("--hepl"), -ENOENT, "\"--help\"");
	FAILS(PARSE("--workers"), -EINVAL, "--workers: a value is missing");
	FAILS(PARSE("--help=me"), -EINVAL, "--help: takes no value");
	FAILS(PARSE("-x"), -ENOENT, "unknown option \"-x\"");
	FAILS(PARSE("-xy"), -ENOENT, "unknown option \"-x\"");
	FAILS(PARSE("--workers=2", "-xy"), -ENOENT, "unknown option \"-x\"");
	FAILS(PARSE("-\303\244"), -ENOENT, "unknown option \"-?\"");
	FAILS(PARSE("start"), -EINVAL, "\"start\": forkd takes options only");
	FAILS(PARSE("--config="), -EINVAL, "--config: the name of a file is missing");
	ck_assert_int_eq(action, OPTIONS_RUN);
}
END_TEST

/* --w for workers, weight and weights; --m for options of several types. */
START_TEST(ambiguous_prefix_sets_no_option)
{
	FAILS(PARSE("--config=/dev/null", "--w=3"), -ENOENT,
	      "unknown option \"--w\", did you mean \"--workers\"?");
	ck_assert_int_eq(PARSE("--config=/dev/null", "--m=/x"), -ENOENT);
	ck_assert_int_eq(PARSE("--config=/dev/null", "--max=7"), -ENOENT);
}
END_TEST

START_TEST(options_that_contradict_each_other_are_refused)
{
	FAILS(PARSE("--config=/dev/null", "--shared-memory-max=1M", "--heap-max=64M"), -EINVAL,
	      "heap-max");
	ck_assert_error("shared-memory-max");
	FAILS(PARSE("--config=/dev/null", "--cpus=0-2000"), -EINVAL, "cpus");
	ck_assert_int_eq(PARSE("--config=/dev/null", "--cpus=0-2000", "--workers=1"), 0);
}
END_TEST

START_TEST(hidden_options_are_for_the_command_line_and_passed_to_the_pool)
{
	static char no_file[] = "--config=/dev/null", mode[] = "--fork-mode=late";
	static char last[] = "--fork-mode=kept";
	static char burden[] = "--fork-burden=2us";
	char file[] = "fork-mode = late\n";
	_cleanup_free_ char *text = NULL;
	FILE *f;

	ck_assert_int_eq(PARSE(no_file), 0);
	ck_assert_uint_eq(o.fork_mode, OPTIONS_FORK_AUTO);
	ck_assert_uint_eq(o.fork_seed, 1);
	text = printed();
	ck_assert_ptr_null(strstr(text, "fork-"));
	free(text);

	ck_assert_int_eq(PARSE(no_file, mode, burden), 0);
	ck_assert_uint_eq(o.fork_mode, OPTIONS_FORK_LATE);
	ck_assert_uint_eq(o.fork_burden, 2000);
	ck_assert_uint_eq(o.sample, 0);
	text = printed();
	ck_assert_ptr_nonnull(strstr(text, "fork-mode = late\n"));
	ck_assert_ptr_nonnull(strstr(text, "fork-burden = 2us\n"));
	ck_assert_ptr_null(strstr(text, "fork-seed"));

	f = fmemopen(file, strlen(file), "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(options_file_read(&o, f, "here", &error), -EPERM);
	(void)fclose(f);
	ck_assert_error("here:1: fork-mode");

	ck_assert_int_eq(PARSE(no_file, last), 0);
	ck_assert_uint_eq(o.fork_mode, OPTIONS_FORK_KEPT);
}
END_TEST

CHECK_MAIN("options_args")
