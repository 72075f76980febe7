/* SPDX-License-Identifier: MIT */
/* manager.h - the process that clients connect to; it keeps the pool running */
#pragma once

struct options;

/* Exit codes of forkd; --help prints them. */
#define MANAGER_EXIT_OK	     0
#define MANAGER_EXIT_BUG     1 /* what should not happen */
#define MANAGER_EXIT_USAGE   2 /* command line, forkd.conf, CPUs or memory that are not there */
#define MANAGER_EXIT_LISTEN  3 /* cannot listen on the socket */
#define MANAGER_EXIT_POOL    4 /* the pool failed to start, or dies again and again */
#define MANAGER_EXIT_SYSTEM  5 /* the system denies something: memory, descriptors, io_uring */
#define MANAGER_EXIT_RESTART 6 /* to be started again, as asked by SIGUSR2 */

/*
 * Runs forkd until SIGTERM, SIGINT or SIGUSR2. SIGPIPE is to be ignored, SIGCHLD not, descriptors
 * 0 to 2 open, and no other thread may run. options: changed by forkctl set, and by a reload. args:
 * the command line that they are of, as main() has it; NULL: nothing is read again.
 * Returns the exit code; what went wrong has been logged.
 */
int manager_run(struct options *options, char *const *args);
