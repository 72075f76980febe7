/* SPDX-License-Identifier: MIT */
/* common.h - code shared by the commands of forkctl */
#pragma once

#include <stdint.h>

#include <forkd/client.h>

#include "client/forkctl/options.h"

/* Exit codes. */
#define FORKCTL_OK	   0
#define FORKCTL_FAILED	   1 /* a job had another outcome than DONE, or a file cannot be used */
#define FORKCTL_USAGE	   2
#define FORKCTL_NO_DAEMON  3
#define FORKCTL_HEAP_SMALL UINT64_C(65536) /* bytes: for commands without buffers */

/* Starts a private forkd for forkctl check or profile, and calls run() with its socket in a
 * separate process. mode: of --fork-mode. workers: 0 for one on each core. more: at most four
 * further options; NULL ends them. Returns the value of run(); 3 if forkd did not start; or 128 + a
 * signal. */
int forkctl_with_forkd(const char *mode, uint32_t workers, char *const more[],
		       int (*run)(const char *socket, void *context), void *context);

/* For a program that uses code of forkctl: its name in messages. name is kept. Before threads are
 * started. */
void forkctl_set_program(const char *name);
const char *forkctl_program(void);

/* Prints one line to stderr, after the name of the program. Returns code. */
int forkctl_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Connects; prints errors. Returns 0 or an exit code. */
int forkctl_open(const char *socket, uint32_t n_jobs, uint64_t heap_size, fk_client **ret_client);

/* The same for a command that is about one machine's forkd: refuses a cluster. */
int forkctl_open_machine(const char *socket, uint32_t n_jobs, uint64_t heap_size,
			 fk_client **ret_client);

/* Reports a name that no option of forkd has. Returns 0 or an exit code. */
int forkctl_check_option(const char *command, const char *name);

/* The value of an option in the running forkd; *ret must be freed. Returns 0 or an exit code. */
int forkctl_option_value(const char *socket, const char *name, char **ret);

/* Writes all of it. Returns 0 or a negative errno. */
int forkctl_write(int fd, const void *data, size_t size);

/* Cancels a job; repeats the request until forkd has taken it. */
void forkctl_cancel(fk_client *client, fk_job job);

/* From now on SIGINT and SIGTERM cancel the current job of forkctl_interruptible() (0: none), or
 * its next job. A second signal ends the program. Must be called at most once. */
void forkctl_catch_interrupts(fk_client *client);
void forkctl_interruptible(fk_job job);

/* True after an interrupt. */
int forkctl_interrupted(void);

/* The ending of a plural: "%" PRIu32 " job%s". */
static inline const char *forkctl_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* The buffer of forkctl_time(), or of a line. */
struct forkctl_text {
	char text[192];
};

/* A time in a suitable unit: "12.3 us". */
const char *forkctl_time(struct forkctl_text *text, uint64_t ns);
