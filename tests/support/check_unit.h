/* SPDX-License-Identifier: MIT */
/*
 * Code that every check_<unit>.c shares: a main() that runs the tests of the program.
 *
 * 	START_TEST(steal_loses_to_owner_on_the_last_item) { ... } END_TEST
 *
 * 	CHECK_MAIN("deque")
 *
 * START_TEST adds each test to the list. Each test runs in its own process, unless CK_FORK=no. Its
 * time limit is CHECK_TIMEOUT seconds (default 120) times CK_TIMEOUT_MULTIPLIER. If the file
 * defines CHECK_SETUP and CHECK_TEARDOWN, these functions are called before and after each test.
 */
#pragma once

#include <check.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"

/* libcheck makes a system call for each assertion that holds, to store its location: two thirds of
 * the time of a test that asserts in a loop. Here each location does so once per tick. */
static inline void check_unit_mark(const char *file, int line)
{
	static _Atomic uint64_t marked_ns[1024]; /* per line: time of the last mark */
	_Atomic uint64_t *last = &marked_ns[(unsigned int)line % 1024];
	uint64_t now = clock_coarse_ns();

	/* Relaxed: it only limits the rate. */
	if (atomic_load_explicit(last, memory_order_relaxed) == now)
		return;
	atomic_store_explicit(last, now, memory_order_relaxed);
	_mark_point(file, line);
}
#define _mark_point check_unit_mark

#ifndef CHECK_TIMEOUT
#define CHECK_TIMEOUT 120 /* at a load of 40, one second of work takes 40 s */
#endif
#ifndef CHECK_SETUP
#define CHECK_SETUP    NULL
#define CHECK_TEARDOWN NULL
#endif

/* The section that this macro fills is the list of tests. */
#undef START_TEST
#define START_TEST(test)                                                                           \
	static void test##_fn(int _i);                                                             \
	static const TTest test##_ttest = { #test, test##_fn, __FILE__, __LINE__ };                \
	static const TTest *test __attribute__((used, section("check_tests"))) = &test##_ttest;    \
	static void test##_fn(int _i CK_ATTRIBUTE_UNUSED)

extern const TTest *__start_check_tests[], *__stop_check_tests[];

#define CHECK_UNIT_TESTS 1000u /* maximum for one program */

static inline int check_unit_compare(const void *a, const void *b)
{
	return (*(const TTest *const *)a)->line - (*(const TTest *const *)b)->line;
}

static inline int check_unit_run(const char *unit, SFun setup, SFun teardown, double timeout)
{
	size_t n_all = (size_t)(__stop_check_tests - __start_check_tests), n = 0;
	const TTest *tests[CHECK_UNIT_TESTS]; /* not on the heap, which counted.h counts */
	Suite *suite = suite_create(unit);
	TCase *tcase = tcase_create(unit);
	SRunner *runner;
	int failed;

	if (n_all > CHECK_UNIT_TESTS)
		abort();
	for (size_t i = 0; i < n_all; i++)
		if (__start_check_tests[i])
			tests[n++] = __start_check_tests[i];
	/* The compiler may have reversed the order. */
	qsort(tests, n, sizeof(*tests), check_unit_compare);
	tcase_set_timeout(tcase, timeout);
	tcase_add_checked_fixture(tcase, setup, teardown);
	for (size_t i = 0; i < n; i++)
		tcase_add_test(tcase, tests[i]);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static inline int check_unit_main(const char *unit)
{
	return check_unit_run(unit, NULL, NULL, CHECK_TIMEOUT);
}

/* Called by a main() before check_unit_main(). Removes tests (&name, ...) that cannot run here from
 * the list and prints why. contrib/check counts them as skipped. */
#define check_unit_leave_out(why, ...)                                                             \
	do {                                                                                       \
		const TTest **const out[] = { __VA_ARGS__ };                                       \
                                                                                                   \
		for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++) {                        \
			printf("left out: %s: %s\n", (*out[i])->name, why);                        \
			*out[i] = NULL;                                                            \
		}                                                                                  \
	} while (0)

/* Reports that a test, which checks its own requirements, did not run. */
static inline void check_unit_not_run(const TTest *test, const char *why)
{
	printf("not run: %s: %s\n", test->name, why);
	(void)fflush(stdout);
}

#define CHECK_MAIN(unit)                                                                           \
	int main(void)                                                                             \
	{                                                                                          \
		return check_unit_run(unit, CHECK_SETUP, CHECK_TEARDOWN, CHECK_TIMEOUT);           \
	}
