/* SPDX-License-Identifier: MIT */
/*
 * parallel.c - loops, reductions and calls of plain C functions
 *
 * Each is a task that divides its range until a part is a leaf, which calls the function.
 */
#include <errno.h>
#include <string.h>

#include <forkd/pool.h>
#include <forkd/task.h>

#include "common/util.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/fiber/call_frame.h"
#include "client/lib/client.h"

#define PARALLEL_PARTS 16   /* of a loop for each worker */
#define PARALLEL_ALONE 4    /* numbers of a part of a short loop, if there is one worker */
#define PARALLEL_MOST  2048 /* numbers of a part */

/* Names the function that the program has called in the text of its error. Returns err. */
static int parallel_name(int err, const char *name)
{
	return err ? error_name(err, name) : 0;
}

/* The functions of a nested call have been called in turn. */
static int parallel_end(const fk_client *client, struct worker *w, const char *name)
{
	return nested_is_over(w) ? error_of_task(client, -ECANCELED, name) : 0;
}

/* The middle of a range of any length. */
static inline int64_t parallel_middle(int64_t first, int64_t last)
{
	return (int64_t)((uint64_t)first + ((uint64_t)last - (uint64_t)first) / 2);
}

/* The length of a part: the rule of Cilk Plus for cilk_for, with twice as many parts. client: as in
 * fk_for(). */
static uint64_t parallel_grain(const fk_client *client, int64_t begin, int64_t end, int64_t grain)
{
	const struct worker *w = worker_self();
	uint64_t n = end > begin ? (uint64_t)end - (uint64_t)begin : 0;
	uint64_t workers = w ? w->pool->n_workers : client ? client->n_workers : 1;
	uint64_t parts = PARALLEL_PARTS * workers;

	if (grain > 0)
		return (uint64_t)grain;
	/* A single worker only takes requests between parts. */
	if (workers == 1 && n < PARALLEL_PARTS * PARALLEL_ALONE)
		return max(min(n / 4, (uint64_t)PARALLEL_ALONE), UINT64_C(1));
	/* Most nested loops are short: no division. */
	return n < 2 * parts ? 1 : min(n / parts, (uint64_t)PARALLEL_MOST);
}

/* ------------------------------------------------------------------------ loops */

struct loop {
	uint64_t grain;
	void (*body)(int64_t first, int64_t last, void *context);
	void *context;
};

/*
 * The range is divided part by part as long as nothing of it is stolen: a part costs one fork of a
 * leaf. A resumed task has been stolen, or can be soon. It divides by halves, so that there are few
 * steals.
 */
FK_TASK(fk_void, loop, (int64_t, first, int64_t, last, const struct loop *, loop), int64_t middle;)
{
	if ((uint64_t)last - (uint64_t)first <= loop->grain) {
		loop->body(first, last, loop->context);
		FK_LEAF();
	}
}
FK_BODY(loop)
{
	while ((uint64_t)self->last - (uint64_t)self->first > self->loop->grain) {
		self->middle = FK_IS_FRESH ? self->first + (int64_t)self->loop->grain
					   : parallel_middle(self->first, self->last);
		FK_FORK_VOID(loop, self->first, self->middle, self->loop);
		self->first = self->middle;
	}
	FK_CALL_VOID(loop, self->first, self->last, self->loop);
	FK_JOIN();
	FK_RETURN();
}
FK_END(loop)

int fk_for_grain(fk_client *client, int64_t begin, int64_t end, int64_t grain,
		 void (*body)(int64_t first, int64_t last, void *context), void *context)
{
	const struct loop l = { parallel_grain(client, begin, end, grain), body, context };
	struct worker *w = worker_self();

	if (begin >= end)
		return 0;
	while (nested_is_alone(w)) {
		int64_t first = begin;

		if ((uint64_t)end - (uint64_t)begin <= l.grain) {
			body(first, end, context);
			return parallel_end(client, w, "fk_for");
		}
		begin += (int64_t)l.grain;
		body(first, begin, context);
	}
	return parallel_name(FK_RUN(client, (void *)NULL, loop, begin, end, &l), "fk_for");
}

struct elements {
	char *array;
	size_t size;
	void (*body)(void *element, void *context);
	void *context;
};

static void parallel_each(int64_t first, int64_t last, void *context)
{
	const struct elements *e = context;

	for (int64_t i = first; i < last; i++)
		e->body(e->array + (size_t)i * e->size, e->context);
}

int fk_for_each(fk_client *client, void *array, size_t n, size_t size,
		void (*body)(void *element, void *context), void *context)
{
	struct elements elements = { array, size, body, context };

	return parallel_name(fk_for(client, 0, (int64_t)n, parallel_each, &elements),
			     "fk_for_each");
}

/* ------------------------------------------------------------------------ reductions */

struct reduce {
	uint64_t grain;
	const struct fk_reduction *reduction;
	void *context;
};

/* Bytes in a frame for a result, which is aligned to 16. For a larger one the task leaves the C
 * stack, to allocate it. */
#define REDUCE_ROOM 136

/* result: has the identity. */
FK_TASK(fk_void, reduce,
	(int64_t, first, int64_t, last, const struct reduce *, reduce, void *, result), void *right;
	char room[REDUCE_ROOM];)
{
	if ((uint64_t)last - (uint64_t)first <= reduce->grain) {
		reduce->reduction->body(first, last, result, reduce->context);
		FK_LEAF();
	}
}
FK_BODY(reduce)
{
	if (self->reduce->reduction->size > REDUCE_ROOM - 8) {
		FK_ALLOC(right, self->reduce->reduction->size);
		if (!self->right)
			FK_RETURN();
	} else {
		self->right = (void *)align_up((uintptr_t)self->room, 16);
	}
	memcpy(self->right, self->reduce->reduction->identity, self->reduce->reduction->size);
	FK_FORK_VOID(reduce, self->first, parallel_middle(self->first, self->last), self->reduce,
		     self->result);
	FK_CALL_VOID(reduce, parallel_middle(self->first, self->last), self->last, self->reduce,
		     self->right);
	FK_JOIN();
	self->reduce->reduction->combine(self->result, self->right, self->reduce->context);
	if (self->reduce->reduction->size > REDUCE_ROOM - 8)
		FK_FREE(right);
	FK_RETURN();
}
FK_END(reduce)

int fk_reduce(fk_client *client, int64_t begin, int64_t end, const struct fk_reduction *reduction,
	      void *ret_result, void *context)
{
	const struct reduce r = {
		parallel_grain(client, begin, end, reduction->grain),
		reduction,
		context,
	};

	memcpy(ret_result, reduction->identity, reduction->size);
	if (begin >= end)
		return 0;
	return parallel_name(FK_RUN(client, (void *)NULL, reduce, begin, end, &r, ret_result),
			     "fk_reduce");
}

/* ------------------------------------------------------------------------ calls */

FK_TASK(fk_void, invoke, (const struct fk_function *, functions, size_t, n), )
{
	if (n == 1) {
		functions->function(functions->context);
		FK_LEAF();
	}
}
FK_BODY(invoke)
{
	FK_FORK_VOID(invoke, self->functions, self->n - self->n / 2);
	FK_CALL_VOID(invoke, self->functions + (self->n - self->n / 2), self->n / 2);
	FK_JOIN();
	FK_RETURN();
}
FK_END(invoke)

int fk_invoke(fk_client *client, const struct fk_function *functions, size_t n)
{
	struct worker *w = worker_self();

	for (; n && nested_is_alone(w); functions++) {
		functions->function(functions->context);
		if (!--n)
			return parallel_end(client, w, "fk_invoke");
	}
	return n ? parallel_name(FK_RUN(client, (void *)NULL, invoke, functions, n), "fk_invoke")
		 : 0;
}
