/* SPDX-License-Identifier: MIT */
/*
 * program_tasks.c - the module "program" of a pool in a program
 *
 * A job of the pool begins with a task that a module exports. The two tasks here take the address
 * of any other task, and its arguments. They have no frame: the task of the program becomes the
 * child of the job's root (daemon/jobs/job.c), and its result goes to the caller's memory.
 */
#include "daemon/local/program_tasks.h"

#include "common/util.h"

static void program_enter(struct fk_worker *w, char *sp, void *result, const void *args)
{
	const struct program_call *call = args;

	(void)result;
	w->slot = (uintptr_t)call->result | FK_CALLED;
	w->child = call->task;
	call->enter(w, sp, call->result, call->args ? call->args : call->copy);
}

/* The words of struct program_call; the last four are those without a copy of arguments. */
static const struct fk_item program_args[] = {
	{ "a", "i64" }, { "b", "i64" }, { "c", "i64" }, { "d", "i64" }, { "e", "i64" },
	{ "f", "i64" }, { "g", "i64" }, { "h", "i64" }, { "i", "i64" }, { "j", "i64" },
	{ "k", "i64" }, { "l", "i64" }, { 0 },
};
_Static_assert(sizeof(struct program_call) == 8 * 12, "one argument a word");

static const struct fk_item program_results[] = { { 0 } };

/* Not called: the two tasks have no frame. */
static struct fk_frame *program_resume(struct fk_worker *w, struct fk_frame *frame)
{
	(void)w;
	return frame;
}

static void program_describe(struct fk_frame *frame, struct fk_child *ret_child)
{
	(void)frame;
	*ret_child = (struct fk_child){ .task = NULL };
}

static const struct fk_task program_task = {
	"(program)", program_resume, program_describe, NULL, sizeof(struct fk_frame),
};

static const struct fk_export program_exports[] = {
	[PROGRAM_RUN] = {
		.name = "call",
		.args = program_args + ARRAY_SIZE(program_args) - 1 - PROGRAM_CALL / 8,
		.results = program_results,
		.help = "A task of this program, for FK_RUN()",
		.enter = program_enter,
		.task = &program_task,
		.args_size = PROGRAM_CALL,
		.frame_size = sizeof(struct fk_frame),
	},
	[PROGRAM_START] = {
		.name = "start",
		.args = program_args,
		.results = program_results,
		.help = "A task of this program, for FK_SUBMIT()",
		.enter = program_enter,
		.task = &program_task,
		.args_size = sizeof(struct program_call),
		.frame_size = sizeof(struct fk_frame),
	},
};

const struct fk_module program_module = {
	FK_ABI_VERSION,	 sizeof(struct fk_frame),
	"program",	 "Calls tasks of this program",
	program_exports, program_exports + ARRAY_SIZE(program_exports),
};
