/* SPDX-License-Identifier: MIT */
/* program_tasks.h - the tasks that every pool of a program has: they call tasks of the program */
#pragma once

#include <stdint.h>

#include <forkd/task.h>

/* Bytes of arguments that a job's record has room for: FK_SUBMIT(). */
#define PROGRAM_ARGS 64u

/* The packed arguments of program:call and program:start, as shm/signature.h packs them. */
struct program_call {
	void (*enter)(struct fk_worker *w, char *sp, void *result, const void *args);
	const struct fk_task *task;
	void *result;
	const void *args; /* NULL: they follow */
	unsigned char copy[PROGRAM_ARGS];
};

/* Bytes of a call without a copy of the arguments. */
#define PROGRAM_CALL offsetof(struct program_call, copy)

/* Places of the tasks on the board: the module is the first one of its pool. */
enum {
	PROGRAM_RUN,   /* program:call */
	PROGRAM_START, /* program:start */
	PROGRAM_TASKS, /* their number */
};

extern const struct fk_module program_module;
