/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - asking forkd to end a job
 *
 * A word in the job's record, and a message. Neither has an answer but the job's outcome.
 * 	client --PROTO_CANCEL--> manager --PROTO_POOL_CANCEL--> pool
 *
 * INVARIANTS
 *   I1. It never blocks. The manager reads a message of each client at a time, so a client that
 *       asks faster than that finds its own socket full.
 *   I2. The message names the generation. It may arrive when the record has another job: then it
 *       is ignored.
 *   I3. The word comes first (shm/job.h, I5). The message makes it fast.
 *   I4. The word is 0 again before its generation comes round: its slot is marked as one with
 *       options, and the release of the record clears it (submit.c, I2). If that happens right now,
 *       and the word is written after the clearing, the new generation is seen behind it, and the
 *       word is taken back. If the mark was not seen it stays for the next release.
 *
 * If a peer dies: daemon: -ECONNRESET. Pool: the next one finds the word, also where the message
 * was not sent (-EAGAIN).
 */
#include "client/lib/client.h"

#include <errno.h>

#include "common/crash_site.h"
#include "common/relaxed.h"
#include "shm/proto.h"

/* The record's word. False: the record is another job's by now. */
static int cancel_write(fk_client *client, fk_job job)
{
	struct client_slot *slot = client_slot(client, job);
	uint32_t generation = client_generation(job);

	if (!slot)
		return 0;
	/* ORDER cancel/word [V4]: before the message goes to the kernel, which orders it. Pairs
	 * with job_is_unwanted(). */
	if (!job_want_end(client_job(client, job), generation))
		return 0;
	FK_CRASH(cancel_wanted);
	/* Relaxed: a release that does not see it is followed by one that does (I4). */
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
	/* Of a job that has ended nothing is left to cancel, whether it was spilled or not. */
	if (client_outcome_in_table(client, job) != JOB_PENDING || !cancel_write(client, job))
		return client_outcome(client, job) == -ESTALE ? -ESTALE : 0;
	if (client_is_gone(client))
		return -ECONNRESET;
	/* Relaxed: waker_ring(). */
	store_relaxed(&client->waker.cancels, 1);
	FK_CRASH(cancel_written);
	err = proto_send(client->fd, &cancel, sizeof(cancel), NULL, 0);
	FK_CRASH(cancel_sent);
	if (!err)
		return 0;
	/* What a socket says besides is that there is no memory to send with, now. */
	return err == -EPIPE || client_gone(client) ? -ECONNRESET : -EAGAIN;
}
