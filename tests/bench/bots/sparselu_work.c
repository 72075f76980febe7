/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "tests/bench/bots/bots.h"

/* Size of a block, as in the small inputs of SPEC OMP2012, 359.botsspar. */
#define SIDE	  25
#define CHECKED_N 8 /* the product of both factors is compared with the input up to this size */

int lu_n;
static float **blocks;
static float **input;

float **lu_block(int row, int column)
{
	return &blocks[row * lu_n + column];
}

void lu_factor(float *d)
{
	for (int k = 0; k < SIDE; k++)
		for (int i = k + 1; i < SIDE; i++) {
			d[i * SIDE + k] /= d[k * SIDE + k];
			for (int j = k + 1; j < SIDE; j++)
				d[i * SIDE + j] -= d[i * SIDE + k] * d[k * SIDE + j];
		}
}

void lu_forward(const float *d, float *right)
{
	for (int k = 0; k < SIDE; k++)
		for (int i = k + 1; i < SIDE; i++)
			for (int j = 0; j < SIDE; j++)
				right[i * SIDE + j] -= d[i * SIDE + k] * right[k * SIDE + j];
}

void lu_divide(const float *d, float *below)
{
	for (int i = 0; i < SIDE; i++)
		for (int k = 0; k < SIDE; k++) {
			below[i * SIDE + k] /= d[k * SIDE + k];
			for (int j = k + 1; j < SIDE; j++)
				below[i * SIDE + j] -= below[i * SIDE + k] * d[k * SIDE + j];
		}
}

void lu_update(const float *below, const float *right, float **inner)
{
	float *block = *inner ? *inner : calloc(SIDE * SIDE, sizeof(*block));

	*inner = block;
	for (int i = 0; i < SIDE; i++)
		for (int k = 0; k < SIDE; k++)
			for (int j = 0; j < SIDE; j++)
				block[i * SIDE + j] -= below[i * SIDE + k] * right[k * SIDE + j];
}

/* Sets a block to random numbers, with a large diagonal if no pivot must be small. */
static float *block_new(uint64_t *random, bool is_diagonal)
{
	float *block = malloc(SIDE * SIDE * sizeof(*block));

	for (int i = 0; i < SIDE * SIDE; i++)
		block[i] = (float)bots_random(random) / (float)UINT32_MAX;
	for (int i = 0; is_diagonal && i < SIDE; i++)
		block[i * (SIDE + 1)] += (float)(lu_n * SIDE);
	return block;
}

/* The diagonal of blocks and its neighbours, and every third row and column where they meet. */
static float **matrix_new(float **old, int old_n)
{
	uint64_t random = 1;
	float **ret = calloc((size_t)(lu_n * lu_n), sizeof(*ret));

	for (int i = 0; i < old_n * old_n; i++)
		free(old[i]);
	free(old);
	for (int row = 0; row < lu_n; row++)
		for (int column = 0; column < lu_n; column++)
			if (abs(row - column) <= 1 || (row % 3 == 0 && column % 3 == 0))
				ret[row * lu_n + column] = block_new(&random, row == column);
	return ret;
}

void bots_prepare(int size)
{
	int old_n = lu_n;

	lu_n = size;
	blocks = matrix_new(blocks, old_n);
	if (size <= CHECKED_N)
		input = matrix_new(input, old_n);
}

/* Returns an element of the factors or the input; row and column in elements. */
static double element(float **of, int row, int column)
{
	const float *block = of[row / SIDE * lu_n + column / SIDE];

	return block ? (double)block[row % SIDE * SIDE + column % SIDE] : 0;
}

/* Compares the product of the factors with the input. The diagonal of the lower one is 1. */
static bool is_right(int row, int column)
{
	double sum = row <= column ? element(blocks, row, column) : 0;

	for (int k = 0; k < row && k <= column; k++)
		sum += element(blocks, row, k) * element(blocks, k, column);
	return fabs(sum - element(input, row, column)) < 1e-3;
}

uint64_t bots_result(void)
{
	uint64_t hash = 1;

	for (int i = 0; i < lu_n * lu_n; i++)
		for (int j = 0; blocks[i] && j < SIDE * SIDE; j++)
			hash = bots_hash(hash, (uint64_t)(int64_t)(blocks[i][j] * (1 << 20)));
	for (int row = 0; lu_n <= CHECKED_N && row < lu_n * SIDE; row++)
		for (int column = 0; column < lu_n * SIDE; column++)
			if (!is_right(row, column))
				return 0;
	return hash;
}
