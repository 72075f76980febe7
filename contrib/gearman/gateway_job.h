/* SPDX-License-Identifier: MIT */
/*
 * gateway_job.h - one job of Gearman, from its payload to its answer
 *
 * 	free -> receive -> start -> forkd -> finish -> answer -> free
 *	                   start <- again -/
 *	                   start -> enter -> start
 */
#pragma once

#include <forkd/client.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contrib/gearman/memory.h"
#include "contrib/gearman/payload.h"
#include "contrib/gearman/peer.h"

struct gateway;
struct link;
struct session;

#define GATEWAY_BATCH 32u /* jobs that are started together, at most */

/* What becomes of a job. */
enum verdict {
	VERDICT_RUNS,  /* it continues: at forkd, after gateway_job_start() */
	VERDICT_DONE,  /* there is an answer */
	VERDICT_ENDED, /* there is an exception */
	VERDICT_ENTER, /* it must be entered in the journal, and then started again */
	VERDICT_AGAIN, /* forkd was lost. The job has not begun, or may run twice: start it again */
};

/* A job, or a place for one. One thread at a time uses it. */
struct gateway_job {
	/* constant */
	struct gateway *gateway;
	uint32_t server; /* whose client of a link it uses */
	bool is_listing; /* its function is "MODULE:" */
	_Atomic uint32_t *in_flight;
	/* of the connection */
	struct gateway_job *next;
	struct session *session; /* that has received it */
	/* of the job */
	const char *handle; /* of the server */
	const char *name;
	const char *unique;
	char names[PEER_NAMES]; /* the texts of these */
	struct memory memory;
	uint32_t size; /* bytes of the payload */
	bool is_frame;
	fk_client *client;
	const fk_task *task;
	struct payload payload;
	bool is_parsed; /* the payload must be freed */
	bool idempotent;
	bool entered; /* in the journal: durable, before the job starts */
	bool begun;   /* the task may have run */
	uint32_t tries;
	uint64_t started_ns;
	char *listed; /* an answer that is allocated, or NULL */
	const void *answer;
	size_t answer_size;
	char outcome[16];
	int code;
	char text[PAYLOAD_EXCEPTION];
};

/* in_flight: jobs of the connection that have been started. gateway_job_end() counts one less. */
void gateway_job_init(struct gateway_job *job, struct gateway *gateway, uint32_t server,
		      bool is_listing, _Atomic uint32_t *in_flight);

/*
 * Receives the job of a PACKET_ASSIGN; drops the payload, if there is no memory for it.
 * Returns 0, or a negative errno: the connection must be closed, and there is no job.
 */
int gateway_job_receive(struct gateway_job *job, struct peer *peer, enum verdict *ret_verdict);

/*
 * Submits n jobs, at most GATEWAY_BATCH, to a link; NULL: the gateway stops, and they end.
 * ret_verdicts: what has become of each. With VERDICT_RUNS fk_next_completion() reports it with the
 * job as data. It may do so before this function returns: another thread uses the job then.
 */
void gateway_job_start(struct gateway_job *const *jobs, size_t n, struct link *link,
		       enum verdict *ret_verdicts);

/* Enters n jobs in the journal, at most GATEWAY_BATCH. ret_verdicts: with VERDICT_RUNS a job may
 * start. Waits for the disk. */
void gateway_job_enter(struct gateway_job *const *jobs, size_t n, enum verdict *ret_verdicts);

/* Runs the job of a listing connection: lists the tasks of a module. Waits for a link. */
enum verdict gateway_job_list(struct gateway_job *job);

/* Writes the answer of a job that has ended at forkd. handle: of fk_next_completion(). */
enum verdict gateway_job_finish(struct gateway_job *job, fk_job handle);

/*
 * Sends the answer of a job that is DONE or ENDED, as peer_send() does, and frees the memory of the
 * job. peer: NULL if the connection of the job has ended.
 * Returns 0 or a negative errno: the connection must be closed.
 */
int gateway_job_end(struct gateway_job *job, enum verdict verdict, struct peer *peer);
