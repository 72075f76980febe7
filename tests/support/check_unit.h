/* SPDX-License-Identifier: MIT */
/*
 * What every check_<unit>.c shares: a main() from a list of tests.
 *
 *	START_TEST(steal_loses_to_owner_on_the_last_item) { ... } END_TEST
 *
 *	CHECK_MAIN("deque", steal_loses_to_owner_on_the_last_item, ...)
 *
 * A test that is not in the list is a warning of the compiler (defined but not used). Each test
 * runs in a process of its own, as long as CK_FORK=no does not say otherwise; its time limit is
 * CHECK_TIMEOUT seconds (120 if the file defines nothing else), times CK_TIMEOUT_MULTIPLIER. A file
 * that defines CHECK_SETUP and CHECK_TEARDOWN has these functions called before and after each.
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

static inline int check_unit_run(const char *unit, const TTest *const *tests, size_t n, SFun setup,
				 SFun teardown, double timeout)
{
	Suite *suite = suite_create(unit);
	TCase *tcase = tcase_create(unit);
	SRunner *runner;
	int failed;

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

static inline int check_unit_main(const char *unit, const TTest *const *tests, size_t n)
{
	return check_unit_run(unit, tests, n, NULL, NULL, CHECK_TIMEOUT);
}

/*
 * For a main() of its own: takes the last n_out of n tests off the list, as they cannot run here,
 * and says which and why. contrib/check counts them as skipped. Returns how many are left.
 */
static inline size_t check_unit_leave_out(const TTest *const *tests, size_t n, size_t n_out,
					  const char *why)
{
	for (size_t i = n - n_out; i < n; i++)
		printf("left out: %s: %s\n", tests[i]->name, why);
	return n - n_out;
}

/* The same for a test that finds out itself, and does nothing more. */
static inline void check_unit_not_run(const TTest *test, const char *why)
{
	printf("not run: %s: %s\n", test->name, why);
	(void)fflush(stdout);
}

#define CHECK_MAIN(unit, ...)                                                                      \
	int main(void)                                                                             \
	{                                                                                          \
		const TTest *const tests[] = { __VA_ARGS__ };                                      \
                                                                                                   \
		return check_unit_run(unit, tests, sizeof(tests) / sizeof(tests[0]), CHECK_SETUP,  \
				      CHECK_TEARDOWN, CHECK_TIMEOUT);                              \
	}
