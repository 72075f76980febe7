/* SPDX-License-Identifier: MIT */
/*
 * module_memory.c - limits the memory that tasks may allocate themselves
 *
 * Frames, stacks and copies come from the arena, which has its own limits (stacklet.h). Memory that
 * a task gets from malloc(3) does not. A task that allocates forever would make the OOM killer end
 * any process. So the pool has a limit of private writable memory (RLIMIT_DATA, which covers all
 * such mappings since Linux 4.7): the memory in use when it is ready, plus module-memory-max. At
 * the limit malloc() returns NULL, and the job fails alone if its task checks that. All tasks share
 * the limit: while one task uses all of it, others get none.
 *
 * Threads: the pool's main thread: before there are others, and when all have been started and no
 * job has arrived.
 *
 * INVARIANTS
 *   I1. Memory that a task has freed is available to any other. malloc() keeps an arena for each of
 *       many threads. Up to 64 MiB of a malloc() arena stay counted when all of it was freed, and
 *       serve that thread alone. So the number of malloc() arenas is limited to that which can keep
 *       a quarter of the limit. Memory that a thread keeps must not be between blocks that a task
 *       frees: the pool's threads have allocated theirs before the limit is set and the first job
 *       runs.
 *   I2. If an allocation of forkd itself fails while tasks run, only a job or a request of forkctl
 *       fails: tables of clients and tenants are allocated before. Shared mappings do not count.
 *
 * LIMITATIONS
 *   Shared anonymous memory and memory files of a task do not count either. With a sanitizer there
 *   is no limit: its runtime allocates, and a limit would end the process.
 */
#include "daemon/pool/module_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/util.h"

#define MODULE_MEMORY_AREA (UINT64_C(64) << 20) /* that one malloc() arena may keep (I1) */

int module_memory_prepare(uint64_t bytes)
{
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	(void)mallopt(M_ARENA_MAX,
		      (int)min(max(bytes / (4 * MODULE_MEMORY_AREA), UINT64_C(1)), UINT64_C(256)));
	return fd;
}

/* Returns the bytes of private writable memory, or a negative errno. */
static int64_t module_memory_used(int fd)
{
	int64_t pages;
	char text[128];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	if (sscanf(text, "%*u %*u %*u %*u %*u %" SCNd64, &pages) != 1)
		return -EBADMSG;
	return pages * sysconf(_SC_PAGESIZE);
}

int module_memory_begin(int fd, uint64_t bytes)
{
#ifdef FK_SANITIZE
	(void)fd;
	(void)bytes;
	(void)module_memory_used;
	return 0;
#else
	int64_t used = module_memory_used(fd);
	struct rlimit limit;

	if (used < 0)
		return (int)used;
	if (getrlimit(RLIMIT_DATA, &limit) < 0)
		return -errno;
	limit.rlim_max = min(limit.rlim_max, (rlim_t)used + bytes);
	limit.rlim_cur = min(limit.rlim_cur, limit.rlim_max);
	return setrlimit(RLIMIT_DATA, &limit) < 0 ? -errno : 0;
#endif
}
