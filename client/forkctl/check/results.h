/* SPDX-License-Identifier: MIT */
/*
 * results.h - the results of the calls in a run of forkctl check, and their differences
 *
 * The process of a run writes results to a file in memory, one after the other. forkctl reads them
 * after that process has ended. Both are the same program, so the structs are written unchanged.
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
	uint64_t bytes;			      /* of all buffers, padded to a multiple of 8 */
	struct signature signature;
	struct forkctl_outcome outcome;
};

/* The results of a run, one after the other. */
struct results {
	char *data;
	size_t size;
};

/* Appends the result of a call. Prints errors. Returns 0 or an exit code. */
int result_write(int fd, const struct forkctl_case *c, const struct forkctl_call_values *call,
		 const struct forkctl_outcome *outcome);

/* The result at *at, which is advanced; NULL at the end. */
const struct result *result_next(const struct results *text, size_t *at);

/* Returns the first result of this task at this level, or NULL. */
const struct result *result_find(const struct results *text, const char *task, uint32_t level);

/* True if a reference result can be compared; false for NULL. */
int result_says(const struct result *want);

/* True if result b of a run differs from the reference a; text: the first difference. except: names
 * of results that may differ. */
int result_differs(const struct result *a, const struct result *b,
		   const struct forkctl_words *except, char *text, size_t size);
