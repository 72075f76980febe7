/* SPDX-License-Identifier: MIT */
/*
 * reload_trial.c - the dry run of a reload: reads forkd.conf and loads the modules in a process
 *
 * The manager never blocks (manager.c, I2) and loads no module, so another process reads and loads
 * (reload_trial_main.c). It writes its results into a memory file, which the manager reads after
 * the process has ended.
 *
 * INVARIANTS
 *   I1. The file is read when the process has been reaped. A process that a module's constructor
 *       has forked could still write. So the file is read once, at most RELOAD_TRIAL_SIZE bytes,
 *       and then parsed, each value like those of the command line.
 *   I2. A trial ends at the latest after limit_ns and RELOAD_TRIAL_LAST_NS, and the manager does
 *       not block on it. A process that is stuck in the kernel, as on a disk that hangs, is killed
 *       and ends when the kernel returns; until then there is no other trial. If a process's end
 *       cannot be watched, for lack of a descriptor or memory, a timer checks until it has ended.
 *
 * If the process dies, done() gets the cause. If the manager dies, the kernel kills the process.
 */
#include "daemon/manager/reload_trial.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"
#include "daemon/manager/spawn.h"
#include "shm/segment.h"

#define RELOAD_TRIAL_SIZE     (1u << 20)
#define RELOAD_TRIAL_LAST_NS  (2 * NSEC_PER_SEC)   /* from SIGKILL to the end, if not stuck */
#define RELOAD_TRIAL_AGAIN_NS (10 * NSEC_PER_MSEC) /* between two checks whether it has ended */

/* ------------------------------------------------------------------------ its output */

static int reload_trial_take_line(struct reload_trial_found *found, char *line, bool *complete)
{
	char *equals = strstr(line, " =");
	struct options_error error;

	if (line[0] == '#') {
		*complete = sscanf(line, "# %" SCNx64 " %" SCNu32 " %" SCNx64, &found->modules,
				   &found->n_left_out, &found->joinable) == 3;
		return 0;
	}
	if (!equals)
		return 0; /* the section's title */
	*equals = '\0';
	equals += 2;
	return options_set(&found->options, line, equals + strspn(equals, " "), "reload", &error);
}

static int reload_trial_parse(char *text, struct reload_trial_found *ret)
{
	struct reload_trial_found found = { .modules = 0 };
	bool complete = false;
	char *save = NULL;
	int r = options_init(&found.options);

	if (r < 0)
		return r;
	for (char *line = strtok_r(text, "\n", &save); line && r == 0;
	     line = strtok_r(NULL, "\n", &save))
		r = reload_trial_take_line(&found, line, &complete);
	if (r == 0 && !complete)
		r = -EBADMSG;
	if (r < 0) {
		options_fini(&found.options);
		return r;
	}
	*ret = found;
	return 0;
}

static int reload_trial_read(int fd, struct reload_trial_found *ret)
{
	_cleanup_free_ char *text = calloc(1, RELOAD_TRIAL_SIZE);
	ssize_t n;

	if (!text)
		return -ENOMEM;
	do
		n = pread(fd, text, RELOAD_TRIAL_SIZE - 1, 0);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : reload_trial_parse(text, ret);
}

/* ------------------------------------------------------------------------ its process */

static void reload_trial_close(struct reload_trial *t)
{
	loop_forget(t->loop, &t->process);
	loop_forget(t->loop, &t->limit);
	t->pidfd = safe_close(t->pidfd);
	t->file = safe_close(t->file);
}

/* The process was killed, and no event reports its end: reaps it now, later, or at the next
 * trial. */
static void reload_trial_reap(struct reload_trial *t)
{
	loop_forget(t->loop, &t->limit);
	if (waitpid(t->pid, NULL, WNOHANG) == 0)
		(void)loop_timer(t->loop, &t->limit, RELOAD_TRIAL_AGAIN_NS);
	else
		t->pid = 0;
}

/* Kills a process whose end cannot be watched. */
static void reload_trial_leave(struct reload_trial *t)
{
	reload_trial_close(t);
	t->state = RELOAD_TRIAL_OVER;
	(void)kill(t->pid, SIGKILL); /* not reaped yet, so the pid is its own */
	reload_trial_reap(t);
}

static void reload_trial_tell(struct reload_trial *t, struct reload_trial_found *found,
			      const char *why)
{
	t->state = RELOAD_TRIAL_OVER;
	t->done(t, found, why);
}

/* Returns 0 and the results, or a negative errno and why. */
static int reload_trial_judge(struct reload_trial *t, const siginfo_t *info,
			      struct reload_trial_found *ret, char *why, size_t size)
{
	int r;

	if (info->si_code != CLD_EXITED) {
		(void)snprintf(why, size, "the dry run died of signal %d (%s)", info->si_status,
			       strsignal(info->si_status));
		return -ENOEXEC;
	}
	if (info->si_status) {
		(void)snprintf(
			why, size, "%s",
			info->si_status == SPAWN_SHORT ? "out of memory for the dry run"
			: info->si_status == SPAWN_NO_EXEC
				? "forkd itself cannot be executed: was it updated? restart it"
				: "the dry run failed: see forkd's log");
		return -EINVAL;
	}
	r = reload_trial_read(t->file, ret);
	if (r < 0)
		(void)snprintf(why, size, "the results of the dry run cannot be read: %s",
			       strerror(-r));
	return r;
}

static void reload_trial_on_process(struct loop_source *source, int result)
{
	struct reload_trial *t = container_of(source, struct reload_trial, process);
	enum reload_trial_state state = t->state;
	struct reload_trial_found found;
	siginfo_t info = { 0 };
	char why[160];
	int r;

	(void)result;
	while (waitid(P_PIDFD, (id_t)t->pidfd, &info, WEXITED | WNOHANG) < 0 && errno == EINTR)
		;
	if (!info.si_pid) {
		/* A live process's end is not reported: loop.c, I8 excludes that. */
		if (loop_poll_later(t->loop, &t->process, t->pidfd, POLLIN) == 0)
			return;
		reload_trial_leave(t);
		if (state != RELOAD_TRIAL_OVER)
			reload_trial_tell(t, NULL,
					  "out of memory: cannot detect the end of the dry run");
		return;
	}
	t->pid = 0;
	if (state == RELOAD_TRIAL_RUNS)
		r = reload_trial_judge(t, &info, &found, why, sizeof(why));
	reload_trial_close(t);
	if (state == RELOAD_TRIAL_RUNS)
		reload_trial_tell(t, r < 0 ? NULL : &found, why);
	else if (state == RELOAD_TRIAL_KILLED)
		reload_trial_tell(t, NULL, t->why);
	else
		log_notice("reload: the stuck dry run has ended");
}

static void reload_trial_on_limit(struct loop_source *source, int result)
{
	struct reload_trial *t = container_of(source, struct reload_trial, limit);

	(void)result;
	if (t->state == RELOAD_TRIAL_OVER) {
		reload_trial_reap(t);
		return;
	}
	if (t->state == RELOAD_TRIAL_RUNS) {
		t->state = RELOAD_TRIAL_KILLED;
		(void)snprintf(t->why, sizeof(t->why), "the dry run took more than %.3g s",
			       (double)t->limit_ns / (double)NSEC_PER_SEC);
		(void)kill(t->pid, SIGKILL); /* not reaped yet, so the pid is its own */
		if (loop_timer(t->loop, &t->limit, RELOAD_TRIAL_LAST_NS) == 0)
			return;
	}
	(void)snprintf(t->why + strlen(t->why), sizeof(t->why) - strlen(t->why),
		       ", and is stuck: check the disks");
	reload_trial_tell(t, NULL, t->why);
}

/* Returns the command line with --dry-run as first argument: the first of such flags counts. */
static char **reload_trial_argv(char *const *args)
{
	char **argv;
	size_t n = 0;

	while (args[n])
		n++;
	argv = calloc(n + 2, sizeof(*argv));
	if (!argv)
		return NULL;
	argv[0] = args[0];
	argv[1] = (char *)(uintptr_t) "--dry-run";
	if (n > 1)
		memcpy(argv + 2, args + 1, (n - 1) * sizeof(*argv));
	return argv;
}

int reload_trial_start(struct reload_trial *t, char *const *args)
{
	_cleanup_free_ char **argv = NULL;
	const pid_t manager = getpid();
	int r;

	if (t->pid && t->pidfd < 0)
		reload_trial_reap(t);
	if (t->pid)
		return -EBUSY;
	argv = reload_trial_argv(args);
	if (!argv)
		return -ENOMEM;
	t->state = RELOAD_TRIAL_RUNS;
	t->process.call = reload_trial_on_process;
	t->limit.call = reload_trial_on_limit;
	t->file = segment_memfd("forkd-reload");
	if (t->file < 0)
		return t->file;
	t->pid = fork();
	if (t->pid == 0) {
		/* A SIGHUP to all processes of a service is meant for the manager alone. The
		 * executed program inherits that it is ignored. */
		(void)signal(SIGHUP, SIG_IGN);
		spawn_exec(argv, manager, t->file, SPAWN_OOM_TRIAL, NULL);
	}
	r = t->pid < 0 ? -errno : 0;
	if (r == 0) {
		t->pidfd = pidfd_open(t->pid, 0);
		r = t->pidfd < 0 ? -errno : 0;
		if (r == 0)
			r = loop_poll(t->loop, &t->process, t->pidfd, POLLIN);
		if (r == 0)
			r = loop_timer(t->loop, &t->limit, t->limit_ns);
	}
	if (r < 0 && t->pid > 0) {
		reload_trial_leave(t);
	} else if (r < 0) {
		reload_trial_close(t);
		t->pid = 0;
	}
	return r;
}

void reload_trial_end(struct reload_trial *t)
{
	if (!t->pid)
		return;
	/* If it has not ended yet, init reaps it. */
	(void)kill(t->pid, SIGKILL);
	(void)waitpid(t->pid, NULL, WNOHANG);
	reload_trial_close(t);
	t->pid = 0;
}
