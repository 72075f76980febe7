/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdlib.h>

#include "tests/bench/kernel.h"
#include "tests/bench/work.h"

/*
 * Purpose
 *   The workloads of an M:N runtime (Ramesh and Chowdhury), as functions that run on separate
 *   stacks: by fibers of forkd, by boost.fiber, by threads. Plain C that is C++ as well. An
 *   including file defines before:
 *
 *       FIBER_GROUP(name)             declares what counts fibers
 *       FIBER_SPAWN(fn, arg, group)   fn(arg) as a fiber, or by the caller if there can be no more
 *       FIBER_WAIT(group)             until all of the group have ended
 *
 * The algorithms
 *   cut_fib       n up to the cutoff: kernel_fib(). Else a fiber for n - 1 and one for n - 2.
 *   cut_nqueens   `most` rows are filled: kernel_queens(). Else a fiber for each place in the next
 *                 row where a queen may be.
 *   steps         in each step of kernel.c a fiber for each part, all of them spawned by one.
 */

struct fiber_fib {
	int64_t n;
	int64_t cutoff;
	int64_t result;
};

static void fiber_fib_run(void *arg)
{
	struct fiber_fib *self = (struct fiber_fib *)arg;
	struct fiber_fib x = { self->n - 1, self->cutoff, 0 };
	struct fiber_fib y = { self->n - 2, self->cutoff, 0 };
	FIBER_GROUP(both);

	if (self->n <= self->cutoff) {
		self->result = kernel_fib(self->n);
		return;
	}
	FIBER_SPAWN(fiber_fib_run, &x, both);
	FIBER_SPAWN(fiber_fib_run, &y, both);
	FIBER_WAIT(both);
	self->result = x.result + y.result;
}

static inline int64_t fiber_cut_fib(int64_t n, int64_t cutoff)
{
	struct fiber_fib root = { n, cutoff, 0 };

	fiber_fib_run(&root);
	return root.result;
}

struct fiber_board {
	struct work_board board;
	int32_t n;
	int32_t rows; /* that have their queens */
	int32_t most; /* rows that are filled by fibers */
	int64_t result;
};

static void fiber_board_run(void *arg)
{
	struct fiber_board *self = (struct fiber_board *)arg;
	struct fiber_board next[WORK_BOARD_MAX];
	int32_t used = 0;
	FIBER_GROUP(all);

	if (self->rows == self->most) {
		self->result = kernel_queens(self->n, self->rows, self->board);
		return;
	}
	for (int32_t i = 0; i < self->n; i++) {
		struct fiber_board *at = &next[used];

		*at = *self;
		at->board.column[self->rows] = (int8_t)i;
		at->rows = self->rows + 1;
		if (!work_board_ok(&at->board, at->rows))
			continue;
		used++;
		FIBER_SPAWN(fiber_board_run, at, all);
	}
	FIBER_WAIT(all);
	self->result = 0;
	for (int32_t i = 0; i < used; i++)
		self->result += next[i].result;
}

static inline int64_t fiber_cut_nqueens(int32_t n, int32_t rows)
{
	struct fiber_board root = { { { 0 } }, n, 0, rows, 0 };

	fiber_board_run(&root);
	return root.result;
}

struct fiber_part {
	struct kernel_job *job;
	int64_t part;
	int64_t parts;
	int64_t result;
};

static void fiber_part_run(void *arg)
{
	struct fiber_part *self = (struct fiber_part *)arg;

	self->result = kernel_part(self->job, self->part, self->parts);
}

/* Returns -1 if there is no memory. */
static inline int64_t fiber_steps(struct kernel_job *job)
{
	struct fiber_part *all = NULL;
	int64_t room = 0;
	int64_t sum = 0;

	do {
		int64_t parts = kernel_parts(job);
		FIBER_GROUP(step);

		if (parts > room) {
			free(all);
			all = (struct fiber_part *)calloc((size_t)parts, sizeof(*all));
			room = parts;
		}
		if (!all)
			return -1;
		for (int64_t i = 0; i < parts; i++) {
			all[i].job = job;
			all[i].part = i;
			all[i].parts = parts;
			kernel_send(job, i);
			FIBER_SPAWN(fiber_part_run, &all[i], step);
		}
		FIBER_WAIT(step);
		for (int64_t i = 0; i < parts; i++)
			sum += all[i].result;
	} while (kernel_next(job));
	free(all);
	return sum;
}
