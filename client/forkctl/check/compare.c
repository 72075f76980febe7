/* SPDX-License-Identifier: MIT */
/* A run differs in a task if a call has another result than the reference (result_differs()), or
 * none. The usual cause of a difference depends on the run: each run detects one kind of error. */
#include "client/forkctl/check/compare.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"

static const char *meaning(enum run_kind kind, const struct result *result)
{
	if (!result || result->outcome.outcome == FK_PENDING)
		return "the job hangs: a task waits for another task of the same job, or "
		       "uses a variable that was lost";
	if (result->outcome.outcome == FK_CRASHED)
		return "a pointer was lost: it was in an ordinary variable across a fork, call "
		       "or join";
	if (result->outcome.outcome == FK_FAILED && result->outcome.code == -EPROTO)
		return "see the message of forkd above (FK_ALLOC or FK_FREE while a fork is "
		       "outstanding, or a return without FK_JOIN)";
	switch (kind) {
	case RUN_SERIAL:
	case RUN_AGAIN:
		return "the result depends on more than the arguments: on time, addresses, state "
		       "of "
		       "earlier calls, or uninitialized memory";
	case RUN_STOLEN:
		return "an ordinary variable is used across a fork, call or join: it must be in "
		       "the frame, among the locals of FK_TASK";
	case RUN_LATE:
		return "a result is read before FK_JOIN, or a child and the continuation of its "
		       "fork "
		       "use the same memory";
	case RUN_RANDOM:
		break;
	}
	return "a race: children use the same memory without atomics, or results are combined in "
	       "order of completion by an operation that is not associative";
}

/* Counts a run in which a task differs. Stores and prints the first difference of the task. */
static void note(struct compare *compare, const struct run *run, const struct result *result,
		 const char *what, const char *means)
{
	struct compare_fault *fault = compare->faults;
	struct compare_fault *end = compare->faults + compare->n_faults;
	char name[96];

	printf("         %s(%s): %s\n", result->task, result->args, what);
	while (fault < end && !streq(fault->task, result->task))
		fault++;
	if (fault == end) {
		compare->n_faults++;
		memcpy(fault->task, result->task, sizeof(fault->task));
		fault->means = means;
		(void)snprintf(fault->first, sizeof(fault->first), "%s: %s(%s): %s",
			       run_name(run, name, sizeof(name)), result->task, result->args, what);
	}
	fault->runs++;
}

/* Finds the first call of a task that differs from the reference. True if there is one. */
static int compare_task(struct compare *compare, const struct results *reference,
			const struct run *run, const struct results *text, const char *task)
{
	const struct result *want, *got;
	char what[256];
	size_t at = 0;

	while ((got = result_next(text, &at))) {
		if (!streq(got->task, task))
			continue;
		want = result_find(reference, task, got->level);
		if (result_says(want) &&
		    result_differs(want, got, &compare->except, what, sizeof(what))) {
			note(compare, run, got, what, meaning(run->kind, got));
			return 1;
		}
	}
	for (at = 0; (want = result_next(reference, &at));) {
		if (!streq(want->task, task) || !result_says(want) ||
		    result_find(text, task, want->level))
			continue;
		note(compare, run, want, "the call has no outcome", meaning(run->kind, NULL));
		return 1;
	}
	return 0;
}

void compare_run(struct compare *compare, const struct run_subject *subject, const struct run *run,
		 const struct results *text)
{
	const struct results *reference = &subject->reference;
	const struct result *result;
	const char *last = "";
	char name[96];
	uint32_t n = 0, wrong = 0;
	size_t at = 0;

	while (result_next(text, &at))
		n++;
	printf("%-45s %4" PRIu32 " call%s:\n", run_name(run, name, sizeof(name)), n,
	       forkctl_plural(n));
	for (at = 0; (result = result_next(reference, &at)); last = result->task)
		if (!streq(result->task, last) && !run_skips(subject, result->task))
			wrong +=
				(uint32_t)compare_task(compare, reference, run, text, result->task);
	if (wrong)
		printf("         DIFFERENT: %" PRIu32 " task%s\n", wrong, forkctl_plural(wrong));
	else
		printf("         same results\n");
	compare->runs++;
	compare->differing += wrong > 0;
}

int compare_report(const struct compare *compare)
{
	for (uint32_t i = 0; i < compare->n_faults; i++) {
		const struct compare_fault *fault = &compare->faults[i];

		(void)forkctl_fail(FORKCTL_FAILED,
				   "%s differs in %" PRIu32 " of %" PRIu32
				   " runs, first in: %s. This usually means: %s.",
				   fault->task, fault->runs, compare->runs, fault->first,
				   fault->means);
	}
	if (!compare->differing)
		return 0;
	return forkctl_fail(FORKCTL_FAILED,
			    "%" PRIu32 " of %" PRIu32 " runs differ from the serial one",
			    compare->differing, compare->runs);
}
