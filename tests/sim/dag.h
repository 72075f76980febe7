/* SPDX-License-Identifier: MIT */
/*
 * dag.h - the computations of the scale model: what a task does between its forks
 *
 * A task is a small value; dag->next() says, for each position of a task, how much it works before
 * it forks, calls, joins or returns. Nothing is stored of a computation but the frames that are
 * alive, so a simulation of 10^9 tasks takes no memory. Only the irregular trees (UTS, nqueens,
 * integrate) are walked once beforehand, serially and in full, and kept coarsely: see tree.h.
 *
 * COARSE LEAVES
 *   A subtree whose whole work is at most the cutoff is one leaf of exactly that work, forks of its
 *   own included. So T_1 is exact whatever the cutoff is, and T_inf is too long by at most one
 *   leaf. What it hides: a request for work that comes within such a leaf is served at its end, and
 *   no strand shorter than a leaf can be stolen. `make sim` runs one computation with several
 *   cutoffs, to show how much that is.
 */
#pragma once

#include <stdint.h>

#include "tests/sim/costs.h"
#include "tests/sim/tree.h"

/* A task: what the fields mean is the business of the dag it is of. */
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
	/* The next step of a task; at is its position, 0 at first, and is moved on. */
	void (*next)(const struct dag *dag, const struct dag_task *task, uint64_t *at,
		     struct dag_step *ret_step);
	/* costs, in ps, and sizes; which of them are used depends on the dag */
	uint64_t task, fork, light, heavy;
	uint64_t n, n_heavy, chunk;
	struct tree *tree;
};

/* What a computation is, walked serially. */
struct dag_measure {
	uint64_t work; /* T_1, ps */
	uint64_t span; /* T_inf, ps */
	uint64_t forks, leaves;
	uint64_t depth; /* forks and calls on the longest way through it */
};

/*
 * Makes a computation by its name and size: "fib 42", "integrate 10000" (eps is 1e-9),
 * "nqueens 14", "uts T1L", "flat 10000000 ROUNDS", "for 1000000", "imbalanced 1000000",
 * "matmul 4096", "serial 1000" (a chain of 1000 leaves without a fork), "hidden 1000" (a fork of a
 * leaf as long as the 1000 others that follow it). cutoff: ps.
 * Returns 0, -EINVAL or -ENOMEM; error gets one line.
 */
int dag_new(const char *description, const struct costs *costs, uint64_t cutoff, char *error,
	    uint64_t error_size, struct dag **ret_dag);
struct dag *dag_free(struct dag *dag);

/* Walks it all, serially. */
void dag_measure(const struct dag *dag, struct dag_measure *ret_measure);
