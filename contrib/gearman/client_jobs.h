/* SPDX-License-Identifier: MIT */
/* client_jobs.h - the thread of a cluster: from job records to servers and back */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cluster;

/* The thread; arg: a struct cluster. Returns when is_ending is set. */
void *jobs_main(void *arg);

/* Wakes the thread. Any thread. */
void jobs_wake(struct cluster *cluster);

/* Copies the text of a job's outcome. Returns false if there is none. Any thread. */
int jobs_text(struct cluster *cluster, uint32_t index, uint32_t generation, char *text,
	      size_t size);

/* Frees all calls, after the thread has ended. */
void jobs_fini(struct cluster *cluster);
