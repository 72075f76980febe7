/* SPDX-License-Identifier: MIT */
/*
 * spawn.c - executes this program again as a child of the manager: a pool, a dry run
 *
 * Threads: it runs in the child of a process that has one thread.
 */
#include "daemon/manager/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/low_latency.h"
#include "common/util.h"
#include "common/valgrind.h"
#include "daemon/manager/runas.h"

/* Makes the kernel kill the child, which can be restarted, before the manager if memory runs out.
 * Raising the score needs no privilege. */
static bool spawn_offer(int oom)
{
	_cleanup_close_ int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	char text[16] = "";
	int n;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return false;
	n = snprintf(text, sizeof(text), "%d", min(atoi(text) + oom, 1000));
	return pwrite(fd, text, (size_t)n, 0) == n;
}

/* The program. Under valgrind the kernel's link refers to valgrind, but valgrind emulates
 * readlink(). */
static const char *spawn_file(void)
{
	static char file[4096];

	if (on_valgrind() && readlink("/proc/self/exe", file, sizeof(file) - 1) > 0)
		return file;
	return "/proc/self/exe";
}

void spawn_exec(char *const *argv, pid_t manager, int fd, int oom, const struct runas *runas)
{
	sigset_t none;
	int r;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != manager)
		_exit(SPAWN_NO_EXEC); /* the manager died before prctl() */
	low_latency_hand_over();
	(void)unsetenv("FDSTORE");
	(void)unsetenv("NOTIFY_SOCKET");
	(void)unsetenv("WATCHDOG_USEC");
	(void)unsetenv("WATCHDOG_PID");
	if (fd == SPAWN_FD ? fcntl(fd, F_SETFD, 0) < 0 : dup2(fd, SPAWN_FD) < 0)
		_exit(SPAWN_NO_EXEC);
	if (close_range(SPAWN_FD + 1, ~0u, 0) < 0)
		_exit(SPAWN_NO_EXEC);
	/* sandbox_hide() has given the files of /proc/self to root. */
	(void)prctl(PR_SET_DUMPABLE, 1UL);
	(void)spawn_offer(oom);
	r = runas && runas->drops ? runas_become(runas) : 0;
	if (r < 0)
		_exit(r == -EAGAIN || r == -ENOMEM ? SPAWN_SHORT : SPAWN_NO_USER);
	/* The link also works after an update has replaced the file: so the manager and its
	 * children always have the same version. */
	(void)execv(spawn_file(), argv);
	_exit(errno == ENOMEM || errno == EAGAIN || errno == ENFILE ? SPAWN_SHORT : SPAWN_NO_EXEC);
}
