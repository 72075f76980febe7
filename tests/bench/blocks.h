/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>
#include <string.h>

/*
 * Purpose
 *   A blocked computation as in SparseLU of the Barcelona OpenMP Task Suite, whose leaf is a nest
 *   of loops. Plain C that is C++ as well.
 *
 *   blocks(n)    n times: FORK blocks_update() for each block in a nest of two loops, JOIN.
 *                blocks_sum().
 */

#define BLOCKS_EDGE  32	    /* of a block, floats */
#define BLOCKS_ROW   8	    /* blocks in a row */
#define BLOCKS_TIMES 200000 /* n at most: every sum is exact */

static float blocks_rows[BLOCKS_ROW][BLOCKS_EDGE * BLOCKS_EDGE];
static float blocks_columns[BLOCKS_ROW][BLOCKS_EDGE * BLOCKS_EDGE];
static float blocks_all[BLOCKS_ROW][BLOCKS_ROW][BLOCKS_EDGE * BLOCKS_EDGE];

static inline void blocks_multiply(const float *row, const float *column, float *block)
{
	for (int i = 0; i < BLOCKS_EDGE; i++)
		for (int k = 0; k < BLOCKS_EDGE; k++)
			for (int j = 0; j < BLOCKS_EDGE; j++)
				block[i * BLOCKS_EDGE + j] -=
					row[i * BLOCKS_EDGE + k] * column[k * BLOCKS_EDGE + j];
}

/* The leaf as a plain function. */
static __attribute__((noinline, unused)) void blocks_update(int64_t i, int64_t j, int64_t k)
{
	if (i != k && j != k)
		blocks_multiply(blocks_rows[i], blocks_columns[j], blocks_all[i][j]);
}

/* Small whole numbers: every order of additions gives the same. */
static inline void blocks_fill(void)
{
	for (int i = 0; i < BLOCKS_ROW * BLOCKS_EDGE * BLOCKS_EDGE; i++) {
		(&blocks_rows[0][0])[i] = (float)(i % 3 - 1);
		(&blocks_columns[0][0])[i] = (float)(i % 5 - 2);
	}
	memset(blocks_all, 0, sizeof(blocks_all));
}

static inline int64_t blocks_sum(void)
{
	double of = 0;

	for (int64_t i = 0; i < BLOCKS_ROW; i++)
		for (int64_t j = 0; j < BLOCKS_ROW; j++)
			of += blocks_all[i][j][7 * i + 5 * j];
	return (int64_t)of;
}
