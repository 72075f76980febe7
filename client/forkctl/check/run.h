/* SPDX-License-Identifier: MIT */
/* run.h - a run of forkctl check: calls of tasks in a private forkd */
#pragma once

#include <stdint.h>

#include "client/forkctl/case.h"
#include "client/forkctl/check/results.h"

#define RUN_GEN_TIME NSEC_PER_SEC /* limit of a serial call with generated arguments */

enum run_kind {
	RUN_SERIAL, /* the reference */
	RUN_AGAIN,
	RUN_STOLEN,
	RUN_LATE,
	RUN_RANDOM,
};

struct run {
	enum run_kind kind;
	uint32_t workers;
	uint32_t seed;
};

/* The tasks that every run calls. */
struct run_subject {
	struct forkctl_case given;
	const char *task;    /* MODULE:TASK, or NULL: */
	const char *module;  /* all tasks of this module; NULL: of all modules */
	char directory[256]; /* directory of links to the files that were named, or empty */
	uint64_t time_ns;    /* limit of a call */
	struct results reference;
	uint32_t n_skip;
	char skip[LIMIT_TASKS][64 + 1]; /* tasks that are skipped */
};

/* Skips a task from now on. */
void run_skip(struct run_subject *subject, const char *task);
int run_skips(const struct run_subject *subject, const char *task);

/* Makes the calls of a run, and returns their results. RUN_SERIAL makes all calls; others make the
 * calls that have a comparable result in the reference. Prints errors. Returns 0 or an exit code. A
 * task that crashes or hangs is no error, but its results end there. */
int run_do(const struct run_subject *subject, const struct run *run, struct results *ret_text);
void run_free(struct results *text);

/* "random preemption, seed 3, 5 workers". */
const char *run_name(const struct run *run, char *text, size_t size);
