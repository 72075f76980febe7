/* SPDX-License-Identifier: MIT */
/* memory_budget: the size of each automatic part, which sizes fit, and the text of a refusal; a
 * table of sizes. Also that forkd's own tables are no larger than stated there. */
#include "daemon/manager/memory_budget.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util.h"
#include "daemon/core/worker.h"
#include "daemon/manager/memory_limit.h"
#include "daemon/pool/pool.h"
#include "shm/ledger.h"
#include "tests/support/options.h"

#define MIB	(UINT64_C(1) << 20)
#define WORKERS 4u

/* Sets options from a text as on the command line. */
static void give(const char *given)
{
	char text[200], *save = NULL;

	(void)snprintf(text, sizeof(text), "%s", given);
	for (char *t = strtok_r(text, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
		char *value = strchr(t, '=');

		*value++ = '\0';
		ck_assert_msg(set(t, value) == 0, "%s", error.text);
	}
}

static uint64_t divide_for(uint64_t mib, uint32_t n_workers, uint64_t before)
{
	const struct memory_limit limit = { .bytes = mib * MIB, .where = "somewhere" };

	error.text[0] = '\0';
	return budget_divide(&o, n_workers, before * MIB, &limit, &error);
}

static uint64_t divide(uint64_t mib)
{
	return divide_for(mib, WORKERS, 0);
}

static uint64_t sum(void)
{
	return o.shared_memory_max + o.arena_max + o.module_memory_max;
}

/* mib: 0 for any. */
static void is(size_t row, const char *name, uint64_t bytes, uint64_t mib)
{
	if (mib)
		ck_assert_msg(bytes == mib * MIB, "row %zu: %s %ju", row, name,
			      (uintmax_t)(bytes / MIB));
}

START_TEST(automatic_sizes_fit_and_leave_the_rest_to_the_arena)
{
	static const struct {
		uint64_t total; /* all in MiB */
		const char *given;
		uint64_t memory, arena, module;
	} rows[] = {
		/* a large machine: no more than is useful */
		{ 1024 * 1024, "", 1024, 4096, 256 * 1024 },
		{ 16384, "", 1024, 4096, 4096 },
		/* a small machine: the arena gets the rest */
		{ 4096, "", 1024, 1932, 1024 },
		{ 1024, "", 256, 444, 256 },
		{ 512, "", 128, 196, 128 },
		/* as large as the largest heap requires */
		{ 256, "", 80, 60, 64 },
		/* explicit sizes leave less to the others */
		{ 4096, "arena-max=3G", 454, 3072, 454 },
		{ 16384, "heap-max=4G", 5120, 4096, 4096 },
		/* explicit sizes are kept */
		{ 4096, "module-memory-max=64M", 1024, 2892, 64 },
		{ 4096, "shared-memory-max=2G module-memory-max=1M", 2048, 1931, 1 },
		{ 4096, "arena-max=1G", 1024, 1024, 1024 },
		{ 4096, "memory-max=1G", 256, 444, 256 },
		{ 1024, "memory-max=16G", 1024, 4096, 4096 },
		/* bytes that are no whole MiB */
		{ 4096, "shared-memory-max=70000001", 0, 2896, 1024 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t own, again;

		init();
		give(rows[i].given);
		own = divide(rows[i].total);
		ck_assert_msg(own, "row %zu: %s", i, error.text);
		is(i, "shared-memory-max", o.shared_memory_max, rows[i].memory);
		is(i, "arena-max", o.arena_max, rows[i].arena);
		is(i, "module-memory-max", o.module_memory_max, rows[i].module);
		ck_assert_uint_le(sum() + own, o.memory_max);
		/* I2: the output of --check-config can be a forkd.conf. */
		again = sum();
		ck_assert_uint_eq(divide(rows[i].total), own);
		ck_assert_uint_eq(sum(), again);
	}
}
END_TEST

START_TEST(small_containers_on_large_machines_have_all_automatic_parts)
{
	static const struct {
		uint64_t total; /* all in MiB */
		uint32_t workers;
		const char *given;
		uint64_t heap, memory, arena, module;
	} rows[] = {
		{ 16384, 256, "", 64, 1024, 4096, 4096 },
		{ 512, 64, "", 64, 104, 64, 104 },
		{ 256, 32, "", 41, 52, 34, 41 },
		{ 128, 2, "", 32, 40, 22, 32 },
		{ 64, 4, "", 7, 9, 16, 7 },
		/* a heap never exceeds shared-memory-max */
		{ 4096, 4, "shared-memory-max=40M", 32, 40, 2930, 1024 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t own;

		init();
		give(rows[i].given);
		own = divide_for(rows[i].total, rows[i].workers, 0);
		ck_assert_msg(own, "row %zu: %s", i, error.text);
		is(i, "heap-max", o.heap_max, rows[i].heap);
		is(i, "shared-memory-max", o.shared_memory_max, rows[i].memory);
		is(i, "arena-max", o.arena_max, rows[i].arena);
		is(i, "module-memory-max", o.module_memory_max, rows[i].module);
		ck_assert_uint_le(sum() + own, o.memory_max);
		/* The result can be given as options. */
		ck_assert_int_eq(options_check(&o, &error), 0);
	}
	/* From some size on, and for each larger one. */
	for (uint32_t workers = 1; workers <= 256; workers++) {
		for (uint64_t total = 4 * workers + 50; total < 4 * workers + 2000; total += 13) {
			init();
			ck_assert_msg(divide_for(total, workers, 0), "%u workers: %s", workers,
				      error.text);
		}
	}
}
END_TEST

START_TEST(arena_is_unchanged_if_that_leaves_half_to_the_others)
{
	static const struct {
		const char *given;
		uint64_t total, before; /* all in MiB */
		uint64_t memory, arena, module;
	} rows[] = {
		/* 4096 resulted in 1932 */
		{ "", 4096, 1932, 1024, 1932, 1024 },
		{ "", 8192, 1932, 1024, 1932, 2048 },
		{ "", 4095, 1932, 1023, 1932, 1023 },
		{ "", 2900, 1932, 435, 1932, 435 },
		{ "", 2700, 1932, 675, 1255, 675 },
		{ "", 64, 1932, 9, 16, 7 },
		/* explicit sizes count */
		{ "arena-max=100M", 4096, 1932, 1024, 100, 1024 },
		{ "shared-memory-max=1G module-memory-max=1G", 4096, 1932, 1024, 1932, 1024 },
		{ "shared-memory-max=1G module-memory-max=1G", 4095, 1932, 1024, 1931, 1024 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		init();
		give(rows[i].given);
		ck_assert_msg(divide_for(rows[i].total, WORKERS, rows[i].before), "row %zu: %s", i,
			      error.text);
		is(i, "shared-memory-max", o.shared_memory_max, rows[i].memory);
		is(i, "arena-max", o.arena_max, rows[i].arena);
		is(i, "module-memory-max", o.module_memory_max, rows[i].module);
	}
}
END_TEST

START_TEST(sizes_that_do_not_fit_are_refused_with_all_numbers)
{
	static const struct {
		uint64_t total;
		const char *given;
		const char *says;
	} rows[] = {
		{ 2048, "arena-max=4G",
		  "options: memory-max is 2048M (somewhere), and shared-memory-max 1M, arena-max "
		  "4096M, module-memory-max 1M and 61M for forkd itself with 4 workers are more" },
		{ 2048, "arena-max=4G",
		  "more: set arena-max, workers or worker-stack lower, or memory-max higher; "
		  "arena-max=auto would be 9" },
		{ 2048, "heap-max=2000M", "shared-memory-max 2500M (5/4 of heap-max), arena-max" },
		{ 2048, "heap-max=2000M", "more: set heap-max, workers or worker-stack lower" },
		{ 4096, "heap-max=64M shared-memory-max=4G", "shared-memory-max 4096M, arena-max" },
		{ 4096, "heap-max=64M shared-memory-max=4G",
		  "more: set shared-memory-max, workers" },
		{ 4096, "shared-memory-max=4G",
		  "shared-memory-max 4096M, arena-max 16M, module-memory-max 1M" },
		{ 4096, "module-memory-max=16T", "module-memory-max 16777216M" },
		{ 4096, "memory-max=512M arena-max=512M", "memory-max is 512M (as it was set)" },
		{ 32, "", "shared-memory-max 1M, arena-max 16M, module-memory-max 1M and" },
		{ 4096, "shared-memory-max=16T arena-max=16T module-memory-max=16T",
		  "shared-memory-max 16777216M" },
		{ 0, "", "memory-max is 0M" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *before, *after;

		init();
		give(rows[i].given);
		before = printed();
		ck_assert_msg(divide(rows[i].total) == 0, "row %zu", i);
		ck_assert_error(rows[i].says);
		after = printed();
		ck_assert_str_eq(before, after);
		free(before);
		free(after);
	}
	init();
	give("shared-memory-max=4G");
	ck_assert_uint_eq(divide(4096), 0);
	/* There is no such remedy. */
	ck_assert_ptr_null(strstr(error.text, "would be"));
}
END_TEST

/* Byte by byte around the limit: a size that fits is accepted, one MiB more is not. */
START_TEST(largest_arena_that_fits_is_the_suggested_one)
{
	for (uint64_t total = 300; total < 5000; total += 37) {
		uint64_t arena;

		init();
		ck_assert_uint_ne(divide(total), 0);
		arena = o.arena_max;
		o.arena_max += MIB;
		ck_assert_int_eq(divide(total) == 0, arena < 4096 * MIB);
	}
}
END_TEST

/* A kernel with this many CPUs, of which a few are usable; 0: this kernel. */
static uint32_t kernel_cpus;

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	if (!kernel_cpus)
		return syscall(SYS_sched_getaffinity, pid, size, set) < 0 ? -1 : 0;
	if (size * 8 < kernel_cpus) {
		errno = EINVAL;
		return -1;
	}
	memset(set, 0, size);
	for (uint32_t i = 1; i <= 3; i++)
		CPU_SET_S(kernel_cpus - i, size, set);
	return 0;
}

START_TEST(CPUs_with_large_numbers_are_counted)
{
	struct options_error expected;

	give("workers=3 memory-max=4G");
	ck_assert_int_eq(budget_decide(&o, 0, &expected), 0);
	for (uint32_t n = 64; n <= 8192; n *= 2) {
		kernel_cpus = n;
		init();
		give("memory-max=4G");
		ck_assert_int_eq(budget_decide(&o, 0, &error), 0);
		ck_assert_str_eq(error.text, expected.text);
	}
}
END_TEST

START_TEST(this_machine_has_room_for_the_defaults)
{
	ck_assert_msg(budget_decide(&o, 0, &error) == 0, "%s", error.text);
	ck_assert_uint_gt(o.memory_max, sum());
	ck_assert(o.shared_memory_max && o.arena_max && o.module_memory_max);
	ck_assert_error("memory-max is ");
	ck_assert_error("M of it are for forkd itself");
}
END_TEST

START_TEST(tables_of_a_record_and_of_a_worker_are_counted)
{
	struct pool *pool = NULL;
	struct fair *fair = NULL;
	struct deadlines *deadlines = NULL;
	uint64_t record = sizeof(*pool->rows.aborts) + sizeof(*pool->rows.cancels) +
			  sizeof(*pool->rows.stack_bytes) + sizeof(*deadlines->heap) +
			  sizeof(*deadlines->where) + sizeof(*fair->rows) +
			  sizeof(*arena_rows((struct arena *)NULL));

	ck_assert_uint_le(record, BUDGET_RECORD);
	ck_assert_uint_le(sizeof(*pool->workers), BUDGET_WORKER);
	/* Of both processes, with the maximum of tenants and clients. */
	ck_assert_uint_le(sizeof(struct pool_whole) + sizeof(struct arena) + BOARD_FRONT +
				  LIMIT_TENANTS * LIMIT_CLIENTS * sizeof(void *),
			  BUDGET_PROCESSES);
}
END_TEST

CHECK_MAIN("memory_budget")
