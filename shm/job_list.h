/* SPDX-License-Identifier: MIT */
/* job_list.h - the file with the jobs of a pool that PROTO_JOBS requests */
#pragma once

#include <stdint.h>
#include <stdio.h>

struct arena;
struct job;

/* A client with jobs. */
struct job_list_client {
	uint32_t slot;
	uint32_t generation;
	uint64_t row;	 /* of its first job */
	uint32_t n_jobs; /* records in its table */
	const struct job *jobs;
};

/* Writes the jobs of a client whose rows have this state to a file, as struct proto_job, and adds
 * their number to *n. With n, the file has PROTO_MAX_TOLD at most. state: LEDGER_RUNNING for all
 * that have begun, or LEDGER_QUEUED. The client and the tasks can write what this reads. */
void job_list_write(FILE *file, struct arena *arena, const struct job_list_client *client,
		    uint32_t state, uint64_t *n);
