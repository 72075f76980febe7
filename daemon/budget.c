/* SPDX-License-Identifier: MIT */
#include "daemon/budget.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include <hwloc.h>

#include "common/option_table.h"
#include "common/util.h"
#include "shm/job.h"
#include "shm/limits.h"

#define BUDGET_MIB	  (UINT64_C(1) << 20)
#define BUDGET_MEMORY_MAX (UINT64_C(1) << 30) /* what is auto has no more, for it may not use it */
#define BUDGET_ARENA_MAX  (UINT64_C(4) << 30)
#define BUDGET_KERNEL	  64 /* one of so many bytes is the kernel's, for two tables of pages */

/* Whole MiB, so that it can be read. */
static uint64_t budget_down(uint64_t bytes)
{
	return bytes & ~(BUDGET_MIB - 1);
}

static uint64_t budget_up(uint64_t bytes)
{
	return align_up(bytes, BUDGET_MIB);
}

/* Forkd's own, of so much in all and for so much shared memory. Tables are as sparse as records
 * are few, and those are in shared memory. */
static uint64_t budget_own(const struct options *o, uint32_t n_workers, uint64_t total,
			   uint64_t memory)
{
	uint64_t records = min((uint64_t)o->max_clients * o->max_jobs, memory / sizeof(struct job));

	return budget_up(BUDGET_PROCESSES + n_workers * BUDGET_WORKER + records * BUDGET_RECORD +
			 total / BUDGET_KERNEL);
}

uint64_t budget_divide(struct options *o, uint32_t n_workers, const struct ceiling *ceiling,
		       struct options_error *ret_error)
{
	uint64_t total = o->memory_total ? o->memory_total : budget_down(ceiling->bytes);
	uint64_t part = budget_down(total / 4), least = option_find("arena-max")->min;
	uint64_t memory = o->memory_max, module = o->module_memory, arena = o->arena_max;
	uint64_t own, others, left;
	char better[64] = "";

	if (!memory)
		/* Room for one of the largest, of which nobody gets all: quota.c. */
		memory = max(min(part, BUDGET_MEMORY_MAX), budget_up(o->heap_max / 4 * 5));
	if (!module)
		module = max(part, BUDGET_MIB);
	own = budget_own(o, n_workers, total, memory);
	others = memory + module + own;
	left = total > others ? budget_down(total - others) : 0;
	if (!arena)
		arena = max(min(left, BUDGET_ARENA_MAX), least);
	if (others + arena <= total) {
		o->memory_total = total;
		o->memory_max = memory;
		o->arena_max = arena;
		o->module_memory = module;
		return own;
	}
	if (left >= least)
		(void)snprintf(better, sizeof(better), "; arena-max=auto would be %" PRIu64 "M",
			       left / BUDGET_MIB);
	options_error_set(ret_error,
			  "options: memory-total is %" PRIu64 "M (%s), and memory-max %" PRIu64
			  "M, arena-max %" PRIu64 "M, module-memory %" PRIu64 "M and %" PRIu64
			  "M for forkd itself are more: set one of them lower, or heap-max or "
			  "workers, or memory-total higher%s",
			  total / BUDGET_MIB, o->memory_total ? "as it was set" : ceiling->where,
			  budget_up(memory) / BUDGET_MIB, budget_up(arena) / BUDGET_MIB,
			  budget_up(module) / BUDGET_MIB, own / BUDGET_MIB, better);
	return 0;
}

/* At most: there may be fewer cores than CPUs, and fewer that are allowed. */
static uint32_t budget_workers(const struct options *o)
{
	cpu_set_t set;

	if (o->workers)
		return o->workers;
	if (o->cpus)
		return (uint32_t)hwloc_bitmap_weight(o->cpus);
	return sched_getaffinity(0, sizeof(set), &set) < 0 ? LIMIT_WORKERS
							   : (uint32_t)CPU_COUNT(&set);
}

int budget_settle(struct options *options, struct options_error *ret_text)
{
	const char *where = "as it was set";
	struct ceiling ceiling;
	uint64_t own;

	ceiling_find("", ceiling_machine(), &ceiling);
	if (!options->memory_total)
		where = ceiling.where;
	own = budget_divide(options, min(budget_workers(options), LIMIT_WORKERS), &ceiling,
			    ret_text);
	if (!own)
		return -ENOSPC;
	options_error_set(ret_text,
			  "memory-total is %" PRIu64 "M (%s), and %" PRIu64
			  "M of it are for forkd itself",
			  options->memory_total / BUDGET_MIB, where, own / BUDGET_MIB);
	return 0;
}
