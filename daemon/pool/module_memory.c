/* SPDX-License-Identifier: MIT */
/*
 * module_memory.c - what tasks may allocate themselves
 *
 * Frames, stacks and copies come out of the arena, which has its limits (stacklet.h). What a task
 * gets from malloc(3) does not, and one that never stops would have the kernel end whatever process
 * it likes. So the pool has a limit of private memory that can be written (RLIMIT_DATA, since Linux
 * 4.7 for all mappings of that kind): what is there when it is ready, and module-memory-max.
 * malloc() gives NULL then, and the job fails alone, as long as its task looks. All tasks share the
 * one limit: while one holds it all, others that want some get none.
 *
 * Threads: the pool's main thread: before there are others, and when all have been made and no job
 * has come.
 *
 * INVARIANTS
 *   I1. Memory that a task has given back is there for any other. malloc() keeps an area for each
 *       of many threads, up to 64 MiB of which stay counted when all of it was freed, and serve
 *       that thread alone. So there are no more areas than that they are a quarter of it all.
 *       Memory that a thread keeps must not lie between pieces that a task gives back: the pool's
 *       threads have allocated theirs before the limit is set and the first job runs.
 *   I2. What forkd itself allocates once tasks run, it can go without, or a job does, or forkctl:
 *       tables of clients and tenants are made before. Shared mappings do not count.
 *
 * WHAT IT CANNOT DO
 *   Shared anonymous memory and memory files of a task do not count either. Where the runtime of a
 *   sanitizer allocates, a limit would end the process: there is none then.
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

#define MODULE_MEMORY_AREA (UINT64_C(64) << 20) /* what one of malloc()'s may keep (I1) */

int module_memory_prepare(uint64_t bytes)
{
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	(void)mallopt(M_ARENA_MAX,
		      (int)min(max(bytes / (4 * MODULE_MEMORY_AREA), UINT64_C(1)), UINT64_C(256)));
	return fd;
}

/* Bytes of private memory that can be written; or a negative errno. */
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
