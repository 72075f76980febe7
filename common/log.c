/* SPDX-License-Identifier: MIT */
/*
 * Messages of the programs.
 *
 * Writes lines to stderr, with a level. If stderr is the journal's stream socket (systemd), each
 * line begins with the level as in sd-daemon(3) ("<4>"); a line about a job is sent with fields
 * (log_journal.c). Otherwise a line begins with the name of the program, and the level of a warning
 * or an error.
 *
 * Callers: forkd and forkctl, on any thread. Never a library: libforkclient returns errors.
 *
 * I1  One message is one line and one write, so messages of several threads or processes never
 *     mix.
 * I2  No byte of the message can end the line or control a terminal.
 * I3  No thread waits for the reader of stderr: a journal that stalls, or a terminal that is held,
 *     would block the manager whenever a client makes it log. stderr's flags are not changed,
 *     because others have the same file open. A line without room is counted. Only for a file on a
 *     disk it is a plain write(2).
 *
 * If the reader of stderr dies: write fails with EPIPE (programs ignore SIGPIPE), the message is
 * lost, nothing else happens.
 */
#include "common/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log_journal.h"
#include "common/relaxed.h"
#include "common/text.h"

/* Relaxed everywhere: a late change of the level drops or prints one more message. */
static _Atomic int log_level = LOG_LEVEL_NOTICE;
static const char *log_name = "forkd";

void log_set_level(enum log_level level)
{
	store_relaxed(&log_level, level);
}

enum log_level log_get_level(void)
{
	return (enum log_level)load_relaxed(&log_level);
}

void log_set_name(const char *name)
{
	log_name = name;
}

/* The kind of stderr: its S_IFMT, and whether it is the journal's. 0: not known yet. Relaxed: every
 * thread finds the same answer. */
#define LOG_JOURNAL 1
static _Atomic int log_kind;

/* Relaxed: a statistic; the thread that takes it by an exchange writes it. */
static _Atomic uint64_t log_lost;

/* JOURNAL_STREAM holds device:inode of the journal's socket; it counts only while stderr still is
 * that socket (systemd.exec(5)): a child whose stderr was redirected inherits the variable too. */
static int log_is_journal(const struct stat *st)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;

	if (!stream || sscanf(stream, "%llu:%llu", &dev, &ino) != 2)
		return 0;
	return (unsigned long long)st->st_dev == dev && (unsigned long long)st->st_ino == ino;
}

static int log_look(void)
{
	struct stat st = { 0 };
	int kind;

	if (fstat(STDERR_FILENO, &st) < 0)
		return S_IFREG;
	kind = (int)(st.st_mode & S_IFMT) | (log_is_journal(&st) ? LOG_JOURNAL : 0);
	store_relaxed(&log_kind, kind);
	return kind;
}

/* For a pipe or a terminal: EAGAIN if there is no room now. */
static ssize_t log_write_now(const char *line, size_t len)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)line, .iov_len = len };
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	ssize_t n;

	if (poll(&p, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}
	n = pwritev2(STDERR_FILENO, &iov, 1, -1, RWF_NOWAIT);
	/* Pipes have it from Linux 6.4 on, terminals do not. There was room for a line just before,
	 * which is gone only if others have filled it since. */
	if (n < 0 && errno == EOPNOTSUPP)
		n = write(STDERR_FILENO, line, len);
	return n;
}

/* Returns false if there was no room. Other errors cannot be reported. */
static bool log_put(int kind, const char *line, size_t len)
{
	ssize_t n;

	do {
		if ((kind & S_IFMT) == S_IFSOCK)
			n = send(STDERR_FILENO, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		else if ((kind & S_IFMT) == S_IFREG)
			n = write(STDERR_FILENO, line, len);
		else
			n = log_write_now(line, len);
	} while (n < 0 && errno == EINTR);
	return n >= 0 || errno != EAGAIN;
}

static const char *log_label(enum log_level level)
{
	if (level == LOG_LEVEL_ERROR)
		return "error: ";
	return level == LOG_LEVEL_WARNING ? "warning: " : "";
}

/* Writes one line, or nothing. about: may be NULL. Returns false if there was no room. */
__attribute__((format(printf, 3, 0))) static bool
log_line(enum log_level level, const struct log_about *about, const char *format, va_list ap)
{
	enum log_journal sent = LOG_JOURNAL_NONE;
	int kind = load_relaxed(&log_kind);
	int saved = errno;
	char line[1024];
	size_t head, len;
	int n;

	if (!kind)
		kind = log_look();
	if (kind & LOG_JOURNAL)
		n = snprintf(line, sizeof(line), "<%d>", (int)level);
	else
		n = snprintf(line, sizeof(line), "%s: %s", log_name, log_label(level));
	if (n < 0 || (size_t)n >= sizeof(line) - 1)
		n = 0;
	head = (size_t)n;

	errno = saved; /* for %m */
	n = vsnprintf(line + head, sizeof(line) - head, format, ap);
	if (n < 0)
		n = 0;
	len = head + (size_t)n;
	if (len > sizeof(line) - 1)
		len = sizeof(line) - 1; /* position of the line break */

	text_make_line(line + head, len - head);
	if (about && kind & LOG_JOURNAL)
		sent = log_journal_send(level, log_name, about, line + head, len - head);
	if (sent != LOG_JOURNAL_NONE)
		return sent == LOG_JOURNAL_SENT;
	line[len++] = '\n';
	return log_put(kind, line, len);
}

__attribute__((format(printf, 2, 3))) static bool log_own_line(enum log_level level,
							       const char *format, ...)
{
	va_list ap;
	bool put;

	va_start(ap, format);
	put = log_line(level, NULL, format, ap);
	va_end(ap);
	return put;
}

__attribute__((format(printf, 3, 0))) static void
log_vmsg(enum log_level level, const struct log_about *about, const char *format, va_list ap)
{
	uint64_t lost = atomic_exchange_explicit(&log_lost, 0, memory_order_relaxed);
	int saved = errno;

	if (lost &&
	    !log_own_line(LOG_LEVEL_WARNING,
			  "%" PRIu64 " messages were dropped: the reader of the log is too slow",
			  lost))
		lost++;
	else
		lost = 0;
	errno = saved;
	if (!lost && !log_line(level, about, format, ap))
		lost = 1;
	if (lost)
		(void)add_relaxed(&log_lost, lost);
	errno = saved;
}

void log_about(enum log_level level, const struct log_about *about, const char *format, ...)
{
	va_list ap;

	if (level > log_get_level())
		return;
	va_start(ap, format);
	log_vmsg(level, about, format, ap);
	va_end(ap);
}

/* Returns true if this message must be written. */
static bool log_limit_pass(struct log_limit *limit)
{
	/* Relaxed: the winner of the exchange writes the line; no other data depends on it. */
	uint64_t until = load_relaxed(&limit->until_ns);
	uint64_t now = clock_ns();

	if (now >= until &&
	    atomic_compare_exchange_strong_explicit(&limit->until_ns, &until, now + limit->every_ns,
						    memory_order_relaxed, memory_order_relaxed))
		return true;
	(void)add_relaxed(&limit->more, 1);
	return false;
}

void log_limited_about(struct log_limit *limit, enum log_level level, const struct log_about *about,
		       const char *format, ...)
{
	uint64_t more;
	va_list ap;

	if (level > log_get_level() || !log_limit_pass(limit))
		return;
	va_start(ap, format);
	log_vmsg(level, about, format, ap);
	va_end(ap);
	more = atomic_exchange_explicit(&limit->more, 0, memory_order_relaxed);
	if (more)
		log_msg(level, "%" PRIu64 " more like it were not written", more);
}
