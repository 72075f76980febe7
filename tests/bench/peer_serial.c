/* SPDX-License-Identifier: MIT */
#include "tests/bench/blocks.h"
#include "tests/bench/peer.h"
#include "tests/bench/work.h"

/*
 * The benchmarks without any fork: the baselines T_s. This file is built three times:
 *
 *   serial           what -O3 makes of it, with the recursion unrolled by inlining;
 *   serial-noinline  the same with -fno-inline, so that a task is not merged with its children;
 *   serial-call      also with -fno-optimize-sibling-calls, so that every task is one call.
 *                    Without it gcc and clang turn the second call of fib() into a loop with an
 *                    accumulator, so half of the tasks are never called.
 *
 * PEER_NAME is from the command line, because this is the only difference. No attribute (noinline,
 * noipa) is used: it would also change the first build.
 */

static int64_t fib(int64_t n)
{
	int64_t x;
	int64_t y;

	if (n < 2)
		return n;
	x = fib(n - 1);
	y = fib(n - 2);
	return x + y;
}

static void flat(uint32_t *out, int64_t n, int64_t rounds)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = work_leaf(i, rounds);
}

static double integrate(struct work_strip strip, double eps)
{
	struct work_strip left;
	struct work_strip right;
	double x;
	double y;

	if (work_strip_halve(&strip, eps, &left, &right))
		return left.area + right.area;
	x = integrate(left, eps);
	y = integrate(right, eps);
	return x + y;
}

static double integrate_root(double n, double eps)
{
	return integrate(work_strip_whole(n), eps);
}

static int64_t nqueens(int32_t n, int32_t row, struct work_board board)
{
	int64_t sum = 0;

	if (row == n)
		return 1;
	for (int32_t i = 0; i < n; i++) {
		board.column[row] = (int8_t)i;
		if (work_board_ok(&board, row + 1))
			sum += nqueens(n, row + 1, board);
	}
	return sum;
}

static int64_t nqueens_root(int32_t n)
{
	struct work_board board = { { 0 } };

	return nqueens(n, 0, board);
}

static struct uts_count uts(const struct uts_tree *tree, const struct uts_node *node)
{
	int32_t children = uts_children(tree, node);
	struct uts_count sum = { 1, 0, node->depth };

	if (!children)
		return uts_count_leaf(node);
	for (int32_t i = 0; i < children; i++) {
		struct uts_node child;
		struct uts_count part;

		uts_child(node, i, &child);
		part = uts(tree, &child);
		uts_count_add(&sum, &part);
	}
	return sum;
}

static struct uts_count uts_tree_root(const struct uts_tree *tree)
{
	struct uts_node root;

	uts_root(tree, &root);
	return uts(tree, &root);
}

static void merge(const int64_t *a, int64_t na, const int64_t *b, int64_t nb, int64_t *out)
{
	int64_t k = (na + nb) / 2;
	int64_t i;

	if (na + nb <= WORK_MERGE_CUTOFF) {
		work_merge(a, na, b, nb, out);
		return;
	}
	i = work_merge_split(a, na, b, nb, k);
	merge(a, i, b, k - i, out);
	merge(a + i, na - i, b + k - i, nb - k + i, out + k);
}

static void sort(int64_t *a, int64_t *tmp, int64_t n, bool to_tmp)
{
	int64_t *from = to_tmp ? a : tmp;
	int64_t *to = to_tmp ? tmp : a;
	int64_t half = n / 2;

	if (n <= WORK_SORT_CUTOFF) {
		work_sort_leaf(a, tmp, n, to_tmp);
		return;
	}
	sort(a, tmp, half, !to_tmp);
	sort(a + half, tmp + half, n - half, !to_tmp);
	merge(from, half, from + half, n - half, to);
}

static void sort_root(int64_t *a, int64_t *tmp, int64_t n)
{
	sort(a, tmp, n, false);
}

static void matmul(const float *a, const float *b, float *c, int64_t m, int64_t k, int64_t n,
		   int64_t stride)
{
	if (m <= KERNEL_MATMUL_EDGE && k <= KERNEL_MATMUL_EDGE && n <= KERNEL_MATMUL_EDGE) {
		kernel_matmul(a, b, c, m, k, n, stride);
	} else if (m >= k && m >= n) {
		matmul(a, b, c, m / 2, k, n, stride);
		matmul(a + m / 2 * stride, b, c + m / 2 * stride, m - m / 2, k, n, stride);
	} else if (n >= k) {
		matmul(a, b, c, m, k, n / 2, stride);
		matmul(a, b + n / 2, c + n / 2, m, k, n - n / 2, stride);
	} else {
		matmul(a, b, c, m, k / 2, n, stride);
		matmul(a + k / 2, b + k / 2 * stride, c, m, k - k / 2, n, stride);
	}
}

static void matmul_root(const float *a, const float *b, float *c, int64_t n)
{
	matmul(a, b, c, n, n, n, n);
}

static int64_t split(struct kernel_job *job, int64_t first, int64_t end, int64_t parts)
{
	int64_t middle = first + (end - first) / 2;
	int64_t x;
	int64_t y;

	if (end - first == 1) {
		kernel_send(job, first);
		return kernel_part(job, first, parts);
	}
	x = split(job, first, middle, parts);
	y = split(job, middle, end, parts);
	return x + y;
}

static int64_t steps(struct kernel_job *job)
{
	int64_t sum = 0;

	do
		sum += split(job, 0, kernel_parts(job), kernel_parts(job));
	while (kernel_next(job));
	return sum;
}

static int64_t blocks(int64_t n)
{
	blocks_fill();
	for (int64_t k = 0; k < n; k++)
		for (int64_t i = 0; i < BLOCKS_ROW; i++)
			for (int64_t j = 0; j < BLOCKS_ROW; j++)
				blocks_update(i, j, k % BLOCKS_ROW);
	return blocks_sum();
}

static void range(int64_t n, void (*body)(int64_t first, int64_t last, void *context),
		  void *context)
{
	body(0, n, context);
}

static int64_t cut_fib(int64_t n, int64_t cutoff)
{
	(void)cutoff;
	return kernel_fib(n);
}

static int64_t cut_nqueens(int32_t n, int32_t rows)
{
	struct work_board board = { { 0 } };

	(void)rows;
	return kernel_queens(n, 0, board);
}

int main(int argc, char **argv)
{
	static const struct peer peer = {
		.name = PEER_NAME,
		.fib = fib,
		.flat = flat,
		.integrate = integrate_root,
		.nqueens = nqueens_root,
		.uts = uts_tree_root,
		.sort = sort_root,
		.matmul = matmul_root,
		.steps = steps,
		.blocks = blocks,
		.range = range,
		.cut_fib = cut_fib,
		.cut_nqueens = cut_nqueens,
	};

	return peer_main(&peer, argc, argv);
}
