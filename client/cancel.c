/* SPDX-License-Identifier: MIT */
/*
 * client/cancel.c - asking forkd to end a job
 *
 * WHAT IT IS
 *   The one message that a client sends after its HELLO. It has no answer but the job's outcome.
 *	client --PROTO_CANCEL--> manager --PROTO_POOL_CANCEL--> pool
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Any number of threads on one client: a message is one packet.
 *
 * INVARIANTS
 *   I1. It never blocks. The manager reads a message of each client at a time, so a client that
 *       asks faster than that finds its own socket full.
 *   I2. The message names the generation. It may arrive when the record has another job: then it
 *       is nobody's.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   Daemon: -ECONNRESET. Pool: a cancel that it had and the next one has not is forgotten.
 */
#include "client/client.h"

#include <errno.h>

#include "shm/proto.h"

int fk_cancel(fk_client *client, fk_job job)
{
	struct proto_cancel cancel = {
		.head = { PROTO_MAGIC, PROTO_CANCEL },
		.job = (uint32_t)(job & 0xffffu),
		.generation = (uint32_t)(job >> 16),
	};
	int err = client_check(client);

	if (err)
		return err;
	if (!client_slot(client, job))
		return -ESTALE;
	if (job_outcome(client_job(client, job)) != JOB_PENDING)
		return 0;
	/* Relaxed: never goes back. */
	if (atomic_load_explicit(&client->gone, memory_order_relaxed))
		return -ECONNRESET;
	err = proto_send(client->fd, &cancel, sizeof(cancel), NULL, 0);
	if (!err)
		return 0;
	/* What a socket says besides is that there is no memory to send with, now. */
	return err == -EPIPE || client_gone(client) ? -ECONNRESET : -EAGAIN;
}
