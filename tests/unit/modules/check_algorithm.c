/* SPDX-License-Identifier: MIT */
/* forkd/algorithm.h: algorithms used together, and compiler messages for wrong uses. */
#define CHECK_TIMEOUT 300

#include <check.h>
#include <stdint.h>
#include <string.h>

#include <forkd/algorithm.h>

#include "tests/support/algorithm.h"
#include "tests/support/check_unit.h"
#include "tests/support/compile.h"

/* ---------------------------------------------------------------- invoke */

static int64_t numbers[MAX];
static struct affine affine;
static int64_t sum;

static int64_t add_multiple(int64_t total, const int64_t *x, int64_t context)
{
	return fk_add_i64(total, (int64_t)((uint64_t)*x * (uint64_t)context));
}

FK_FOLD(fold_affine, int64_t, struct affine, ((struct affine){ 1, 0 }), follow, compose)
FK_FOLD(fold_multiples, int64_t, int64_t, 0, add_multiple, fk_add_i64, int64_t)

FK_LEAF_TASK(int64_t, double_of, (int64_t, n))
{
	return 2 * n;
}

static int64_t told[8];

FK_LEAF_TASK(fk_void, tell, (int64_t, i, int64_t, n))
{
	told[i] = n;
}

FK_TASK(int64_t, invoking, (int64_t, n), int64_t x[8]; struct affine f; int64_t sum;)
FK_NO_LEAF(invoking)
{
	/* One, two different ones, three of which the last is void, and eight. */
	FK_INVOKE((x[0], double_of, 1));
	FK_INVOKE((x[1], double_of, self->x[0]), (void, tell, 0, self->n));
	FK_INVOKE((f, fold_affine, numbers, 1000, 64), (sum, fold_multiples, numbers, 1000, 64, 3),
		  (void, tell, 1, self->x[1]));
	affine = self->f;
	sum = self->sum;
	FK_INVOKE((x[2], double_of, 2), (void, tell, 2, 2), (x[3], double_of, 3),
		  (void, tell, 3, 3), (x[4], double_of, 4), (void, tell, 4, 4),
		  (x[5], double_of, 5), (x[6], double_of, 6));
	FK_RETURN(self->x[0] + self->x[1] + self->x[2] + self->x[3] + self->x[4] + self->x[5] +
		  self->x[6]);
}
FK_END(invoking)
FK_EXPORT(invoking, 0, "A test")

START_TEST(invoke_runs_every_task_and_waits_for_all)
{
	struct affine right = { 1, 0 };
	int64_t multiples = 0;

	fill_random(numbers);
	for (size_t i = 0; i < 1000; i++) {
		right = follow(right, &numbers[i]);
		multiples = add_multiple(multiples, &numbers[i], 3);
	}
	for_each_mode (m, &fk_module) {
		static const int64_t expected[8] = { 9, 4, 2, 3, 4 };

		memset(told, 0, sizeof(told));
		ck_assert_int_eq(rig_call(&rig, "algorithm:invoking", 9),
				 2 + 4 + 4 + 6 + 8 + 10 + 12);
		ck_assert(memcmp(told, expected, sizeof(told)) == 0);
		ck_assert_uint_eq(affine.a, right.a);
		ck_assert_uint_eq(affine.b, right.b);
		ck_assert_int_eq(sum, multiples);
		if (modes[m].forced && modes[m].workers == 1)
			/* All but the last one of each were forked: 0, 1, 2 and 7, and the folds'
			 * own forks. */
			ck_assert_uint_eq(rig_counter(&rig, steals), 0 + 1 + 2 + 7 + 15 + 15);
	}
}
END_TEST

FK_MODULE(algorithm, "Algorithms, to be tested")

/* ---------------------------------------------------------------- what the compiler catches */

static void refused(const char *text, const char *message)
{
	compile_refused(compile_cc(), COMPILE_FLAGS, "algorithm.h", text, message);
}

static void taken(const char *text)
{
	compile_taken(compile_cc(), COMPILE_FLAGS, "algorithm.h", text);
}

#define STEP "static inline double step(double s, const double *x) { return s + *x; }\n"
#define LESS "static inline bool less(const int *a, const int *b) { return *a < *b; }\n"
#define USE(task, ...)                                                                             \
	"FK_TASK(int64_t, use, (int64_t, n), double d; int i;)\nFK_NO_LEAF(use) { " task           \
	"(" __VA_ARGS__ "); FK_RETURN(0); } FK_END(use) "                                          \
	"FK_EXPORT(use, 0, \"A task\")"

START_TEST(correct_algorithm_compiles_without_a_message)
{
	taken(STEP
	      "FK_FOLD(f, double, double, 0, step, fk_add_f64)\n" USE("FK_CALL", "d, f, 0, 0, 0"));
	/* The example of forkd-modules(7). */
	taken("static double add(double sum, const double *x)\n{\n\treturn sum + *x;\n}\n"
	      "FK_FOLD(sum, double, double, 0.0, add, fk_add_f64)\n"
	      "FK_TASK(double, total, (struct fk_buf, data), double sum;)\n"
	      "FK_NO_LEAF(total)\n{\n"
	      "FK_CALL(sum, sum, self->data.data, self->data.size / 8, 0);\n"
	      "FK_RETURN(self->sum);\n}\nFK_END(total)\n"
	      "FK_EXPORT(total, 0, \"The sum\")");
	taken(STEP "FK_SCAN(f, double, double, 0, step, fk_add_f64)\n" USE("FK_CALL",
									   "d, f, 0, 0, 0, 0"));
	taken(LESS "FK_SORT(f, int, less)\n" USE("FK_CALL_VOID", "f, 0, 0, 0, 0"));
	taken("static void e(int *x) { ++*x; }\nFK_FOR_EACH(f, int, e)\n" USE("FK_CALL_VOID",
									      "f, 0, 0, 0"));
	taken("static char c(const int *x) { return (char)*x; }\nFK_MAP(f, int, char, c)\n" USE(
		"FK_CALL_VOID", "f, 0, 0, 0, 0"));
}
END_TEST

START_TEST(function_of_another_type_is_an_error_that_names_the_right_type)
{
	refused("static void e(long *x) { ++*x; }\nFK_FOR_EACH(f, int, e)",
		"f: it must be void or int e(int *)");
	refused("static void e(int *x) { ++*x; }\nFK_FOR_EACH(f, int, e, double)",
		"f: it must be void or int e(int *, double)");
	refused("static void e(int x) { (void)x; }\nFK_FOR_RANGE(f, e)",
		"f: it must be void or int e(int64_t)");
	refused("static int m(int *x) { return *x; }\nFK_MAP(f, int, int, m)",
		"f: it must be int m(const int *)");
	refused(STEP "FK_FOLD(f, float, double, 0, step, fk_add_f64)",
		"f: it must be double step(double, const float *)");
	refused(STEP "FK_FOLD(f, double, double, 0, step, fk_add_i64)",
		"f: it must be double fk_add_i64(double, double)");
	refused(STEP "FK_FOLD_RANGE(f, double, 0, step, fk_add_f64)",
		"f: it must be double step(double, int64_t)");
	refused(STEP "FK_SCAN(f, double, float, 0, step, fk_add_f64)",
		"f: it must be float step(float, const double *)");
	refused("static bool less(int a, int b) { return a < b; }\nFK_SORT(f, int, less)",
		"f: it must be bool or int less(const int *, const int *)");
}
END_TEST

START_TEST(array_of_another_type_is_an_error)
{
	ck_assert_int_ne(
		compile(compile_cc(), COMPILE_FLAGS, "algorithm.h",
			"#pragma GCC diagnostic error \"-Wincompatible-pointer-types\"\n" LESS
			"FK_SORT(f, int, less)\n" USE("FK_CALL_VOID", "f, &self->d, 0, 0, 0")),
		0);
	/* Checks that this is the cause of the refusal. */
	taken(LESS "FK_SORT(f, int, less)\n" USE("FK_CALL_VOID", "f, &self->i, 0, 0, 0"));
}
END_TEST

CHECK_MAIN("algorithm")
