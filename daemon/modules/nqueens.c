/* SPDX-License-Identifier: MIT */
/*
 * modules/nqueens.c - the number of ways to place n queens on a board of n x n
 *
 * A fork for every column of the next row that no queen threatens. The task tries the columns on
 * its own board, 16 bytes, and each fork copies it. The test is that of the Barcelona OpenMP Tasks
 * Suite: every pair of queens again at each step, so tasks cost as much as in other implementations
 * of this benchmark.
 */
#include <errno.h>

#include <forkd/task.h>

#define NQUEENS_MAX 16

struct board {
	int8_t column[NQUEENS_MAX]; /* of the queen in each row */
};

/* Returns true if no queen of the first rows threatens another. Nine tenths of the time are spent
 * here. The inner loop is short: unrolled, it is 1.3 times as fast with gcc. */
static inline bool at_peace(const struct board *board, int32_t rows)
{
	for (int32_t i = 0; i < rows; i++) {
		int32_t p = board->column[i];

#pragma GCC unroll 4
		for (int32_t j = i + 1; j < rows; j++) {
			int32_t q = board->column[j];

			if (q == p || q == p - (j - i) || q == p + (j - i))
				return false;
		}
	}
	return true;
}

FK_FINE_TASK(int64_t, place, (int32_t, n, int32_t, row, struct board, board),
	     int64_t part[NQUEENS_MAX];
	     int32_t column; int32_t parts;)
{
	if (row == n)
		FK_LEAF(1);
}
FK_BODY(place)
{
	int64_t sum;

	self->parts = 0;
	for (self->column = 0; self->column < self->n; self->column++) {
		self->board.column[self->row] = (int8_t)self->column;
		if (at_peace(&self->board, self->row + 1))
			FK_FORK(part[self->parts++], place, self->n, self->row + 1, self->board);
	}
	FK_JOIN();
	sum = 0;
	for (int32_t i = 0; i < self->parts; i++)
		sum += self->part[i];
	FK_RETURN(sum);
}
FK_END(place)

FK_TASK(int64_t, nqueens, (int64_t, n), int64_t sum;)
{
	if (n < 0 || n > NQUEENS_MAX)
		FK_LEAF_FAIL(-ERANGE);
}
FK_BODY(nqueens)
{
	FK_CALL(sum, place, (int32_t)self->n, 0, (struct board){ { 0 } });
	FK_RETURN(self->sum);
}
FK_END(nqueens)

FK_EXPORT(nqueens, 0, "Number of ways to place n queens (0 to 16) so that none attacks another")
FK_MODULE(nqueens, "N queens")
