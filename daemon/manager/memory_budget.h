/* SPDX-License-Identifier: MIT */
/*
 * memory_budget.h - how forkd's memory is divided
 *
 * The kernel kills a process if memory runs out. So all memory that clients and tasks can allocate
 * has limits, whose sum is at most the available memory:
 *
 *  	memory-max		all of it: set, or memory_limit.h
 *  	  shared-memory-max	what clients share with forkd: preallocated for each
 *  				(client_segments.c)
 *  	  arena-max		what jobs run in: committed as it is used (stacklet.h)
 *  	  module-memory-max	what tasks allocate themselves (module_memory.h)
 *  	  the rest		forkd's own: two processes, stacks and tables, and the kernel's
 *  				page tables for them
 *
 * If all options are auto, shared-memory-max and module-memory-max get a quarter each, and the
 * arena the rest. If that is too little for the arena, both get less, in equal parts: in a small
 * container on a machine of many CPUs, or if the arena exists already. heap-max is as much as
 * shared-memory-max has room for.
 *
 * INVARIANTS
 *   I1. After budget_divide() the sum of the parts is at most memory-max; or nothing has changed.
 *   I2. Dividing a second time changes nothing.
 */
#pragma once

#include <stdint.h>

struct memory_limit;
struct options;
struct options_error;

/* Bytes at most: of manager and pool; of each worker, besides its C stack (worker-stack); of each
 * job record, in the tables of both processes. */
#define BUDGET_PROCESSES (UINT64_C(16) << 20)
#define BUDGET_WORKER	 (UINT64_C(1) << 20)
#define BUDGET_RECORD	 UINT64_C(96)

/*
 * Replaces those of memory_max, shared_memory_max, heap_max, arena_max and module_memory_max that
 * are auto by numbers.
 * n_workers: at most. before: arena-max when the clients that still exist connected, kept if
 * possible; 0 for none. limit: the memory there is, if memory_max is auto.
 * Returns the bytes of forkd's own; or 0 and a line that says what does not fit.
 */
uint64_t budget_divide(struct options *options, uint32_t n_workers, uint64_t before,
		       const struct memory_limit *limit, struct options_error *ret_error);

/* The same on this machine. Returns 0 and a line about the result; or -ENOSPC and a line that says
 * what does not fit. */
int budget_decide(struct options *options, uint64_t before, struct options_error *ret_text);
