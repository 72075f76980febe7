/* SPDX-License-Identifier: MIT */
/* log: one line per message, whatever its contents; levels; the journal's prefixes; readers that do
 * not read, and too many messages. */
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/support/check_unit.h"
#include "tests/support/refuse.h"

static char said[8192];

/* Returns what @f writes to stderr in a child (log checks the kind of stderr once). With @journal,
 * stderr is the file named by JOURNAL_STREAM. */
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

START_TEST(journal_gets_levels_and_no_names)
{
	run(say_each_level, true);
	ck_assert_str_eq(said, "<3>e1\n<4>w\n<5>n\n<7>D\n");
}
END_TEST

static void say_forged(void)
{
	log_error("%s", "task\n<0>\033[2Jforged\177\302\233J\302");
}

START_TEST(message_cannot_forge_a_line_or_control_a_terminal)
{
	run(say_forged, true);
	ck_assert_str_eq(said, "<3>task?<0>?[2Jforged???J\302\n");
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

START_TEST(long_message_is_truncated_to_one_line)
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

START_TEST(errno_is_printed_and_kept_even_if_the_reader_is_gone)
{
	run(say_errno, true);
	ck_assert_str_eq(said, "<3>No such file or directory\n");
}
END_TEST

/* ------------------------------------------------------------------------ no reader */

/* A channel with a limited buffer; stderr is one end of it. */
struct way {
	int in, out;
};

static struct way make_pipe(void)
{
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	return (struct way){ ends[1], ends[0] };
}

static struct way make_stream(void)
{
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	return (struct way){ pair[1], pair[0] };
}

/* Fills it completely, and makes it blocking. */
static void fill(const struct way *way)
{
	char bytes[512];

	memset(bytes, '.', sizeof(bytes));
	ck_assert_int_eq(fcntl(way->in, F_SETFL, O_NONBLOCK), 0);
	for (size_t size = sizeof(bytes); size; size /= 2)
		while (write(way->in, bytes, size) > 0)
			;
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(fcntl(way->in, F_SETFL, 0), 0);
}

/* Reads all available data, and keeps the end of it. */
static const char *drain(const struct way *way)
{
	size_t n = 0;
	ssize_t r;

	ck_assert_int_eq(fcntl(way->out, F_SETFL, O_NONBLOCK), 0);
	while ((r = read(way->out, said + n, sizeof(said) - 1 - n)) > 0)
		n = n + (size_t)r < sizeof(said) - 1 ? n + (size_t)r : 0;
	said[n] = '\0';
	return said + strspn(said, ".");
}

/* Logs into a full channel without a reader: the call must return. */
static void stall(struct way way, bool old)
{
	int saved = dup(STDERR_FILENO), flags;
	const char *rest;

	/* An older kernel cannot write to a pipe without waiting. */
	if (old)
		ck_assert(refuse_call(SYS_pwritev2, EOPNOTSUPP));
	fill(&way);
	ck_assert_int_ge(dup2(way.in, STDERR_FILENO), 0);
	log_warning("one");
	log_warning("two");
	log_warning("three");
	flags = fcntl(STDERR_FILENO, F_GETFL);
	rest = drain(&way);
	ck_assert_str_eq(rest, "");
	log_warning("four");
	log_warning("five");
	ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
	ck_assert_int_eq(flags & O_NONBLOCK, 0);
	rest = drain(&way);
	ck_assert_str_eq(rest, "forkd: warning: 3 messages were dropped: the reader of the log "
			       "is too slow\nforkd: warning: four\nforkd: warning: five\n");
}

START_TEST(unread_pipe_does_not_block)
{
	stall(make_pipe(), false);
}
END_TEST

START_TEST(unread_pipe_of_an_older_kernel_does_not_block)
{
	stall(make_pipe(), true);
}
END_TEST

START_TEST(stalled_journal_does_not_block)
{
	stall(make_stream(), false);
}
END_TEST

/* ------------------------------------------------------------------------ too many */

static void say_too_much(void)
{
	static struct log_limit limit = { .every_ns = UINT64_MAX / 2 };
	static struct log_limit other = { .every_ns = UINT64_MAX / 2 };

	for (uint32_t i = 0; i < 5; i++)
		log_limited(&limit, LOG_LEVEL_WARNING, "line %u", i);
	log_limited(&other, LOG_LEVEL_WARNING, "another");
	log_limited(&other, LOG_LEVEL_DEBUG, "of no interest");
	/* The interval has passed. */
	atomic_store(&limit.until_ns, 0);
	atomic_store(&other.until_ns, 0);
	log_limited(&limit, LOG_LEVEL_WARNING, "line %u", 5u);
	log_limited(&other, LOG_LEVEL_WARNING, "another");
	log_limited(&limit, LOG_LEVEL_WARNING, "line %u", 6u);
}

START_TEST(repeated_messages_are_logged_once_and_counted)
{
	run(say_too_much, true);
	ck_assert_str_eq(said, "<4>line 0\n<4>another\n<4>line 5\n"
			       "<4>4 more like it were not written\n<4>another\n");
}
END_TEST

/* ------------------------------------------------------------------------ fields */

static char journal_directory[] = "/tmp/check_log.XXXXXX";
static char journal_path[64];

/* A journal socket that the test reads. */
static int journal(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (!journal_path[0]) {
		ck_assert_ptr_nonnull(mkdtemp(journal_directory));
		(void)snprintf(journal_path, sizeof(journal_path), "%s/socket", journal_directory);
	}
	(void)unlink(journal_path);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", journal_path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* Returns the next entry; empty if there is none. */
static const char *entry(int fd)
{
	static char text[4096];
	ssize_t n = recv(fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void remove_journal(int fd)
{
	(void)close(fd);
	(void)unlink(journal_path);
	(void)rmdir(journal_directory);
}

static const struct log_about everything = {
	.has = LOG_JOB | LOG_CLIENT | LOG_PID | LOG_UID,
	.job = 65536,
	.client = 3,
	.pid = 77,
	.uid = 1000,
	.task = "crash:segv",
	.message_id = LOG_ID_CRASH,
};

static void say_about(void)
{
	struct log_about some = { .has = LOG_UID, .uid = 0, .task = "a\nFORKD_UID=9" };

	log_set_name("tester");
	log_set_journal(journal_path);
	log_about(LOG_LEVEL_WARNING, &everything, "all of %s\nPRIORITY=0", "it");
	log_about(LOG_LEVEL_NOTICE, &some, "some");
	log_about(LOG_LEVEL_INFO, &some, "not written");
	log_notice("as always");
}

START_TEST(journal_gets_fields_that_cannot_be_forged)
{
	int fd = journal();

	run(say_about, true);
	ck_assert_str_eq(entry(fd),
			 "MESSAGE=all of it?PRIORITY=0\nPRIORITY=4\n"
			 "SYSLOG_IDENTIFIER=tester\n"
			 "MESSAGE_ID=" LOG_ID_CRASH "\nFORKD_JOB=3.65536\nFORKD_CLIENT=3\n"
			 "FORKD_CLIENT_PID=77\nFORKD_UID=1000\n"
			 "FORKD_TASK=crash:segv\n");
	ck_assert_str_eq(entry(fd), "MESSAGE=some\nPRIORITY=5\nSYSLOG_IDENTIFIER=tester\n"
				    "FORKD_UID=0\nFORKD_TASK=a?FORKD_UID=9\n");
	ck_assert_str_eq(entry(fd), "");
	ck_assert_str_eq(said, "<5>as always\n");
	remove_journal(fd);
}
END_TEST

START_TEST(without_a_journal_a_line_with_fields_is_text)
{
	static const char text[] = "tester: warning: all of it?PRIORITY=0\n"
				   "tester: some\ntester: as always\n";
	int fd = journal();

	run(say_about, false);
	ck_assert_str_eq(said, text);
	ck_assert_str_eq(entry(fd), "");
	remove_journal(fd);
	/* The journal exists, and does not answer. */
	run(say_about, true);
	ck_assert_str_eq(said, "<4>all of it?PRIORITY=0\n<5>some\n<5>as always\n");
}
END_TEST

static int journal_read = -1;

static void say_to_a_sleeper(void)
{
	log_set_journal(journal_path);
	for (int i = 0; i < 5000; i++)
		log_about(LOG_LEVEL_NOTICE, &everything, "again");
	while (entry(journal_read)[0])
		;
	log_about(LOG_LEVEL_NOTICE, &everything, "it reads");
}

START_TEST(unread_journal_does_not_block_and_lost_messages_are_counted)
{
	journal_read = journal();
	run(say_to_a_sleeper, true);
	ck_assert_ptr_nonnull(strstr(said, "messages were dropped"));
	ck_assert_int_eq(strncmp(entry(journal_read), "MESSAGE=it reads\n", 17), 0);
	ck_assert_str_eq(entry(journal_read), "");
	remove_journal(journal_read);
}
END_TEST

static void say_across_a_restart(void)
{
	/* No other process has it open. */
	journal_read = journal();
	log_set_journal(journal_path);
	log_about(LOG_LEVEL_NOTICE, &everything, "before");
	if (strncmp(entry(journal_read), "MESSAGE=before\n", 15) != 0)
		_exit(1);
	(void)close(journal_read);
	journal_read = journal();
	log_about(LOG_LEVEL_NOTICE, &everything, "after");
	if (strncmp(entry(journal_read), "MESSAGE=after\n", 14) != 0)
		_exit(2);
	remove_journal(journal_read);
}

START_TEST(restarted_journal_is_found)
{
	run(say_across_a_restart, true);
	ck_assert_str_eq(said, "");
}
END_TEST

CHECK_MAIN("log")
