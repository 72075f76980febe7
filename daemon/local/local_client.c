/* SPDX-License-Identifier: MIT */
/*
 * local_client.c - clients of this process's pool, and calls of the program's own tasks
 *
 * The client library works as with the machine's forkd. Its messages go to local_send() instead of
 * the socket.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <forkd/pool.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/call_frame.h"
#include "daemon/local/local_pool.h"
#include "daemon/local/program_tasks.h"
#include "shm/proto.h"

/* struct waker_local.send */
static int local_send(struct waker *waker, const void *message)
{
	const struct fk_client *client = container_of(waker, struct fk_client, waker);
	const struct proto_head *head = message;
	const struct proto_cancel *cancel = message;

	if (head->type == PROTO_CANCEL)
		local_pool_cancel(client->id, cancel->job, cancel->generation);
	else if (head->type == PROTO_RING)
		local_pool_ring();
	/* PROTO_GROW: a heap has its largest size from the start. */
	return 0;
}

/* struct waker_local.wake */
static void local_wake(struct waker *waker, uint32_t worker)
{
	(void)waker;
	local_pool_wake(worker);
}

/* struct waker_local.close */
static void local_close(struct waker *waker)
{
	local_pool_close(container_of(waker, struct fk_client, waker)->id);
}

/* struct waker_local.import */
static void local_import(struct waker *waker, char *base)
{
	local_pool_import(container_of(waker, struct fk_client, waker)->id, base);
}

/* struct waker_local.is_worker */
static int local_is_worker(void)
{
	return worker_self() != NULL;
}

static const struct waker_local local_waker = {
	.wake = local_wake,
	.send = local_send,
	.close = local_close,
	.import = local_import,
	.is_worker = local_is_worker,
	.n_tasks = PROGRAM_TASKS,
};

static bool local_options_are_valid(const struct fk_local_options *options)
{
	uint64_t all = options->reserved0 | (options->flags & ~FK_NO_SIGNAL);

	for (size_t i = 0; i < ARRAY_SIZE(options->reserved); i++)
		all |= options->reserved[i];
	return !all;
}

/* Sets the text of an error of local_pool_open(). Returns err. */
static int local_not_opened(int err, const char *socket)
{
	switch (err) {
	case -EBUSY:
		return error_say(err, "too many clients of this process are open: use one for all "
				      "threads");
	case -EAGAIN:
		return error_say(err, "cannot start the threads of a pool: raise the limits on "
				      "threads and address space (ulimit -u, ulimit -v, pids.max), "
				      "or use fewer workers");
	case -ENOMEM:
		return error_say(err, "no memory or address space for a pool: raise ulimit -v, or "
				      "use a smaller heap_size");
	default:
		return error_say(err, "cannot start a pool in this process%s%s: %s",
				 socket ? " with the socket " : "", socket ? socket : "",
				 strerrordesc_np(-err));
	}
}

int fk_open_local(const struct fk_local_options *options, fk_client **ret_client)
{
	static const struct fk_local_options defaults;
	struct client_place place;
	uint32_t slot;
	int err;

	if (!options)
		options = &defaults;
	if (!local_options_are_valid(options))
		return error_say(-FK_E_RESERVED,
				 "a reserved field or an unknown flag of struct fk_local_options "
				 "is not 0: use a designated initializer");
	if (options->workers > LIMIT_WORKERS || options->n_jobs > LOCAL_JOBS_MAX ||
	    options->heap_size > LIMIT_HEAP)
		return error_say(-EINVAL,
				 "a pool has at most %u workers, and a client %u jobs and %llu "
				 "bytes of heap",
				 LIMIT_WORKERS, LOCAL_JOBS_MAX, (unsigned long long)LIMIT_HEAP);
	err = local_pool_open(options, &slot, &place);
	if (err)
		return local_not_opened(err, options->socket);
	place.local = &local_waker;
	err = client_open_in_process(&place, ret_client);
	if (!err)
		return 0;
	local_pool_close(slot);
	return error_say(err, "out of memory");
}

static int local_open_by_name(const struct fk_open_options *options, fk_client **ret_client)
{
	/* The heap of a local client does not grow. */
	const struct fk_local_options local = {
		.n_jobs = options->n_jobs,
		.heap_size = max(options->heap_size, LOCAL_HEAP),
	};

	return fk_open_local(&local, ret_client);
}

__attribute__((constructor)) static void local_offer(void)
{
	client_open_local = local_open_by_name;
}

static int local_check(const fk_client *client)
{
	int err;

	if (!client)
		return error_say(-FK_E_NULL, "client is NULL: pass one of fk_open_local(), except "
					     "for loops and calls within a task");
	err = client->waker.local == &local_waker ? client_check(client) : -FK_E_NOT_LOCAL;
	return err ? error_of_task(client, err, "") : 0;
}

int fk_load(fk_client *client, const char *path)
{
	char error[512] = "";
	int err = local_check(client);

	if (err)
		return error_name(err, "fk_load");
	err = local_pool_load(path, error, sizeof(error));
	return err ? error_say(err, "%.200s: %s", path, *error ? error : fk_strerror(err)) : 0;
}

/* Submits a call of a task of the program. own: the task of the pool that makes it. */
static int local_start_call(fk_client *client, uint32_t own, const struct program_call *call,
			    size_t size, fk_job *ret_job)
{
	const fk_task *task;
	int err = task_own(client, own, &task);

	return err ? error_of_task(client, err, "")
		   : fk_submit_packed(client, task, call, size, FK_WAIT_ROOM, ret_job);
}

int fk_run_task(fk_client *client, const struct fk_program_task *task, void *result,
		const void *args)
{
	/* A task without a result writes none. */
	const struct program_call call = { task->enter, task->task, result, .args = args };
	const char *name = task->task->name;
	struct worker *w = worker_self();
	fk_job job = 0;
	int err;

	if (w && nested_shares_stack(w, args, task->args_size)) {
		err = error_say(-EINVAL, "an argument is on the caller's shared stack");
		return error_name(err, name);
	}
	if (w) {
		err = nested_call(w, task->enter, task->task, result, task->result_size, args);
		return err ? error_of_task(client, err, name) : 0;
	}
	err = local_check(client);
	if (!err)
		err = local_start_call(client, PROGRAM_RUN, &call, PROGRAM_CALL, &job);
	return err ? error_name(err, name) : call_finish(client, job, name, NULL, 0);
}

int fk_submit_task(fk_client *client, const struct fk_program_task *task, void *result,
		   const void *args, fk_job *ret_job)
{
	struct program_call call = { task->enter, task->task, result, .args = NULL };
	int err = local_check(client);

	if (!err && task->args_size > sizeof(call.copy))
		err = error_say(-EINVAL, "more than %u bytes of arguments: pass a pointer",
				PROGRAM_ARGS);
	if (!err) {
		memcpy(call.copy, args, task->args_size);
		err = local_start_call(client, PROGRAM_START, &call, sizeof(call), ret_job);
	}
	return err ? error_name(err, task->task->name) : 0;
}
