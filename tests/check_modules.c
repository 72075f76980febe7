/* SPDX-License-Identifier: MIT */
/*
 * The shipped modules, from their shared objects, on one, two and eight workers, and with every
 * fork treated as stolen and the C stack scribbled over: a variable that should be in the frame and
 * is not shows as a wrong result here.
 */
#define CHECK_TIMEOUT 120

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check_unit.h"
#include "tests/rig.h"

static struct rig rig;

/* How each test runs: workers, and whether every fork is stolen. */
static const struct {
	uint32_t workers;
	bool forced;
} modes[] = { { 1, false }, { 2, false }, { 8, false }, { 1, true }, { 3, true } };

#define N_MODES (sizeof(modes) / sizeof(modes[0]))

static void start(const char *name, size_t mode)
{
	const char *build = getenv("top_builddir");
	const struct fk_module *module;
	char path[4096], error[512] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/daemon/modules/.libs/%s.so", build ? build : ".", name);
	ck_assert_msg(module_open(path, &module, &fd, error, sizeof(error)) == 0, "%s: %s", path,
		      error);
	rig_start(&rig, modes[mode].workers, module, modes[mode].forced);
}

static void run(const char *task, const void *args, uint32_t size)
{
	rig_submit(&rig, 0, task, args, size);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
}

START_TEST(fib_is_right_in_every_mode)
{
	for (size_t m = 0; m < N_MODES; m++) {
		start("fib", m);
		ck_assert_int_eq(rig_call(&rig, "fib:fib", 21), 10946);
		if (modes[m].forced)
			/* Each inner node forks once, and all were stolen. */
			ck_assert_uint_eq(rig_counter(&rig, steals), 17710);
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(nqueens_is_right_in_every_mode)
{
	for (size_t m = 0; m < N_MODES; m++) {
		start("nqueens", m);
		ck_assert_int_eq(rig_call(&rig, "nqueens:nqueens", 8), 92);
		ck_assert_int_eq(rig_call(&rig, "nqueens:nqueens", 1), 1);
		ck_assert_int_eq(rig_call(&rig, "nqueens:nqueens", 3), 0);
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(integrate_is_right_in_every_mode)
{
	struct {
		double n, eps;
	} args = { 10, 1e-6 };

	for (size_t m = 0; m < N_MODES; m++) {
		double result;

		start("integrate", m);
		run("integrate:integrate", &args, sizeof(args));
		memcpy(&result, rig.jobs[0].result, sizeof(result));
		/* x^4/4 + x^2/2 at 10. */
		ck_assert_double_eq_tol(result, 2550, 1e-2);
		rig_stop(&rig);
	}
}
END_TEST

static void count_tree(const char *tree, int64_t nodes, size_t mode)
{
	struct job_ref ref = { 64, strlen(tree) };
	int64_t result[3];

	start("uts", mode);
	memcpy(rig.heap + 64, tree, strlen(tree));
	run("uts:uts", &ref, sizeof(ref));
	memcpy(result, rig.jobs[0].result, sizeof(result));
	ck_assert_int_eq(result[0], nodes);
	rig_stop(&rig);
}

START_TEST(uts_counts_t1_in_every_mode)
{
	for (size_t m = 0; m < N_MODES; m++)
		count_tree("T1", 4130071, m);
}
END_TEST

START_TEST(uts_counts_t3_in_every_mode)
{
	for (size_t m = 0; m < N_MODES; m++)
		count_tree("T3", 4112897, m);
}
END_TEST

START_TEST(unknown_tree_fails_the_job)
{
	struct job_ref ref = { 64, 2 };

	start("uts", 0);
	memcpy(rig.heap + 64, "T9", 2);
	rig_submit(&rig, 0, "uts:uts", &ref, sizeof(ref));
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_FAILED);
	ck_assert_int_eq(atomic_load(&rig.jobs[0].code), -2);
	rig_stop(&rig);
}
END_TEST

START_TEST(sort_is_right_in_every_mode)
{
	enum { N = 100000 };
	struct job_ref ref = { 0, N * sizeof(int64_t) };

	for (size_t m = 0; m < N_MODES; m++) {
		int64_t *data;
		uint64_t x = 88172645463325252u, sum = 0, after = 0;

		start("sort", m);
		data = (int64_t *)rig.heap;
		for (int i = 0; i < N; i++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			data[i] = (int64_t)x;
			sum += x;
		}
		run("sort:i64", &ref, sizeof(ref));
		for (int i = 0; i < N; i++) {
			after += (uint64_t)data[i];
			if (i)
				ck_assert_int_le(data[i - 1], data[i]);
		}
		ck_assert_uint_eq(sum, after);
		rig_stop(&rig);
	}
}
END_TEST

START_TEST(reference_outside_the_heap_fails_the_job)
{
	static const struct job_ref refs[] = {
		{ 0, UINT64_MAX }, { UINT64_MAX, 8 }, { UINT64_MAX - 7, 16 },
		{ 4, 8 },	   { 1 << 20, 8 },
	};

	start("sort", 1);
	for (size_t i = 0; i < sizeof(refs) / sizeof(refs[0]); i++) {
		rig_submit(&rig, 0, "sort:i64", &refs[i], sizeof(refs[i]));
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_FAILED);
		ck_assert_int_eq(atomic_load(&rig.jobs[0].code), -14);
	}
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("modules", fib_is_right_in_every_mode, nqueens_is_right_in_every_mode,
	   integrate_is_right_in_every_mode, uts_counts_t1_in_every_mode,
	   uts_counts_t3_in_every_mode, unknown_tree_fails_the_job, sort_is_right_in_every_mode,
	   reference_outside_the_heap_fails_the_job)
