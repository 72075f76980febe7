/* SPDX-License-Identifier: MIT */
/* run.h - a run of forkctl check: calls of tasks in a forkd of its own */
#pragma once

#include <stdint.h>

#include "client/forkctl/case.h"
#include "client/forkctl/check/results.h"

#define RUN_GEN_TIME NSEC_PER_SEC /* for a call with generated arguments, serially */

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

/* What is called, in every run. */
struct run_subject {
	struct forkctl_case given;
	const char *task;   /* MODULE:TASK, or NULL: */
	const char *module; /* all of this, or with NULL all there are */
	char folder[256];   /* of links to the modules that were named, or empty */
	uint64_t time_ns;   /* for a call */
	struct results reference;
	uint32_t n_skip;
	char skip[LIMIT_TASKS][64 + 1]; /* tasks that are left out */
};

/* A task is left out from now on. */
void run_skip(struct run_subject *subject, const char *task);
int run_skips(const struct run_subject *subject, const char *task);

/*
 * Makes the calls of a run, and gives its results. A RUN_SERIAL makes all that there are, the
 * others those for which the reference has an answer. Says what is wrong. Returns 0 or an exit
 * code: a task that crashes or hangs is none of these, its results end there.
 */
int run_do(const struct run_subject *subject, const struct run *run, struct results *ret_text);
void run_free(struct results *text);

/* "random preemption, seed 3, 5 workers". */
const char *run_name(const struct run *run, char *text, size_t size);
