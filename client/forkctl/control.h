/* SPDX-License-Identifier: MIT */
/* control.h - requests to the manager */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "shm/proto.h"

/*
 * Sends a request of this type with these texts, and stores the value of the answer in ret_answer.
 * Prints errors, after the command's name if it is the user's error.
 * Returns 0 or an exit code.
 */
int forkctl_control(const char *socket, const char *command, uint32_t type, const char *name,
		    const char *value, struct proto_set *ret_answer);

/* Ends a job of a client, or all of its jobs: members of ask from client to generation. *ret_n: the
 * number of jobs that had not ended. Prints errors. Returns 0 or an exit code. */
int forkctl_cancel_for(const char *socket, const struct proto_ask *ask, uint64_t *ret_n);

/* Requests PROTO_CONFIG or PROTO_JOBS, and opens the file of the answer. *ret_n: its number. Prints
 * errors. Returns 0 or an exit code. */
int forkctl_fetch(const char *socket, uint32_t type, uint64_t *ret_n, FILE **ret_file);

/* Requests PROTO_TRACE. The trace lasts as long as *ret_connection; *ret_fd is its segment. Prints
 * errors. Returns 0 or an exit code. */
int forkctl_trace_open(const char *socket, int *ret_connection, int *ret_fd);
