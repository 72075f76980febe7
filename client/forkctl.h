/* SPDX-License-Identifier: MIT */
/* client/forkctl.h - what the commands of forkctl share */
#ifndef CLIENT_FORKCTL_H
#define CLIENT_FORKCTL_H

#include <stdint.h>

#include "client/client.h"

/* Exit codes. */
#define FORKCTL_OK	   0
#define FORKCTL_FAILED	   1 /* a job had another outcome than DONE, or a file cannot be used */
#define FORKCTL_USAGE	   2
#define FORKCTL_NO_DAEMON  3
#define FORKCTL_HEAP_SMALL UINT64_C(65536) /* bytes: for commands that only look */

/*
 * Each command gets its own arguments, argv[0] its name, and returns an exit code. socket: NULL for
 * the default.
 */
int forkctl_status(const char *socket, int argc, char *argv[]);
int forkctl_stat(const char *socket, int argc, char *argv[]);
int forkctl_tasks(const char *socket, int argc, char *argv[]);
int forkctl_call(const char *socket, int argc, char *argv[]);
int forkctl_session(const char *socket, int argc, char *argv[]);

/* One line to stderr, "forkctl: " in front. Returns code. */
int forkctl_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Connects; on failure says why. Returns 0 or an exit code. */
int forkctl_open(const char *socket, uint32_t n_jobs, uint64_t heap_size, fk_client **ret_client);

/* For commands without options and arguments. Returns 0 or an exit code. */
int forkctl_no_arguments(int argc, char *argv[]);

/* Room for forkctl_time(). */
struct forkctl_text {
	char text[32];
};

/* A time in the unit that suits it: "12.3 us". */
const char *forkctl_time(struct forkctl_text *text, uint64_t ns);

/* A name as it may be shown on a terminal: control characters become '?'. */
const char *forkctl_name(struct forkctl_text *text, const char *name, size_t size);

/* The name of a task on the board, "-" for none. */
const char *forkctl_task(const struct board *board, uint32_t task);

#endif
