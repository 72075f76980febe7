/* SPDX-License-Identifier: MIT */
/*
 * memory_budget.h - how forkd's memory is divided
 *
 * The kernel kills a process if memory runs out. So all that can grow by what clients and tasks do
 * has a limit, and the sum of these limits is no more than there is:
 *
 * 	memory-max		all there is: told, or memory_limit.h
 * 	  shared-memory-max	what clients share with forkd: preallocated for each
 * 				(client_segments.c)
 * 	  arena-max		what jobs are run with: committed as it is used (stacklet.h)
 * 	  module-memory-max	what tasks allocate themselves (module_memory.h)
 * 	  the rest		forkd's own: two processes, stacks and tables, and the kernel's
 * 				tables of pages for them
 *
 * If all is auto, shared-memory-max and module-memory-max have a quarter each, and the arena what
 * is left; or less, both alike, where that is too little: in a small container on a machine of many
 * CPUs, or for an arena that is there already. heap-max is as much as shared-memory-max has room
 * for.
 *
 * INVARIANTS
 *   I1. After budget_divide() the parts fit; or nothing is changed.
 *   I2. Divided once more, what was divided is the same.
 */
#pragma once

#include <stdint.h>

struct memory_limit;
struct options;
struct options_error;

/* Bytes at most: of manager and pool; of each worker, besides its C stack (worker-stack); of each
 * job record, in the tables of both. */
#define BUDGET_PROCESSES (UINT64_C(16) << 20)
#define BUDGET_WORKER	 (UINT64_C(1) << 20)
#define BUDGET_RECORD	 UINT64_C(96)

/*
 * Puts numbers in for those of memory_max, shared_memory_max, heap_max, arena_max and module_memory
 * that are auto.
 * options: with those that were given. n_workers: at most. before: what arena-max was for clients
 * that are still there, which it is again if that can be; 0 for none. limit: what there is if
 * memory_max is auto.
 * Returns the bytes that forkd itself has; or 0 and a line that says what does not fit.
 */
uint64_t budget_divide(struct options *options, uint32_t n_workers, uint64_t before,
		       const struct memory_limit *limit, struct options_error *ret_error);

/*
 * The same on this machine.
 * Returns 0 and a line that says what comes of it, or -ENOSPC and one that says what does not fit.
 */
int budget_decide(struct options *options, uint64_t before, struct options_error *ret_text);
