/* SPDX-License-Identifier: MIT */
/* Sums of figures in /proc. Threads that have ended are not in /proc: this is for pools, whose
 * threads stay. */
#include "tests/bench/usage.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"

#define MEMFDS_MAX 1024u

/* Reads the numbers after these words, each at the start of a line. Returns how many were found. */
static size_t numbers(const char *path, const char *const *words, int64_t *ret, size_t n)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char line[256];
	size_t found = 0;

	while (f && found < n && fgets(line, sizeof(line), f))
		for (size_t i = 0; i < n; i++)
			if (!strncmp(line, words[i], strlen(words[i]))) {
				ret[i] = strtoll(line + strlen(words[i]), NULL, 10);
				found++;
			}
	return found;
}

static uint64_t cpu_ns(const char *schedstat)
{
	_cleanup_fclose_ FILE *f = fopen(schedstat, "re");
	uint64_t ns;

	return f && fscanf(f, "%" SCNu64, &ns) == 1 ? ns : 0;
}

static void add_thread(pid_t process, const char *thread, struct usage *sum)
{
	static const char *const words[] = { "voluntary_ctxt_switches:",
					     "nonvoluntary_ctxt_switches:" };
	char path[320];
	int64_t switches[2];

	snprintf(path, sizeof(path), "/proc/%d/task/%s/status", process, thread);
	if (numbers(path, words, switches, 2) == 2) {
		sum->voluntary += (uint64_t)switches[0];
		sum->involuntary += (uint64_t)switches[1];
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", process, thread);
	sum->cpu_ns += cpu_ns(path);
}

static void add_threads(pid_t process, struct usage *sum)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *e;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", process);
	dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.')
			add_thread(process, e->d_name, sum);
}

/* The first line of /proc/stat, in ticks: user nice system idle iowait irq softirq steal. */
static void add_machine(struct usage *sum)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/stat", "re");
	uint64_t tick = NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t user, nice, system, irq, soft, steal;

	if (f && fscanf(f,
			"cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %*u %*u %" SCNu64 " %" SCNu64
			" %" SCNu64,
			&user, &nice, &system, &irq, &soft, &steal) == 6) {
		sum->machine_ns = (user + nice + system + irq + soft) * tick;
		sum->stolen_ns = steal * tick;
	}
}

struct usage usage_now(const pid_t *processes, uint32_t n)
{
	struct usage sum = { .at_ns = clock_ns() };

	for (uint32_t i = 0; i < n; i++)
		add_threads(processes[i], &sum);
	add_machine(&sum);
	return sum;
}

struct usage usage_between(struct usage before, struct usage after)
{
	return (struct usage){
		.at_ns = after.at_ns - before.at_ns,
		.voluntary = after.voluntary - before.voluntary,
		.involuntary = after.involuntary - before.involuntary,
		.cpu_ns = after.cpu_ns - before.cpu_ns,
		.machine_ns = after.machine_ns - before.machine_ns,
		.stolen_ns = after.stolen_ns - before.stolen_ns,
	};
}

struct usage_memory usage_memory(const pid_t *processes, uint32_t n)
{
	static const char *const words[] = { "Pss:", "Pss_Shmem:" };
	struct usage_memory sum = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		char path[64];
		int64_t kib[2];

		snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", processes[i]);
		if (numbers(path, words, kib, 2) != 2)
			return (struct usage_memory){ -1, -1 };
		sum.pss_kib += kib[0];
		sum.shared_kib += kib[1];
	}
	return sum;
}

int64_t usage_memfds(pid_t process)
{
	ino_t seen[MEMFDS_MAX];
	uint32_t n_seen = 0;
	int64_t blocks = 0;
	char path[320];
	struct dirent *e;
	_cleanup_closedir_ DIR *dir = NULL;

	snprintf(path, sizeof(path), "/proc/%d/fd", process);
	dir = opendir(path);
	if (!dir)
		return -1;
	while ((e = readdir(dir))) {
		char target[16] = "";
		struct stat st;
		uint32_t i = 0;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", process, e->d_name);
		if (readlink(path, target, sizeof(target) - 1) < 0 ||
		    strncmp(target, "/memfd:", 7) || stat(path, &st) < 0)
			continue;
		while (i < n_seen && seen[i] != st.st_ino)
			i++;
		if (i < n_seen || n_seen == MEMFDS_MAX)
			continue;
		seen[n_seen++] = st.st_ino;
		blocks += st.st_blocks;
	}
	return blocks / 2;
}
