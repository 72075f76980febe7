/* SPDX-License-Identifier: MIT */
/* reload_trial.h - the dry run of a reload, in a process */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "common/options.h"
#include "daemon/manager/loop.h"

struct reload_trial_found {
	struct options options; /* of files and command line, with auto not replaced */
	uint64_t modules;	/* which files there are: struct modules, version */
	uint32_t n_left_out;	/* modules that cannot be loaded completely */
	uint64_t joinable;	/* those that a running pool can load: struct modules */
};

enum reload_trial_state {
	RELOAD_TRIAL_RUNS,
	RELOAD_TRIAL_KILLED, /* it took too long */
	RELOAD_TRIAL_OVER,   /* done() was or will not be called; a pid: it has not ended */
};

struct reload_trial {
	/* the caller sets these; the rest starts as zero, and the descriptors as -1 */
	struct loop *loop;
	uint64_t limit_ns; /* for the whole run */
	/* found: NULL if the trial has failed, with a line that says why; else the callee owns it,
	 * and must call options_fini(). Not called from within a function of the trial. */
	void (*done)(struct reload_trial *trial, struct reload_trial_found *found, const char *why);

	enum reload_trial_state state;
	pid_t pid; /* 0: there is no process */
	int pidfd;
	int file;
	struct loop_source process;
	struct loop_source limit;
	char why[96]; /* KILLED: why */
};

#define RELOAD_TRIAL_INIT ((struct reload_trial){ .pidfd = -1, .file = -1 })

/* Starts a trial; none may run. args: the command line of this forkd, with its name, NULL at the
 * end. Returns 0, and done() follows; or a negative errno: -EBUSY: the last process was killed and
 * is stuck in the kernel. */
int reload_trial_start(struct reload_trial *trial, char *const *args);

/* The trial's process: checks the options like a start, loads all modules like a pool, and writes
 * the results to fd, for reload_trial.c. options: of files and command line; auto values are
 * replaced here. Returns the exit status of the process; errors have been logged. */
int reload_trial_main(struct options *options, int fd);

/* Ends the trial without done(), and without waiting. A process that has not ended by then is left
 * to init. */
void reload_trial_end(struct reload_trial *trial);
