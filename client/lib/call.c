/* SPDX-License-Identifier: MIT */
/*
 * call.c - submissions and calls with the types of their arguments: the functions behind the macros
 *
 * A job without options uses the faster path of submit.c. One with options is a batch of one.
 */
#include "client/lib/client.h"

#include <errno.h>
#include <string.h>

#include "client/lib/events.h"
#include "common/util.h"

/* Submits a job. args_check() has accepted the arguments. */
static int submit_typed(fk_client *client, const fk_task *task,
			const struct fk_job_options *options, unsigned int flags, fk_job *ret_job,
			const union fk_value *values)
{
	size_t n = task->signature.n_args;
	struct fk_request request;
	fk_job job;
	int err;

	if (likely(!options))
		return fk_submit_values(client, task, values, n, flags, ret_job);
	request = (struct fk_request){
		.task = task, .values = values, .size = n, .options = *options
	};
	flags |= options->flags & FK_WAIT_ROOM;
	request.options.flags |= flags;
	request.options.flags &= ~FK_WAIT_ROOM;
	if (!ret_job && !events_wanted(&request.options))
		return error_say(-FK_E_NULL,
				 "%s: ret_job is NULL, but the job has no on_completion() and no "
				 "FK_WATCH",
				 task->name);
	err = fk_submit_batch(client, &request, 1, flags & FK_WAIT_ROOM, &job);
	if (!err && ret_job)
		*ret_job = job;
	return err;
}

int fk_submit_typed(fk_client *client, const fk_task *task, const struct fk_job_options *options,
		    unsigned int flags, fk_job *ret_job, uint64_t types,
		    const union fk_value *values)
{
	int err = args_check(task, types, 0, 0);

	if (err)
		return err;
	return submit_typed(client, task, options, flags, ret_job, values);
}

int call_finish(fk_client *client, fk_job job, const char *name, void *result, size_t size)
{
	int err = fk_wait(client, job, FK_FOREVER);

	if (err) {
		(void)error_of_task(client, err, name);
	} else {
		err = fk_result(client, job, result, size);
		if (err)
			(void)error_name(err, name);
	}
	(void)fk_release(client, job);
	return err;
}

int fk_call_typed(fk_client *client, const char *name, const struct fk_job_options *options,
		  uint64_t types, const union fk_value *values, void *result, size_t size)
{
	uint8_t copy[LIMIT_RESULT];
	const fk_task *task;
	fk_job job;
	int err;

	err = fk_task_find(client, name, &task);
	if (err)
		return err;
	err = args_check(task, types, result != NULL, size);
	if (err)
		return err;
	if (unlikely(options && events_wanted(options)))
		return error_say(-FK_E_OPTIONS,
				 "%s: a call waits for its job itself, without a callback", name);
	err = submit_typed(client, task, options, FK_WAIT_ROOM | FK_COPY_BUFFERS, &job, values);
	if (err)
		return err;
	err = call_finish(client, job, name, copy, sizeof(copy));
	if (!err && result)
		memcpy(result, copy, task->signature.results_size);
	return err;
}

int fk_call_async_typed(fk_client *client, const char *name,
			void (*on_completion)(fk_client *client, fk_job job, void *data),
			void *data, uint64_t types, const union fk_value *values)
{
	const struct fk_job_options options = {
		.on_completion = on_completion,
		.data = data,
		.flags = FK_RELEASE,
	};
	const fk_task *task;
	int err = fk_task_find(client, name, &task);

	if (err)
		return err;
	return fk_submit_typed(client, task, &options, FK_WAIT_ROOM | FK_COPY_BUFFERS, NULL, types,
			       values);
}
