/* SPDX-License-Identifier: MIT */
/* reload_trial.h - the dry run of a reload, in a process */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "common/options.h"
#include "daemon/manager/loop.h"

struct reload_trial_found {
	struct options options; /* as files and command line have them: nothing is settled */
	uint64_t modules;	/* which files there are: struct modules, version */
	uint32_t n_left_out;	/* of them, that cannot be loaded whole */
	uint64_t joinable;	/* those that can join a pool that runs: struct modules */
};

enum reload_trial_state {
	RELOAD_TRIAL_RUNS,
	RELOAD_TRIAL_KILLED, /* it was over its limit */
	RELOAD_TRIAL_OVER,   /* done() is not called any more; if there is a pid it has not ended */
};

struct reload_trial {
	/* the caller sets these; the rest starts as zero, and the descriptors as -1 */
	struct loop *loop;
	uint64_t limit_ns; /* for the whole run */
	/* found: NULL if it has failed, with a line that says why; else the callee's, with
	 * options_fini() to follow. Not called from within a function of the trial. */
	void (*done)(struct reload_trial *trial, struct reload_trial_found *found, const char *why);

	enum reload_trial_state state;
	pid_t pid; /* 0: there is none */
	int pidfd;
	int file;
	struct loop_source process;
	struct loop_source limit;
	char why[96]; /* KILLED: the words for it */
};

#define RELOAD_TRIAL_INIT ((struct reload_trial){ .pidfd = -1, .file = -1 })

/* Starts it; args: the command line of this forkd, with its name, NULL at the end. None must run.
 * Returns 0, and done() follows; or a negative errno: -EBUSY, the last one was killed and is stuck
 * in the kernel. */
int reload_trial_start(struct reload_trial *trial, char *const *args);

/*
 * The process: checks the options as a start would, loads all modules as a pool would, and writes
 * what it found to fd, for reload_trial.c. options: as files and command line have them; what is
 * auto is settled here. Returns the exit status of the process; errors have been logged.
 */
int reload_trial_main(struct options *options, int fd);

/* done() does not come any more. Waits for nothing; what does not end by then is init's. */
void reload_trial_end(struct reload_trial *trial);
