/* SPDX-License-Identifier: MIT */
/*
 * counts.h - what manager and pool hold, and whether they have given it back
 */
#pragma once

#include "tests/support/daemon.h"

struct counts_process {
	uint32_t descriptors; /* open, but for files of the test */
	uint32_t memfds;      /* of these, shared memory */
	uint32_t segments;    /* of it, mapped */
	uint32_t maps;	      /* all mappings: allocators have some too, and keep them */
	uint64_t pages;	      /* of all memfds that are open, but for the arena's */
};

struct counts {
	struct counts_process manager;
	struct counts_process pool;
	uint32_t children; /* of the manager, zombies included */
};

/* As of now; of a client that has left, too, as long as the pool has not released it. */
struct counts counts_read(struct daemon *d);

/*
 * The segments of a name, "forkd-" for all, that a process has mapped; sets *ret_pages, if it is
 * not NULL, to those that it has in its page tables.
 */
uint32_t counts_mapped(pid_t pid, const char *name, uint64_t *ret_pages);

/*
 * Waits until both have as many descriptors, segments and pages as they had, and the manager as
 * many children; what the allocators do with their mappings is not asked. Fails the test with the
 * numbers if that does not come, for DAEMON_PATIENCE seconds.
 */
void counts_await(struct daemon *d, const struct counts *before);
