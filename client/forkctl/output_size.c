/* SPDX-License-Identifier: MIT */
/*
 * A convention of modules (forkd-modules(7)): for MODULE:TASK there can be one of these tasks,
 * whose first result is the number of bytes:
 *	MODULE:TASK_size	takes the arguments of TASK that are not an iobuf
 *	MODULE:TASK_bound	takes the size of the first buf of TASK
 * The size of the heap must be known before the connection is made, so this uses a separate
 * connection.
 */
#include "client/forkctl/output_size.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/forkctl/common.h"
#include "client/forkctl/case.h"
#include "client/lib/client_state.h"
#include "common/util.h"

/* A call of one of these tasks. */
struct size_call {
	char name[64 + sizeof("_bound")];
	struct forkctl_case arguments;
	char *words[SIGNATURE_MAX_ARGS];
	char digits[24];
};

int size_is_open(const struct forkctl_args *args)
{
	int open = 0;

	for (uint32_t i = 0; i < args->n; i++)
		open |= args->files[i].open;
	return open;
}

/* The only iobuf that is "@:"; NULL: there is none. */
static struct forkctl_file *open_file(const fk_task *task, struct forkctl_args *args, int *ret_err)
{
	struct forkctl_file *file = NULL;

	*ret_err = 0;
	for (uint32_t i = 0; i < args->n; i++) {
		if (!args->files[i].open || task->signature.args[i].type != SIGNATURE_IOBUF)
			continue;
		if (file)
			*ret_err = forkctl_fail(FORKCTL_USAGE,
						"%s: only one iobuf can be @:, give the others "
						"sizes, as @:64K",
						fk_task_name(task));
		file = &args->files[i];
	}
	return file;
}

static void add_word(struct size_call *call, char *word, const struct forkctl_file *file)
{
	struct forkctl_args *args = &call->arguments.args;

	call->words[args->n] = word;
	args->files[args->n++] = *file;
}

/* Finds the task, and sets its arguments. The caller keeps the files. */
static int make_call(struct size_call *call, fk_client *client, const fk_task *task,
		     const struct forkctl_args *args)
{
	const struct signature *signature = &task->signature;
	const fk_task *found;
	uint32_t i;

	call->arguments.args.words = call->words;
	(void)snprintf(call->name, sizeof(call->name), "%s_size", fk_task_name(task));
	if (fk_task_find(client, call->name, &found) == 0) {
		for (i = 0; i < args->n; i++)
			if (signature->args[i].type != SIGNATURE_IOBUF)
				add_word(call, args->words[i], &args->files[i]);
		return 0;
	}
	(void)snprintf(call->name, sizeof(call->name), "%s_bound", fk_task_name(task));
	for (i = 0; i < args->n && signature->args[i].type != SIGNATURE_BUF; i++)
		;
	if (i == args->n || fk_task_find(client, call->name, &found) != 0)
		return forkctl_fail(FORKCTL_USAGE,
				    "%s: how much room it needs no task %s_size or _bound says: "
				    "give a size, as @:64K",
				    fk_task_name(task), fk_task_name(task));
	(void)snprintf(call->digits, sizeof(call->digits), "%zu", args->files[i].size);
	add_word(call, call->digits, &(struct forkctl_file){ 0 });
	return 0;
}

static int run_call(const struct size_call *call, fk_client *client, int64_t *ret_size)
{
	struct forkctl_call_values values;
	struct forkctl_outcome outcome;
	struct forkctl_text text;
	int err = case_open(&call->arguments, client, call->name, &values);

	if (err)
		return err;
	err = case_run(&call->arguments, &values, UINT64_MAX, &outcome);
	if (err)
		return forkctl_fail(FORKCTL_FAILED, "%s", fk_error_text());
	if (outcome.outcome != FK_DONE)
		return forkctl_fail(FORKCTL_FAILED, "%s: %s", call->name,
				    case_outcome(&outcome, &text));
	if (!values.task->signature.n_results ||
	    values.task->signature.results[0].type != SIGNATURE_I64)
		return forkctl_fail(FORKCTL_FAILED,
				    "%s: its first result is no i64: give a size, "
				    "as @:64K",
				    call->name);
	memcpy(ret_size, outcome.result, sizeof(*ret_size));
	if (*ret_size < 0)
		return forkctl_fail(FORKCTL_FAILED, "%s: %" PRId64 " is no size", call->name,
				    *ret_size);
	return 0;
}

static int ask(fk_client *client, const char *name, struct forkctl_args *args)
{
	struct size_call call = { .name = "" };
	struct forkctl_file *file;
	const fk_task *task;
	int64_t size = 0;
	int err = forkctl_find(client, name, "forkctl tasks", &task);

	if (err || args->n != task->signature.n_args)
		return err;
	file = open_file(task, args, &err);
	if (err || !file)
		return err;
	err = make_call(&call, client, task, args);
	if (!err)
		err = run_call(&call, client, &size);
	if (err)
		return err;
	*file = (struct forkctl_file){ .size = (size_t)size };
	return 0;
}

int size_ask(const char *socket, const char *task, struct forkctl_args *args)
{
	fk_client *client;
	int err = forkctl_open(socket, 1, forkctl_args_heap(args), &client);

	if (err)
		return err;
	err = ask(client, task, args);
	(void)fk_close(client);
	return err;
}
