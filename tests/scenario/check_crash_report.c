/* SPDX-License-Identifier: MIT */
/* crash_report: a crash report names the task, the function and its place in the module, and
 * reports a C stack that was too small */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "shm/backtrace.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/faults.h"
#include "tests/support/jobs.h"

static struct daemon d;
static fk_client *c;

/* Returns the report of the n-th crash, caused by a job of this task, when the next pool runs. */
static const struct board_crash *crash(const char *task, int64_t argument, int signo, uint64_t n)
{
	pid_t pool = daemon_pool(&d);
	fk_job job = jobs_submit(c, task, 0, argument, 0);
	const struct board_crash *report;
	int got = -1;

	ck_assert_int_eq(jobs_outcome(c, job, &got), FK_CRASHED);
	ck_assert_int_eq(got, signo);
	ck_assert_int_eq(fk_release(c, job), 0);
	(void)jobs_pool_after(&d, pool);
	report = jobs_crash(&d, n);
	ck_assert_str_eq(report->task, task);
	ck_assert_uint_le(report->trace.n, BACKTRACE_PLACES);
	return report;
}

/* Compilers make clones: NAME.constprop.0. */
static bool is_in(const struct backtrace_place *place, const char *function)
{
	size_t n = strlen(function);

	return !strcmp(place->object, "crash.so") && !strncmp(place->function, function, n) &&
	       (!place->function[n] || place->function[n] == '.');
}

/* Returns the index of the newest place in a function. */
static uint32_t place_in(const struct board_crash *report, const char *function)
{
	uint32_t i = 0;

	while (i < report->trace.n && !is_in(&report->trace.places[i], function))
		i++;
	ck_assert_msg(i < report->trace.n, "none of %u places is in %s", report->trace.n, function);
	return i;
}

START_TEST(fault_in_a_static_function_names_it_its_place_and_the_inner_task)
{
	const struct board_crash *report;
	char text[80];

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	report = crash("crash:picture", FAULT_FUNCTION, SIGSEGV, 1);
	ck_assert_str_eq(report->inner, "row");
	ck_assert_uint_eq(place_in(report, "spoil"), 0);
	ck_assert_uint_gt(report->trace.n, 1);
	ck_assert_ptr_eq(backtrace_best(&report->trace), &report->trace.places[0]);
	ck_assert_uint_eq(report->stack_size, 0);
	(void)snprintf(text, sizeof(text), "in child row, in crash.so+0x%llx (spoil",
		       (unsigned long long)report->trace.places[0].offset);
	DAEMON_AWAIT(daemon_logged(&d, "task crash:picture,", text));
	DAEMON_AWAIT(daemon_logged(&d, "backtrace: crash.so+0x", " < crash.so+0x"));
	jobs_end(&d, c);
}
END_TEST

START_TEST(call_of_an_invalid_address_names_its_caller)
{
	const struct board_crash *report;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	report = crash("crash:picture", FAULT_CALL, SIGSEGV, 1);
	ck_assert_str_eq(report->inner, "row");
	ck_assert_str_eq(report->trace.places[0].object, "");
	ck_assert_uint_eq(report->trace.places[0].offset, 0);
	ck_assert_uint_eq(place_in(report, "spoil"), 1);
	DAEMON_AWAIT(daemon_logged(&d, "backtrace: 0x0 (no code) < crash.so+0x", "(spoil"));
	jobs_end(&d, c);
}
END_TEST

START_TEST(fault_in_code_loaded_by_a_task_names_its_caller)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE /* as in dlfcn.h of glibc 2.35 and later */
	const struct board_crash *report;

	/* Otherwise the task can open no file. */
	c = JOBS_BEGIN(&d, "--workers=2", "--sandbox=off", NULL);
	report = crash("crash:picture", FAULT_LOADED, SIGSEGV, 1);
	ck_assert_str_eq(report->inner, "row");
	ck_assert_str_eq(report->trace.places[0].object, "??");
	ck_assert_uint_eq(place_in(report, "spoil"), 1);
	DAEMON_AWAIT(daemon_logged(&d, "backtrace: ??+0x", "(spoil"));
	jobs_end(&d, c);
#else
	check_unit_not_run(fault_in_code_loaded_by_a_task_names_its_caller, "it needs glibc 2.35");
#endif
}
END_TEST

START_TEST(fault_in_the_first_block_of_a_child_names_the_child)
{
	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	ck_assert_str_eq(crash("crash:picture", FAULT_FIRST_BLOCK, SIGSEGV, 1)->inner, "row");
	jobs_end(&d, c);
}
END_TEST

START_TEST(fault_in_a_library_names_the_calling_function)
{
	const struct board_crash *report;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	report = crash("crash:picture", FAULT_COPY, SIGSEGV, 1);
	ck_assert_str_eq(report->inner, "row");
	ck_assert(is_in(backtrace_best(&report->trace), "spoil"));
	report = crash("crash:picture", FAULT_EXIT, 0, 2);
	ck_assert_str_eq(report->inner, "row");
	ck_assert(is_in(backtrace_best(&report->trace), "spoil"));
	jobs_end(&d, c);
}
END_TEST

START_TEST(fault_in_a_fine_grained_descendant_names_it)
{
	const struct board_crash *report;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	/* The first one may be inlined into the task that calls it. */
	for (int64_t n = 2; n < 8; n++) {
		report = crash("crash:pixels", n, SIGSEGV, (uint64_t)n - 1);
		ck_assert_str_eq(report->inner, "pixel");
		ck_assert_uint_eq(place_in(report, "spoil"), 0);
	}
	jobs_end(&d, c);
}
END_TEST

START_TEST(root_task_is_its_own_inner_task)
{
	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	ck_assert_str_eq(crash("crash:segv", 0, SIGSEGV, 1)->inner, "segv");
	ck_assert_str_eq(crash("crash:abort", 0, SIGABRT, 2)->inner, "abort");
	ck_assert_str_eq(crash("crash:deep", 5, SIGABRT, 3)->inner, "deep");
	ck_assert(!daemon_logged(&d, "in child", "task"));
	jobs_end(&d, c);
}
END_TEST

START_TEST(C_stack_that_is_too_small_is_reported_with_its_size_and_task)
{
	const struct board_crash *report;

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	report = crash("crash:picture", FAULT_STACK, SIGSEGV, 1);
	ck_assert_uint_eq(report->reason, CRASH_STACK);
	ck_assert_uint_eq(report->stack_size, UINT64_C(2) << 20);
	ck_assert_str_eq(report->inner, "row");
	ck_assert_str_eq(report->fiber, "");
	ck_assert_uint_eq(place_in(report, "descend"), 0);
	DAEMON_AWAIT(daemon_logged(&d, "in child row",
				   "beyond the worker's C stack of 2097152 bytes (worker-stack)"));
	jobs_end(&d, c);
}
END_TEST

START_TEST(task_that_needs_a_larger_C_stack_succeeds_with_worker_stack)
{
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", "--worker-stack=32M", NULL);
	/* As many calls as this number is below -1, each with at least 256 bytes. */
	job = jobs_submit(c, "crash:recurse", 0, -10000, 0);
	jobs_drop(c, job, "DONE");
	ck_assert_uint_eq(crash("crash:recurse", 0, SIGSEGV, 1)->stack_size, UINT64_C(32) << 20);
	jobs_end(&d, c);
	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	ck_assert_uint_eq(crash("crash:recurse", -10000, SIGSEGV, 1)->reason, CRASH_STACK);
	jobs_end(&d, c);
}
END_TEST

START_TEST(task_that_has_overwritten_its_stack_or_worker_is_reported)
{
	const int64_t words[] = { 0, 8, -8, 0x5a5a5a5a5a5a5a5a, 0x00007f5a5a5a5a58 };
	uint64_t n = 0;

	/* A second worker would send signals. Their handler uses what the task overwrites. */
	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	for (uint32_t i = 0; i < ARRAY_SIZE(words); i++) {
		ck_assert_uint_eq(crash("crash:blind", words[i], SIGSEGV, ++n)->address, 8);
		ck_assert_uint_eq(crash("crash:smash_stack", words[i], SIGSEGV, ++n)->address, 8);
	}
	jobs_end(&d, c);
}
END_TEST

START_TEST(forkctl_crashes_shows_task_and_code)
{
	char output[8192];

	c = JOBS_BEGIN(&d, "--workers=2", NULL);
	(void)crash("crash:picture", FAULT_FUNCTION, SIGSEGV, 1);
	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "crashes", NULL), 0);
	ck_assert_msg(strstr(output, " crash:picture  row "), "%s", output);
	ck_assert_msg(strstr(output, " crash.so+0x"), "%s", output);
	ck_assert_msg(strstr(output, " (spoil"), "%s", output);
	jobs_end(&d, c);
}
END_TEST

CHECK_MAIN("crash_report")
