/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/bench/work.h"

/* The long leaves of the benchmarks: see kernel.c. */

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
#define KERNEL_SORT_RUN	   2048 /* numbers that a part of the first step sorts */
#define KERNEL_SORT_GRAIN  4	/* runs that a part of the later steps merges */
#define KERNEL_MOVES_BLOCK 1024 /* numbers that a part of moves reads */

/* Place and time of a part of moves. */
struct kernel_move {
	uint64_t home;	/* the sending thread */
	uint64_t place; /* the thread that has run it */
	int64_t began;	/* ns */
	int64_t ended;
};

/* A computation in steps, each cut in parts that may run in parallel. Parts only read it, except
 * for next_n; kernel_next() changes it between steps. */
struct kernel_job {
	enum kernel_kind kind;
	int64_t fixed; /* > 0: number of parts in each step */
	int64_t n; /* loop: items; heat: rows, columns; bfs: nodes; sort: numbers; moves: parts */
	int64_t steps; /* heat, moves: remaining steps */

	int64_t rounds; /* loop: of each item */
	int64_t heavy;	/* loop: number of items at the start that are ten times as long */

	double *from; /* heat: n * n, the border included */
	double *to;

	const int32_t *edges; /* bfs: KERNEL_BFS_DEGREE of each node */
	int32_t *level;	      /* bfs: of each node, -1: not reached yet */
	int32_t *frontier;    /* bfs: the nodes of this level */
	int32_t *next;	      /* bfs: the nodes of the next level */
	int64_t frontier_n;
	int64_t next_n; /* all parts add to it */
	int32_t depth;

	int64_t *numbers; /* sort: the current numbers; finally the result */
	int64_t *spare;	  /* the same size */
	int64_t run;	  /* length of sorted runs, 0 before the first step */

	int64_t *blocks;	   /* moves: KERNEL_MOVES_BLOCK for each part */
	struct kernel_move *moves; /* moves: n of this step; then of the next */
};

/* Returns how many parts the next step has; at least 1. */
int64_t kernel_parts(const struct kernel_job *job);

/* Runs one part of `parts`, 0 <= part < parts. The returns of all parts of all steps add up to the
 * result: loop: a hash; heat: cells; bfs: nodes reached; sort: numbers sorted; moves: a hash. */
int64_t kernel_part(struct kernel_job *job, int64_t part, int64_t parts);

/* For moves: its sender calls this before the part is passed on. */
void kernel_send(struct kernel_job *job, int64_t part);

/* Call it after all parts of a step. Returns true if there is one more. */
bool kernel_next(struct kernel_job *job);

/* Sets the initial state of a job; level, frontier, from and to must be set. sort needs nothing. */
void kernel_start(struct kernel_job *job);

/* The n-th Fibonacci number, by recursion. */
int64_t kernel_fib(int64_t n);

/* Returns the number of ways to place n queens on a board whose first `rows` rows have queens. */
int64_t kernel_queens(int32_t n, int32_t rows, struct work_board board);

#ifdef __cplusplus
}
#endif
