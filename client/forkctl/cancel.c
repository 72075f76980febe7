/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - forkctl cancel: ends jobs of any client
 *
 * A job is CLIENT.JOB: the number of the connection, and the handle that the client process has of
 * the job (fk_job). The handle contains the generation of the job's record, so that a cancel never
 * ends the next job of the same record.
 */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/lib/client_state.h"
#include "shm/proto.h"

#include <inttypes.h>
#include <stdio.h>

#include "client/forkctl/board_rows.h"
#include "client/forkctl/control.h"
#include "common/number.h"

/* Reads CLIENT or CLIENT.JOB. Returns 0 or an exit code. */
static int cancel_parse(const char *text, struct proto_ask *ret_ask)
{
	uint64_t client, job = UINT64_MAX;
	const char *rest;
	int bad = number_parse(text, 10, &client, &rest) < 0 || client >= LIMIT_CLIENTS;

	if (!bad && *rest == '.')
		bad = number_parse(rest + 1, 10, &job, &rest) < 0 || job >> 40 || !(job >> 16);
	if (bad || *rest)
		return forkctl_fail(FORKCTL_USAGE,
				    "cancel: %.64s is neither a job, such as 3.65536, nor the "
				    "number of a client: `forkctl jobs` and `forkctl clients` "
				    "list them",
				    text);
	*ret_ask = (struct proto_ask){
		.client = (uint32_t)client,
		.job = job == UINT64_MAX ? PROTO_EVERY_JOB : (uint32_t)(job & 0xffff),
		.generation = job == UINT64_MAX ? 0 : (uint32_t)(job >> 16),
	};
	return 0;
}

/* text: for messages. Returns an exit code. */
static int cancel_one(const char *socket, const struct board *board, const char *text)
{
	const struct board_client *c;
	struct proto_ask ask;
	uint64_t n;
	int err = cancel_parse(text, &ask);

	if (err)
		return err;
	/* The manager compares the generation. So if this client has left by then, the jobs of the
	 * next client with this number are not cancelled. */
	c = &board->clients[ask.client];
	if (!LOAD(c->pid) || LOAD(c->left_ns))
		return forkctl_fail(FORKCTL_FAILED,
				    "cancel: there is no client %" PRIu32
				    ": `forkctl clients` lists them",
				    ask.client);
	ask.client_generation = LOAD(c->generation);
	err = forkctl_cancel_for(socket, &ask, &n);
	if (err)
		return err;
	if (!n && ask.job == PROTO_EVERY_JOB)
		return forkctl_fail(FORKCTL_FAILED, "cancel: client %" PRIu32 " has no jobs",
				    ask.client);
	if (!n)
		return forkctl_fail(FORKCTL_FAILED,
				    "cancel: there is no job %s, or it has ended: `forkctl jobs` "
				    "lists the others",
				    text);
	if (ask.job == PROTO_EVERY_JOB)
		printf("cancelled %" PRIu64 " job%s of client %" PRIu32 "\n", n, forkctl_plural(n),
		       ask.client);
	else
		printf("cancelled job %s\n", text);
	return FORKCTL_OK;
}

int forkctl_cancel_jobs(const char *socket, int argc, char *argv[])
{
	struct proto_ask ask;
	fk_client *client;
	int err = 0;

	if (argc < 2)
		return forkctl_fail(FORKCTL_USAGE,
				    "cancel: name jobs as CLIENT.JOB, or a CLIENT for all of its "
				    "jobs: `forkctl jobs` and `forkctl clients` list them");
	/* Nothing is cancelled if one of the arguments is malformed. */
	for (int i = 1; !err && i < argc; i++)
		err = cancel_parse(argv[i], &ask);
	if (!err)
		err = forkctl_open_machine(socket, 1, FORKCTL_HEAP_SMALL, &client);
	if (err)
		return err;
	for (int i = 1; i < argc; i++)
		err = max(err, cancel_one(socket, client->board, argv[i]));
	(void)fk_close(client);
	return err;
}
