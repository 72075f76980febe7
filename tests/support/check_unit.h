/* SPDX-License-Identifier: MIT */
/*
 * What every check_<unit>.c shares: a main() that runs the tests of the program.
 *
 *	START_TEST(steal_loses_to_owner_on_the_last_item) { ... } END_TEST
 *
 *	CHECK_MAIN("deque")
 *
 * START_TEST puts each test into the list by itself. Each test runs in a process of its own, unless
 * CK_FORK=no; its time limit is CHECK_TIMEOUT seconds (120 if the file defines nothing else), times
 * CK_TIMEOUT_MULTIPLIER. A file that defines CHECK_SETUP and CHECK_TEARDOWN has these functions
 * called before and after each.
 */
#pragma once

#include <check.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"

/*
 * Each assertion that holds tells libcheck where the test stands, by a system call: two thirds of
 * the time of a test that asserts in a loop. Here each place does so once a tick.
 */
static inline void check_unit_mark(const char *file, int line)
{
	static _Atomic uint64_t marked_ns[1024]; /* by line, the last time */
	_Atomic uint64_t *last = &marked_ns[(unsigned int)line % 1024];
	uint64_t now = clock_coarse_ns();

	/* Relaxed: it is only about how often. */
	if (atomic_load_explicit(last, memory_order_relaxed) == now)
		return;
	atomic_store_explicit(last, now, memory_order_relaxed);
	_mark_point(file, line);
}
#define _mark_point check_unit_mark

#ifndef CHECK_TIMEOUT
#define CHECK_TIMEOUT 120 /* for what hangs: at a load of 40 a second takes half a minute */
#endif
#ifndef CHECK_SETUP
#define CHECK_SETUP    NULL
#define CHECK_TEARDOWN NULL
#endif

/* The section that this makes is the list of tests. */
#undef START_TEST
#define START_TEST(test)                                                                           \
	static void test##_fn(int _i);                                                             \
	static const TTest test##_ttest = { #test, test##_fn, __FILE__, __LINE__ };                \
	static const TTest *test __attribute__((used, section("check_tests"))) = &test##_ttest;    \
	static void test##_fn(int _i CK_ATTRIBUTE_UNUSED)

extern const TTest *__start_check_tests[], *__stop_check_tests[];

#define CHECK_UNIT_TESTS 1000u /* of a program, at most */

static inline int check_unit_compare(const void *a, const void *b)
{
	return (*(const TTest *const *)a)->line - (*(const TTest *const *)b)->line;
}

static inline int check_unit_run(const char *unit, SFun setup, SFun teardown, double timeout)
{
	size_t n_all = (size_t)(__stop_check_tests - __start_check_tests), n = 0;
	const TTest *tests[CHECK_UNIT_TESTS]; /* not on the heap: counted.h counts that */
	Suite *suite = suite_create(unit);
	TCase *tcase = tcase_create(unit);
	SRunner *runner;
	int failed;

	if (n_all > CHECK_UNIT_TESTS)
		abort();
	for (size_t i = 0; i < n_all; i++)
		if (__start_check_tests[i])
			tests[n++] = __start_check_tests[i];
	/* The compiler may have reversed them. */
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

/*
 * For a main() of its own, before check_unit_main(): takes tests (&name, ...) that cannot run here
 * off the list, and says why. contrib/check counts them as skipped.
 */
#define check_unit_leave_out(why, ...)                                                             \
	do {                                                                                       \
		const TTest **const out[] = { __VA_ARGS__ };                                       \
                                                                                                   \
		for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++) {                        \
			printf("left out: %s: %s\n", (*out[i])->name, why);                        \
			*out[i] = NULL;                                                            \
		}                                                                                  \
	} while (0)

/* The same for a test that finds out itself, and does nothing more. */
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
