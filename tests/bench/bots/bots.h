/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Four kernels of the Barcelona OpenMP Tasks Suite, written from the descriptions in its paper
 * (Duran, Teruel, Ferrer, Martorell, Ayguade, ICPP 2009).
 *
 * KERNEL_work.c has the code that is the same for all libraries: input, leaves and result. It is
 * compiled once. KERNEL.c is the serial kernel. KERNEL_omp.c is the same with OpenMP tasks, and
 * KERNEL_forkd.c and KERNEL_forkd.cc with forkd: they differ in the lines that a user must change.
 */

#ifdef __cplusplus
extern "C" {
#endif

/* In KERNEL_work.c. */
void bots_prepare(int size); /* makes the input of the next run */
uint64_t bots_result(void);  /* checks the output, and returns its checksum; 0 if it is wrong */

/* The kernel: a program has one of the files above. */
void bots_run(int threads);

/* Returns a pseudo-random number of 32 bits: the generator of Knuth's MMIX. */
static inline uint32_t bots_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 32);
}

/* Returns hash, continued by one word: FNV-1a, by words instead of bytes. */
static inline uint64_t bots_hash(uint64_t hash, uint64_t word)
{
	return (hash ^ word) * UINT64_C(1099511628211);
}

/* sparselu: the LU factorization of a matrix of lu_n x lu_n blocks. */
extern int lu_n;
float **lu_block(int row, int column); /* *lu_block() is NULL if all of the block is zero */
void lu_factor(float *diagonal);
void lu_forward(const float *diagonal, float *right);
void lu_divide(const float *diagonal, float *below);
/* Updates a block by those of its row and column, and allocates it before if it is zero. */
void lu_update(const float *below, const float *right, float **inner);

/* strassen: the product of two square matrices. */
#define STRASSEN_LEAF	  64 /* the side of matrices that are multiplied directly */
#define STRASSEN_PRODUCTS 7
struct square {
	double *at;
	int stride;
};
struct product {
	struct square left;
	struct square right;
	struct square result;
};
extern int strassen_n; /* side of the whole: STRASSEN_LEAF times a power of 2 */
extern struct product strassen_root;
void strassen_leaf(const struct product *of);
/* Makes product i of those that a product needs; n: the side of its squares. */
void strassen_factors(const struct product *of, int i, int n, struct product *ret_product);
/* Sets the result of a product by those that it needs, and frees them. n: the side of these. */
void strassen_combine(const struct product *products, int n, const struct product *of);

/* health: a tree of villages with a hospital each. */
#define HEALTH_STEPS 2000
struct village {
	struct village *children;
	int n_children;
	struct clinic *clinic;
};
extern struct village health_root;
void health_treat(struct village *village);	 /* first part of a step: its patients */
void health_population(struct village *village); /* second, after those of the children */

/* floorplan: the smallest rectangle that has room for all cells. */
#define PLAN_CELLS 20
#define PLAN_SIDE  64
struct plan_cell {
	int top;
	int left;
	int height;
	int width;
};
struct plan {
	uint64_t rows[PLAN_SIDE]; /* a bit for each occupied place */
	struct plan_cell cells[PLAN_CELLS];
	int placed;
	int height;
	int width;
};
extern struct plan plan_empty;
int plan_choices(const struct plan *plan); /* places and shapes for the next cell */
/* Returns whether the search continues with this choice: not if the cell overlaps another one, if
 * the plan is not smaller than the best one, or if it is complete. */
bool plan_fits(const struct plan *plan, int choice);
void plan_with(const struct plan *plan, int choice, struct plan *ret_next);

#ifdef __cplusplus
}
#endif
