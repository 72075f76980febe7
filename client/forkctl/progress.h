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
	uint32_t run;	   /* of these; counted from 1 */
	uint64_t start_ns; /* of the first run */
	uint64_t cpu_ns;   /* that was used before */
	uint64_t shown_ns;
	size_t width; /* of what the terminal shows; 0: nothing */
	int terminal; /* else nothing is shown */
};

void progress_init(struct progress *progress, fk_client *client, const char *task, uint32_t runs);

/* The next run begins. */
void progress_next(struct progress *progress);

/* Waits for its job as fk_wait() does. timeout_ns: not 0. */
int progress_wait(struct progress *progress, fk_job job, uint64_t timeout_ns);

/* Removes the line, before anything else is written. */
void progress_clear(struct progress *progress);
