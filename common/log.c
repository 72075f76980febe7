/* SPDX-License-Identifier: MIT */
/*
 * Messages of the programs.
 *
 * What it is: lines to stderr, with a level. Under systemd, where stderr is the journal's stream
 * socket, each line opens with the level as sd-daemon(3) wants it ("<4>"); else with the name of
 * the program, and the level where it is a warning or an error.
 *
 * Who calls it: forkd and forkctl, on any thread. Never a library: libforkclient returns errors.
 *
 * I1  One message is one line and one write(2), so messages of several threads or processes
 *     never mix.
 * I2  No byte of the message can end the line or steer a terminal.
 *
 * If the reader of stderr dies: write fails with EPIPE (programs ignore SIGPIPE), the message is
 * lost, nothing else happens.
 */
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Relaxed everywhere: a level that changes late drops or prints a message more. */
static _Atomic int log_level = LOG_LEVEL_NOTICE;
static const char *log_name = "forkd";

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&log_level, level, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
	return (enum log_level)atomic_load_explicit(&log_level, memory_order_relaxed);
}

void log_set_name(const char *name)
{
	log_name = name;
}

/* JOURNAL_STREAM holds device:inode of the journal's socket; it counts only while stderr still is
 * that socket (systemd.exec(5)): a child whose stderr was redirected inherits the variable too. */
static int log_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	if (!stream || sscanf(stream, "%llu:%llu", &dev, &ino) != 2)
		return 0;
	return fstat(STDERR_FILENO, &st) == 0 && (unsigned long long)st.st_dev == dev &&
	       (unsigned long long)st.st_ino == ino;
}

static const char *log_label(enum log_level level)
{
	if (level == LOG_LEVEL_ERROR)
		return "error: ";
	return level == LOG_LEVEL_WARNING ? "warning: " : "";
}

void log_msg(enum log_level level, const char *format, ...)
{
	static _Atomic int journal = -1; /* relaxed: every thread finds the same answer */
	int is_journal = atomic_load_explicit(&journal, memory_order_relaxed);
	int saved = errno;
	char line[1024];
	size_t head, len;
	va_list ap;
	int n;

	if (level > log_get_level())
		return;
	if (is_journal < 0) {
		is_journal = log_is_journal();
		atomic_store_explicit(&journal, is_journal, memory_order_relaxed);
	}

	if (is_journal)
		n = snprintf(line, sizeof(line), "<%d>", (int)level);
	else
		n = snprintf(line, sizeof(line), "%s: %s", log_name, log_label(level));
	if (n < 0 || (size_t)n >= sizeof(line) - 1)
		n = 0;
	head = (size_t)n;

	errno = saved; /* for %m */
	va_start(ap, format);
	n = vsnprintf(line + head, sizeof(line) - head, format, ap);
	va_end(ap);
	if (n < 0)
		n = 0;
	len = head + (size_t)n;
	if (len > sizeof(line) - 1)
		len = sizeof(line) - 1; /* where the line break goes */

	for (size_t i = head; i < len; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	line[len++] = '\n';

	/* Nothing can be done about a message that cannot be written. */
	while (write(STDERR_FILENO, line, len) < 0 && errno == EINTR)
		;
	errno = saved;
}
