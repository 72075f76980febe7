/* SPDX-License-Identifier: MIT */
/*
 * job_input.h - a job's input and buffers: checked, and copied in and out
 *
 * When a job starts, its task, its arguments, and copies of referenced data are taken out of the
 * client's job record (shm/job.h). Buffers are not copied if the task works in place. When the task
 * has ended, changed copies are written back.
 *
 * Threads: job.c: input_load() on the worker that starts the job, the others on the one that ends
 * it; each of them runs the job then (stack_bill()).
 *
 * INVARIANTS
 *   I1. Every word of the record is loaded once, checked, and used from the copy.
 *   I2. All copies of a job are one block of the arena, which is charged to the job while it exists
 *       (stacklet.h, I3). Copies that fit into INPUT_ROOM are instead after the root's frame, on
 *       the first stacklet of its stack, and cost nothing.
 *
 * If the client dies: its segment stays mapped while the job runs (clients.h, I1).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/host/module.h"
#include "daemon/core/task_permission.h"
#include "daemon/core/clients.h"
#include "daemon/core/stacklet.h"

#define INPUT_ROOM 1024u /* bytes after the root's frame */

struct record {
	const struct module_task *task;
	uint32_t index; /* of the task, on the board */
	char *copies;	/* all copies, one after the other, if any */
	uint64_t size;	/* bytes of all copies */
	/* by argument: address in the client's heap, if the task gets a copy */
	void *originals[SIGNATURE_MAX_ARGS];
	uint64_t args[LIMIT_ARGS / 8]; /* as the task gets them */
	uint64_t result[LIMIT_RESULT / 8];
};

/*
 * Checks the record and copies it. Returns 0, or the code that the job fails with: -FK_E_TASK_GONE
 * (no such task, or it has changed), -FK_E_DENIED or -EKEYREVOKED (refused: task_permission.h),
 * -FK_E_SIGNATURE (wrong size of arguments), -FK_E_REFERENCE (invalid reference), -EROFS (an iobuf
 * in an import), -FK_E_COPIES (more than the job may hold); then nothing is held.
 * top: the end of the root's frame, followed by INPUT_ROOM free bytes; set to the place where its
 * children may begin.
 */
int input_load(struct record *record, const struct modules *modules,
	       const struct permission *permit, const struct client_entry *client, struct job *job,
	       struct stack_cache *cache, char **top);

/* True if the task may have changed copies that the client must get. */
bool input_has_changes(const struct record *record);

/* Writes these copies back into the client's heap. The job's row is COPYING (shm/ledger.h, I6). */
void input_write_back(struct record *record);

/* Frees the copies. */
void input_unload(struct record *record, struct stack_cache *cache);
