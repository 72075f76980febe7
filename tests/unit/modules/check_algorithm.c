/* SPDX-License-Identifier: MIT */
/* forkd/algorithm.h: algorithms used together, and compiler messages for wrong uses. */
#define CHECK_TIMEOUT 300

#include <check.h>
#include <errno.h>
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

/* ---------------------------------------------------------------- exports */

static void increment(int64_t *x, int64_t by)
{
	*x = fk_add_i64(*x, by);
}
FK_EXPORT_FOR_EACH(add_all, int64_t, increment, FK_EXPORT_IN_PLACE, "Adds a number", int64_t, by)

static int32_t low_half(const int64_t *x)
{
	return (int32_t)*x;
}
FK_EXPORT_MAP(low_halves, int64_t, int32_t, low_half, 0, "The low halves")

FK_EXPORT_FOLD(multiples, int64_t, int64_t, 0, add_multiple, fk_add_i64, (int64_t, sum), 0,
	       "The sum of multiples", int64_t, factor)

static int64_t add_one(int64_t total, const int64_t *x)
{
	return fk_add_i64(total, *x);
}
FK_EXPORT_SCAN(sums, int64_t, int64_t, 0, add_one, fk_add_i64, (int64_t, sum), 0, "Prefix sums")

static bool is_less(const int64_t *a, const int64_t *b)
{
	return *a < *b;
}
FK_EXPORT_SORT(sorted, int64_t, is_less, FK_EXPORT_IN_PLACE, "Sorts")

static int64_t others[MAX];
static int32_t halves[MAX];
static size_t cut; /* bytes that are missing at the end of a buffer, and by which it is moved */

#define INPUT	     ((struct fk_buf){ (char *)numbers + cut, ask.n * 8 - cut })
#define ROOM(buffer) ((struct fk_iobuf){ buffer, ask.n * sizeof(*(buffer)) - cut })
#define BOTH	     ((struct fk_iobuf){ (char *)numbers + cut, ask.n * 8 })
JOB_VOID(exported_for_each, add_all, BOTH, 3);
JOB_VOID(exported_map, low_halves, ((struct fk_buf){ numbers, ask.n * 8 }), ROOM(halves));
JOB(exported_fold, int64_t, sum, multiples, INPUT, 3);
JOB(exported_scan, int64_t, sum, sums, ((struct fk_buf){ numbers, ask.n * 8 }), ROOM(others));
JOB_VOID(exported_sort, sorted, BOTH);

START_TEST(exported_algorithms_give_the_results_of_plain_loops)
{
	cut = 0;
	for_each_mode (m, &fk_module) {
		for (size_t s = 0; s < N_SIZES; s++) {
			int64_t total = 0, multiple = 0;

			ask.n = sizes[s];
			fill_random(numbers);
			run(exported_map);
			run(exported_scan);
			for (size_t i = 0; i < ask.n; i++) {
				must(halves[i] == (int32_t)numbers[i]);
				total = add_one(total, &numbers[i]);
				must(others[i] == total);
				multiple = add_multiple(multiple, &numbers[i], 3);
			}
			must(sum == total);
			run(exported_fold);
			must(sum == multiple);
			memcpy(others, numbers, sizeof(others));
			run(exported_for_each);
			for (size_t i = 0; i < ask.n; i++)
				must(numbers[i] == fk_add_i64(others[i], 3));
			must(numbers[ask.n] == others[ask.n]);
			run(exported_sort);
			for (size_t i = 1; i < ask.n; i++)
				must(numbers[i - 1] <= numbers[i]);
		}
	}
}
END_TEST

START_TEST(exported_algorithm_refuses_a_buffer_that_is_no_array)
{
	for_each_mode (m, &fk_module) {
		ask.n = 9;
		cut = 4;
		fails("algorithm:exported_fold", -EINVAL);
		fails("algorithm:exported_for_each", -EINVAL);
		fails("algorithm:exported_sort", -EINVAL);
		fails("algorithm:exported_map", -ENOBUFS);
		fails("algorithm:exported_scan", -ENOBUFS);
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
	/* The example of forkd-modules(7), and the same task by hand. */
	taken("static double add(double sum, const double *x)\n{\n\treturn sum + *x;\n}\n"
	      "FK_EXPORT_FOLD(total, double, double, 0.0, add, fk_add_f64, (double, sum),\n"
	      "\t       FK_EXPORT_IN_PLACE, \"The sum of numbers\")\n");
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
		"e must be void or int e(int *)");
	refused("static void e(int *x) { ++*x; }\nFK_FOR_EACH(f, int, e, double)",
		"e must be void or int e(int *, double)");
	refused("static void e(int x) { (void)x; }\nFK_FOR_RANGE(f, e)",
		"e must be void or int e(int64_t)");
	refused("static int m(int *x) { return *x; }\nFK_MAP(f, int, int, m)",
		"m must be int m(const int *)");
	refused(STEP "FK_FOLD(f, float, double, 0, step, fk_add_f64)",
		"step must be double step(double, const float *)");
	refused(STEP "FK_FOLD(f, double, double, 0, step, fk_add_i64)",
		"fk_add_i64 must be double fk_add_i64(double, double)");
	refused(STEP "FK_FOLD_RANGE(f, double, 0, step, fk_add_f64)",
		"step must be double step(double, int64_t)");
	refused(STEP "FK_SCAN(f, double, float, 0, step, fk_add_f64)",
		"step must be float step(float, const double *)");
	refused("static bool less(int a, int b) { return a < b; }\nFK_SORT(f, int, less)",
		"less must be bool or int less(const int *, const int *)");
	refused("static void e(double *x, double y) { *x += y; }\n"
		"FK_EXPORT_FOR_EACH(f, double, e, 0, \"\", float, y)",
		"e must be void or int e(double *, float)");
	refused(STEP
		"FK_EXPORT_FOLD(f, float, double, 0, step, fk_add_f64, (double, sum), 0, \"\")",
		"step must be double step(double, const float *)");
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
