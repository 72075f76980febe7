/* SPDX-License-Identifier: MIT */
#include "tests/bench/kernel.h"

#include <pthread.h>
#include <string.h>

#include "common/clock.h"

/*
 * Purpose
 *   The leaves of matmul, loop, heat, bfs, mergesort, moves, and of fib and nqueens below their
 *   cutoffs. They are longer than those of work.h, and their vectorization would affect the
 *   results. So they are in a separate file, which one compiler translates for all programs and for
 *   forkd's modules.
 *
 * The algorithms (FORK, CALL and JOIN as in work.h)
 *
 *   matmul(m, k, n)   c += a * b, divide and conquer over the longest edge (Frigo, Leiserson,
 *                     Prokop, Ramachandran: "Cache-Oblivious Algorithms", FOCS 1999), as in the
 *                     suites of Cilk-5 and libfork. All edges up to KERNEL_MATMUL_EDGE:
 *                     kernel_matmul(). Longest is m or n: FORK one half, CALL the other, JOIN. It
 *                     is k: CALL the first half, then CALL the second.
 *
 *   steps(job)        do split(0, kernel_parts()) while kernel_next().
 *   split(i, j)       j - i == 1: kernel_part(i). Else FORK the first half, CALL the second, JOIN,
 *                     the sum of both.
 *
 *   loop              n items, the first `heavy` of them ten times as long; a part is one item.
 *   heat              Jacobi's iteration of the heat equation on a square; a part is a strip of
 *                     rows, and strips are of unequal height.
 *   bfs               breadth first, a level in each step; a part is KERNEL_BFS_GRAIN nodes of the
 *                     frontier.
 *   mergesort         bottom up: the first step sorts runs, a part is one run; each step after it
 *                     merges pairs of them into the other array, a part is KERNEL_SORT_GRAIN runs
 *                     of the *output*, whose sources are found by work_merge_split().
 *   moves             the sender of a part writes its block, the part reads it; both say where they
 *                     are, and the part how long it took.
 *
 *   fixed > 0 is the control, "static": as many parts as threads, divided evenly before the step,
 *   without load balancing. The heavy items of loop are adjacent and the strips of heat grow, so
 *   even parts have unequal work.
 *
 * Threads
 *   Any thread; the parts of one step at the same time.
 *
 * Invariants
 *   I1. Parts of one step write to different places, except in bfs. There a compare-and-swap on its
 *       level claims a node, and an addition to next_n reserves its place in next. So each node is
 *       in next once. Both are relaxed: later steps read them after the join.
 *   I2. For any contents of its arrays bfs accesses no other memory: it skips nodes out of range,
 *       and puts at most n into next. The same holds for mergesort: the ends of a merged part are
 *       within bounds that depend on n. If they are in the wrong order, which changing numbers can
 *       cause, nothing is merged.
 */

void kernel_matmul(const float *restrict a, const float *restrict b, float *restrict c, int64_t m,
		   int64_t k, int64_t n, int64_t stride)
{
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < k; j++) {
			float x = a[i * stride + j];

			for (int64_t l = 0; l < n; l++)
				c[i * stride + l] += x * b[j * stride + l];
		}
}

/* Returns the start of part number `part` of `parts` among n items. */
static int64_t cut(int64_t n, int64_t part, int64_t parts)
{
	return n / parts * part + n % parts * part / parts;
}

static int64_t loop_part(const struct kernel_job *job, int64_t first, int64_t end)
{
	int64_t sum = 0;

	for (int64_t i = first; i < end; i++)
		sum += work_leaf(i, i < job->heavy ? 10 * job->rounds : job->rounds);
	return sum;
}

/* Strip s of S begins at row (s / S)^1.5 of all rows that are not border. */
static int64_t heat_row(const struct kernel_job *job, int64_t strip)
{
	int64_t rows = job->n - 2;
	int64_t low = 0;
	int64_t high = rows;

	/* The largest r with r^2 S^3 <= rows^2 s^3: whole numbers only, the same everywhere. */
	while (low < high) {
		int64_t r = low + (high - low + 1) / 2;

		if (r * r * (KERNEL_HEAT_STRIPS * KERNEL_HEAT_STRIPS * KERNEL_HEAT_STRIPS) <=
		    rows * rows * (strip * strip * strip))
			low = r;
		else
			high = r - 1;
	}
	return 1 + low;
}

static int64_t heat_part(const struct kernel_job *job, int64_t first, int64_t end)
{
	int64_t from = heat_row(job, first);
	int64_t to = heat_row(job, end);
	int64_t n = job->n;

	for (int64_t row = from; row < to; row++) {
		const double *restrict at = job->from + row * n;
		double *restrict out = job->to + row * n;

		for (int64_t i = 1; i < n - 1; i++)
			out[i] = at[i] +
				 0.1 * (at[i - 1] + at[i + 1] + at[i - n] + at[i + n] - 4 * at[i]);
	}
	return (to - from) * (n - 2);
}

/* Puts n nodes into next, as far as there is room; returns how many. */
static int64_t bfs_flush(struct kernel_job *job, const int32_t *nodes, int64_t n)
{
	int64_t at = __atomic_fetch_add(&job->next_n, n, __ATOMIC_RELAXED);

	if (at > job->n - n)
		return 0;
	memcpy(job->next + at, nodes, (size_t)n * sizeof(*nodes));
	return n;
}

static int64_t bfs_part(struct kernel_job *job, int64_t first, int64_t end)
{
	int32_t found[1024];
	int64_t total = 0;
	int64_t n = 0;

	for (int64_t i = first; i < end; i++) {
		int32_t node = job->frontier[i];

		if (node < 0 || node >= job->n)
			continue;
		for (int64_t e = 0; e < KERNEL_BFS_DEGREE; e++) {
			int32_t to = job->edges[node * (int64_t)KERNEL_BFS_DEGREE + e];
			int32_t never = -1;

			if (to < 0 || to >= job->n ||
			    __atomic_load_n(&job->level[to], __ATOMIC_RELAXED) >= 0 ||
			    !__atomic_compare_exchange_n(&job->level[to], &never, job->depth + 1,
							 false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
				continue;
			found[n++] = to;
			if (n < (int64_t)(sizeof(found) / sizeof(found[0])))
				continue;
			total += bfs_flush(job, found, n);
			n = 0;
		}
	}
	return n ? total + bfs_flush(job, found, n) : total;
}

/* Merges the output places [first, end) of the pair of runs that begins at `base`. */
static void sort_merge(const struct kernel_job *job, int64_t base, int64_t first, int64_t end)
{
	int64_t na = job->n - base < job->run ? job->n - base : job->run;
	int64_t nb = job->n - base - na < job->run ? job->n - base - na : job->run;
	const int64_t *a = job->numbers + base;
	const int64_t *b = a + na;
	int64_t i = work_merge_split(a, na, b, nb, first);
	int64_t i_end = work_merge_split(a, na, b, nb, end);

	if (i_end >= i && end - i_end >= first - i)
		work_merge(a + i, i_end - i, b + (first - i), (end - i_end) - (first - i),
			   job->spare + base + first);
}

static int64_t sort_part(const struct kernel_job *job, int64_t first, int64_t end)
{
	int64_t at = first * KERNEL_SORT_RUN;
	int64_t stop = end * KERNEL_SORT_RUN < job->n ? end * KERNEL_SORT_RUN : job->n;

	if (!job->run) {
		for (int64_t n; at < stop; at += n) {
			n = stop - at < KERNEL_SORT_RUN ? stop - at : KERNEL_SORT_RUN;
			work_sort_leaf(job->numbers + at, job->spare + at, n, false);
		}
		return stop - first * KERNEL_SORT_RUN;
	}
	while (at < stop) {
		int64_t base = at / (2 * job->run) * (2 * job->run);
		int64_t last = base + 2 * job->run < stop ? base + 2 * job->run : stop;

		sort_merge(job, base, at - base, last - base);
		at = last;
	}
	return 0;
}

static uint64_t here(void)
{
	return (uint64_t)pthread_self();
}

void kernel_send(struct kernel_job *job, int64_t part)
{
	int64_t *block = job->blocks + part * KERNEL_MOVES_BLOCK;

	if (job->kind != KERNEL_MOVES)
		return;
	for (int64_t i = 0; i < KERNEL_MOVES_BLOCK; i++)
		block[i] = part + i;
	job->moves[part].home = here();
}

static int64_t moves_part(const struct kernel_job *job, int64_t part)
{
	const int64_t *block = job->blocks + part * KERNEL_MOVES_BLOCK;
	struct kernel_move *move = &job->moves[part];
	uint32_t sum = 0;

	move->began = (int64_t)clock_ns();
	for (int64_t i = 0; i < KERNEL_MOVES_BLOCK; i++)
		sum = work_leaf(block[i] ^ sum, 0);
	move->place = here();
	move->ended = (int64_t)clock_ns();
	return sum;
}

/* Returns the number of items to cut: items, strips, nodes of the frontier or runs of numbers. */
static int64_t things(const struct kernel_job *job)
{
	switch (job->kind) {
	case KERNEL_LOOP:
	case KERNEL_MOVES:
		return job->n;
	case KERNEL_HEAT:
		return KERNEL_HEAT_STRIPS;
	case KERNEL_BFS:
		return job->frontier_n;
	case KERNEL_SORT:
		break;
	}
	return (job->n + KERNEL_SORT_RUN - 1) / KERNEL_SORT_RUN;
}

int64_t kernel_parts(const struct kernel_job *job)
{
	if (job->fixed > 0)
		return job->fixed;
	if (job->kind == KERNEL_BFS)
		return (job->frontier_n + KERNEL_BFS_GRAIN - 1) / KERNEL_BFS_GRAIN;
	if (job->kind == KERNEL_SORT && job->run)
		return (things(job) + KERNEL_SORT_GRAIN - 1) / KERNEL_SORT_GRAIN;
	return things(job);
}

int64_t kernel_part(struct kernel_job *job, int64_t part, int64_t parts)
{
	int64_t first = cut(things(job), part, parts);
	int64_t end = cut(things(job), part + 1, parts);

	switch (job->kind) {
	case KERNEL_LOOP:
		return loop_part(job, first, end);
	case KERNEL_HEAT:
		return heat_part(job, first, end);
	case KERNEL_BFS:
		return bfs_part(job, first, end);
	case KERNEL_MOVES:
		return moves_part(job, part);
	case KERNEL_SORT:
		break;
	}
	return sort_part(job, first, end);
}

static bool sort_next(struct kernel_job *job)
{
	int64_t *numbers = job->numbers;

	if (job->run) {
		job->numbers = job->spare;
		job->spare = numbers;
	}
	job->run = job->run ? 2 * job->run : KERNEL_SORT_RUN;
	return job->run < job->n;
}

bool kernel_next(struct kernel_job *job)
{
	double *from = job->from;
	int32_t *frontier = job->frontier;

	if (job->kind == KERNEL_LOOP)
		return false;
	if (job->kind == KERNEL_SORT)
		return sort_next(job);
	if (job->kind == KERNEL_MOVES) {
		job->moves += job->n;
		return --job->steps > 0;
	}
	if (job->kind == KERNEL_HEAT) {
		job->from = job->to;
		job->to = from;
		return --job->steps > 0;
	}
	job->frontier = job->next;
	job->next = frontier;
	job->frontier_n = job->next_n < job->n ? job->next_n : job->n;
	job->next_n = 0;
	job->depth++;
	return job->frontier_n > 0;
}

void kernel_start(struct kernel_job *job)
{
	if (job->kind == KERNEL_HEAT) {
		/* Hot at the top and in one corner, cold elsewhere; the border does not change. */
		memset(job->from, 0, (size_t)(job->n * job->n) * sizeof(*job->from));
		for (int64_t i = 0; i < job->n; i++)
			job->from[i] = 100.0;
		for (int64_t i = 0; i < job->n / 8; i++)
			job->from[(job->n - 1 - i) * job->n] = 50.0;
		memcpy(job->to, job->from, (size_t)(job->n * job->n) * sizeof(*job->to));
	} else if (job->kind == KERNEL_BFS) {
		memset(job->level, -1, (size_t)job->n * sizeof(*job->level));
		job->level[0] = 0;
		job->frontier[0] = 0;
		job->frontier_n = 1;
		job->next_n = 0;
		job->depth = 0;
	}
}

int64_t kernel_fib(int64_t n)
{
	return n < 2 ? n : kernel_fib(n - 1) + kernel_fib(n - 2);
}

int64_t kernel_queens(int32_t n, int32_t rows, struct work_board board)
{
	int64_t sum = 0;

	if (rows == n)
		return 1;
	for (int32_t i = 0; i < n; i++) {
		board.column[rows] = (int8_t)i;
		if (work_board_ok(&board, rows + 1))
			sum += kernel_queens(n, rows + 1, board);
	}
	return sum;
}
