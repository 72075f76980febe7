/* SPDX-License-Identifier: MIT */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * Purpose
 *   The parts of the benchmarks without forks: leaves, tests, serial pieces and the counts of
 *   tasks. The peers, and forkd's modules, only add the forks around them, so that all run one
 *   source-level algorithm. Plain C that is C++ as well.
 *
 * The algorithms (FORK may run in parallel with the rest, CALL is a plain call, JOIN waits)
 *
 *   fib(n)            n < 2: n. Else FORK x = fib(n-1), CALL y = fib(n-2), JOIN, x + y.
 *
 *   flat(n, rounds)   for i in [0, n): FORK out[i] = work_leaf(i, rounds). JOIN. Each leaf has a
 *                     slot of its own: no atomics, and the sum of the slots is the result.
 *
 *   integrate(n, eps) trapezoids of f(x) = (x*x + 1)*x over [0, n]: work_strip_halve() gives both
 *                     halves; their areas add up to the whole's within eps: that sum. Else FORK
 *                     left, CALL right, JOIN, left + right.
 *
 *   nqueens(n)        row == n: 1. Else for each column: a copy of the board with a queen there;
 *                     if work_board_ok(): FORK part[column] = the same for the next row with that
 *                     copy. JOIN, sum of the parts. (The all-pairs test is that of BOTS.)
 *
 *   uts(tree)         no children: a leaf's count. Else for each child: uts_child() into an array
 *                     of the parent's, FORK part[i] = its subtree. JOIN, sum.
 *
 *   sort(n)           merge sort of int64 between two arrays, the direction alternating by
 *                     level. Up to WORK_SORT_CUTOFF: work_sort_leaf(). Else FORK the first half,
 *                     CALL the second, JOIN, merge. merge of up to WORK_MERGE_CUTOFF:
 *                     work_merge(). Else work_merge_split() in the middle of the *output*, FORK
 *                     the first part, CALL the second, JOIN. The shape of the tree depends on n
 *                     alone, whatever the numbers are, and its depth is logarithmic.
 */

/* flat ------------------------------------------------------------------------------------- */

/* A few instructions on i; each of `rounds` more costs 1 to 1.5 ns. */
static inline uint32_t work_leaf(int64_t i, int64_t rounds)
{
	uint64_t x = (uint64_t)i;

	do {
		x = (x ^ (x >> 29)) * 0x9e3779b97f4a7c15;
	} while (rounds-- > 0);
	return (uint32_t)(x >> 32);
}

/* integrate -------------------------------------------------------------------------------- */

static inline double work_f(double x)
{
	return (x * x + 1.0) * x;
}

/* A piece of the x axis, twice half wide, f at both ends, and the trapezoid between them. */
struct work_strip {
	double x1;
	double half;
	double y1;
	double y2;
	double area;
};

static inline struct work_strip work_strip_whole(double n)
{
	struct work_strip whole = { 0.0, n / 2, work_f(0.0), work_f(n), 0.0 };

	return whole;
}

/* Halves the strip; true if that changed the area by less than eps. */
static inline bool work_strip_halve(const struct work_strip *strip, double eps,
				    struct work_strip *ret_left, struct work_strip *ret_right)
{
	double half = strip->half;
	double x0 = strip->x1 + half;
	double y0 = work_f(x0);
	double left = (strip->y1 + y0) / 2 * half;
	double right = (y0 + strip->y2) / 2 * half;

	ret_left->x1 = strip->x1;
	ret_left->half = half / 2;
	ret_left->y1 = strip->y1;
	ret_left->y2 = y0;
	ret_left->area = left;
	ret_right->x1 = x0;
	ret_right->half = half / 2;
	ret_right->y1 = y0;
	ret_right->y2 = strip->y2;
	ret_right->area = right;
	return fabs(left + right - strip->area) < eps;
}

static inline double work_integrate_exact(double n)
{
	return n * n * n * n / 4 + n * n / 2;
}

/* nqueens ---------------------------------------------------------------------------------- */

#define WORK_BOARD_MAX 16

struct work_board {
	int8_t column[WORK_BOARD_MAX]; /* column of the queen in each row */
};

/* Returns true if no queen of the first `rows` rows threatens another. Unrolled as in the
 * module nqueens of forkd. */
static inline bool work_board_ok(const struct work_board *board, int32_t rows)
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

/* sort ------------------------------------------------------------------------------------- */

#define WORK_SORT_CUTOFF  2048
#define WORK_MERGE_CUTOFF 8192
#define WORK_SORT_RUN	  16

/* Merges two sorted arrays into out, which overlaps neither. */
static inline void work_merge(const int64_t *a, int64_t na, const int64_t *b, int64_t nb,
			      int64_t *out)
{
	const int64_t *a_end = a + na;
	const int64_t *b_end = b + nb;

	while (a < a_end && b < b_end) {
		int64_t x = *a;
		int64_t y = *b;
		bool take_b = y < x; /* a first on a tie: stable */

		*out++ = take_b ? y : x;
		b += take_b;
		a += !take_b;
	}
	memcpy(out, a, (size_t)(a_end - a) * sizeof(*a));
	memcpy(out + (a_end - a), b, (size_t)(b_end - b) * sizeof(*b));
}

/* Returns the number of the first k of the merged array that are from a. */
static inline int64_t work_merge_split(const int64_t *a, int64_t na, const int64_t *b, int64_t nb,
				       int64_t k)
{
	int64_t low = k > nb ? k - nb : 0;
	int64_t high = k < na ? k : na;

	while (low < high) {
		int64_t i = low + (high - low) / 2;

		if (a[i] <= b[k - i - 1])
			low = i + 1;
		else
			high = i;
	}
	return low;
}

/* Sorts n numbers in a, with tmp as large; the result is left in tmp if to_tmp, else in a. */
static inline void work_sort_leaf(int64_t *a, int64_t *tmp, int64_t n, bool to_tmp)
{
	int64_t *from = a;
	int64_t *to = tmp;

	for (int64_t run = 0; run < n; run += WORK_SORT_RUN) {
		int64_t end = n - run < WORK_SORT_RUN ? n : run + WORK_SORT_RUN;

		for (int64_t i = run + 1; i < end; i++) {
			int64_t x = a[i];
			int64_t j = i;

			for (; j > run && a[j - 1] > x; j--)
				a[j] = a[j - 1];
			a[j] = x;
		}
	}
	for (int64_t run = WORK_SORT_RUN; run < n; run *= 2) {
		int64_t *swap = from;

		for (int64_t i = 0; i < n; i += 2 * run) {
			int64_t na = n - i < run ? n - i : run;
			int64_t nb = n - i - na < run ? n - i - na : run;

			work_merge(from + i, na, from + i + na, nb, to + i);
		}
		from = to;
		to = swap;
	}
	if (from != (to_tmp ? tmp : a))
		memcpy(to, from, (size_t)n * sizeof(*from));
}

/* The pseudo-random input: splitmix64 of the index. */
static inline int64_t work_sort_input(int64_t i)
{
	uint64_t x = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return (int64_t)(x ^ (x >> 31));
}

/* How many tasks there are: the root and every FORK and CALL ---------------------------------- */

static inline int64_t work_fib(int64_t n)
{
	int64_t a = 0;
	int64_t b = 1;

	while (n-- > 0) {
		int64_t next = a + b;

		a = b;
		b = next;
	}
	return a;
}

static inline int64_t work_fib_tasks(int64_t n)
{
	return 2 * work_fib(n + 1) - 1;
}

static inline int64_t work_integrate_tasks(struct work_strip strip, double eps)
{
	struct work_strip left;
	struct work_strip right;

	if (work_strip_halve(&strip, eps, &left, &right))
		return 1;
	return 1 + work_integrate_tasks(left, eps) + work_integrate_tasks(right, eps);
}

/* Tasks with up to `rows` queens; there, the rest is a part of the task. */
static inline int64_t work_nqueens_tasks(int32_t n, int32_t row, int32_t rows,
					 struct work_board board)
{
	int64_t tasks = 1;

	for (int32_t i = 0; row < rows && i < n; i++) {
		board.column[row] = (int8_t)i;
		if (work_board_ok(&board, row + 1))
			tasks += work_nqueens_tasks(n, row + 1, rows, board);
	}
	return tasks;
}

static inline int64_t work_merge_tasks(int64_t n)
{
	if (n <= WORK_MERGE_CUTOFF)
		return 1;
	return 1 + work_merge_tasks(n / 2) + work_merge_tasks(n - n / 2);
}

static inline int64_t work_sort_tasks(int64_t n)
{
	if (n <= WORK_SORT_CUTOFF)
		return 1;
	return 1 + work_sort_tasks(n / 2) + work_sort_tasks(n - n / 2) + work_merge_tasks(n);
}
