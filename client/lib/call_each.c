/* SPDX-License-Identifier: MIT */
/*
 * call_each.c - calls one task for each row of arguments
 *
 * Rows are submitted in batches. Between two batches the results of the jobs that have ended are
 * taken, in order. A long job does not delay later ones: these are spilled when their records are
 * needed (spill.c).
 *
 * Other jobs of the client may hold records and heap memory forever. So a batch does not wait for
 * room: it is halved until it fits. A single row waits for a record and a ring. If the heap has no
 * room for its copies, the call takes the result of its oldest job, which frees the copies of that
 * job. The call fails if it has no such job left.
 */
#include "client/lib/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/util.h"

#define EACH_BATCH  64u			     /* jobs at most */
#define EACH_ARRAYS UINT64_C(0x888888888888) /* FK_TYPE_ARRAY of each argument */

struct each {
	fk_client *client;
	const fk_task *task;
	uint64_t types;
	const union fk_value *values;
	uint8_t *results; /* or NULL */
	size_t result_size;
	fk_job *jobs;
	size_t batch;	/* rows of the next batch, at most */
	size_t n_sent;	/* number of jobs that were submitted */
	size_t n_taken; /* number of jobs whose results were taken, in order */
	int err;	/* of the first job that was not DONE */
	char text[400]; /* of err */
};

/* Returns an argument of row i. */
static union fk_value each_value(const struct each *each, uint32_t arg, size_t i)
{
	union fk_value value = each->values[arg];
	const void *array = value.array;

	switch (ARGS_TYPE(each->types, arg)) {
	case FK_TYPE_ARRAY | FK_TYPE_I64:
		value.i64 = ((const int64_t *)array)[i];
		break;
	case FK_TYPE_ARRAY | FK_TYPE_F64:
		value.f64 = ((const double *)array)[i];
		break;
	case FK_TYPE_ARRAY | FK_TYPE_STR:
		value.str = ((const char *const *)array)[i];
		break;
	case FK_TYPE_ARRAY | FK_TYPE_BUFFER:
		value.buf = ((const struct fk_buffer *)array)[i];
		break;
	}
	return value;
}

/* Submits the next n rows: EACH_BATCH at most. A single row waits for a record and a ring. */
static int each_submit(const struct each *each, size_t n, size_t *ret_failed)
{
	union fk_value values[EACH_BATCH * SIGNATURE_MAX_ARGS];
	struct fk_request requests[EACH_BATCH];
	uint32_t n_args = each->task->signature.n_args;

	for (size_t i = 0; i < n; i++) {
		union fk_value *row = &values[i * n_args];

		for (uint32_t arg = 0; arg < n_args; arg++)
			row[arg] = each_value(each, arg, each->n_sent + i);
		requests[i] = (struct fk_request){
			.task = each->task,
			.values = row,
			.size = n_args,
			.options.flags = FK_COPY_BUFFERS,
		};
	}
	return batch_try(each->client, requests, n, n > 1 ? 0 : FK_WAIT_ROOM,
			 &each->jobs[each->n_sent], ret_failed);
}

/* Keeps the error of row i and its text, unless there is one already. */
static void each_fail(struct each *each, int err, size_t i)
{
	if (each->err)
		return;
	each->err = err;
	(void)snprintf(each->text, sizeof(each->text), "%s: job %zu: %.300s", each->task->name, i,
		       fk_error_text());
}

/* Takes the result of the next job and releases it. wait: waits until it has ended. False if it has
 * not ended. */
static int each_take(struct each *each, int wait)
{
	uint8_t copy[LIMIT_RESULT];
	size_t i = each->n_taken;
	fk_job job = each->jobs[i];
	int err;

	if (!wait && fk_poll(each->client, job) != 1)
		return 0;
	err = fk_wait(each->client, job, FK_FOREVER);
	if (err)
		(void)error_of_task(each->client, err, "");
	else
		err = fk_result(each->client, job, copy, sizeof(copy));
	if (!err && each->results)
		memcpy(each->results + i * each->result_size, copy, each->result_size);
	if (err)
		each_fail(each, err, i);
	(void)fk_release(each->client, job);
	each->n_taken++;
	return 1;
}

/* True if a submission may succeed when jobs of this call have ended. */
static int each_needs_room(int err)
{
	int number = fk_errno(err);

	return number == EAGAIN || number == ENOMEM || number == EDQUOT;
}

/* Submits rows if there is room. If not, halves the batch or takes a job. n: number of all rows. */
static int each_step(struct each *each, size_t n)
{
	size_t some = min(each->batch, n - each->n_sent), failed = 0;
	int err = each_submit(each, some, &failed);

	if (!err) {
		each->n_sent += some;
		each->batch = min(2 * some, min((size_t)EACH_BATCH, (size_t)each->client->n_jobs));
		while (each->n_taken < each->n_sent && each_take(each, 0))
			;
		return 0;
	}
	if (each_needs_room(err) && some > 1) {
		each->batch = some / 2;
	} else if (each_needs_room(err) && each->n_taken < each->n_sent) {
		(void)each_take(each, 1);
	} else {
		each_fail(each, error_of_task(each->client, err, ""), each->n_sent + failed);
		return err;
	}
	return 0;
}

int fk_call_each_typed(fk_client *client, const char *name, size_t n, uint64_t types,
		       const union fk_value *values, void *results, size_t size)
{
	_cleanup_free_ fk_job *jobs = NULL;
	struct each each = { .client = client, .types = types, .values = values };
	int err = fk_task_find(client, name, &each.task);

	if (err)
		return err;
	err = args_check(each.task, types & ~EACH_ARRAYS, results != NULL, size);
	if (err)
		return err;
	each.results = results;
	each.result_size = each.task->signature.results_size;
	each.jobs = jobs = calloc(max(n, (size_t)1), sizeof(*jobs));
	if (!jobs)
		return error_of_task(client, -ENOMEM, name);
	each.batch = min((size_t)EACH_BATCH, (size_t)client->n_jobs);
	while (each.n_sent < n && !err)
		err = each_step(&each, n);
	for (size_t i = each.n_taken; i < each.n_sent && err; i++)
		(void)fk_cancel(client, jobs[i]);
	while (each.n_taken < each.n_sent)
		(void)each_take(&each, 1);
	/* Later jobs may have failed as well, each with a text. */
	return each.err ? error_say(each.err, "%s", each.text) : 0;
}
