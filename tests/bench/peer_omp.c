/* SPDX-License-Identifier: MIT */
#include <alloca.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/bench/blocks.h"
#include "tests/bench/peer.h"
#include "tests/bench/work.h"

/* The benchmarks with OpenMP tasks, as a user writes them: one parallel region per run, one task
 * per FORK, no if() or final() clause. Built with gcc (libgomp) and with clang (libomp); PEER_NAME
 * is from the command line. With one thread libomp runs each task at its creation, so its T_1 does
 * not include the cost of its tasks. */

static int omp_threads;

static int64_t fib(int64_t n)
{
	int64_t x;
	int64_t y;

	if (n < 2)
		return n;
#pragma omp task shared(x) firstprivate(n)
	x = fib(n - 1);
	y = fib(n - 2);
#pragma omp taskwait
	return x + y;
}

static int64_t fib_root(int64_t n)
{
	int64_t result = 0;

#pragma omp parallel num_threads(omp_threads)
#pragma omp single
	result = fib(n);
	return result;
}

static void flat(uint32_t *out, int64_t n, int64_t rounds)
{
	for (int64_t i = 0; i < n; i++) {
#pragma omp task firstprivate(out, i, rounds)
		out[i] = work_leaf(i, rounds);
	}
#pragma omp taskwait
}

static void flat_root(uint32_t *out, int64_t n, int64_t rounds)
{
#pragma omp parallel num_threads(omp_threads)
#pragma omp single
	flat(out, n, rounds);
}

static double integrate(struct work_strip strip, double eps)
{
	struct work_strip left;
	struct work_strip right;
	double x;
	double y;

	if (work_strip_halve(&strip, eps, &left, &right))
		return left.area + right.area;
#pragma omp task shared(x) firstprivate(left, eps)
	x = integrate(left, eps);
	y = integrate(right, eps);
#pragma omp taskwait
	return x + y;
}

static double integrate_root(double n, double eps)
{
	double result = 0;

#pragma omp parallel num_threads(omp_threads)
#pragma omp single
	result = integrate(work_strip_whole(n), eps);
	return result;
}

static int64_t nqueens(int32_t n, int32_t row, struct work_board board)
{
	int64_t part[WORK_BOARD_MAX];
	int64_t sum = 0;

	if (row == n)
		return 1;
	for (int32_t i = 0; i < n; i++) {
		part[i] = 0;
		board.column[row] = (int8_t)i;
		if (work_board_ok(&board, row + 1)) {
#pragma omp task shared(part) firstprivate(n, row, board, i)
			part[i] = nqueens(n, row + 1, board);
		}
	}
#pragma omp taskwait
	for (int32_t i = 0; i < n; i++)
		sum += part[i];
	return sum;
}

static int64_t nqueens_root(int32_t n)
{
	struct work_board board = { { 0 } };
	int64_t result = 0;

#pragma omp parallel num_threads(omp_threads)
#pragma omp single
	result = nqueens(n, 0, board);
	return result;
}

struct uts_kid {
	struct uts_node node;
	struct uts_count count;
};

static struct uts_count uts(const struct uts_tree *tree, const struct uts_node *node)
{
	int32_t children = uts_children(tree, node);
	struct uts_count sum = { 1, 0, node->depth };
	struct uts_kid *kids;

	if (!children)
		return uts_count_leaf(node);
	kids = (struct uts_kid *)alloca((size_t)children * sizeof(*kids));
	for (int32_t i = 0; i < children; i++) {
		struct uts_kid *kid = &kids[i];

		uts_child(node, i, &kid->node);
#pragma omp task firstprivate(tree, kid)
		kid->count = uts(tree, &kid->node);
	}
#pragma omp taskwait
	for (int32_t i = 0; i < children; i++)
		uts_count_add(&sum, &kids[i].count);
	return sum;
}

static struct uts_count uts_tree_root(const struct uts_tree *tree)
{
	struct uts_count result = { 0, 0, 0 };
	struct uts_node root;

	uts_root(tree, &root);
#pragma omp parallel num_threads(omp_threads)
#pragma omp single
	result = uts(tree, &root);
	return result;
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
#pragma omp task firstprivate(a, b, i, k, out)
	merge(a, i, b, k - i, out);
	merge(a + i, na - i, b + k - i, nb - k + i, out + k);
#pragma omp taskwait
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
#pragma omp task firstprivate(a, tmp, half, to_tmp)
	sort(a, tmp, half, !to_tmp);
	sort(a + half, tmp + half, n - half, !to_tmp);
#pragma omp taskwait
	merge(from, half, from + half, n - half, to);
}

static void sort_root(int64_t *a, int64_t *tmp, int64_t n)
{
#pragma omp parallel num_threads(omp_threads)
#pragma omp single
	sort(a, tmp, n, false);
}

static void matmul(const float *a, const float *b, float *c, int64_t m, int64_t k, int64_t n,
		   int64_t stride)
{
	if (m <= KERNEL_MATMUL_EDGE && k <= KERNEL_MATMUL_EDGE && n <= KERNEL_MATMUL_EDGE) {
		kernel_matmul(a, b, c, m, k, n, stride);
	} else if (m >= k && m >= n) {
#pragma omp task firstprivate(a, b, c, m, k, n, stride)
		matmul(a, b, c, m / 2, k, n, stride);
		matmul(a + m / 2 * stride, b, c + m / 2 * stride, m - m / 2, k, n, stride);
#pragma omp taskwait
	} else if (n >= k) {
#pragma omp task firstprivate(a, b, c, m, k, n, stride)
		matmul(a, b, c, m, k, n / 2, stride);
		matmul(a, b + n / 2, c + n / 2, m, k, n - n / 2, stride);
#pragma omp taskwait
	} else {
		matmul(a, b, c, m, k / 2, n, stride);
		matmul(a + k / 2, b + k / 2 * stride, c, m, k - k / 2, n, stride);
	}
}

static void matmul_root(const float *a, const float *b, float *c, int64_t n)
{
#pragma omp parallel num_threads(omp_threads)
#pragma omp single
	matmul(a, b, c, n, n, n, n);
}

static int64_t split(struct kernel_job *job, int64_t first, int64_t end, int64_t parts)
{
	int64_t middle = first + (end - first) / 2;
	int64_t x;
	int64_t y;

	if (end - first == 1)
		return kernel_part(job, first, parts);
#pragma omp task shared(x) firstprivate(job, first, middle, parts)
	x = split(job, first, middle, parts);
	y = split(job, middle, end, parts);
#pragma omp taskwait
	return x + y;
}

static int64_t steps(struct kernel_job *job)
{
	int64_t sum = 0;

#pragma omp parallel num_threads(omp_threads)
#pragma omp single
	do
		sum += split(job, 0, kernel_parts(job), kernel_parts(job));
	while (kernel_next(job));
	return sum;
}

static int64_t blocks(int64_t n)
{
	blocks_fill();
#pragma omp parallel num_threads(omp_threads)
#pragma omp single
	for (int64_t k = 0; k < n; k++) {
		for (int64_t i = 0; i < BLOCKS_ROW; i++)
			for (int64_t j = 0; j < BLOCKS_ROW; j++) {
#pragma omp task firstprivate(i, j, k)
				blocks_update(i, j, k % BLOCKS_ROW);
			}
#pragma omp taskwait
	}
	return blocks_sum();
}

/* The static schedule, which is the default: a part for each thread. */
static void range(int64_t n, void (*body)(int64_t first, int64_t last, void *context),
		  void *context)
{
#pragma omp parallel for num_threads(omp_threads)
	for (int i = 0; i < omp_threads; i++)
		body(n * i / omp_threads, n * (i + 1) / omp_threads, context);
}

static void start(int threads)
{
	omp_threads = threads;
}

static void stop(void)
{
	(void)omp_pause_resource_all(omp_pause_hard);
}

int main(int argc, char **argv)
{
	static const struct peer peer = {
		.name = PEER_NAME,
		.start = start,
		.fib = fib_root,
		.flat = flat_root,
		.integrate = integrate_root,
		.nqueens = nqueens_root,
		.uts = uts_tree_root,
		.sort = sort_root,
		.matmul = matmul_root,
		.steps = steps,
		.blocks = blocks,
		.range = range,
		.stop = stop,
	};
	char stack[16];

	/* The stack of OpenMP's threads is read from the environment, before main(). */
	if (!getenv("OMP_STACKSIZE")) {
		snprintf(stack, sizeof(stack), "%dM", PEER_STACK_MIB);
		if (!setenv("OMP_STACKSIZE", stack, 1))
			execv("/proc/self/exe", argv);
		perror("cannot set OMP_STACKSIZE");
		return 1;
	}
	return peer_main(&peer, argc, argv);
}
