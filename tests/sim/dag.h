/* SPDX-License-Identifier: MIT */
/*
 * dag.h - the computations of the scale model: the steps of a task between its forks
 *
 * A task is a small value. For each position of a task, dag->next() returns how long it works
 * before it forks, calls, joins or returns. Only the live frames are stored, so a simulation of
 * 10^9 tasks needs little memory. The irregular trees (UTS, nqueens, integrate) are walked once
 * before the run, serially and in full, and stored coarsely: see tree.h.
 *
 * COARSE LEAVES
 *   A subtree whose whole work is at most the cutoff is one leaf with exactly that work, including
 *   its forks. So T_1 is exact for any cutoff, and T_inf is too long by at most one leaf. A request
 *   that arrives within such a leaf is served at its end, and no strand shorter than a leaf can be
 *   stolen. `make sim` runs one computation with several cutoffs to show the effect.
 */
#pragma once

#include <stdint.h>

#include "tests/sim/costs.h"
#include "tests/sim/tree.h"

/* A task: its dag defines the fields. */
struct dag_task {
	uint64_t a, b;
};

enum dag_act {
	DAG_FORK,   /* the child may run in parallel with its continuation */
	DAG_CALL,   /* the child runs first */
	DAG_JOIN,   /* wait for all children forked so far */
	DAG_RETURN, /* the end; nothing is outstanding */
};

struct dag_step {
	uint64_t work; /* ps before the act */
	enum dag_act act;
	struct dag_task child; /* DAG_FORK, DAG_CALL */
};

struct dag {
	char name[32];
	uint64_t cutoff; /* ps: the longest coarse leaf */
	struct dag_task root;
	/* The next step of a task; *at is its position, at first 0, and is advanced. */
	void (*next)(const struct dag *dag, const struct dag_task *task, uint64_t *at,
		     struct dag_step *ret_step);
	/* costs, in ps, and sizes; which of them are used depends on the dag */
	uint64_t task, fork, light, heavy;
	uint64_t n, n_heavy, chunk;
	struct tree *tree;
};

/* The figures of a computation, by a serial walk. */
struct dag_measure {
	uint64_t work; /* T_1, ps */
	uint64_t span; /* T_inf, ps */
	uint64_t forks, leaves;
	uint64_t depth; /* forks and calls on the longest way through it */
};

/*
 * Makes a computation by its name and size. cutoff: ps.
 * 	fib 42, nqueens 14, uts T1L, for 1000000, imbalanced 1000000, matmul 4096
 * 	integrate 10000		eps is 1e-9
 * 	flat 10000000 ROUNDS
 * 	serial 1000		a chain of 1000 leaves without a fork
 * 	hidden 1000		a fork of a leaf as long as the next 1000
 * Returns 0, -EINVAL or -ENOMEM; error gets one line.
 */
int dag_new(const char *description, const struct costs *costs, uint64_t cutoff, char *error,
	    uint64_t error_size, struct dag **ret_dag);
struct dag *dag_free(struct dag *dag);

/* Walks the whole computation, serially. */
void dag_measure(const struct dag *dag, struct dag_measure *ret_measure);
