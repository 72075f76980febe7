/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/bench/work.h"

/*
 * The leaves of the benchmarks that are more than a few instructions. See kernel.c.
 */

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks of matmul up to this edge are multiplied by a leaf. */
#define KERNEL_MATMUL_EDGE 32

/* c += a * b; c is m x n, a is m x k, b is k x n, all of them rows that are `stride` apart. */
void kernel_matmul(const float *a, const float *b, float *c, int64_t m, int64_t k, int64_t n,
		   int64_t stride);

enum kernel_kind {
	KERNEL_LOOP,
	KERNEL_HEAT,
	KERNEL_BFS,
	KERNEL_SORT,
	KERNEL_MOVES,
};

#define KERNEL_HEAT_STRIPS 32
#define KERNEL_BFS_DEGREE  16
#define KERNEL_BFS_GRAIN   512	/* nodes of the frontier in each part */
#define KERNEL_SORT_RUN	   2048 /* numbers that are sorted by a part of the first step */
#define KERNEL_SORT_GRAIN  4	/* times as many are merged by a part of the others */
#define KERNEL_MOVES_BLOCK 1024 /* numbers that a part of moves reads */

/* Where and when a part of moves has run. */
struct kernel_move {
	uint64_t home;	/* the thread that has sent it */
	uint64_t place; /* the one that has run it */
	int64_t began;	/* ns */
	int64_t ended;
};

/*
 * A computation in steps, each of them cut in parts that may run beside each other. Read by the
 * parts, changed between steps by kernel_next() alone, but for next_n.
 */
struct kernel_job {
	enum kernel_kind kind;
	int64_t fixed; /* > 0: so many parts in each step, whatever the step is */
	int64_t n; /* loop: items; heat: rows, columns; bfs: nodes; sort: numbers; moves: parts */
	int64_t steps; /* heat, moves: of them to go */

	int64_t rounds; /* loop: of each item */
	int64_t heavy;	/* loop: the first so many items are ten times as long */

	double *from; /* heat: n * n, the border included */
	double *to;

	const int32_t *edges; /* bfs: KERNEL_BFS_DEGREE of each node */
	int32_t *level;	      /* bfs: of each node, -1: not reached yet */
	int32_t *frontier;    /* bfs: the nodes of this level */
	int32_t *next;	      /* bfs: those of the next one */
	int64_t frontier_n;
	int64_t next_n; /* all parts add to it */
	int32_t depth;

	int64_t *numbers; /* sort: as they are now; the result in the end */
	int64_t *spare;	  /* as many */
	int64_t run;	  /* so many in a row are in order, 0 before the first step */

	int64_t *blocks;	   /* moves: KERNEL_MOVES_BLOCK for each part */
	struct kernel_move *moves; /* moves: of this step, n of them; then of the next */
};

/* How many parts the step has that comes next. At least 1. */
int64_t kernel_parts(const struct kernel_job *job);

/* One part of `parts`, 0 <= part < parts. What all parts of all steps return adds up to the result:
 * loop: a hash; heat: cells; bfs: nodes that were reached; sort: numbers that were sorted; moves: a
 * hash. */
int64_t kernel_part(struct kernel_job *job, int64_t part, int64_t parts);

/* Before the part is handed on, by its sender: for moves. */
void kernel_send(struct kernel_job *job, int64_t part);

/* After all parts of a step. True: there is one more. */
bool kernel_next(struct kernel_job *job);

/* Sets what a job starts from; level, frontier, from and to must be there. sort has nothing. */
void kernel_start(struct kernel_job *job);

/* The n-th Fibonacci number, by recursion. */
int64_t kernel_fib(int64_t n);

/* In how many ways n queens stand on a board whose first `rows` rows have theirs. */
int64_t kernel_queens(int32_t n, int32_t rows, struct work_board board);

#ifdef __cplusplus
}
#endif
