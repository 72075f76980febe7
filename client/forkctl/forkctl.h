/* SPDX-License-Identifier: MIT */
/* forkctl.h - the commands of forkctl */
#pragma once

#include <stddef.h>

#include "client/forkctl/options.h"
#include "shm/proto.h"

/* Each command gets its own arguments, argv[0] its name, and returns an exit code. socket: NULL for
 * the default. */
int forkctl_status(const char *socket, int argc, char *argv[]);
int forkctl_crashes(const char *socket, int argc, char *argv[]);
int forkctl_quarantine(const char *socket, int argc, char *argv[]);
int forkctl_counters(const char *socket, int argc, char *argv[]);
int forkctl_tasks(const char *socket, int argc, char *argv[]);
int forkctl_call(const char *socket, int argc, char *argv[]);
int forkctl_session(const char *socket, int argc, char *argv[]);
int forkctl_get(const char *socket, int argc, char *argv[]);
int forkctl_set(const char *socket, int argc, char *argv[]);
int forkctl_reload(const char *socket, int argc, char *argv[]);
int forkctl_modules(const char *socket, int argc, char *argv[]);

/* The time for which a reload may wait for running jobs, if it needs a new pool. */
struct forkctl_terms {
	struct forkctl_limit timeout; /* text NULL: stop-timeout */
	int force;		      /* then end the jobs; otherwise the reload is refused */
};

/* Their two options. offset: of a struct forkctl_terms in the command's struct. */
#define FORKCTL_TERMS(offset)                                                                      \
	{ "",                                                                                      \
	  "--timeout",                                                                             \
	  "TIME",                                                                                  \
	  "Wait at most this time for running jobs (default: stop-timeout)",                       \
	  FORKCTL_TIME,                                                                            \
	  (offset) + offsetof(struct forkctl_terms, timeout),                                      \
	  0,                                                                                       \
	  PROTO_RELOAD_MOST },                                                                     \
	{                                                                                          \
		"", "--force", NULL, "After that, end the jobs (LOST) instead of giving up",       \
			FORKCTL_FLAG, (offset) + offsetof(struct forkctl_terms, force), 0, 0       \
	}

/* Requests a reload, and prints its result. command: for error messages. Returns 0 or an exit
 * code. */
int forkctl_ask_reload(const char *socket, const char *command, const struct forkctl_terms *terms);

/* The subcommands of modules: load, unload. */
int forkctl_load(const char *socket, const struct forkctl_terms *terms, int argc, char *argv[]);

int forkctl_check(const char *socket, int argc, char *argv[]);
int forkctl_profile(const char *socket, int argc, char *argv[]);
int forkctl_clients(const char *socket, int argc, char *argv[]);
int forkctl_jobs(const char *socket, int argc, char *argv[]);
int forkctl_cancel_jobs(const char *socket, int argc, char *argv[]);
int forkctl_config(const char *socket, int argc, char *argv[]);
int forkctl_topo(const char *socket, int argc, char *argv[]);
int forkctl_top(const char *socket, int argc, char *argv[]);
int forkctl_trace(const char *socket, int argc, char *argv[]);

/* The options of the commands that have some: options.h. */
extern const struct forkctl_option forkctl_call_options[];
extern const struct forkctl_option forkctl_check_options[];
extern const struct forkctl_option forkctl_clients_options[];
extern const struct forkctl_option forkctl_jobs_options[];
extern const struct forkctl_option forkctl_modules_options[];
extern const struct forkctl_option forkctl_profile_options[];
extern const struct forkctl_option forkctl_reload_options[];
extern const struct forkctl_option forkctl_counters_options[];
extern const struct forkctl_option forkctl_tasks_options[];
extern const struct forkctl_option forkctl_top_options[];
extern const struct forkctl_option forkctl_trace_options[];
