/* SPDX-License-Identifier: MIT */
/* spill.h - jobs that have ended, moved out of the job table into private memory */
#pragma once

#include <forkd/client.h>

struct client_end;
struct events_entry;

/*
 * Moves every job that has ended out of the table, and gives the records back. Call it without the
 * lock of events.
 * watch: marks every other job, so that its end is counted (shm/watch.h).
 * Returns the number of jobs that were moved, or -ENOMEM if one could not be moved and none was.
 */
int spill_ended(struct fk_client *client, int watch);

/* The outcome of a job that is not in the table, or -ESTALE, -ECONNRESET as client_outcome(). */
int spill_outcome(struct fk_client *client, fk_job job);

/* Reads the end of a job that is not in the table. result: LIMIT_RESULT bytes, or NULL.
 * Returns 0, -ESTALE, -ECONNRESET. */
int spill_read(struct fk_client *client, fk_job job, struct client_end *ret_end, void *result);

/* Frees a spilled job. Returns 0, or -ESTALE if there is none. */
int spill_release(struct fk_client *client, fk_job job);

/* The entry of a spilled job, or NULL. With the lock of events held. */
struct events_entry *spill_entry(struct fk_client *client, fk_job job);

/* Frees all spilled jobs. No other thread may be in the library. */
void spill_fini(struct fk_client *client);
