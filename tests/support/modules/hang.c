/* SPDX-License-Identifier: MIT */
/* hang.c - tasks that never fork, or rarely */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <forkd/task.h>

static int64_t thread_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_sec * INT64_C(1000000000) + used.tv_nsec;
}

/* Uses this much CPU time. */
static void burn(int64_t ms)
{
	int64_t end = thread_ns() + ms * 1000000;

	while (thread_ns() < end)
		;
}

/* Stays 1; volatile, so that the compiler does not know it. */
static volatile int64_t on = 1;

FK_LEAF_TASK(int64_t, spin, (int64_t, ignored))
{
	int64_t looks = 0;

	while (on)
		looks++;
	return looks;
}

/* Reads a pipe without a writer that writes. */
FK_LEAF_TASK(int64_t, wait, (int64_t, ignored))
{
	int ends[2];
	char byte;

	while (pipe(ends) == 0 && read(ends[0], &byte, 1) != 1)
		;
	return 0;
}

FK_LEAF_TASK(int64_t, nap, (int64_t, ms))
{
	int64_t naps = 0;

	for (; on; naps++) {
		(void)poll(NULL, 0, (int)ms);
		burn(ms);
	}
	return naps;
}

FK_LEAF_TASK(int64_t, work, (int64_t, ms))
{
	burn(ms);
	return ms;
}

/* One leaf of this length, and then a fork, again and again. */
FK_TASK(int64_t, slow, (int64_t, ms), int64_t x;)
FK_NO_LEAF(slow)
{
	while (on) {
		burn(self->ms);
		FK_FORK(x, work, 0);
		FK_JOIN();
	}
	FK_RETURN(self->x);
}
FK_END(slow)

/* The child spins, and the thief of the continuation spins as well. */
FK_TASK(int64_t, spread, (int64_t, ignored), int64_t x;)
FK_NO_LEAF(spread)
{
	FK_FORK(x, spin, 0);
	while (on)
		;
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(spread)

/* Calls itself n deep, in frames whose unwinding takes ms. */
FK_DECLARE(int64_t, tidy, (int64_t, n, int64_t, ms), int64_t x;)
FK_UNWIND(tidy)
{
	burn(self->ms);
}
FK_DEFINE_UNWIND(int64_t, tidy, (int64_t, n, int64_t, ms))
FK_NO_LEAF(tidy)
{
	if (self->n)
		FK_CALL(x, tidy, self->n - 1, self->ms);
	else
		FK_CALL(x, slow, 1);
	FK_RETURN(self->x);
}
FK_END(tidy)

/* Runs on this worker, unless it is negative, in a frame whose unwinding never ends. */
FK_DECLARE(int64_t, untidy, (int64_t, worker), int64_t looks; int64_t x;)
FK_UNWIND(untidy)
{
	while (on)
		self->looks++;
}
FK_DEFINE_UNWIND(int64_t, untidy, (int64_t, worker))
FK_NO_LEAF(untidy)
{
	self->looks = 0;
	if (self->worker >= 0)
		FK_GO_TO_WORKER(self->worker);
	FK_CALL(x, slow, 1);
	FK_RETURN(self->x);
}
FK_END(untidy)

/* Returns the thread of this process that has this name, or 0; the process if the name is "". */
static pid_t thread_of_name(const char *name)
{
	DIR *dir = *name ? opendir("/proc/self/task") : NULL;
	pid_t found = *name ? 0 : getpid();
	struct dirent *e;

	while (dir && !found && (e = readdir(dir))) {
		char path[300], line[64] = "";
		FILE *f;

		(void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = fopen(path, "re");
		if (f && fgets(line, sizeof(line), f) && strncmp(line, name, strlen(name)) == 0)
			found = atoi(e->d_name);
		if (f)
			(void)fclose(f);
	}
	if (dir)
		(void)closedir(dir);
	return found;
}

static void stay(int signo)
{
	(void)signo;
	for (;;)
		(void)poll(NULL, 0, -1);
}

/* Blocks that thread forever. */
FK_LEAF_TASK(int64_t, stick, (struct fk_str, name))
{
	struct sigaction action = { .sa_handler = stay };
	pid_t thread;

	(void)sigfillset(&action.sa_mask);
	if (sigaction(SIGUSR2, &action, NULL) < 0)
		return -1;
	/* A pool that has just started runs jobs before all its threads have their names. */
	while (!(thread = thread_of_name(name.data)))
		(void)poll(NULL, 0, 1);
	return syscall(SYS_tgkill, getpid(), thread, SIGUSR2);
}

/* Replaces each open descriptor of /proc/self/status by a file that names a tracer. Returns the
 * number of descriptors. */
FK_LEAF_TASK(int64_t, disguise, (int64_t, ignored))
{
	static const char fake[] = "Name:\tforkd\nTracerPid:\t1\n", name[] = "Name:\t";
	int file = memfd_create("status", MFD_CLOEXEC);
	char text[sizeof(name) - 1];
	int64_t n = 0;

	if (file < 0 || write(file, fake, sizeof(fake) - 1) < 0)
		return -1;
	for (int fd = 0; fd < 1024; fd++)
		if (fd != file && pread(fd, text, sizeof(text), 0) == (ssize_t)sizeof(text) &&
		    memcmp(text, name, sizeof(text)) == 0)
			n += dup2(file, fd) == fd;
	(void)close(file);
	return n;
}

FK_EXPORT(spin, 0, "Busy for ever in one leaf")
FK_EXPORT(wait, 0, "Waits for ever in read(2)")
FK_EXPORT(nap, 0, "Sleeps for so long, is busy for so long, for ever, in one leaf")
FK_EXPORT(work, 0, "Uses this much CPU time in one leaf")
FK_EXPORT(slow, 0, "Uses this much CPU time between two forks, forever")
FK_EXPORT(spread, 0, "Busy for ever on two workers")
FK_EXPORT(tidy, 0, "For ever; to end, n + 1 frames take so long each")
FK_EXPORT(untidy, 0,
	  "For ever, at forks, on this worker or, below 0, any; and once it is to end, at none")
FK_EXPORT(stick, 0, "The pool's thread of this name, or the channel's if it is empty, is stuck; 0")
FK_EXPORT(disguise, 0, "The pool seems to be traced; in how many files")
FK_MODULE(hang, "Tasks that never fork, or rarely")
