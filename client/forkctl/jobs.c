/* SPDX-License-Identifier: MIT */
/*
 * jobs.c - forkctl jobs: lists the jobs in the pool
 *
 * The manager lists them, because no client can read the pool's ledger. The board has their clients
 * and the workers that run them now.
 */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/listing.h"
#include "client/lib/client_state.h"
#include "shm/job.h"
#include "shm/proto.h"

#include <inttypes.h>
#include <stdio.h>

#include "client/forkctl/control.h"
#include "client/forkctl/board_rows.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"

static const struct out_column jobs_columns[] = {
	{ "id", "JOB", OUT_TEXT },
	{ "pid", "PID", OUT_NUMBER },
	{ "user", "USER", OUT_TEXT },
	{ "command", "COMMAND", OUT_TEXT },
	{ "state", "STATE", OUT_TEXT },
	{ "age_ns", "AGE", OUT_TIME },
	{ "on", "WORKERS", OUT_NUMBER },
	{ "task", "TASK", OUT_TEXT },
	{ NULL },
};

/* The workers that run strands of a job right now. */
static json_t *workers_on(const struct board *board, const struct proto_job *job)
{
	json_t *workers = json_array();

	for (uint32_t i = 0; i < min(board->manager.n_workers, LIMIT_WORKERS); i++)
		if (LOAD(board->running[i].job) == job->client * board->manager.jobs_max + job->job)
			(void)json_array_append_new(workers, out_number(i));
	return workers;
}

static json_t *job_row(const struct board *board, const struct proto_job *job)
{
	const struct board_client *c = &board->clients[job->client];
	uint64_t handle = job_handle(job->generation, job->job), now = clock_ns();
	json_t *workers = workers_on(board, job);
	json_t *row = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id",
				json_sprintf("%" PRIu32 ".%" PRIu64, job->client, handle), "client",
				out_number(job->client), "job", out_number(handle), "pid",
				out_number(LOAD(c->pid)), "uid", out_number(LOAD(c->uid)), "user",
				rows_user(LOAD(c->uid)), "command", rows_command(c));
	json_t *state = json_pack("{s:s, s:o, s:o, s:o, s:o}", "state",
				  job->worker == UINT32_MAX ? "queued" : "running", "age_ns",
				  out_number(now > job->drained_ns ? now - job->drained_ns : 0),
				  "workers", workers, "on", out_number(json_array_size(workers)),
				  "task", rows_task(board, job->task));

	(void)json_object_update_new(row, state);
	return row;
}

/* *ret_n: the number of jobs; there may be fewer rows. */
static int job_rows(const char *socket, const struct board *board, json_t **ret_rows,
		    uint64_t *ret_n)
{
	_cleanup_fclose_ FILE *file = NULL;
	struct proto_job job;
	json_t *rows;
	int err = forkctl_fetch(socket, PROTO_JOBS, ret_n, &file);

	if (err)
		return err;
	rows = json_array();
	while (fread(&job, sizeof(job), 1, file) == 1)
		if (job.client < LIMIT_CLIENTS)
			(void)json_array_append_new(rows, job_row(board, &job));
	*ret_rows = rows;
	return 0;
}

const struct forkctl_option forkctl_jobs_options[] = {
	LISTING_JSON(0), LISTING_NO_HEADER(0), LISTING_QUIET(0),
	LISTING_USER,	 LISTING_CLIENT,       LISTING_STATE("queued|running"),
	{ 0 },
};

int forkctl_jobs(const char *socket, int argc, char *argv[])
{
	_cleanup_json_ json_t *rows = NULL;
	fk_client *client;
	uint64_t n, more;
	struct listing l;
	int err = listing_open(socket, forkctl_jobs_options, true, argc, argv, &l, &client);

	if (err)
		return err;
	err = job_rows(socket, client->board, &rows, &n);
	(void)fk_close(client);
	if (err)
		return err;
	more = n - min(n, (uint64_t)json_array_size(rows));
	listing_select(&l, rows, "task");
	if (l.json)
		return out_print_json(json_pack("{s:o, s:O}", "total", out_number(n), "jobs", rows),
				      2);
	listing_print(&l, "", rows, jobs_columns);
	if (more)
		(void)forkctl_fail(0, "forkd has %" PRIu64 " more job%s, not listed", more,
				   forkctl_plural(more));
	return FORKCTL_OK;
}
