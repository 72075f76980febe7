/* SPDX-License-Identifier: MIT */
/* create.h - the record of a fiber, and its stack */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fiber;
struct scope;
struct fiber_stack;
struct fk_task;
struct pool;
struct worker;

/* The parameters of a fiber. */
struct fiber_plan {
	const struct fk_task *task; /* of its fiber frame */
	void (*fn)(void *arg);
	void *arg;
	const char *name;
	uint32_t kind; /* FK_STACK_... */
	size_t stack;  /* bytes */
	size_t room;   /* bytes reserved at the high end of its stack */
};

/*
 * Reserves memory for all fibers, at the first call: before there are workers, or for the first
 * fiber. Returns 0, or a negative errno: there are no stacks, and fiber tasks fail with that error.
 * Any thread, after layout_make(). The poller of input and output is made later: io.h.
 */
int fibers_reserve(struct pool *pool);

/* Makes a fiber of the worker's job, in no list yet. Returns 0 or a negative errno. */
int fiber_new(struct worker *worker, struct scope *scope, const struct fiber_plan *plan,
	      struct fiber **ret_fiber);

/* Frees a fiber that is in no list, with its stack. */
void fiber_free(struct worker *worker, struct fiber *fiber);

/* Prepares a fiber that is on no stack to begin on the lowest size bytes of this one. */
void fiber_begin_on(struct fiber *fiber, struct fiber_stack *stack, size_t size);
