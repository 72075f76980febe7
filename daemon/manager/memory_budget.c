/* SPDX-License-Identifier: MIT */
#include "daemon/manager/memory_budget.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include <hwloc.h>

#include "common/option_table.h"
#include "common/options.h"
#include "common/util.h"
#include "daemon/manager/memory_limit.h"
#include "shm/job.h"
#include "shm/limits.h"

#define BUDGET_MIB	  (UINT64_C(1) << 20)
#define BUDGET_MEMORY_MAX (UINT64_C(1) << 30) /* limit of what auto gives: more may never be used */
#define BUDGET_ARENA_MAX  (UINT64_C(4) << 30)
#define BUDGET_HEAP_MAX	  (UINT64_C(64) << 20)
#define BUDGET_KERNEL	  64	/* 1/64 is for the kernel's page tables of two processes */
#define BUDGET_CPUS	  8192u /* CPU numbers are below it, as in the option cpus */

struct budget {
	uint64_t heap; /* of the largest connection: a part of memory */
	uint64_t memory;
	uint64_t arena;
	uint64_t module;
	uint64_t own;
};

/* Rounds to whole MiB, for readable numbers. */
static uint64_t budget_down(uint64_t bytes)
{
	return bytes & ~(BUDGET_MIB - 1);
}

static uint64_t budget_up(uint64_t bytes)
{
	return align_up(bytes, BUDGET_MIB);
}

/* forkd's own memory. Tables take memory only for records that exist, and the shared memory bounds
 * those. */
static uint64_t budget_own(const struct options *o, uint32_t n_workers, uint64_t total,
			   uint64_t memory)
{
	uint64_t records = min((uint64_t)o->clients_max * o->jobs_max, memory / sizeof(struct job));

	return budget_up(BUDGET_PROCESSES + n_workers * (BUDGET_WORKER + o->worker_stack) +
			 records * BUDGET_RECORD + total / BUDGET_KERNEL);
}

static uint64_t budget_sum(const struct budget *b)
{
	return b->memory + b->arena + b->module + b->own;
}

/* The division if each auto option gets part. */
static struct budget budget_with(const struct options *o, uint32_t n_workers, uint64_t total,
				 uint64_t arena, uint64_t part)
{
	uint64_t heap = o->shared_memory_max ? o->shared_memory_max / 5 * 4 : part;
	struct budget b = {
		.heap = o->heap_max,
		.memory = o->shared_memory_max,
		.arena = arena,
		.module = o->module_memory_max,
	};

	if (!b.heap)
		b.heap = max(min(heap, BUDGET_HEAP_MAX), option_find("heap-max")->min);
	if (!b.memory)
		/* Room for one of the largest: no uid gets all of it (quota.c). */
		b.memory = max(min(part, BUDGET_MEMORY_MAX), budget_up(b.heap / 4 * 5));
	if (!b.module)
		b.module = max(part, option_find("module-memory-max")->min);
	b.own = budget_own(o, n_workers, total, b.memory);
	return b;
}

/* With this arena the others get as much as fits, at most a quarter each. */
static struct budget budget_beside(const struct options *o, uint32_t n_workers, uint64_t total,
				   uint64_t arena)
{
	uint64_t part = 0, most = total / 4 / BUDGET_MIB;
	struct budget b;

	while (part < most) {
		uint64_t half = (part + most + 1) / 2;

		b = budget_with(o, n_workers, total, arena, half * BUDGET_MIB);
		if (budget_sum(&b) <= total)
			part = half;
		else
			most = half - 1;
	}
	return budget_with(o, n_workers, total, arena, part * BUDGET_MIB);
}

/* The arena gets what the others leave, and at least an eighth of all before they get a quarter. */
static struct budget budget_first(const struct options *o, uint32_t n_workers, uint64_t total)
{
	uint64_t least = option_find("arena-max")->min;
	uint64_t arena = max(min(budget_down(total / 8), BUDGET_ARENA_MAX), least);
	struct budget b;

	if (o->arena_max)
		return budget_beside(o, n_workers, total, o->arena_max);
	b = budget_beside(o, n_workers, total, arena);
	b.arena = 0;
	total -= min(total, budget_sum(&b));
	b.arena = max(min(budget_down(total), BUDGET_ARENA_MAX), least);
	return b;
}

/* Keeps the arena's old size, if that leaves the others half of what they would get otherwise. */
static struct budget budget_as_before(const struct options *o, uint32_t n_workers, uint64_t total,
				      uint64_t before)
{
	struct budget new = budget_first(o, n_workers, total);
	struct budget b;

	if (!before || o->arena_max)
		return new;
	b = budget_beside(o, n_workers, total, before);
	if (budget_sum(&b) > total || b.memory < new.memory / 2 || b.module < new.module / 2)
		return new;
	return b;
}

/* Writes what the arena would get with auto, as a hint; or an empty string. */
static void budget_hint(const struct options *o, uint32_t n_workers, uint64_t total, char hint[64])
{
	struct options others = *o;
	struct budget b;

	hint[0] = '\0';
	others.arena_max = 0;
	b = budget_first(&others, n_workers, total);
	if (o->arena_max && budget_sum(&b) <= total)
		(void)snprintf(hint, 64, "; arena-max=auto would be %" PRIu64 "M",
			       b.arena / BUDGET_MIB);
}

/* Lists the options that the sum grows with, if they are set. The heap only counts if
 * shared-memory-max is made from it. */
static void budget_set(const struct options *o, char set[64])
{
	const char *shared = o->heap_max ? "heap-max, " : "";

	(void)snprintf(set, 64, "%s%s%s", o->shared_memory_max ? "shared-memory-max, " : shared,
		       o->arena_max ? "arena-max, " : "",
		       o->module_memory_max ? "module-memory-max, " : "");
}

uint64_t budget_divide(struct options *o, uint32_t n_workers, uint64_t before,
		       const struct memory_limit *limit, struct options_error *ret_error)
{
	uint64_t total = o->memory_max ? o->memory_max : budget_down(limit->bytes);
	struct budget b = budget_as_before(o, n_workers, total, before);
	char hint[64], set[64];

	if (budget_sum(&b) <= total) {
		o->memory_max = total;
		o->shared_memory_max = b.memory;
		o->heap_max = b.heap;
		o->arena_max = b.arena;
		o->module_memory_max = b.module;
		return b.own;
	}
	budget_hint(o, n_workers, total, hint);
	budget_set(o, set);
	options_error_set(ret_error,
			  "options: memory-max is %" PRIu64 "M (%s), and shared-memory-max %" PRIu64
			  "M%s, arena-max %" PRIu64 "M, module-memory-max %" PRIu64 "M and %" PRIu64
			  "M for forkd itself with %u workers are more: set %sworkers or "
			  "worker-stack lower, or memory-max higher%s",
			  total / BUDGET_MIB, o->memory_max ? "as it was set" : limit->where,
			  budget_up(b.memory) / BUDGET_MIB,
			  !o->shared_memory_max && o->heap_max ? " (5/4 of heap-max)" : "",
			  budget_up(b.arena) / BUDGET_MIB, budget_up(b.module) / BUDGET_MIB,
			  b.own / BUDGET_MIB, n_workers, set, hint);
	return 0;
}

/* At most: there may be fewer cores than CPUs, and fewer CPUs may be allowed. */
static uint32_t budget_workers(const struct options *o)
{
	union {
		unsigned long bits[BUDGET_CPUS / (8 * sizeof(unsigned long))];
		cpu_set_t set;
	} cpus = { 0 };

	if (o->workers)
		return o->workers;
	if (o->cpus)
		return (uint32_t)hwloc_bitmap_weight(o->cpus);
	if (sched_getaffinity(0, sizeof(cpus), &cpus.set) < 0)
		return LIMIT_WORKERS;
	return (uint32_t)CPU_COUNT_S(sizeof(cpus), &cpus.set);
}

int budget_decide(struct options *options, uint64_t before, struct options_error *ret_text)
{
	const char *where = "as it was set";
	struct memory_limit limit;
	uint64_t own;

	memory_limit_find("", memory_limit_machine(), &limit);
	if (!options->memory_max)
		where = limit.where;
	own = budget_divide(options, min(budget_workers(options), LIMIT_WORKERS), before, &limit,
			    ret_text);
	if (!own)
		return -ENOSPC;
	options_error_set(ret_text,
			  "memory-max is %" PRIu64 "M (%s), and %" PRIu64
			  "M of it are for forkd itself",
			  options->memory_max / BUDGET_MIB, where, own / BUDGET_MIB);
	return 0;
}
