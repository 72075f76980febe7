/* SPDX-License-Identifier: MIT */
#include <alloca.h>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include "tests/bench/blocks.h"
#include "tests/bench/peer.h"
#include "tests/bench/work.h"

/* The benchmarks with oneTBB, as a user writes them: a tbb::task_group in each activation that
 * forks, run() for a FORK, a plain call for a CALL, wait() for the JOIN. One arena has as many
 * slots as there are threads, and global_control limits the threads. */

static tbb::task_arena *arena;
static tbb::task_scheduler_handle handle;

static int64_t fib(int64_t n)
{
	if (n < 2)
		return n;

	tbb::task_group group;
	int64_t x;
	int64_t y;

	group.run([&x, n] { x = fib(n - 1); });
	y = fib(n - 2);
	group.wait();
	return x + y;
}

static void flat(uint32_t *out, int64_t n, int64_t rounds)
{
	tbb::task_group group;

	for (int64_t i = 0; i < n; i++)
		group.run([=] { out[i] = work_leaf(i, rounds); });
	group.wait();
}

static double integrate(struct work_strip strip, double eps)
{
	struct work_strip left;
	struct work_strip right;

	if (work_strip_halve(&strip, eps, &left, &right))
		return left.area + right.area;

	tbb::task_group group;
	double x;
	double y;

	group.run([&x, left, eps] { x = integrate(left, eps); });
	y = integrate(right, eps);
	group.wait();
	return x + y;
}

static int64_t nqueens(int32_t n, int32_t row, struct work_board board)
{
	if (row == n)
		return 1;

	tbb::task_group group;
	int64_t part[WORK_BOARD_MAX];
	int64_t sum = 0;

	for (int32_t i = 0; i < n; i++) {
		part[i] = 0;
		board.column[row] = (int8_t)i;
		if (work_board_ok(&board, row + 1))
			group.run([&part, n, row, board, i] {
				part[i] = nqueens(n, row + 1, board);
			});
	}
	group.wait();
	for (int32_t i = 0; i < n; i++)
		sum += part[i];
	return sum;
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

	tbb::task_group group;

	kids = (struct uts_kid *)alloca((size_t)children * sizeof(*kids));
	for (int32_t i = 0; i < children; i++) {
		struct uts_kid *kid = &kids[i];

		uts_child(node, i, &kid->node);
		group.run([tree, kid] { kid->count = uts(tree, &kid->node); });
	}
	group.wait();
	for (int32_t i = 0; i < children; i++)
		uts_count_add(&sum, &kids[i].count);
	return sum;
}

static void merge(const int64_t *a, int64_t na, const int64_t *b, int64_t nb, int64_t *out)
{
	int64_t k = (na + nb) / 2;
	int64_t i;

	if (na + nb <= WORK_MERGE_CUTOFF) {
		work_merge(a, na, b, nb, out);
		return;
	}

	tbb::task_group group;

	i = work_merge_split(a, na, b, nb, k);
	group.run([=] { merge(a, i, b, k - i, out); });
	merge(a + i, na - i, b + k - i, nb - k + i, out + k);
	group.wait();
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

	tbb::task_group group;

	group.run([=] { sort(a, tmp, half, !to_tmp); });
	sort(a + half, tmp + half, n - half, !to_tmp);
	group.wait();
	merge(from, half, from + half, n - half, to);
}

static void matmul(const float *a, const float *b, float *c, int64_t m, int64_t k, int64_t n,
		   int64_t stride)
{
	if (m <= KERNEL_MATMUL_EDGE && k <= KERNEL_MATMUL_EDGE && n <= KERNEL_MATMUL_EDGE) {
		kernel_matmul(a, b, c, m, k, n, stride);
	} else if (m >= k && m >= n) {
		tbb::task_group group;

		group.run([=] { matmul(a, b, c, m / 2, k, n, stride); });
		matmul(a + m / 2 * stride, b, c + m / 2 * stride, m - m / 2, k, n, stride);
		group.wait();
	} else if (n >= k) {
		tbb::task_group group;

		group.run([=] { matmul(a, b, c, m, k, n / 2, stride); });
		matmul(a, b + n / 2, c + n / 2, m, k, n - n / 2, stride);
		group.wait();
	} else {
		matmul(a, b, c, m, k / 2, n, stride);
		matmul(a + k / 2, b + k / 2 * stride, c, m, k - k / 2, n, stride);
	}
}

static int64_t split(struct kernel_job *job, int64_t first, int64_t end, int64_t parts)
{
	int64_t middle = first + (end - first) / 2;

	if (end - first == 1)
		return kernel_part(job, first, parts);

	tbb::task_group group;
	int64_t x;
	int64_t y;

	group.run([&x, job, first, middle, parts] { x = split(job, first, middle, parts); });
	y = split(job, middle, end, parts);
	group.wait();
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

static int64_t fib_root(int64_t n)
{
	return arena->execute([n] { return fib(n); });
}

static void flat_root(uint32_t *out, int64_t n, int64_t rounds)
{
	arena->execute([=] { flat(out, n, rounds); });
}

static double integrate_root(double n, double eps)
{
	return arena->execute([=] { return integrate(work_strip_whole(n), eps); });
}

static int64_t nqueens_root(int32_t n)
{
	struct work_board board = { { 0 } };

	return arena->execute([=] { return nqueens(n, 0, board); });
}

static struct uts_count uts_tree_root(const struct uts_tree *tree)
{
	struct uts_node root;

	uts_root(tree, &root);
	return arena->execute([&] { return uts(tree, &root); });
}

static void sort_root(int64_t *a, int64_t *tmp, int64_t n)
{
	arena->execute([=] { sort(a, tmp, n, false); });
}

static void matmul_root(const float *a, const float *b, float *c, int64_t n)
{
	arena->execute([=] { matmul(a, b, c, n, n, n, n); });
}

static int64_t steps_root(struct kernel_job *job)
{
	return arena->execute([job] { return steps(job); });
}

static int64_t blocks(int64_t n)
{
	tbb::task_group group;

	blocks_fill();
	for (int64_t k = 0; k < n; k++) {
		for (int64_t i = 0; i < BLOCKS_ROW; i++)
			for (int64_t j = 0; j < BLOCKS_ROW; j++)
				group.run([=] { blocks_update(i, j, k % BLOCKS_ROW); });
		group.wait();
	}
	return blocks_sum();
}

static int64_t blocks_root(int64_t n)
{
	return arena->execute([=] { return blocks(n); });
}

/* The default partitioner. */
static void range(int64_t n, void (*body)(int64_t first, int64_t last, void *context),
		  void *context)
{
	arena->execute([=] {
		tbb::parallel_for(tbb::blocked_range<int64_t>(0, n),
				  [=](const tbb::blocked_range<int64_t> &part) {
					  body(part.begin(), part.end(), context);
				  });
	});
}

/* Called once; both controls hold until the program ends. */
static void start(int threads)
{
	static tbb::global_control parallelism(tbb::global_control::max_allowed_parallelism,
					       (size_t)threads);
	static tbb::global_control stack(tbb::global_control::thread_stack_size,
					 (size_t)PEER_STACK_MIB << 20);
	static tbb::task_arena the_arena(threads);

	arena = &the_arena;
	handle = tbb::task_scheduler_handle{ tbb::attach{} };
}

static void stop()
{
	arena->terminate();
	if (!tbb::finalize(handle, std::nothrow))
		fputs("the threads of oneTBB have not ended\n", stderr);
}

int main(int argc, char **argv)
{
	static const struct peer peer = {
		"onetbb",     start,	     fib_root,	flat_root,   integrate_root,
		nqueens_root, uts_tree_root, sort_root, matmul_root, steps_root,
		blocks_root,  range,	     stop,	nullptr,     nullptr,
		nullptr,      nullptr,	     nullptr,	nullptr,     nullptr,
	};

	return peer_main(&peer, argc, argv);
}
