/* SPDX-License-Identifier: MIT */
/* progress.h - a line of the terminal with the state of a call that takes long */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <forkd/client.h>

struct progress {
	fk_client *client;
	const char *task;
	uint32_t runs;
	uint32_t run;	   /* current run, from 1 */
	uint64_t start_ns; /* of the first run */
	uint64_t cpu_ns;   /* CPU time used before the first run */
	uint64_t shown_ns;
	size_t width; /* columns of the line that is shown; 0: none */
	int terminal; /* standard error is a terminal; otherwise nothing is shown */
};

void progress_init(struct progress *progress, fk_client *client, const char *task, uint32_t runs);

/* Must be called at the start of each run. */
void progress_next(struct progress *progress);

/* Waits for its job as fk_wait() does. timeout_ns: not 0. */
int progress_wait(struct progress *progress, fk_job job, uint64_t timeout_ns);

/* Removes the line, before anything else is written. */
void progress_clear(struct progress *progress);
