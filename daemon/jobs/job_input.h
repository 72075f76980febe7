/* SPDX-License-Identifier: MIT */
/*
 * job_input.h - a job's record as its task sees it: checked, and copied in and out
 *
 * What is taken out of a client's job record (shm/job.h) when the job starts: the task that it
 * wants, its arguments, and copies of what they refer to, except buffers of a task that works on
 * the client's own memory. And the way back, when the task has done its work.
 *
 * Threads: job.c: input_load() on the worker that starts the job, the others on the one that ends
 * it; both run the job by then (stack_bill()).
 *
 * INVARIANTS
 *   I1. Every word of the record is loaded once, checked, and used from the copy.
 *   I2. All copies of a job are one block of the arena, which is on the job's account as long as it
 *       is there (stacklet.h, I3). What fits into INPUT_ROOM stands behind the root's frame
 *       instead, on the first stacklet of its stack, and costs nothing.
 *
 * If a peer dies: the client: its segment stays mapped while the job runs (clients.h, I1).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/module.h"
#include "daemon/core/task_permission.h"
#include "daemon/core/clients.h"
#include "daemon/core/stacklet.h"

#define INPUT_ROOM 1024u /* bytes behind the root's frame */

struct record {
	const struct module_task *task;
	uint32_t index; /* of the task, on the board */
	char *copies;	/* all of them, one behind the other, if there are any */
	uint64_t size;	/* bytes of these */
	/* by argument: what stands in the client's heap, where the task sees a copy of it */
	void *originals[SIGNATURE_MAX_ARGS];
	uint64_t args[LIMIT_ARGS / 8]; /* as the task sees them */
	uint64_t result[LIMIT_RESULT / 8];
};

/*
 * Checks the record and copies it. Returns 0, or the code that the job fails with: -ENOENT or
 * -ESTALE (no such task, or another by now), -EACCES or -EKEYREVOKED (refused: task_permission.h),
 * -EINVAL (arguments of another size), -EFAULT (a bad reference), -ENOMEM (the job may not have so
 * much); then nothing is held.
 * top: the end of the root's frame, with INPUT_ROOM bytes free behind it; set to where its
 * children may begin.
 */
int input_load(struct record *record, const struct modules *modules,
	       const struct permission *permit, const struct client_entry *client, struct job *job,
	       struct stack_cache *cache, char **top);

/* True if there are copies that the task may have changed, and that the client is to see. */
bool input_has_changes(const struct record *record);

/* Writes these back into the client's heap. The job's row is COPYING (shm/ledger.h, I6). */
void input_write_back(struct record *record);

/* Gives the copies back. */
void input_unload(struct record *record, struct stack_cache *cache);
