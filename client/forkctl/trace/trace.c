/* SPDX-License-Identifier: MIT */
/*
 * trace.c - forkctl trace: records events of the workers
 *
 * Requests the rings (shm/trace.h) from the manager, reads them repeatedly, and writes the timeline
 * (timeline.c) at the end.
 *
 * 	forkctl trace [OPTION...] [-- COMMAND [ARG...]]
 *
 * INVARIANTS
 *   I1. Events that were read are written, whatever ends the trace. This may be an interrupt, its
 *       duration, the maximum number of events, or the end of the command, the pool or forkd.
 *   I2. The command gets the signals of the terminal, as under a shell: SIGINT and SIGQUIT reach it
 *       through its process group and are ignored here; SIGTERM and SIGHUP are passed on.
 *
 * If forkd or its pool dies, the connection ends, with a line that gives the reason; the rings stay
 * mapped. If this process dies, its connection ends, and with it the trace.
 */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/lib/client_state.h"
#include "shm/proto.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/forkctl/child_command.h"
#include "client/forkctl/control.h"
#include "client/forkctl/trace/timeline.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"
#include "shm/segment.h"
#include "shm/trace.h"

#define TRACE_INTERVAL (10 * NSEC_PER_MSEC) /* between two reads of the rings */
#define TRACE_BATCH    1024u

struct trace_options {
	const char *output;
	struct forkctl_limit duration;
};

struct tracer {
	struct trace_options options;
	char **command; /* NULL: none */
	fk_client *client;
	int connection;
	const struct trace *trace; /* the segment */
	uint64_t size;
	uint32_t n_rings;
	uint64_t at[LIMIT_WORKERS];
	struct timeline *timeline;
	FILE *out;
	int signals;
	sigset_t old_mask;
	pid_t pid; /* of the command, 0: it does not run */
	int status;
	uint64_t until; /* CLOCK_MONOTONIC, UINT64_MAX: any time */
	char why[240];	/* reason of the end; empty: it has not ended */
	uint64_t ended_ns;
	bool early; /* ended before the command or the duration */
};

const struct forkctl_option forkctl_trace_options[] = {
	{ "-o", "--output", "FILE",
	  "Write the trace to FILE (default: standard output if not a terminal)", FORKCTL_TEXT,
	  offsetof(struct trace_options, output), 0, 0 },
	{ "", "--duration", "TIME",
	  "Trace for this time (default: until COMMAND ends, or an interrupt)", FORKCTL_SECONDS,
	  offsetof(struct trace_options, duration), 1, UINT64_C(86400000000000) },
	{ 0 },
};

/* ------------------------------------------------------------------------ the rings */

static void end(struct tracer *t, bool early, const char *why)
{
	if (*t->why)
		return;
	(void)snprintf(t->why, sizeof(t->why), "%s", why);
	t->early = early;
	t->ended_ns = clock_ns();
}

/* Reads all new events. */
static void collect(struct tracer *t)
{
	struct trace_event events[TRACE_BATCH];

	for (uint32_t i = 0; i < t->n_rings; i++) {
		uint32_t n;

		do {
			uint64_t lost = 0;

			n = trace_take(&t->trace->rings[i], &t->at[i], events, TRACE_BATCH, &lost);
			timeline_add(t->timeline, i, events, n, lost);
		} while (n == TRACE_BATCH && timeline_events(t->timeline) < TIMELINE_EVENTS);
	}
	if (timeline_events(t->timeline) >= TIMELINE_EVENTS)
		end(t, true, "the maximum number of events was reached");
}

/* Requests and maps the rings. Returns 0 or an exit code. */
static int attach(struct tracer *t, const char *socket)
{
	_cleanup_close_ int fd = -1;
	void *base;
	int r = forkctl_trace_open(socket, &t->connection, &fd);

	if (r)
		return r;
	r = segment_map(fd, SEGMENT_TRACE, 0, 0, &base, &t->size);
	if (r < 0)
		return forkctl_fail(FORKCTL_FAILED, "cannot map the trace: %s",
				    strerrordesc_np(-r));
	t->trace = base;
	t->n_rings = (uint32_t)((t->size - sizeof(struct trace)) / sizeof(struct trace_ring));
	t->n_rings = min(t->n_rings, LIMIT_WORKERS);
	for (uint32_t i = 0; i < t->n_rings; i++)
		t->at[i] = trace_head(&t->trace->rings[i]);
	t->timeline = timeline_new(t->client->board, t->n_rings);
	return 0;
}

/* ------------------------------------------------------------------------ the end */

/* Reads the reason for the end from the manager, or detects its end. */
static void hear(struct tracer *t)
{
	union proto_message message;
	int fds[PROTO_MAX_FDS];
	uint32_t n_fds = 0;
	int r = proto_recv(t->connection, &message, fds, &n_fds, MSG_DONTWAIT);

	if (r == -EAGAIN)
		return;
	while (n_fds)
		(void)safe_close(fds[--n_fds]);
	if (r >= (int)sizeof(message.error) && message.head.type == PROTO_ERROR) {
		message.error.text[sizeof(message.error.text) - 1] = '\0';
		end(t, true, message.error.text);
	} else {
		end(t, true, "forkd has ended");
	}
}

static void reap(struct tracer *t)
{
	int status;

	if (!t->pid || waitpid(t->pid, &status, WNOHANG) != t->pid)
		return;
	t->pid = 0;
	t->status = forkctl_exit_status(status);
	end(t, false, "the command has ended");
}

static void read_signals(struct tracer *t)
{
	struct signalfd_siginfo info;

	while (read(t->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		int signo = (int)info.ssi_signo;

		if (signo == SIGCHLD)
			reap(t);
		else if (!t->pid)
			end(t, false, "interrupted");
		else if (signo == SIGTERM || signo == SIGHUP)
			(void)kill(t->pid, signo);
	}
}

/* ------------------------------------------------------------------------ the command */

static int start(struct tracer *t)
{
	if (!t->command)
		return 0;
	(void)fflush(NULL);
	t->pid = fork();
	if (t->pid < 0) {
		t->pid = 0;
		return forkctl_fail(FORKCTL_FAILED, "cannot fork: %s", strerrordesc_np(errno));
	}
	if (t->pid)
		return 0;
	forkctl_exec(t->command, &t->old_mask);
}

/* ------------------------------------------------------------------------ the loop */

static int open_output(struct tracer *t)
{
	const char *name = t->options.output;

	if (!name && isatty(STDOUT_FILENO))
		return forkctl_fail(
			FORKCTL_USAGE,
			"trace: refusing to write to a terminal: use -o FILE, or -o - to force it");
	t->out = !name || streq(name, "-") ? stdout : fopen(name, "we");
	if (!t->out)
		return forkctl_fail(FORKCTL_FAILED, "cannot write %s: %s", name,
				    strerrordesc_np(errno));
	return 0;
}

/* Handles events, messages, the time and signals once. */
static void look(struct tracer *t, bool heard)
{
	collect(t);
	if (heard)
		hear(t);
	if (clock_ns() >= t->until)
		end(t, false, "its duration has passed");
	read_signals(t);
}

/* Runs until the trace, and the command if there is one, have ended. */
static void run(struct tracer *t)
{
	if (!t->command)
		(void)forkctl_fail(0, "tracing %" PRIu32 " worker%s%s", t->n_rings,
				   forkctl_plural(t->n_rings),
				   t->options.duration.text ? "" : " until interrupted");
	while (!*t->why) {
		struct pollfd fds[] = {
			{ .fd = t->signals, .events = POLLIN },
			{ .fd = t->connection, .events = POLLIN },
		};
		uint64_t now = clock_ns();
		uint64_t left = t->until > now ? t->until - now : 0;
		struct timespec pause = clock_to_timespec(min(left, TRACE_INTERVAL));

		(void)ppoll(fds, ARRAY_SIZE(fds), &pause, NULL);
		look(t, fds[1].revents);
	}
	/* Events between the last read and the end. */
	collect(t);
	t->connection = safe_close(t->connection);
	while (t->pid) {
		struct pollfd signals = { .fd = t->signals, .events = POLLIN };

		(void)poll(&signals, 1, -1);
		read_signals(t);
	}
}

static int finish(struct tracer *t)
{
	uint64_t lost = timeline_lost(t->timeline), events;
	int r = timeline_write(t->timeline, t->ended_ns, t->why, t->out);

	if (t->out != stdout && fclose(t->out) != 0 && r == 0)
		r = -errno;
	if (r < 0)
		return forkctl_fail(FORKCTL_FAILED, "cannot write %s: %s",
				    t->options.output ? t->options.output : "the trace",
				    strerrordesc_np(-r));
	if (t->early)
		(void)forkctl_fail(0, "the trace ended early: %s", t->why);
	events = timeline_events(t->timeline);
	(void)forkctl_fail(0, "%" PRIu64 " event%s%s%s", events, forkctl_plural(events),
			   t->options.output ? " in " : "",
			   t->options.output ? t->options.output : "");
	if (lost)
		(void)forkctl_fail(0,
				   "%" PRIu64
				   " event%s lost: the workers wrote faster than forkctl read",
				   lost, forkctl_plural(lost));
	return t->early ? FORKCTL_FAILED : FORKCTL_OK;
}

static void clean_up(struct tracer *t)
{
	(void)safe_close(t->signals);
	(void)safe_close(t->connection);
	segment_unmap((void *)(uintptr_t)t->trace, t->size);
	t->timeline = timeline_free(t->timeline);
	(void)fk_close(t->client);
}

static int parse(struct tracer *t, int argc, char *argv[])
{
	int err = forkctl_options(forkctl_trace_options, &t->options, &argc, argv);

	if (err)
		return err;
	argv[argc] = NULL;
	t->command = argc > 1 ? argv + 1 : NULL;
	return 0;
}

int forkctl_trace(const char *socket, int argc, char *argv[])
{
	struct tracer t = { .connection = -1, .signals = -1, .until = UINT64_MAX };
	int err = parse(&t, argc, argv);

	if (!err)
		err = forkctl_open_machine(socket, 1, FORKCTL_HEAP_SMALL, &t.client);
	if (err)
		return err;
	t.signals = forkctl_catch_signals(&t.old_mask);
	err = t.signals < 0 ? FORKCTL_FAILED : attach(&t, socket);
	if (!err)
		err = open_output(&t);
	if (!err)
		err = start(&t);
	if (!err) {
		if (t.options.duration.text)
			t.until = clock_ns() + t.options.duration.ns;
		run(&t);
		err = finish(&t);
	}
	clean_up(&t);
	return t.status ? t.status : err;
}
