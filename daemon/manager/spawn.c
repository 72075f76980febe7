/* SPDX-License-Identifier: MIT */
/*
 * spawn.c - this program again, as a child of the manager's: a pool, a dry run
 *
 * It runs in the child of a process of one thread.
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

/* If memory is short the child goes, which can be started again, and not the manager. Raising it
 * needs no right. */
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

/* The program. On valgrind the kernel's link leads to valgrind, but valgrind reads it itself. */
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
		_exit(SPAWN_NO_EXEC); /* it died before that */
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
	/* The link works after an update has replaced the file, too: the manager and its children
	 * are always of one version. */
	(void)execv(spawn_file(), argv);
	_exit(errno == ENOMEM || errno == EAGAIN || errno == ENFILE ? SPAWN_SHORT : SPAWN_NO_EXEC);
}
