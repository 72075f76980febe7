/* SPDX-License-Identifier: MIT */
/*
 * case.h - a call of a task that is repeated with the same arguments
 *
 * Buffers are filled again before each call. Used by forkctl check and forkctl profile; forkctl
 * call uses the texts of outcomes.
 */
#pragma once

#include <stdint.h>

#include "client/forkctl/common.h"
#include "client/forkctl/arguments.h"
#include "shm/limits.h"

#define CASE_LEVELS 6u /* sets of generated arguments */

/* The arguments of the calls. */
struct forkctl_case {
	/* as given on the command line; or, if generated is set, made for this level */
	struct forkctl_args args;
	int generated;
	uint32_t level;
};

/* A call: the task and the values of its arguments. */
struct forkctl_call_values {
	fk_client *client;
	const fk_task *task;
	union fk_value values[SIGNATURE_MAX_ARGS];
};

struct forkctl_outcome {
	int outcome; /* enum fk_outcome; FK_PENDING: it did not end in time */
	int code;
	int signo;
	uint64_t run_ns;
	uint8_t result[LIMIT_RESULT]; /* zeros if there is none */
};

/* Bytes of heap that the calls of the case need. */
uint64_t case_heap(const struct forkctl_case *c);

/* Finds the task and allocates its buffers. Prints errors. Returns 0 or an exit code: then the
 * client must be closed. */
int case_open(const struct forkctl_case *c, fk_client *client, const char *name,
	      struct forkctl_call_values *ret_call);
void case_close(struct forkctl_call_values *call);

/* Fills the buffers and makes the call. limit_ns: after this the job expires; it has 2 s more to
 * end. Returns 0, or a negative errno with the text of fk_error_text(): there was no call, or its
 * outcome is not known. */
int case_run(const struct forkctl_case *c, struct forkctl_call_values *call, uint64_t limit_ns,
	     struct forkctl_outcome *ret_outcome);

/* As error_outcome(), for any outcome of case_run(). Returns text, or a constant. */
const char *case_outcome(const struct forkctl_outcome *outcome, struct forkctl_text *text);

/* Describes the arguments: "n=20, data=1001 bytes". */
void case_describe(const struct forkctl_case *c, const struct forkctl_call_values *call,
		   char *ret_text, size_t size);
