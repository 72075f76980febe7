/* SPDX-License-Identifier: MIT */
/* manager.h - the process that clients connect to; it keeps the pool running */
#pragma once

struct options;

/* Exit codes of forkd; --help prints them. */
#define MANAGER_EXIT_OK	     0
#define MANAGER_EXIT_BUG     1 /* a check of forkd itself failed */
#define MANAGER_EXIT_USAGE   2 /* command line, forkd.conf, or missing CPUs or memory */
#define MANAGER_EXIT_LISTEN  3 /* cannot listen on the socket */
#define MANAGER_EXIT_POOL    4 /* the pool failed to start, or crashed several times at its start */
#define MANAGER_EXIT_SYSTEM  5 /* the system refuses memory, descriptors or io_uring */
#define MANAGER_EXIT_RESTART 6 /* the service manager starts forkd again, after SIGUSR2 */

/*
 * Runs forkd until SIGTERM, SIGINT or SIGUSR2. The caller ignores SIGPIPE, does not ignore SIGCHLD,
 * keeps descriptors 0 to 2 open, and runs no other thread. options: forkctl set and reloads change
 * them. args: the command line that gave the options, as main() has it; NULL: nothing is read
 * again.
 * Returns the exit code; errors have been logged.
 */
int manager_run(struct options *options, char *const *args);
