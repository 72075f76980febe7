/* SPDX-License-Identifier: MIT */
/*
 * options: values, files, the command line, and that every error says where, what and what else.
 */
#include "common/options.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hwloc.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/util.h"
#include "tests/check_unit.h"

#define MS UINT64_C(1000000)

static struct options o;
static struct options_error error;

static int set(const char *name, const char *value)
{
	error.text[0] = '\0';
	return options_set(&o, name, value, "here", &error);
}

static void init(void)
{
	ck_assert_int_eq(options_init(&o), 0);
}

/* options_read() of a text. */
static int read_text(const char *text)
{
	_cleanup_fclose_ FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

	ck_assert_ptr_nonnull(f);
	error.text[0] = '\0';
	return options_read(&o, f, "forkd.conf", &error);
}

static char *printed(const struct options *options)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(f);
	options_print(options, f);
	ck_assert_int_eq(fclose(f), 0);
	return text;
}

#define PARSE(action, ...)                                                                         \
	({                                                                                         \
		char *parse_argv[] = { (char *)"forkd", __VA_ARGS__, NULL };                       \
		error.text[0] = '\0';                                                              \
		options_parse(&o, (int)ARRAY_SIZE(parse_argv) - 1, parse_argv, action, &error);    \
	})

#define ck_assert_error(part) ck_assert_msg(strstr(error.text, part), "message: %s", error.text)

START_TEST(defaults_are_those_of_the_table)
{
	init();
	ck_assert_str_eq(o.socket, FK_SOCKET_PATH);
	ck_assert_str_eq(o.module_dir, FK_MODULE_DIR);
	ck_assert_uint_eq(o.socket_mode, 0666);
	ck_assert_uint_eq(o.workers, 0);
	ck_assert_ptr_null(o.cpus);
	ck_assert_uint_eq(o.scheduler, OPTIONS_SCHEDULER_LAZY);
	ck_assert_uint_eq(o.weight, 100);
	ck_assert_ptr_null(o.weights);
	ck_assert_uint_eq(o.max_clients, 256);
	ck_assert_uint_eq(o.max_jobs, 1024);
	ck_assert_uint_eq(o.heap_max, UINT64_C(64) << 20);
	ck_assert_uint_eq(o.memory_max, UINT64_C(1) << 30);
	ck_assert_uint_eq(o.arena_max, UINT64_C(4) << 30);
	ck_assert_uint_eq(o.stop_timeout, 5000 * MS);
	ck_assert_uint_eq(o.spin, 50000);
	ck_assert_int_eq(options_log_level(&o), LOG_LEVEL_NOTICE);
	ck_assert_int_eq(options_check(&o, &error), 0);
	options_fini(&o);
}
END_TEST

START_TEST(sizes_take_binary_units)
{
	init();
	ck_assert_int_eq(set("heap-max", "65536"), 0);
	ck_assert_uint_eq(o.heap_max, 65536);
	ck_assert_int_eq(set("heap-max", "100K"), 0);
	ck_assert_uint_eq(o.heap_max, 102400);
	ck_assert_int_eq(set("heap-max", "3 M"), 0);
	ck_assert_uint_eq(o.heap_max, 3 << 20);
	ck_assert_int_eq(set("heap-max", "1T"), 0);
	ck_assert_uint_eq(o.heap_max, UINT64_C(1) << 40);
	options_fini(&o);
}
END_TEST

START_TEST(durations_take_units_and_have_one_of_their_own)
{
	init();
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
	options_fini(&o);
}
END_TEST

START_TEST(cpu_lists_become_bitmaps)
{
	init();
	ck_assert_int_eq(set("cpus", "0-2,8"), 0);
	ck_assert_ptr_nonnull(o.cpus);
	ck_assert_int_eq(hwloc_bitmap_weight(o.cpus), 4);
	ck_assert_int_eq(hwloc_bitmap_isset(o.cpus, 8), 1);
	ck_assert_int_eq(hwloc_bitmap_isset(o.cpus, 3), 0);
	ck_assert_int_eq(set("cpus", ""), 0);
	ck_assert_ptr_null(o.cpus);
	options_fini(&o);
}
END_TEST

START_TEST(weights_are_looked_up_by_user)
{
	init();
	ck_assert_uint_eq(options_weight(&o, 1000), 100);
	ck_assert_int_eq(set("weights", "1000:200,root:50,4294967294:10000"), 0);
	ck_assert_uint_eq(o.weights->n, 3);
	ck_assert_uint_eq(options_weight(&o, 0), 50);
	ck_assert_uint_eq(options_weight(&o, 1000), 200);
	ck_assert_uint_eq(options_weight(&o, UINT32_MAX - 1), 10000);
	ck_assert_uint_eq(options_weight(&o, 1001), 100);
	ck_assert_int_eq(set("weights", "1001:1"), 0);
	ck_assert_uint_eq(options_weight(&o, 1000), 100);
	ck_assert_uint_eq(options_weight(&o, 1001), 1);
	ck_assert_int_eq(set("weights", "1001:0"), -ERANGE);
	ck_assert_error("weights: bad value \"1001:0\": must be a list such as 1000:200,alice:50");
	ck_assert_uint_eq(options_weight(&o, 1001), 1);
	ck_assert_int_eq(set("weights", ""), 0);
	ck_assert_ptr_null(o.weights);
	options_fini(&o);
}
END_TEST

START_TEST(a_bad_value_is_refused_and_changes_nothing)
{
	static const struct {
		const char *name;
		const char *value;
		int code;
	} bad[] = {
		{ "workers", "", -EINVAL },
		{ "workers", "x", -EINVAL },
		{ "workers", "-1", -EINVAL },
		{ "workers", " 1", -EINVAL },
		{ "workers", "+1", -EINVAL },
		{ "workers", "4 of them", -EINVAL },
		{ "workers", "1025", -ERANGE },
		{ "workers", "18446744073709551616", -ERANGE },
		{ "max-clients", "0", -ERANGE },
		{ "max-clients", "1001", -ERANGE },
		{ "max-jobs", "16385", -ERANGE },
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
		{ "stop-timeout", "5h", -EINVAL },
		{ "stop-timeout", "3601s", -ERANGE },
		{ "scheduler", "laz", -EINVAL },
		{ "scheduler", "lazy|busy", -EINVAL },
		{ "scheduler", "", -EINVAL },
		{ "log-level", "loud", -EINVAL },
		{ "cpus", "a", -EINVAL },
		{ "cpus", "1-", -EINVAL },
		{ "cpus", "3-1", -EINVAL },
		{ "cpus", "1,,2", -EINVAL },
		{ "cpus", "1,", -EINVAL },
		{ "cpus", "0x3", -EINVAL },
		{ "cpus", "8192", -ERANGE },
		{ "cpus", "0-4294967295", -ERANGE },
		{ "weight", "0", -ERANGE },
		{ "weight", "10001", -ERANGE },
		{ "weights", "1000", -EINVAL },
		{ "weights", "1000:", -EINVAL },
		{ "weights", ":5", -EINVAL },
		{ "weights", "1000:5,", -EINVAL },
		{ "weights", "1000:5,,1001:5", -EINVAL },
		{ "weights", "1000:5;1001:5", -EINVAL },
		{ "weights", "1000:-5", -EINVAL },
		{ "weights", "1000:5,1000:6", -EINVAL },
		{ "weights", "root:5,0:6", -EINVAL },
		{ "weights", "1000:10001", -ERANGE },
		{ "weights", "4294967295:5", -EINVAL },
		{ "weights", "18446744073709551616:5", -ERANGE },
		{ "weights", "nobody-of-that-name:5", -ENOENT },
	};
	_cleanup_free_ char *before = NULL;

	init();
	before = printed(&o);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_free_ char *after = NULL;
		char expected[64];
		int r = set(bad[i].name, bad[i].value);

		ck_assert_msg(r == bad[i].code, "%s = \"%s\": %d", bad[i].name, bad[i].value, r);
		(void)snprintf(expected, sizeof(expected), "here: %s: bad value \"%.6s",
			       bad[i].name, bad[i].value);
		ck_assert_error(expected);
		ck_assert_error("must be ");
		after = printed(&o);
		ck_assert_str_eq(before, after);
	}
	options_fini(&o);
}
END_TEST

START_TEST(an_error_says_what_is_allowed)
{
	init();
	ck_assert_int_eq(set("workers", "many"), -EINVAL);
	ck_assert_str_eq(error.text, "here: workers: bad value \"many\": must be a whole number "
				     "from 0 to 256");
	ck_assert_int_eq(set("heap-max", "1"), -ERANGE);
	ck_assert_error("from 64K to 1T");
	ck_assert_int_eq(set("spin", "2s"), -ERANGE);
	ck_assert_error("from 0 to 1s");
	ck_assert_int_eq(set("scheduler", "eager"), -EINVAL);
	ck_assert_error("must be lazy or busy");
	ck_assert_int_eq(set("log-level", "x"), -EINVAL);
	ck_assert_error("must be error, warning, notice, info or debug");
	ck_assert_int_eq(set("socket-mode", "9"), -EINVAL);
	ck_assert_error("octal permissions from 0000 to 0777");
	options_fini(&o);
}
END_TEST

START_TEST(an_error_is_one_line_whatever_the_value)
{
	init();
	ck_assert_int_eq(set("workers", "1\n<3>forged\033[2J"), -EINVAL);
	ck_assert_ptr_null(strpbrk(error.text, "\n\033"));
	options_fini(&o);
}
END_TEST

START_TEST(an_unknown_name_suggests_the_nearest)
{
	init();
	ck_assert_int_eq(set("wrokers", "1"), -ENOENT);
	ck_assert_str_eq(error.text, "here: unknown option \"wrokers\", did you mean \"workers\"?");
	ck_assert_int_eq(set("max_jobs", "1"), -ENOENT);
	ck_assert_error("\"max-jobs\"");
	ck_assert_int_eq(set("", "1"), -ENOENT);
	ck_assert_int_eq(set("config", "/x"), -ENOENT);
	options_fini(&o);
}
END_TEST

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

START_TEST(what_is_printed_reads_back_the_same)
{
	_cleanup_free_ char *first = NULL, *second = NULL;

	init();
	ck_assert_int_eq(set("cpus", "1,3-5"), 0);
	ck_assert_int_eq(set("heap-max", "1000001"), 0);
	ck_assert_int_eq(set("stop-timeout", "1500ms"), 0);
	ck_assert_int_eq(set("spin", "123ns"), 0);
	ck_assert_int_eq(set("weights", "1000:200,root:3"), 0);
	ck_assert_int_eq(set("socket-mode", "0600"), 0);
	ck_assert_int_eq(set("log-level", "debug"), 0);
	ck_assert_int_eq(set("module-dir", "/a folder/with blanks"), 0);
	first = printed(&o);
	options_fini(&o);

	init();
	ck_assert_int_eq(read_text(first), 0);
	second = printed(&o);
	ck_assert_str_eq(first, second);
	ck_assert_uint_eq(o.heap_max, 1000001);
	ck_assert_uint_eq(o.stop_timeout, 1500 * MS);
	ck_assert_uint_eq(o.spin, 123);
	ck_assert_uint_eq(options_weight(&o, 0), 3);
	ck_assert_int_eq(hwloc_bitmap_weight(o.cpus), 4);
	ck_assert_int_eq(options_log_level(&o), LOG_LEVEL_DEBUG);
	options_fini(&o);
}
END_TEST

START_TEST(the_command_line_wins_over_the_file_and_the_file_over_defaults)
{
	char path[] = "check_options.XXXXXX";
	char config[64];
	enum options_action action;
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(dprintf(fd, "workers = 3\nmax-jobs = 7\n"), 25);
	(void)close(fd);
	(void)snprintf(config, sizeof(config), "--config=%s", path);

	/* --config comes after the option that it must not overrule */
	ck_assert_int_eq(PARSE(&action, (char *)"--workers=5", config), 0);
	ck_assert_int_eq(action, OPTIONS_RUN);
	ck_assert_uint_eq(o.workers, 5);
	ck_assert_uint_eq(o.max_jobs, 7);
	ck_assert_uint_eq(o.max_clients, 256);
	options_fini(&o);
	ck_assert_int_eq(unlink(path), 0);
}
END_TEST

START_TEST(a_named_file_must_be_there)
{
	enum options_action action;

	ck_assert_int_eq(PARSE(&action, (char *)"--config", (char *)"/nonexistent/forkd.conf"),
			 -ENOENT);
	ck_assert_error("/nonexistent/forkd.conf: cannot be opened: No such file");
}
END_TEST

START_TEST(flags_are_actions)
{
	enum options_action action;

	ck_assert_int_eq(PARSE(&action, (char *)"--help"), 0);
	ck_assert_int_eq(action, OPTIONS_HELP);
	options_fini(&o);
	ck_assert_int_eq(PARSE(&action, (char *)"--version"), 0);
	ck_assert_int_eq(action, OPTIONS_VERSION);
	options_fini(&o);
	ck_assert_int_eq(PARSE(&action, (char *)"--pool", (char *)"--workers", (char *)"2"), 0);
	ck_assert_int_eq(action, OPTIONS_POOL);
	ck_assert_uint_eq(o.workers, 2);
	options_fini(&o);
	ck_assert_int_eq(PARSE(&action, (char *)"--check-config", (char *)"--config=/dev/null"), 0);
	ck_assert_int_eq(action, OPTIONS_CHECK);
	options_fini(&o);
}
END_TEST

START_TEST(a_bad_command_line_is_refused)
{
	enum options_action action = OPTIONS_RUN;

	ck_assert_int_eq(PARSE(&action, (char *)"--config=/dev/null", (char *)"--workers=x"),
			 -EINVAL);
	ck_assert_error("command line: workers: bad value \"x\"");
	ck_assert_int_eq(PARSE(&action, (char *)"--wrokers=1"), -ENOENT);
	ck_assert_error("unknown option \"--wrokers\", did you mean \"--workers\"?");
	ck_assert_int_eq(PARSE(&action, (char *)"--hepl"), -ENOENT);
	ck_assert_error("\"--help\"");
	ck_assert_int_eq(PARSE(&action, (char *)"--workers"), -EINVAL);
	ck_assert_error("--workers: a value is missing");
	ck_assert_int_eq(PARSE(&action, (char *)"--help=me"), -EINVAL);
	ck_assert_error("--help: takes no value");
	ck_assert_int_eq(PARSE(&action, (char *)"-x"), -ENOENT);
	ck_assert_error("unknown option \"-x\"");
	ck_assert_int_eq(PARSE(&action, (char *)"start"), -EINVAL);
	ck_assert_error("\"start\": forkd takes options only");
	ck_assert_int_eq(action, OPTIONS_RUN);
}
END_TEST

START_TEST(options_that_contradict_each_other_are_refused)
{
	enum options_action action;

	ck_assert_int_eq(PARSE(&action, (char *)"--config=/dev/null", (char *)"--memory-max=1M"),
			 -EINVAL);
	ck_assert_error("heap-max");
	ck_assert_error("memory-max");
	ck_assert_int_eq(PARSE(&action, (char *)"--config=/dev/null", (char *)"--cpus=0-2000"),
			 -EINVAL);
	ck_assert_error("cpus");
	ck_assert_int_eq(PARSE(&action, (char *)"--config=/dev/null", (char *)"--cpus=0-2000",
			       (char *)"--workers=1"),
			 0);
	options_fini(&o);
}
END_TEST

static void note_setting(void *context, const char *name, const char *value)
{
	(void)fprintf(context, "%s=%s\n", name, value);
}

START_TEST(only_some_options_change_at_run_time)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *f;

	ck_assert_int_eq(options_init(&o), 0);
	ck_assert_int_eq(options_change(&o, "scheduler", "busy", &error), 0);
	ck_assert_uint_eq(o.scheduler, OPTIONS_SCHEDULER_BUSY);
	ck_assert_int_eq(options_change(&o, "spin", "7us", &error), 0);
	ck_assert_uint_eq(o.spin, 7000);
	ck_assert_int_eq(options_change(&o, "spin", "2s", &error), -ERANGE);
	ck_assert_error("set: spin");
	ck_assert_int_eq(options_change(&o, "workers", "3", &error), -EPERM);
	ck_assert_error("workers needs a restart");
	ck_assert_error("scheduler, spin");
	ck_assert_int_eq(options_change(&o, "spim", "3", &error), -ENOENT);
	ck_assert_error("did you mean \"spin\"?");
	ck_assert_uint_eq(o.workers, 0);
	f = open_memstream(&text, &size);
	ck_assert_ptr_nonnull(f);
	options_each_runtime(&o, note_setting, f);
	(void)fclose(f);
	ck_assert_str_eq(text, "scheduler=busy\nspin=7us\n");
	options_fini(&o);
}
END_TEST

START_TEST(hidden_options_are_of_the_command_line_and_go_to_the_pool)
{
	static char no_file[] = "--config=/dev/null", mode[] = "--fork-mode=late";
	static char burden[] = "--fork-burden=2us";
	char file[] = "fork-mode = late\n";
	_cleanup_free_ char *text = NULL;
	enum options_action action;
	FILE *f;

	ck_assert_int_eq(PARSE(&action, no_file), 0);
	ck_assert_uint_eq(o.fork_mode, OPTIONS_FORK_NORMAL);
	ck_assert_uint_eq(o.fork_seed, 1);
	text = printed(&o);
	ck_assert_ptr_null(strstr(text, "fork-"));
	free(text);
	options_fini(&o);

	ck_assert_int_eq(PARSE(&action, no_file, mode, burden), 0);
	ck_assert_uint_eq(o.fork_mode, OPTIONS_FORK_LATE);
	ck_assert_uint_eq(o.fork_burden, 2000);
	text = printed(&o);
	ck_assert_ptr_nonnull(strstr(text, "fork-mode = late\n"));
	ck_assert_ptr_nonnull(strstr(text, "fork-burden = 2us\n"));
	ck_assert_ptr_null(strstr(text, "fork-seed"));

	f = fmemopen(file, strlen(file), "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(options_read(&o, f, "here", &error), -EPERM);
	(void)fclose(f);
	ck_assert_error("here:1: fork-mode");
	options_fini(&o);
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
	ck_assert_ptr_null(strstr(help, "fork-mode"));
	ck_assert_ptr_null(strstr(man, "fork-mode"));
	ck_assert_ptr_nonnull(strstr(help, "--check-config"));
	ck_assert_ptr_null(strstr(help, "--pool"));
	ck_assert_ptr_null(strstr(man, "-pool"));
	/* A path is as long as the installation's prefix: it counts as one column. */
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

CHECK_MAIN("options", defaults_are_those_of_the_table, sizes_take_binary_units,
	   durations_take_units_and_have_one_of_their_own, cpu_lists_become_bitmaps,
	   weights_are_looked_up_by_user, a_bad_value_is_refused_and_changes_nothing,
	   an_error_says_what_is_allowed, an_error_is_one_line_whatever_the_value,
	   an_unknown_name_suggests_the_nearest, a_file_sets_options_with_and_without_section,
	   an_error_in_a_file_names_its_line, what_is_printed_reads_back_the_same,
	   the_command_line_wins_over_the_file_and_the_file_over_defaults,
	   a_named_file_must_be_there, flags_are_actions, a_bad_command_line_is_refused,
	   options_that_contradict_each_other_are_refused, only_some_options_change_at_run_time,
	   hidden_options_are_of_the_command_line_and_go_to_the_pool,
	   help_and_manual_have_every_option_and_hide_the_pool)
