/* SPDX-License-Identifier: MIT */
/*
 * runas.h - the user that tasks run as if root has started forkd
 *
 * The manager stays root: it owns the socket and signals the pool. The pool, and the process that
 * tries a reload, become the user of the option `user` before they load a module. Without the
 * option this is the user `forkd`, if the system has one. The manager looks the user up once, at
 * its start: so a pool that starts later does not wait for a directory service.
 *
 * Threads: a process that calls a function of this file has one.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct options;
struct options_error;

#define RUNAS_GROUPS 1024

struct runas {
	bool drops; /* false: the process keeps its user, and the rest is not set */
	uid_t uid;
	gid_t gid;
	int n_groups;
	gid_t groups[RUNAS_GROUPS];
	char hint[112]; /* for errors about a file that this user may not read; or empty */
};

/*
 * Finds the user that tasks run as, and tries in a child whether this process can become that user.
 * Returns 0 with one line in ret_text: the user if *ret drops, or a warning, or nothing. Returns a
 * negative errno, with an error in ret_text, if the user has no entry in passwd(5) or this process
 * cannot become it.
 */
int runas_choose(const struct options *options, struct runas *ret, struct options_error *ret_text);

/* The process becomes this user for good, with the user's groups and without capabilities. It may
 * make its threads urgent until it calls low_latency_settle(). The signal at its parent's death
 * stays set. Other processes of the user cannot inspect this one until it executes a program. Needs
 * a single thread; async-signal-safe. Returns 0; or a negative errno, and the process must end. */
int runas_become(const struct runas *runas);
