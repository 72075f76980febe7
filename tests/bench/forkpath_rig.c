/* SPDX-License-Identifier: MIT */
/*
 * forkpath_rig.c - a task on one worker, in a process that can be run under callgrind
 *
 * 	forkpath_rig MODULE.so MODULE:TASK N [REPEAT]
 *
 * Loads a module and runs its task, of the signature n:i64 -> i64, with N on a pool of one worker
 * inside this process. Prints the minimum time of all runs, in nanoseconds, and the result. It
 * exists for tests/bench/forkpath: callgrind supports none of the calls with which the manager
 * starts a pool, and the module can be from another compiler.
 *
 * Threads: the main thread submits; the worker is a separate thread (tests/support/rig.h).
 */
#include <check.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "tests/support/rig.h"

static const struct fk_module *module;
static const char *task;
static long n;
static long repeat = 1;
static uint64_t least = UINT64_MAX;
static int64_t result;

/* rig.c uses assertions of libcheck, so its user must be a test. */
START_TEST(task_is_run)
{
	struct rig rig;

	rig_start(&rig, 1, module, false);
	for (long i = 0; i < repeat; i++) {
		uint64_t began = clock_ns(), took;

		result = rig_call(&rig, task, n);
		took = clock_ns() - began;
		least = took < least ? took : least;
	}
	rig_stop(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("forkpath");
	TCase *tcase = tcase_create("task");
	SRunner *runner = srunner_create(suite);
	void *handle;
	int failed;

	if (argc < 4 || argc > 5) {
		fprintf(stderr, "usage: %s MODULE.so MODULE:TASK N [REPEAT]\n", argv[0]);
		return 2;
	}
	handle = dlopen(argv[1], RTLD_NOW);
	module = handle ? dlsym(handle, "fk_module") : NULL;
	if (!module) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	task = argv[2];
	n = strtol(argv[3], NULL, 10);
	repeat = argc == 5 ? strtol(argv[4], NULL, 10) : 1;
	tcase_add_test(tcase, task_is_run);
	suite_add_tcase(suite, tcase);
	srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	if (failed)
		srunner_print(runner, CK_NORMAL);
	else
		printf("%" PRIu64 " %" PRId64 "\n", least, result);
	srunner_free(runner);
	return failed != 0;
}
