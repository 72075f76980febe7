/* SPDX-License-Identifier: MIT */
/*
 * log: one line for a message, whatever is in it; levels; the journal's prefixes.
 */
#include "common/log.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/check_unit.h"

static char said[8192];

/* What @f writes to stderr in a process of its own (what kind of thing stderr is, log asks once).
 * With @journal, stderr is what JOURNAL_STREAM names. */
static void run(void (*f)(void), bool journal)
{
	_cleanup_fclose_ FILE *out = tmpfile();
	struct stat st;
	int status;
	ssize_t n;
	pid_t pid;

	ck_assert_ptr_nonnull(out);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		char stream[64];

		if (fstat(fileno(out), &st) < 0 || dup2(fileno(out), STDERR_FILENO) < 0)
			_exit(1);
		(void)snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
			       (unsigned long long)st.st_ino + !journal);
		(void)setenv("JOURNAL_STREAM", stream, 1);
		f();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	n = pread(fileno(out), said, sizeof(said) - 1, 0);
	ck_assert_int_ge(n, 0);
	said[n] = '\0';
}

static void say_each_level(void)
{
	log_set_name("tester");
	log_error("e%d", 1);
	log_warning("w");
	log_notice("n");
	log_info("i");
	log_debug("d");
	log_set_level(LOG_LEVEL_DEBUG);
	log_debug("D");
	log_set_level(LOG_LEVEL_ERROR);
	log_warning("W");
}

START_TEST(messages_above_the_level_are_dropped)
{
	run(say_each_level, false);
	ck_assert_str_eq(said, "tester: error: e1\ntester: warning: w\ntester: n\ntester: D\n");
}
END_TEST

START_TEST(the_journal_gets_levels_and_no_names)
{
	run(say_each_level, true);
	ck_assert_str_eq(said, "<3>e1\n<4>w\n<5>n\n<7>D\n");
}
END_TEST

static void say_forged(void)
{
	log_error("%s", "task\n<0>\033[2Jforged\177");
}

START_TEST(a_message_cannot_forge_a_line_or_steer_a_terminal)
{
	run(say_forged, true);
	ck_assert_str_eq(said, "<3>task?<0>?[2Jforged?\n");
}
END_TEST

static void say_long(void)
{
	char text[4000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_error("%s", text);
	log_error("next");
}

START_TEST(a_long_message_is_cut_and_still_a_line)
{
	const char *end;

	run(say_long, true);
	end = strchr(said, '\n');
	ck_assert_ptr_nonnull(end);
	ck_assert_int_eq(end - said, 1023);
	ck_assert_str_eq(end, "\n<3>next\n");
}
END_TEST

static void say_errno(void)
{
	errno = ENOENT;
	log_error("%m");
	if (errno != ENOENT)
		_exit(1);
	(void)close(STDERR_FILENO);
	errno = ENOENT;
	log_error("into nothing");
	if (errno != ENOENT)
		_exit(2);
}

START_TEST(errno_is_printed_and_kept_even_if_nobody_listens)
{
	run(say_errno, true);
	ck_assert_str_eq(said, "<3>No such file or directory\n");
}
END_TEST

CHECK_MAIN("log", messages_above_the_level_are_dropped, the_journal_gets_levels_and_no_names,
	   a_message_cannot_forge_a_line_or_steer_a_terminal,
	   a_long_message_is_cut_and_still_a_line, errno_is_printed_and_kept_even_if_nobody_listens)
