/* SPDX-License-Identifier: MIT */
/*
 * tests/bench/forkpath_rig.c - fib on one worker, in a process that can be run under callgrind
 *
 * WHAT IT IS
 *	forkpath_rig MODULE.so N [REPEAT]
 *
 *   Loads a module that exports fib, runs fib(N) on a pool of one worker inside this process, and
 *   prints the least time of all runs, in nanoseconds. For tests/bench/forkpath: callgrind knows
 *   none of the calls by which the manager starts a pool, and a module can come from another
 *   compiler than this program.
 *
 * ON WHICH THREAD
 *   The main thread submits; the worker is a thread of its own. See tests/rig.h.
 */
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "tests/bench/work.h"
#include "tests/rig.h"

static const struct fk_module *module;
static long n;
static long repeat = 1;
static uint64_t least = UINT64_MAX;

/* rig.c asserts as tests do, so what uses it is one. */
START_TEST(fib_is_run)
{
	struct rig rig;

	rig_start(&rig, 1, module, false);
	for (long i = 0; i < repeat; i++) {
		uint64_t began = clock_ns();
		int64_t result = rig_call(&rig, "fib:fib", n);
		uint64_t took = clock_ns() - began;

		least = took < least ? took : least;
		ck_assert_int_eq(result, work_fib(n));
	}
	rig_stop(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("forkpath");
	TCase *tcase = tcase_create("fib");
	SRunner *runner = srunner_create(suite);
	void *handle;
	int failed;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: %s MODULE.so N [REPEAT]\n", argv[0]);
		return 2;
	}
	handle = dlopen(argv[1], RTLD_NOW);
	module = handle ? dlsym(handle, "fk_module") : NULL;
	if (!module) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	n = strtol(argv[2], NULL, 10);
	repeat = argc == 4 ? strtol(argv[3], NULL, 10) : 1;
	tcase_add_test(tcase, fib_is_run);
	suite_add_tcase(suite, tcase);
	srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	if (failed)
		srunner_print(runner, CK_NORMAL);
	else
		printf("%llu\n", (unsigned long long)least);
	srunner_free(runner);
	return failed != 0;
}
