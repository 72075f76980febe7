/* SPDX-License-Identifier: MIT */
/*
 * tests/bench/forkpath_leaf.c - a loop nest in a first block, forked in a nest of loops
 *
 * WHAT IT IS
 *   A blocked computation as in SparseLU of the Barcelona OpenMP Task Suite: a coarse task whose
 *   first block calls a static function of loops, forked in loops around it. forkpath compares what
 *   it costs in a body that runs in registers (fresh) and in one that the worker loop has resumed
 *   (resumed) with the same loops around a call of the plain function (plain). Each returns the
 *   same number for the same n, the number of blocks in a row.
 */
#include <errno.h>
#include <string.h>

#include <forkd/task.h>

#define EDGE 32 /* of a block, floats */
#define MOST 8	/* blocks in a row */

static float rows[MOST][EDGE * EDGE], columns[MOST][EDGE * EDGE];
static float blocks[MOST][MOST][EDGE * EDGE];

static void multiply(const float *row, const float *column, float *block)
{
	for (int i = 0; i < EDGE; i++)
		for (int k = 0; k < EDGE; k++)
			for (int j = 0; j < EDGE; j++)
				block[i * EDGE + j] -= row[i * EDGE + k] * column[k * EDGE + j];
}

/* Small whole numbers: every order of additions gives the same. */
static void fill(void)
{
	for (int i = 0; i < MOST * EDGE * EDGE; i++) {
		(&rows[0][0])[i] = (float)(i % 3 - 1);
		(&columns[0][0])[i] = (float)(i % 5 - 2);
	}
	memset(blocks, 0, sizeof(blocks));
}

static int64_t sum(int64_t n)
{
	double of = 0;

	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < n; j++)
			of += blocks[i][j][7 * i + 5 * j];
	return (int64_t)of;
}

FK_TASK(fk_void, block, (int64_t, i, int64_t, j, int64_t, k))
{
	if (i == k || j == k)
		FK_LEAF();
	multiply(rows[i], columns[j], blocks[i][j]);
	FK_LEAF();
}
FK_NO_BODY(block)
FK_END(block)

#define FORK_ALL()                                                                                 \
	for (self->k = 0; self->k < self->n; self->k++) {                                          \
		for (self->i = 0; self->i < self->n; self->i++)                                    \
			for (self->j = 0; self->j < self->n; self->j++)                            \
				FK_FORK_VOID(block, self->i, self->j, self->k);                    \
		FK_JOIN();                                                                         \
	}

FK_TASK(int64_t, fresh, (int64_t, n), int64_t i; int64_t j; int64_t k;)
{
	if (n > MOST)
		FK_LEAF_FAIL(-ERANGE);
	fill();
}
FK_BODY(fresh)
{
	FORK_ALL();
	FK_RETURN(sum(self->n));
}
FK_END(fresh)

FK_TASK(int64_t, resumed, (int64_t, n), int64_t i; int64_t j; int64_t k; void *memory;)
{
	if (n > MOST)
		FK_LEAF_FAIL(-ERANGE);
	fill();
}
FK_BODY(resumed)
{
	/* A body that allocates leaves its registers. */
	FK_ALLOC(memory, 1);
	FORK_ALL();
	FK_RETURN(sum(self->n));
}
FK_END(resumed)

static __attribute__((noinline)) void plain_block(int64_t i, int64_t j, int64_t k)
{
	if (i != k && j != k)
		multiply(rows[i], columns[j], blocks[i][j]);
}

FK_TASK(int64_t, plain, (int64_t, n))
{
	if (n > MOST)
		FK_LEAF_FAIL(-ERANGE);
	fill();
	for (int64_t k = 0; k < n; k++)
		for (int64_t i = 0; i < n; i++)
			for (int64_t j = 0; j < n; j++)
				plain_block(i, j, k);
	FK_LEAF(sum(n));
}
FK_NO_BODY(plain)
FK_END(plain)

FK_EXPORT(fresh, 0, "Forks in a body that runs in registers")
FK_EXPORT(resumed, 0, "Forks in a body that was resumed")
FK_EXPORT(plain, 0, "Calls a plain function")
FK_MODULE(leaf, "What a leaf costs beside a plain function")
