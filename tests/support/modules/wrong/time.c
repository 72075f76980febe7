/* SPDX-License-Identifier: MIT */
/* time.c - tasks that forkctl check cannot judge: results that differ between calls, too long,
 * endless, killing forkd */
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <forkd/task.h>

static _Atomic int64_t calls;

FK_LEAF_TASK(int64_t, count, (int64_t, n))
{
	return n + atomic_fetch_add(&calls, 1) + (int64_t)time(NULL);
}

FK_TASK(int64_t, forever, (int64_t, n), int64_t x;)
{
	if (!n)
		FK_LEAF(0);
}
FK_BODY(forever)
{
	for (;;) {
		FK_FORK(x, forever, 0);
		FK_JOIN();
	}
}
FK_END(forever)

static int bell = -1;

/* A separate process, which may do what a task may not. It ends with the pool. */
static void __attribute__((constructor)) start_killer(void)
{
	pid_t manager = getppid();
	int ends[2];
	char byte;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	bell = ends[1];
	if (fork() == 0) {
		dup2(ends[0], STDIN_FILENO);
		close_range(STDERR_FILENO + 1, ~0u, 0);
		if (read(STDIN_FILENO, &byte, 1) == 1)
			kill(manager, SIGKILL);
		_exit(0);
	}
	close(ends[0]);
}

/* 99 is not among the generated arguments. */
FK_LEAF_TASK(int64_t, orphan, (int64_t, n))
{
	while (n == 99 && write(bell, "x", 1) == 1)
		pause();
	return n;
}

struct found {
	int64_t best;
	int64_t nodes;
};

FK_LEAF_TASK(struct found, search, (int64_t, n))
{
	return (struct found){ n, atomic_fetch_add(&calls, 1) };
}

FK_EXPORT(count, 0, "Another number each time")
FK_EXPORT_RESULTS(search, (int64_t, best, int64_t, nodes), 0,
		  "n, after as many nodes as it happens")
FK_EXPORT(forever, 0, "Never ends, except for n = 0")
FK_EXPORT(orphan, 0, "99: kills the manager")
FK_MODULE(time, "What cannot be checked")
