/* SPDX-License-Identifier: MIT */
/*
 * daemon/record.h - a job's record as its task sees it: checked, and copied in and out
 *
 * WHAT IT IS
 *   What is taken out of a client's job record (shm/job.h) when the job starts: the task that it
 *   wants, its arguments, and copies of what they refer to, but for buffers of a task that works on
 *   the client's own memory. And the way back, when the task has done its work.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   root.c: record_load() on the worker that starts the job, the others on the one that ends it.
 *
 * INVARIANTS
 *   I1. Every word of the record is loaded once, checked, and used from the copy.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The client: its segment stays mapped while the job runs (registry.h, I1).
 */
#ifndef DAEMON_RECORD_H
#define DAEMON_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/module.h"
#include "daemon/registry.h"

struct record {
	const struct module_task *task;
	uint32_t index; /* of the task, on the board */
	char *copies;	/* all of them, one behind the other; NULL: there are none */
	/* by argument: what stands in the client's heap, where the task sees a copy of it */
	void *originals[SIGNATURE_MAX_ARGS];
	uint64_t args[LIMIT_ARGS / 8]; /* as the task sees them */
	uint64_t result[LIMIT_RESULT / 8];
};

/*
 * Checks the record and copies it. Returns 0, or the code that the job fails with: -ENOENT or
 * -ESTALE (no such task, or another by now), -EINVAL (arguments of another size), -EFAULT (a bad
 * reference), -ENOMEM; then nothing is held.
 */
int record_load(struct record *record, const struct modules *modules,
		const struct registry_client *client, struct job *job);

/* Writes copies of buffers that the task may have changed back into the client's heap. */
void record_write_back(struct record *record);

/* Gives the copies back. */
void record_unload(struct record *record);

#endif
