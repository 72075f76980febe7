/* SPDX-License-Identifier: MIT */
/*
 * flips: each task of each shipped module, while a client changes the bytes of its buffers, and on
 * malformed buffers
 *
 * A pool in the test's process, with the shipped modules. The table has a row for each task that
 * they export. Two threads write into its buffers while it runs: into the memory that it works on,
 * or from which its copies are made. The task must end as DONE or FAILED, and only its buffers may
 * have changed. AddressSanitizer detects each access outside of them, too: the test poisons the
 * surrounding bytes of the heap, and copies have fences (daemon/jobs/job_input.c). So everything
 * runs a second time with copies, as if no task worked in place.
 */
#define CHECK_TIMEOUT 240

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/rig.h"

#ifdef FK_SANITIZE_ADDRESS
#include <sanitizer/asan_interface.h>
#define WANTED 1000u /* flips during jobs, for each row */
#define JOBS   10u   /* with a few numbers, for each pair of odd ones */
#else
#define ASAN_POISON_MEMORY_REGION(p, n)	  ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define WANTED				  100u
#define JOBS				  1u
#endif

#define N_FLIPPERS 2u
#define TRIES	   1000u /* jobs during flips, until one succeeds */
#define MAX_TASKS  64u
#define LARGE	   (96u * 1024) /* bytes of a buffer: large enough to be split and stolen */
#define GAP	   4096u
#define GUARD	   0xee

/* An argument that is no buffer. */
union number {
	int64_t i64;
	double f64;
};

/* One task: its numbers, in order, for which it succeeds. Also the letters that may be written into
 * a string, so that it does not name a tree that takes minutes. */
static const struct row {
	const char *task;
	union number numbers[5];
	const char *letters;
	bool equal;	   /* its buffers must have one size; or each its own: */
	uint64_t sizes[3]; /* sizes with which it succeeds during flips */
} rows[] = {
	{ .task = "array:dot_f64", .equal = true },
	{ .task = "array:histogram_f64", .numbers = { { .f64 = -1.0 }, { .f64 = 1e6 } } },
	{ .task = "array:histogram_i64", .numbers = { { .i64 = INT64_MIN }, { .i64 = 1000 } } },
	{ .task = "array:minmax_f64" },
	{ .task = "array:minmax_i64" },
	{ .task = "array:prefix_f64" },
	{ .task = "array:prefix_i64" },
	{ .task = "array:scale_f64", .numbers = { { .f64 = -1.5 } } },
	{ .task = "array:stats_f64" },
	{ .task = "array:sum_f64" },
	{ .task = "array:sum_i64" },
	{ .task = "compress:gunzip",
	  .letters = "\x1f\x8b\x08\x04\xff\x06"
		     "BC\x02" },
	{ .task = "compress:gunzip_size",
	  .letters = "\x1f\x8b\x08\x04\xff\x06"
		     "BC\x02" },
	{ .task = "compress:gzip", .numbers = { { .i64 = 1 } }, .letters = "gzip", .equal = true },
	{ .task = "compress:gzip_bound", .numbers = { { .i64 = 1 } } },
	{ .task = "compress:unzstd", .letters = "\x28\xb5\x2f\xfd\x01\x50\x2a\x4d\x18" },
	{ .task = "compress:unzstd_size", .letters = "\x28\xb5\x2f\xfd\x01\x50\x2a\x4d\x18" },
	{ .task = "compress:zstd", .numbers = { { .i64 = 1 } }, .letters = "zstd", .equal = true },
	{ .task = "compress:zstd_bound", .numbers = { { .i64 = 1 } } },
	{ .task = "fib:fib", .numbers = { { .i64 = 15 } } },
	{ .task = "hash:sha256" },
	{ .task = "hash:xxh3" },
	{ .task = "image:convert", .numbers = { { .i64 = 4 }, { .i64 = 1 } }, .equal = true },
	{ .task = "image:resize",
	  .numbers = { { .i64 = 128 }, { .i64 = 256 }, { .i64 = 3 }, { .i64 = 64 }, { .i64 = 32 } },
	  .letters = "box",
	  .sizes = { 128 * 256 * 3, 64 * 32 * 3, 3 } },
	{ .task = "integrate:integrate", .numbers = { { .f64 = 10 }, { .f64 = 1e-3 } } },
	{ .task = "matmul:f64",
	  .numbers = { { .i64 = 64 }, { .i64 = 64 }, { .i64 = 192 } },
	  .letters = "\x3f\xf0",
	  .sizes = { 64 * 64 * 8, 64 * 192 * 8, 64 * 192 * 8 } },
	{ .task = "nqueens:nqueens", .numbers = { { .i64 = 6 } } },
	{ .task = "search:count" },
	{ .task = "search:count_bytes" },
	{ .task = "search:places" },
	{ .task = "search:places_bytes" },
	{ .task = "sort:f64" },
	{ .task = "sort:i64" },
	{ .task = "sort:records",
	  .numbers = { { .i64 = 8 }, { .i64 = 1 } },
	  .letters = "b234",
	  .sizes = { LARGE, 2 } },
	{ .task = "uts:uts", .letters = "TTLX2\xff" },
};

static struct rig rig;
static struct fk_module modules[MAX_TASKS];
static struct fk_export exports[MAX_TASKS];
static uint32_t n_modules, n_exports;

/* The references of the current row's arguments. */
static struct job_ref refs[SIGNATURE_MAX_ARGS];
static uint32_t n_refs;
static uint64_t used; /* bytes of the heap, including the last gap */
static const char *letters;
static bool equal;
static _Atomic uint64_t pair[2];
static _Atomic bool flipping;
static _Atomic uint64_t flips;

/* ------------------------------------------------------------------------ the modules */

/* Adds a module's table; copied: as if none of its tasks worked in place. */
static void add_module(const struct fk_module *module, bool copied)
{
	uint32_t first = n_exports;

	for (const struct fk_export *e = module->exports; e < module->exports_end; e++) {
		ck_assert_uint_lt(n_exports, MAX_TASKS);
		exports[n_exports] = *e;
		if (copied)
			exports[n_exports].flags &= ~FK_EXPORT_IN_PLACE;
		n_exports++;
	}
	modules[n_modules] = *module;
	modules[n_modules].exports = &exports[first];
	modules[n_modules].exports_end = &exports[n_exports];
	n_modules++;
}

/* Finds all modules of a directory of the build tree. */
static void find_modules(const char *directory, bool copied)
{
	const char *build = getenv("top_builddir");
	char path[4096], error[512] = "";
	struct dirent *e;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%s/%s", build ? build : ".", directory);
	dir = opendir(path);
	ck_assert_msg(dir != NULL, "%s", path);
	n_modules = n_exports = 0;
	while ((e = readdir(dir))) {
		const struct fk_module *module;
		size_t n = strlen(e->d_name);
		struct stat st;

		if (n < 4 || !streq(e->d_name + n - 3, ".so"))
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s/%s", build ? build : ".", directory,
			       e->d_name);
		ck_assert_msg(module_open(path, &module, &st, error, sizeof(error)) == 0, "%s: %s",
			      path, error);
		add_module(module, copied);
	}
	(void)closedir(dir);
	ck_assert_uint_gt(n_modules, 0);
}

/* Before there are threads: rig_start() loads only one module. */
static void add_others(struct pool *pool)
{
	char error[512] = "";

	for (uint32_t i = 1; i < n_modules; i++)
		ck_assert_msg(modules_add(&pool->modules, &modules[i], error, sizeof(error)) == 0,
			      "%s", error);
	ck_assert_int_eq(modules_settle(&pool->modules, pool->board), 0);
}

static void start(bool copied)
{
	find_modules("daemon/modules/.libs", copied);
	rig_prepare = add_others;
	rig_start(&rig, 2, &modules[0], false);
}

static const struct module_task *find_task(const char *name)
{
	int t = board_find_task(rig.pool->board, name);

	ck_assert_msg(t >= 0, "%s is in the table, and in no module that ships", name);
	return &rig.pool->modules.tasks[t];
}

/* ------------------------------------------------------------------------ the buffers */

static bool is_in_a_buffer(uint64_t at)
{
	for (uint32_t i = 0; i < n_refs; i++)
		if (at >= refs[i].offset && at - refs[i].offset < refs[i].size)
			return true;
	return false;
}

/* One buffer for each reference of the task, with a gap around each. Sizes differ, as a client's
 * may, or are these. */
static void lay_out(const struct module_task *task, uint64_t size, const uint64_t *sizes)
{
	uint64_t at = GAP;

	n_refs = 0;
	for (uint32_t i = 0; i < task->signature.n_args; i++) {
		if (!signature_is_reference(task->signature.args[i].type))
			continue;
		if (sizes)
			size = sizes[n_refs];
		refs[n_refs++] = (struct job_ref){ .offset = at, .size = size };
		at = align_up(at + size, 8) + GAP;
		/* For a histogram: fewer counts than numbers. */
		if (!equal)
			size = max(size / 8 / 16, min(size / 8, UINT64_C(1))) * 8 + size % 8;
	}
	used = at;
	ck_assert_uint_le(used, rig.client->heap_size);
	ASAN_UNPOISON_MEMORY_REGION(rig.heap, rig.client->heap_size);
	memset(rig.heap, GUARD, used);
	ASAN_POISON_MEMORY_REGION(rig.heap, rig.client->heap_size);
	for (uint32_t i = 0; i < n_refs; i++)
		ASAN_UNPOISON_MEMORY_REGION(rig.heap + refs[i].offset, refs[i].size);
}

static void look_at_the_gaps(const char *task)
{
	uint64_t wrong = 0;

	ASAN_UNPOISON_MEMORY_REGION(rig.heap, rig.client->heap_size);
	for (uint64_t at = 0; at < used; at++)
		wrong += (unsigned char)rig.heap[at] != GUARD && !is_in_a_buffer(at);
	ck_assert_msg(wrong == 0, "%s has changed %llu bytes outside its buffers", task,
		      (unsigned long long)wrong);
}

/* Values that are wrong as a number, an index, or an end. */
static const uint64_t odd[] = {
	0,
	UINT64_MAX,
	UINT64_C(1) << 63,
	INT64_MAX,
	UINT64_C(0x7ff0000000000000), /* infinity */
	UINT64_C(0xfff0000000000000),
	UINT64_C(0x7ff8000000000000), /* not a number */
	UINT64_C(0x7fefffffffffffff), /* the largest double */
	1,			      /* the smallest */
	UINT64_C(0x4024000000000000), /* 10.0 */
	UINT64_C(0xc16312d000000000), /* -1e7 */
};

/* Fills with equal numbers of this kind; ARRAY_SIZE(odd): with all kinds. */
static void fill(uint32_t kind)
{
	uint64_t random = 88172645463325252u;

	for (uint32_t i = 0; i < n_refs; i++)
		for (uint64_t at = 0; at < refs[i].size; at += 8) {
			uint64_t x = kind < ARRAY_SIZE(odd) ? odd[kind] : xorshift64(&random);
			uint64_t n = min(refs[i].size - at, UINT64_C(8));

			memcpy(rig.heap + refs[i].offset + at, &x, n);
		}
	for (uint32_t i = 0; letters && i < n_refs; i++)
		for (uint64_t at = 0; at < refs[i].size; at++)
			rig.heap[refs[i].offset + at] = letters[at % strlen(letters)];
}

static void flip(uint64_t random)
{
	const struct job_ref *ref = &refs[(random >> 8) % n_refs];
	char *data = rig.heap + ref->offset;
	uint64_t at = ref->size ? (random >> 16) % ref->size : 0;
	uint64_t x = random & 1 ? odd[(random >> 1) % ARRAY_SIZE(odd)] : random;

	/* Half of them where they belong, so that the word is valid again and again. */
	if (letters && ref->size)
		data[at] = letters[(random & 2 ? at : random >> 40) % strlen(letters)];
	else if (ref->size >= 8 && random & 2)
		memcpy(data + at / 8 * 8 % (ref->size - 7), &x, 8);
	else if (ref->size)
		data[at] ^= (char)(1 + (random >> 3) % 255);
}

/* Writes any value anywhere. */
static void *flip_on(void *arg)
{
	uint64_t random = (uintptr_t)arg;

	while (atomic_load_explicit(&flipping, memory_order_relaxed)) {
		for (uint32_t i = 0; i < 64; i++)
			flip(xorshift64(&random));
		atomic_fetch_add_explicit(&flips, 64, memory_order_relaxed);
	}
	return NULL;
}

/* Toggles each number between the pair as fast as possible: a task that loads a number twice checks
 * one value and uses the other. */
static void *toggle_on(void *arg)
{
	uint32_t k = (uintptr_t)arg & 1;

	while (atomic_load_explicit(&flipping, memory_order_relaxed)) {
		for (uint32_t i = 0; i < 64; i++, k++)
			for (uint32_t r = 0; r < n_refs; r++)
				for (uint64_t at = 0; at + 8 <= refs[r].size; at += 8)
					*(volatile uint64_t *)(rig.heap + refs[r].offset + at) =
						atomic_load_explicit(&pair[k % 2],
								     memory_order_relaxed);
		atomic_fetch_add_explicit(&flips, 64, memory_order_relaxed);
	}
	return NULL;
}

/* ------------------------------------------------------------------------ runs */

/* Returns true if it succeeded; otherwise it has failed by itself. */
static bool run(const struct row *row, const struct module_task *task)
{
	uint64_t args[LIMIT_ARGS / 8];
	uint32_t ref = 0, number = 0, outcome;
	int32_t code;

	for (uint32_t i = 0; i < task->signature.n_args; i++) {
		const struct signature_item *item = &task->signature.args[i];

		if (signature_is_reference(item->type))
			memcpy((char *)args + item->offset, &refs[ref++], sizeof(refs[0]));
		else
			memcpy((char *)args + item->offset, &row->numbers[number++], 8);
	}
	rig_submit(&rig, 0, row->task, args, task->signature.args_size);
	outcome = rig_wait(&rig, 0);
	code = atomic_load(&rig.jobs[0].code);
	ck_assert_msg(outcome == JOB_DONE ||
			      (outcome == JOB_FAILED &&
			       (code == -EINVAL || code == -ENOENT || code == -ENODATA ||
				code == -EBADMSG || code == -ENOBUFS)),
		      "%s: outcome %u, code %d", row->task, outcome, code);
	return outcome == JOB_DONE;
}

static void start_flippers(pthread_t threads[N_FLIPPERS], void *(*flipper)(void *arg))
{
	atomic_store(&flipping, true);
	for (uintptr_t i = 0; i < N_FLIPPERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, flipper,
						(void *)(UINTPTR_MAX / 3 + i)),
				 0);
}

static void stop_flippers(pthread_t threads[N_FLIPPERS])
{
	atomic_store(&flipping, false);
	for (uint32_t i = 0; i < N_FLIPPERS; i++)
		pthread_join(threads[i], NULL);
}

/* Runs jobs on large buffers, until WANTED flips have happened between submissions and outcomes. */
static void run_amid_flips(const struct row *row, const struct module_task *task)
{
	bool has_to = row->sizes[0] || !row->letters;
	uint64_t during = 0, done = 0;
	pthread_t threads[N_FLIPPERS];

	lay_out(task, LARGE, row->sizes[0] ? row->sizes : NULL);
	fill(ARRAY_SIZE(odd));
	start_flippers(threads, flip_on);
	/* If a word is changed, most jobs may find it invalid. All jobs may do so while the
	 * flippers have no CPU, which is long for jobs that fail at once. */
	for (uint32_t i = 0; during < WANTED || (has_to && !done && i < TRIES);) {
		uint64_t before = atomic_load(&flips), came;

		done += run(row, task);
		came = atomic_load(&flips) - before;
		during += came;
		i += came > 0;
	}
	stop_flippers(threads);
	look_at_the_gaps(row->task);
	/* The task read more than its arguments. */
	ck_assert_msg(done || !has_to, "%s has never done its work", row->task);
}

/* On a few numbers. */
static void run_amid_toggles(const struct row *row, const struct module_task *task)
{
	pthread_t threads[N_FLIPPERS];

	lay_out(task, 24, NULL);
	start_flippers(threads, letters ? flip_on : toggle_on);
	for (uint32_t i = 0; i < JOBS * ARRAY_SIZE(odd) * ARRAY_SIZE(odd); i++) {
		atomic_store(&pair[0], odd[i % ARRAY_SIZE(odd)]);
		atomic_store(&pair[1], odd[i / ARRAY_SIZE(odd) % ARRAY_SIZE(odd)]);
		(void)run(row, task);
	}
	stop_flippers(threads);
	look_at_the_gaps(row->task);
}

static void run_row(const struct row *row, bool amid_flips)
{
	static const uint64_t bad[] = { 0, 1, 7, 8, 9, 15, 16, 24, 1000, 1021, 4096, LARGE - 1 };
	const struct module_task *task = find_task(row->task);

	letters = row->letters;
	equal = row->equal;
	lay_out(task, 0, NULL);
	if (!n_refs) {
		ck_assert(run(row, task));
	} else if (amid_flips) {
		run_amid_flips(row, task);
		run_amid_toggles(row, task);
	} else {
		for (uint32_t i = 0; i < ARRAY_SIZE(bad); i++)
			for (uint32_t kind = 0; kind <= ARRAY_SIZE(odd); kind++) {
				lay_out(task, bad[i], NULL);
				fill(kind);
				(void)run(row, task);
				look_at_the_gaps(row->task);
			}
	}
	ASAN_UNPOISON_MEMORY_REGION(rig.heap, rig.client->heap_size);
}

static void run_all(bool copied, bool amid_flips)
{
	start(copied);
	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++)
		run_row(&rows[i], amid_flips);
	rig_stop(&rig);
}

START_TEST(every_task_of_every_shipped_module_is_in_the_table)
{
	start(false);
	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++)
		(void)find_task(rows[i].task);
	for (uint32_t t = 0; t < rig.pool->modules.n_tasks; t++) {
		const char *name = rig.pool->board->tasks[t].name;
		bool found = false;

		for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++)
			found |= streq(rows[i].task, name);
		ck_assert_msg(found, "%s is not in the table: add a row to rows[] above", name);
	}
	ck_assert_uint_eq(rig.pool->modules.n_tasks, ARRAY_SIZE(rows));
	rig_stop(&rig);
}
END_TEST

START_TEST(tasks_stay_within_buffers_that_change_under_them)
{
	run_all(false, true);
}
END_TEST

START_TEST(tasks_stay_within_copies_of_buffers_that_change)
{
	run_all(true, true);
}
END_TEST

START_TEST(tasks_stay_within_buffers_of_any_size_and_content)
{
	run_all(false, false);
}
END_TEST

START_TEST(tasks_stay_within_copies_of_buffers_of_any_size_and_content)
{
	run_all(true, false);
}
END_TEST

CHECK_MAIN("flips")
