/* SPDX-License-Identifier: MIT */
/*
 * check.c - forkctl check: does a result depend on the schedule of a task?
 *
 * Runs calls of a module's tasks in private forkds, one after the other (run.c), and compares their
 * results byte for byte (compare.c). This file selects the calls and the runs.
 *
 *	forkctl check [OPTION...] MODULE | MODULE:TASK [ARG...] | FILE.so...
 *	forkctl check --tsan FILE.c... TASK [ARG...]	(races.c)
 *
 * Without arguments every task is called with generated ones (case.c); tasks that cannot be checked
 * with these are skipped, with a message. A FILE.so need not be installed: its forkd uses a
 * directory with links to the files.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/forkctl/child_command.h"
#include "client/forkctl/check/compare.h"
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/options.h"
#include "client/forkctl/check/races.h"
#include "client/forkctl/check/run.h"
#include "common/clock.h"
#include "common/util.h"

#define CHECK_SEEDS   4u
#define CHECK_WORKERS 64u
#define CHECK_TIME    (60 * NSEC_PER_SEC)

struct check {
	uint32_t seeds;
	uint32_t seed;
	uint32_t workers; /* 0: by the number of CPUs */
	struct forkctl_limit timeout;
	int tsan;
	struct run_subject subject;
	struct compare compare;
};

const struct forkctl_option forkctl_check_options[] = {
	{ "", "--seeds", "N", "Number of random runs (default: 4)", FORKCTL_NUMBER,
	  offsetof(struct check, seeds), 1, 1000000 },
	{ "", "--seed", "N", "Seed of the first random run (default: 1)", FORKCTL_NUMBER,
	  offsetof(struct check, seed), 1, INT32_MAX },
	{ "", "--workers", "N",
	  "Workers of the parallel runs (default: CPUs + 1; 2 * CPUs + 1 in random runs)",
	  FORKCTL_NUMBER, offsetof(struct check, workers), 1, LIMIT_WORKERS },
	{ "", "--timeout", "TIME", "Time limit of each call (default: 60s)", FORKCTL_TIME,
	  offsetof(struct check, timeout), 1, UINT64_MAX },
	{ "", "--except", "RESULT", "Do not compare results with this name; can be repeated",
	  FORKCTL_LIST, offsetof(struct check, compare.except), 0, 0 },
	{ "", "--tsan", NULL, "Compile FILE.c, and search TASK for races with ThreadSanitizer",
	  FORKCTL_FLAG, offsetof(struct check, tsan), 0, 0 },
	{ 0 },
};

static void leave_out(struct run_subject *subject, const struct result *result, const char *why)
{
	struct forkctl_text text;

	if (run_skips(subject, result->task))
		return;
	run_skip(subject, result->task);
	if (result->outcome.outcome == FK_CRASHED)
		printf("skipped: %s: the serial run with (%s) %s\n", result->task, result->args,
		       case_outcome(&result->outcome, &text));
	else
		printf("skipped: %s: %s%s\n", result->task, why,
		       case_outcome(&result->outcome, &text));
}

/* Runs the reference, again without each task that hangs. */
static int run_reference(struct run_subject *subject)
{
	const struct run serial = { RUN_SERIAL, 1, 1 };

	for (;;) {
		const struct result *result, *hung = NULL;
		size_t at = 0;
		int status = run_do(subject, &serial, &subject->reference);

		if (status)
			return status;
		while ((result = result_next(&subject->reference, &at)))
			if (result->outcome.outcome == FK_PENDING)
				hung = result;
		if (!hung)
			return 0;
		if (subject->given.args.n || run_skips(subject, hung->task))
			return forkctl_fail(FORKCTL_FAILED,
					    "%s(%s) does not end, even in a serial run", hung->task,
					    hung->args);
		leave_out(subject, hung, "give arguments: with generated ones it ");
		run_free(&subject->reference);
	}
}

/* The number of calls of a task that can be compared. 0: none; *ret_result is set to the first call
 * that crashed, if one did. */
static uint32_t judge_task(const struct run_subject *subject, const char *task,
			   const struct result **ret_result)
{
	const struct result *result;
	uint32_t done = 0, failed = 0;
	size_t at = 0;

	while ((result = result_next(&subject->reference, &at))) {
		if (!streq(result->task, task))
			continue;
		if (result->outcome.outcome == FK_CRASHED) {
			*ret_result = result;
			return 0;
		}
		done += result->outcome.outcome == FK_DONE;
		failed += result->outcome.outcome == FK_FAILED;
	}
	/* With arguments of the user, a failure can be compared as well. */
	return done || subject->given.args.n ? done + failed : 0;
}

/* Prints the calls of a task that are compared. */
static void print_checked(const struct run_subject *subject, const char *task)
{
	const struct result *result;
	uint32_t late = 0;
	size_t at = 0;

	printf("checked:  %s", task);
	while ((result = result_next(&subject->reference, &at)))
		if (streq(result->task, task) && result_says(result))
			printf(" (%s)", result->args);
		else if (streq(result->task, task))
			late++;
	if (late)
		printf("; other calls took more than %u s",
		       (unsigned int)(RUN_GEN_TIME / NSEC_PER_SEC));
	printf("\n");
}

/* Checks that each name of --except is the name of a result that is compared. */
static int judge_names(const struct results *reference, const struct forkctl_words *except)
{
	for (uint32_t i = 0; i < except->n; i++) {
		const struct result *result;
		uint32_t found = 0;
		size_t at = 0;

		while ((result = result_next(reference, &at)))
			for (uint32_t k = 0; k < result->signature.n_results; k++)
				found += streq(result->signature.results[k].name, except->words[i]);
		if (!found)
			return forkctl_fail(FORKCTL_USAGE,
					    "--except=%s: no checked task has a result of this "
					    "name: `forkctl session -- forkctl tasks` lists the "
					    "results",
					    except->words[i]);
		printf("not compared: result %s\n", except->words[i]);
	}
	return 0;
}

/* Prints the tasks that are checked and those that are skipped. */
static int judge_reference(struct run_subject *subject)
{
	const struct result *result;
	const char *last = "";
	uint32_t kept = 0;
	size_t at = 0;

	while ((result = result_next(&subject->reference, &at))) {
		uint32_t n;

		if (streq(result->task, last) || run_skips(subject, result->task))
			continue;
		last = result->task;
		n = judge_task(subject, result->task, &result);
		kept += n;
		if (!n)
			leave_out(subject, result, "give arguments: with generated ones it ");
		else
			print_checked(subject, result->task);
	}
	return kept ? 0 : forkctl_fail(FORKCTL_FAILED, "no calls left to check");
}

static int run_all(struct check *check)
{
	struct run_subject *subject = &check->subject;
	struct compare *compare = &check->compare;
	cpu_set_t set;
	uint32_t cpus = sched_getaffinity(0, sizeof(set), &set) ? 1 : (uint32_t)CPU_COUNT(&set);
	uint32_t some = check->workers ? check->workers : min(cpus + 1, CHECK_WORKERS);
	uint32_t many = check->workers ? check->workers : min(2 * cpus + 1, CHECK_WORKERS);
	/* On one worker first: a difference there is reproducible and easier to explain. */
	const struct run runs[] = {
		{ RUN_AGAIN, 1, 1 },	 { RUN_STOLEN, 1, 1 },	{ RUN_LATE, 1, 1 },
		{ RUN_STOLEN, some, 1 }, { RUN_LATE, some, 1 },
	};
	const uint32_t n_runs = (uint32_t)ARRAY_SIZE(runs);
	int status = run_reference(subject);

	if (!status)
		status = judge_names(&subject->reference, &compare->except);
	if (!status)
		status = judge_reference(subject);
	for (uint32_t i = 0; !status && i < n_runs + check->seeds; i++) {
		struct run random = { RUN_RANDOM, many, check->seed + i - n_runs };
		const struct run *run = i < n_runs ? &runs[i] : &random;
		struct results text;

		status = run_do(subject, run, &text);
		if (status)
			return status;
		compare_run(compare, subject, run, &text);
		run_free(&text);
		/* A task that differs in identical runs cannot be compared in other runs. */
		for (uint32_t f = 0; run->kind == RUN_AGAIN && f < compare->n_faults; f++)
			run_skip(subject, compare->faults[f].task);
	}
	return status;
}

/* ------------------------------------------------------------------------ the command line */

static int parse_subject(struct run_subject *subject, int argc, char *argv[])
{
	if (argc >= 2 && races_is_source(argv[1]))
		return forkctl_fail(FORKCTL_USAGE,
				    "%s is a source file: use --tsan to search it for races, or "
				    "compile it and give FILE.so",
				    argv[1]);
	if (argc < 2)
		return forkctl_fail(FORKCTL_USAGE, "check: give MODULE, MODULE:TASK with "
						   "arguments, or FILE.so...");
	if (forkctl_is_module_file(argv[1]))
		return forkctl_link_modules(argc - 1, argv + 1, subject->directory,
					    sizeof(subject->directory));
	if (!strchr(argv[1], ':')) {
		subject->module = argv[1];
		return argc == 2
			     ? 0
			     : forkctl_fail(FORKCTL_USAGE,
					    "a module takes no arguments: use MODULE:TASK %s ...",
					    argv[2]);
	}
	subject->task = argv[1];
	return forkctl_args_init(&subject->given.args, argv + 2, (uint32_t)argc - 2);
}

/* Returns an exit code. */
static int find_races(const struct check *check, int argc, char *argv[])
{
	if (check->seeds != CHECK_SEEDS || check->seed != 1 || check->workers ||
	    check->compare.except.n)
		return forkctl_fail(FORKCTL_USAGE, "--tsan runs the task once, serially: --timeout "
						   "is the only other option allowed");
	return races_check(check->timeout.ns, argc - 1, argv + 1);
}

int forkctl_check(const char *socket, int argc, char *argv[])
{
	struct check *check = calloc(1, sizeof(*check));
	struct run_subject *subject;
	int status;

	if (!check)
		return forkctl_fail(FORKCTL_FAILED, "out of memory");
	subject = &check->subject;
	check->seeds = CHECK_SEEDS;
	check->seed = 1;
	check->timeout.ns = CHECK_TIME;
	status = socket
		       ? forkctl_fail(FORKCTL_USAGE, "check starts private forkds: remove --socket")
		       : forkctl_options(forkctl_check_options, check, &argc, argv);
	if (!status && check->tsan) {
		status = find_races(check, argc, argv);
		free(check);
		return status;
	}
	subject->time_ns = check->timeout.ns;
	if (!status)
		status = parse_subject(subject, argc, argv);
	if (!status)
		status = run_all(check);
	/* Differences found before an error are reported, too. */
	if (status)
		(void)compare_report(&check->compare);
	else
		status = compare_report(&check->compare);
	if (!status)
		printf("%s: %" PRIu32 " run%s, all with the results of the serial run\n",
		       subject->directory[0] ? "all tasks" : argv[1], check->compare.runs,
		       forkctl_plural(check->compare.runs));
	forkctl_unlink_modules(argc - 1, subject->directory);
	run_free(&subject->reference);
	forkctl_args_fini(&subject->given.args);
	free(check);
	return status;
}
