/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - asks forkd to end a job
 *
 * A word in the job's record and a message. The only answer to both is the job's outcome.
 * 	client --PROTO_CANCEL--> manager --PROTO_POOL_CANCEL--> pool
 *
 * INVARIANTS
 *   I1. It never blocks. The manager reads one message of each client in turn, so a client that
 *       cancels faster only fills its own socket.
 *   I2. The message names the generation. It is ignored if the record has a later job by then.
 *   I3. The word is written first (shm/job.h, I5). The message only speeds up the cancellation.
 *   I4. The word is cleared before its generation number is used again. The slot is marked as one
 *       with options, so the release of the record clears the word (submit.c, I2). A concurrent
 *       release may clear the word before it is written here. Then the new generation is seen after
 *       the write, and the word is cleared here. A mark that the release has not seen stays for the
 *       next one.
 *
 * If the daemon dies: -ECONNRESET. If the pool dies, the next pool finds the word, even if the
 * message was not sent (-FK_E_REQUESTS_FULL).
 */
#include "client/lib/client.h"

#include <errno.h>

#include "common/crash_site.h"
#include "common/relaxed.h"
#include "shm/proto.h"

/* Writes the record's word. False if the record has a later job by now. */
static int cancel_write(fk_client *client, fk_job job)
{
	struct client_slot *slot = client_slot(client, job);
	uint32_t generation = client_generation(job);

	if (!slot)
		return 0;
	/* ORDER cancel/word [V4]: written before the message is sent; the kernel orders both. Pairs
	 * with job_is_unwanted(). */
	if (!job_want_end(client_job(client, job), generation))
		return 0;
	FK_CRASH(cancel_wanted);
	/* Relaxed: if a release does not see the mark, a later release does (I4). */
	atomic_fetch_or_explicit(&slot->options, CLIENT_OPTIONS, memory_order_relaxed);
	if (client_slot(client, job))
		return 1;
	job_unwant_end(client_job(client, job), generation);
	return 0;
}

int fk_cancel(fk_client *client, fk_job job)
{
	struct proto_cancel cancel = {
		.head = { PROTO_MAGIC, PROTO_CANCEL },
		.job = (uint32_t)(job & 0xffffu),
		.generation = client_generation(job),
	};
	int err = client_check(client);

	if (err)
		return err;
	/* A job that has ended cannot be cancelled, whether it was spilled or not. */
	if (client_outcome_in_table(client, job) != JOB_PENDING || !cancel_write(client, job))
		return client_outcome(client, job) == -ESTALE ? -ESTALE : 0;
	if (client_is_gone(client))
		return -ECONNRESET;
	/* Relaxed: see waker_ring(). */
	store_relaxed(&client->waker.cancels, 1);
	FK_CRASH(cancel_written);
	err = waker_send(&client->waker, &cancel, sizeof(cancel));
	FK_CRASH(cancel_sent);
	if (!err)
		return 0;
	/* Other errors mean a full socket or, for now, no memory to send. */
	return err == -EPIPE || client_gone(client) ? -ECONNRESET : -FK_E_REQUESTS_FULL;
}
