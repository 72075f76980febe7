/* SPDX-License-Identifier: MIT */
/* counts.h - resources held by manager and pool, and whether they were released */
#pragma once

#include "tests/support/daemon.h"

struct counts_process {
	uint32_t descriptors; /* open, without files of the test */
	uint32_t memfds;      /* included in descriptors: shared memory */
	uint32_t segments;    /* mappings of shared memory */
	uint32_t maps;	      /* all mappings; allocators keep some */
	uint64_t pages;	      /* of all open memfds, without the arena's */
};

struct counts {
	struct counts_process manager;
	struct counts_process pool;
	uint32_t children; /* of the manager, including zombies */
};

/* Returns the current counts. A client that has left is included until the pool has released it. */
struct counts counts_read(struct daemon *d);

/* Returns how many segments with this prefix ("forkd-" for all) a process has mapped. If ret_pages
 * is not NULL, sets it to the number of their pages in its page tables. */
uint32_t counts_mapped(pid_t pid, const char *name, uint64_t *ret_pages);

/* Waits until both processes have as many descriptors, segments and pages as before, and the
 * manager as many children. Mappings of allocators are ignored. After DAEMON_PATIENCE seconds it
 * fails the test and prints the numbers. */
void counts_await(struct daemon *d, const struct counts *before);
