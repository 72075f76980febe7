/* SPDX-License-Identifier: MIT */
/*
 * thread_states.c - states of the threads of a process, by the kernel (/proc)
 *
 * It reads one file per thread, which any user can read.
 */
#include "daemon/manager/thread_states.h"

#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/valgrind.h"

/* Reads one thread's file. False: the thread has ended, or is not visible. */
static bool thread_states_read(pid_t pid, const char *tid, struct thread_states *threads)
{
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_free_ char *line = NULL;
	char path[512], state = 0;
	uint64_t pending;
	int dumps, tracer;
	size_t size = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid, tid);
	f = fopen(path, "re");
	while (f && getline(&line, &size, f) >= 0) {
		(void)sscanf(line, "State: %c", &state);
		if (sscanf(line, "SigPnd: %" SCNx64, &pending) == 1)
			threads->killed |= pending >> (SIGKILL - 1) & 1;
		if (sscanf(line, "CoreDumping: %d", &dumps) == 1)
			threads->dumps |= dumps;
		if (sscanf(line, "TracerPid: %d", &tracer) == 1)
			threads->traced |= tracer != 0;
	}
	if (state)
		threads->asleep &= state == 'S' || state == 'Z' || state == 'X';
	return state;
}

struct thread_states thread_states_look(pid_t pid)
{
	struct thread_states threads = { .asleep = true, .traced = on_valgrind() };
	_cleanup_closedir_ DIR *dir = NULL;
	bool any = false;
	struct dirent *e;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.')
			any |= thread_states_read(pid, e->d_name, &threads);
	threads.asleep &= any;
	threads.killed &= !threads.dumps;
	return threads;
}

bool thread_states_stopped(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}
