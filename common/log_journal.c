/* SPDX-License-Identifier: MIT */
/*
 * A line with fields, for the journal.
 *
 * From stderr the journal takes text, with only a level. On its own socket it takes datagrams with
 * a NAME=value on each line, which sd_journal_send(3) sends. That call blocks if the journal does
 * not read, which log.c must not (I3). So this file has the same protocol, without blocking.
 *
 * Caller: log.c, for lines about a job; in forkd only the manager. The pool may open no socket, and
 * needs none: the manager logs its jobs and their outcomes.
 *
 * I1 One line is one datagram, and none of its values has a line break: no field can be forged.
 *     Control characters in text from outside are replaced.
 * I2 The socket is opened when the first line needs it, and again when the journal was restarted.
 *     If that fails the line is written as text.
 */
#include "common/log_journal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/text.h"

static const char *journal_path = "/run/systemd/journal/socket";

/* Relaxed everywhere: a number; the thread that takes it out owns it alone. */
static _Atomic int journal_fd = -1;

struct journal_text {
	char text[2048];
	size_t n;
};

void log_set_journal(const char *path)
{
	journal_path = path;
}

static int journal_open(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", journal_path);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -1;
	return steal_fd(&fd);
}

/* Adds one field. It is never truncated: the buffer has room for the maximum. */
__attribute__((format(printf, 2, 3))) static void journal_add(struct journal_text *t,
							      const char *format, ...)
{
	size_t room = sizeof(t->text) - t->n - 1;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(t->text + t->n, room, format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= room)
		return;
	text_make_line(t->text + t->n, (size_t)n);
	t->n += (size_t)n;
	t->text[t->n++] = '\n';
}

static enum log_journal journal_put(int fd, const struct journal_text *t)
{
	ssize_t n;

	do
		n = send(fd, t->text, t->n, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return LOG_JOURNAL_SENT;
	return errno == EAGAIN ? LOG_JOURNAL_FULL : LOG_JOURNAL_NONE;
}

enum log_journal log_journal_send(enum log_level level, const char *name,
				  const struct log_about *about, const char *line, size_t size)
{
	enum log_journal r = LOG_JOURNAL_NONE;
	struct journal_text t = { .n = 0 };
	int fd;

	journal_add(&t, "MESSAGE=%.*s", (int)size, line);
	journal_add(&t, "PRIORITY=%d", (int)level);
	journal_add(&t, "SYSLOG_IDENTIFIER=%s", name);
	if (about->message_id)
		journal_add(&t, "MESSAGE_ID=%s", about->message_id);
	if (about->has & LOG_JOB)
		journal_add(&t, "FORKD_JOB=%" PRIu32 ".%" PRIu64, about->client, about->job);
	if (about->has & LOG_CLIENT)
		journal_add(&t, "FORKD_CLIENT=%" PRIu32, about->client);
	if (about->has & LOG_PID)
		journal_add(&t, "FORKD_CLIENT_PID=%" PRIu32, about->pid);
	if (about->has & LOG_UID)
		journal_add(&t, "FORKD_UID=%" PRIu32, about->uid);
	if (about->task && about->task[0])
		journal_add(&t, "FORKD_TASK=%s", about->task);

	/* Taken out, so that no other thread closes it in between; two threads at once open two. */
	fd = atomic_exchange_explicit(&journal_fd, -1, memory_order_relaxed);
	for (int tries = 0; tries < 2 && r == LOG_JOURNAL_NONE; tries++) {
		if (fd < 0)
			fd = journal_open();
		if (fd < 0)
			return r;
		r = journal_put(fd, &t);
		if (r == LOG_JOURNAL_NONE)
			fd = safe_close(fd);
	}
	(void)safe_close(atomic_exchange_explicit(&journal_fd, fd, memory_order_relaxed));
	return r;
}
