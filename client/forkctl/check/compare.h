/* SPDX-License-Identifier: MIT */
/* compare.h - how the runs of forkctl check differ from the reference */
#pragma once

#include <stdint.h>

#include "client/forkctl/check/run.h"

/* The first difference of a task. */
struct compare_fault {
	char task[64 + 1];
	uint32_t runs; /* number of runs that differ */
	char first[640];
	const char *means;
};

/* The result of all runs; initially zeros. */
struct compare {
	struct forkctl_words except; /* names of results that may differ */
	uint32_t runs;
	uint32_t differing;
	uint32_t n_faults;
	struct compare_fault faults[LIMIT_TASKS];
};

/* Compares a run with the reference, and prints the first difference of each task. */
void compare_run(struct compare *compare, const struct run_subject *subject, const struct run *run,
		 const struct results *text);

/* Prints one line to stderr for each task that differs, with the usual cause. Returns an exit
 * code. */
int compare_report(const struct compare *compare);
