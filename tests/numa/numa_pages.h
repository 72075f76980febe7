/* SPDX-License-Identifier: MIT */
/*
 * numa_pages.h - the NUMA nodes of the pages of a range
 *
 * By move_pages(2), which without a list of nodes moves nothing and reports the node of each page.
 */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define NUMA_PAGES_NODES 64u
#define NUMA_PAGES_BATCH 512u

struct numa_pages {
	uint64_t node[NUMA_PAGES_NODES]; /* pages on each */
	uint64_t absent;		 /* never touched, or not mapped by this process */
};

/* Counts the pages of [start, end) of a process; pid 0 is the caller. Returns 0; -EPERM (of another
 * user); -ESRCH; -ENOSYS (a kernel without nodes); -ERANGE (too many nodes); or the error of a page
 * whose node is unknown. */
static inline int numa_pages_count(pid_t pid, uint64_t start, uint64_t end,
				   struct numa_pages *ret_pages)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct numa_pages pages;

	memset(&pages, 0, sizeof(pages));
	start &= ~(page - 1);
	while (start < end) {
		void *at[NUMA_PAGES_BATCH];
		int status[NUMA_PAGES_BATCH];
		unsigned long n = 0;

		for (; n < NUMA_PAGES_BATCH && start < end; start += page)
			at[n++] = (void *)(uintptr_t)start;
		if (syscall(SYS_move_pages, pid, n, at, NULL, status, 0) < 0)
			return -errno;
		for (unsigned long i = 0; i < n; i++) {
			if (status[i] == -ENOENT || status[i] == -EFAULT)
				pages.absent++;
			else if (status[i] < 0)
				return status[i];
			else if ((unsigned int)status[i] >= NUMA_PAGES_NODES)
				return -ERANGE;
			else
				pages.node[status[i]]++;
		}
	}
	*ret_pages = pages;
	return 0;
}
