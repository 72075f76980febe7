/* SPDX-License-Identifier: MIT */
/*
 * results.h - the results of the calls in a run of forkctl check, and their differences
 *
 * The process of a run writes results to a file in memory, one after the other; forkctl reads them
 * when it has ended. Both are the same program, so they are written as they are.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/forkctl/case.h"
#include "client/forkctl/options.h"

/* The result of a call; the contents of its iobufs follow it. */
struct result {
	char task[64 + 1];
	char args[191];
	uint32_t level;
	uint32_t n_buffers;
	uint64_t buffers[SIGNATURE_MAX_ARGS]; /* bytes of each */
	uint64_t bytes;			      /* of all, and zeros up to a multiple of 8 */
	struct signature signature;
	struct forkctl_outcome outcome;
};

/* The results of a run, one after the other. */
struct results {
	char *data;
	size_t size;
};

/* Appends the result of a call. Says why if it cannot. Returns 0 or an exit code. */
int result_write(int fd, const struct forkctl_case *c, const struct forkctl_call_values *call,
		 const struct forkctl_outcome *outcome);

/* The result at *at, which is advanced; NULL at the end. */
const struct result *result_next(const struct results *text, size_t *at);

/* The first of this task at this level, or NULL. */
const struct result *result_find(const struct results *text, const char *task, uint32_t level);

/* True if a reference result can be compared; false for NULL. */
int result_says(const struct result *want);

/* True if a run's result b is not as the reference a, with the first difference in text. except:
 * names of results that may differ. */
int result_differs(const struct result *a, const struct result *b,
		   const struct forkctl_words *except, char *text, size_t size);
