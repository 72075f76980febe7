/* SPDX-License-Identifier: MIT */
/*
 * steps.c - loop, heat, bfs and mergesort of tests/bench/kernel.c
 *
 * Computations in steps, each divided into parts by forks. parts: their number; 0 for the default
 * of the computation. FIBERS: each part is a fiber.
 *
 * INVARIANTS
 *   I1. The job is in the root's frame, which does not move while there are parts.
 *   I2. For any contents only the buffers are accessed: I2 of kernel.c.
 */
#include <errno.h>

#include <forkd/fiber.h>

#include "tests/bench/fiber_forkd.h"
#include "tests/bench/fiber_work.h"

#define ITEMS_MAX (INT64_C(1) << 31)
#define EDGE_MAX  (INT64_C(1) << 15)
#define FIBERS	  INT64_C(-1)

FK_TASK(int64_t, split, (struct kernel_job *, job, int64_t, first, int64_t, end, int64_t, parts),
	int64_t x;
	int64_t y;)
{
	if (end - first == 1)
		FK_LEAF(kernel_part(job, first, parts));
}
FK_BODY(split)
{
	FK_FORK(x, split, self->job, self->first, self->first + (self->end - self->first) / 2,
		self->parts);
	FK_CALL(y, split, self->job, self->first + (self->end - self->first) / 2, self->end,
		self->parts);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(split)

FK_FIBER_TASK(int64_t, run_fibers, (struct kernel_job *, job))
{
	return fiber_steps(job);
}

FK_TASK(int64_t, run, (struct kernel_job *, job), int64_t part; int64_t sum;)
FK_NO_LEAF(run)
{
	self->sum = 0;
	if (self->job->fixed == FIBERS) {
		self->job->fixed = 0;
		FK_CALL(sum, run_fibers, self->job);
		FK_RETURN(self->sum);
	}
	do {
		FK_CALL(part, split, self->job, 0, kernel_parts(self->job),
			kernel_parts(self->job));
		self->sum += self->part;
	} while (kernel_next(self->job));
	FK_RETURN(self->sum);
}
FK_END(run)

static bool parts_fit(int64_t parts, int64_t most)
{
	return parts == FIBERS || (parts >= 0 && parts <= most);
}

FK_TASK(int64_t, loop, (int64_t, n, int64_t, rounds, int64_t, heavy, int64_t, parts),
	struct kernel_job job;
	int64_t sum;)
{
	if (n < 1 || n > ITEMS_MAX || !parts_fit(parts, n))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(loop)
{
	self->job = (struct kernel_job){ .kind = KERNEL_LOOP,
					 .fixed = self->parts,
					 .n = self->n,
					 .rounds = self->rounds,
					 .heavy = self->heavy };
	FK_CALL(sum, run, &self->job);
	FK_RETURN(self->sum);
}
FK_END(loop)

/* Both grids are in one buffer: the initial one, then the other. */
FK_TASK(int64_t, heat, (struct fk_iobuf, grids, int64_t, n, int64_t, steps, int64_t, parts),
	struct kernel_job job;
	int64_t sum;)
{
	if (n < 3 || n > EDGE_MAX || steps < 1 || !parts_fit(parts, KERNEL_HEAT_STRIPS) ||
	    grids.size != (uint64_t)(2 * n * n) * sizeof(double) ||
	    (uintptr_t)grids.data % _Alignof(double))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(heat)
{
	self->job = (struct kernel_job){ .kind = KERNEL_HEAT,
					 .fixed = self->parts,
					 .n = self->n,
					 .steps = self->steps,
					 .from = self->grids.data,
					 .to = (double *)self->grids.data + self->n * self->n };
	FK_CALL(sum, run, &self->job);
	FK_RETURN(self->sum);
}
FK_END(heat)

/* queues: room for two frontiers; the first node of the first one is where it starts. */
FK_TASK(int64_t, bfs,
	(struct fk_buf, edges, struct fk_iobuf, level, struct fk_iobuf, queues, int64_t, parts),
	struct kernel_job job;
	int64_t sum;)
{
	uint64_t n = level.size / sizeof(int32_t);

	if (n < 1 || n > (uint64_t)ITEMS_MAX || level.size % sizeof(int32_t) ||
	    !parts_fit(parts, (int64_t)n) || queues.size != 2 * level.size ||
	    edges.size != level.size * KERNEL_BFS_DEGREE ||
	    ((uintptr_t)edges.data | (uintptr_t)level.data | (uintptr_t)queues.data) %
		    _Alignof(int32_t))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(bfs)
{
	int64_t n = (int64_t)(self->level.size / sizeof(int32_t));

	self->job = (struct kernel_job){ .kind = KERNEL_BFS,
					 .fixed = self->parts,
					 .n = n,
					 .edges = self->edges.data,
					 .level = self->level.data,
					 .frontier = self->queues.data,
					 .next = (int32_t *)self->queues.data + n,
					 .frontier_n = 1 };
	FK_CALL(sum, run, &self->job);
	FK_RETURN(self->sum);
}
FK_END(bfs)

/* The result is in numbers or spare, depending on the number of steps. */
FK_TASK(int64_t, sort,
	(struct fk_iobuf, numbers, struct fk_iobuf, spare, int64_t, n, int64_t, parts),
	struct kernel_job job;
	int64_t sum;)
{
	if (n < 1 || n > ITEMS_MAX || numbers.size != (uint64_t)n * sizeof(int64_t) ||
	    spare.size != numbers.size || !parts_fit(parts, n) ||
	    ((uintptr_t)numbers.data | (uintptr_t)spare.data) % _Alignof(int64_t))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(sort)
{
	self->job = (struct kernel_job){ .kind = KERNEL_SORT,
					 .fixed = self->parts,
					 .n = self->n,
					 .numbers = self->numbers.data,
					 .spare = self->spare.data };
	FK_CALL(sum, run, &self->job);
	FK_RETURN(self->sum);
}
FK_END(sort)

/* records: room for a struct kernel_move of each part of each step. */
FK_TASK(int64_t, moves,
	(struct fk_iobuf, blocks, struct fk_iobuf, records, int64_t, n, int64_t, steps),
	struct kernel_job job;
	int64_t sum;)
{
	if (n < 1 || n > ITEMS_MAX || steps < 1 || steps > ITEMS_MAX ||
	    blocks.size != (uint64_t)n * KERNEL_MOVES_BLOCK * sizeof(int64_t) ||
	    records.size != (uint64_t)n * (uint64_t)steps * sizeof(struct kernel_move) ||
	    ((uintptr_t)blocks.data | (uintptr_t)records.data) % _Alignof(int64_t))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(moves)
{
	self->job = (struct kernel_job){ .kind = KERNEL_MOVES,
					 .n = self->n,
					 .steps = self->steps,
					 .blocks = self->blocks.data,
					 .moves = self->records.data };
	FK_CALL(sum, run_fibers, &self->job);
	FK_RETURN(self->sum);
}
FK_END(moves)

FK_EXPORT(loop, 0, "Hashes n numbers, the heavy ones with ten times the rounds")
FK_EXPORT(heat, FK_EXPORT_IN_PLACE, "Heat diffusion on a square of n x n numbers")
FK_EXPORT(bfs, FK_EXPORT_IN_PLACE, "Levels of the nodes of a graph, seen from the first one")
FK_EXPORT(sort, FK_EXPORT_IN_PLACE,
	  "Sorts n 64-bit integers, step by step from one buffer to the other")
FK_EXPORT(moves, FK_EXPORT_IN_PLACE,
	  "Fibers that say where they were sent from and have run, and how long it took")
FK_MODULE(steps, "Computations in steps: a loop, heat diffusion, breadth-first search, merge sort")
