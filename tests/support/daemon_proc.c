/* SPDX-License-Identifier: MIT */
/* daemon_proc.c - reads /proc of the processes of tests/support/daemon.h, and of the test */
#include <dirent.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "tests/support/daemon.h"
#include "tests/support/local.h"

static int64_t daemon_number(const char *path, const char *name, int base)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0, n = strlen(name);

	while (f && getline(&line, &size, f) >= 0)
		if (!strncmp(line, name, n) && line[n] == ':')
			return strtoll(line + n + 1, NULL, base);
	return -1;
}

static int64_t daemon_status_number(pid_t pid, const char *name, int base)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return daemon_number(path, name, base);
}

int64_t daemon_proc_status(pid_t pid, const char *name)
{
	return daemon_status_number(pid, name, 10);
}

int64_t daemon_proc_mask(pid_t pid, const char *name)
{
	return daemon_status_number(pid, name, 16);
}

int64_t daemon_oom_score(pid_t pid)
{
	_cleanup_fclose_ FILE *f = NULL;
	int64_t n = INT64_MIN;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%" SCNd64, &n), 1);
	return n;
}

int64_t daemon_pss(pid_t pid)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	return daemon_number(path, "Pss_Anon", 10) + daemon_number(path, "Pss_Shmem", 10);
}

uint64_t daemon_cpu_ns(pid_t tid)
{
	_cleanup_fclose_ FILE *f = NULL;
	uint64_t ns = 0;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)tid);
	f = fopen(path, "re");
	ck_assert(f && fscanf(f, "%" SCNu64, &ns) == 1);
	return ns;
}

uint64_t daemon_pool_cpu_ns(struct daemon *d)
{
	struct timespec used;
	clockid_t clock;

	ck_assert_int_eq(clock_getcpuclockid(daemon_pool(d), &clock), 0);
	ck_assert_int_eq(clock_gettime(clock, &used), 0);
	return (uint64_t)used.tv_sec * NSEC_PER_SEC + (uint64_t)used.tv_nsec;
}

/* Returns true for a thread of io_uring in the process. Its last thread stays and wakes every 5
 * s. */
static bool daemon_is_kernels(pid_t pid, const char *tid)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[512], name[32] = "";

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", (int)pid, tid);
	f = fopen(path, "re");
	return f && fgets(name, sizeof(name), f) && strncmp(name, "iou-wrk", 7) == 0;
}

uint64_t daemon_switches(pid_t pid)
{
	_cleanup_closedir_ DIR *dir = NULL;
	uint64_t sum = 0;
	char path[512];
	struct dirent *e;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while ((e = readdir(dir))) {
		int64_t own, others;

		if (e->d_name[0] == '.' || daemon_is_kernels(pid, e->d_name))
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid, e->d_name);
		own = daemon_number(path, "voluntary_ctxt_switches", 10);
		others = daemon_number(path, "nonvoluntary_ctxt_switches", 10);
		if (own >= 0 && others >= 0) /* otherwise it has just ended */
			sum += (uint64_t)(own + others);
	}
	return sum;
}

char daemon_proc_state(pid_t tid)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64], state = '?';

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)tid);
	f = fopen(path, "re");
	return f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1 ? state : '?';
}

bool daemon_is_all(pid_t pid, char state)
{
	_cleanup_closedir_ DIR *dir = NULL;
	bool all = false;
	char path[64];
	struct dirent *e;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		all = daemon_proc_state(atoi(e->d_name)) == state;
		if (!all)
			break;
	}
	return all;
}

void daemon_suspend(pid_t pid)
{
	LOCAL_REFUSE("a process that is stopped");
	ck_assert_int_eq(kill(pid, SIGSTOP), 0);
	DAEMON_AWAIT(daemon_is_all(pid, 'T'));
}

bool daemon_is_quiet(struct daemon *d)
{
	LOCAL_REFUSE("a manager");
	return daemon_is_all(d->manager, 'S') && daemon_proc_state(daemon_pool(d)) == 'S';
}

bool daemon_may_all(void)
{
	_cleanup_fclose_ FILE *last = fopen("/proc/sys/kernel/cap_last_cap", "re");
	unsigned int n;
	uint64_t all;

	if (!last || fscanf(last, "%u", &n) != 1 || daemon_proc_status(getpid(), "Seccomp") != 0)
		return false;
	all = ((UINT64_C(2) << n) - 1) & ~(UINT64_C(1) << CAP_SYS_RESOURCE);
	return ((uint64_t)daemon_proc_mask(getpid(), "CapEff") & all) == all;
}

bool daemon_sanitized(void)
{
#ifdef FK_SANITIZE
	return true;
#else
	return false;
#endif
}
