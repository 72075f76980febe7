/* SPDX-License-Identifier: MIT */
#include "tests/bench/peer_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/figures.h"
#include "tests/bench/work.h"

/*
 * Purpose
 *   The benchmarks of kernel.c, for peer.c: their arrays, timing and checks.
 *
 * Checks
 *   matmul: the numbers are small and whole, so every sum is exact in any order. C x = A (B x) must
 *   hold for a vector of small numbers (Freivalds 1977). loop and heat are computed once more, by
 *   plain loops. heat must agree in every bit, because each cell has one computation. The levels of
 *   bfs are checked edge by edge. The output of mergesort is in order, and has the sum of the
 *   input. moves has the hash of all blocks.
 *
 * Timing
 *   The call alone. The arrays are filled again before each run.
 */

#define HASH UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t i)
{
	return (uint64_t)work_sort_input((int64_t)i);
}

static uint64_t hash_bytes(const void *data, size_t bytes)
{
	const uint64_t *words = data;
	uint64_t hash = 0;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		hash = (hash ^ words[i]) * HASH;
	return hash >> 1;
}

/* matmul ------------------------------------------------------------------------------------ */

static bool product_is_right(const float *a, const float *b, const float *c, int64_t n)
{
	double *bx = calloc((size_t)n, sizeof(*bx));
	bool right = bx != NULL;

	for (int64_t i = 0; right && i < n; i++)
		for (int64_t j = 0; j < n; j++)
			bx[i] += (double)b[i * n + j] * (double)(mix((uint64_t)j) & 7);
	for (int64_t i = 0; right && i < n; i++) {
		double abx = 0;
		double cx = 0;

		for (int64_t j = 0; j < n; j++) {
			abx += (double)a[i * n + j] * bx[j];
			cx += (double)c[i * n + j] * (double)(mix((uint64_t)j) & 7);
		}
		right = abx == cx;
	}
	free(bx);
	return right;
}

static int64_t matmul_tasks(int64_t m, int64_t k, int64_t n)
{
	if (m <= KERNEL_MATMUL_EDGE && k <= KERNEL_MATMUL_EDGE && n <= KERNEL_MATMUL_EDGE)
		return 1;
	if (m >= k && m >= n)
		return 1 + matmul_tasks(m / 2, k, n) + matmul_tasks(m - m / 2, k, n);
	if (n >= k)
		return 1 + matmul_tasks(m, k, n / 2) + matmul_tasks(m, k, n - n / 2);
	return 1 + matmul_tasks(m, k / 2, n) + matmul_tasks(m, k - k / 2, n);
}

int peer_run_matmul(struct run *run, struct outcome *out)
{
	size_t bytes;
	int64_t n;
	float *a;
	float *b;
	float *c;

	if (figures_read(run->args[0], 1, 16384, &n) < 0)
		return -EINVAL;
	bytes = (size_t)(n * n) * sizeof(float);
	a = peer_touched(run->peer, bytes);
	b = peer_touched(run->peer, bytes);
	c = peer_touched(run->peer, bytes);
	for (int64_t i = 0; i < n * n; i++) {
		a[i] = (float)(mix((uint64_t)i) & 3);
		b[i] = (float)(mix((uint64_t)~i) & 3);
		c[i] = 0;
	}
	out->seconds = -peer_now();
	run->peer->matmul(a, b, c, n);
	out->seconds += peer_now();
	out->tasks = matmul_tasks(n, n, n);
	snprintf(out->result, sizeof(out->result), "%llu",
		 (unsigned long long)hash_bytes(c, bytes));
	if (!product_is_right(a, b, c, n))
		out->wrong = "not the product";
	peer_untouched(run->peer, c);
	peer_untouched(run->peer, b);
	peer_untouched(run->peer, a);
	return 0;
}

/* loop, heat, bfs --------------------------------------------------------------------------- */

/* Number of parts: the default of the computation, or one for each thread. */
static int parse_parts(const struct run *run, const char *arg, int64_t *ret_fixed)
{
	if (strcmp(arg, "stealing") && strcmp(arg, "static")) {
		fprintf(stderr, "'%s' is neither stealing nor static\n", arg);
		return -EINVAL;
	}
	*ret_fixed = strcmp(arg, "stealing") ? run->threads : 0;
	return 0;
}

static int64_t loop_plain(const struct kernel_job *job)
{
	int64_t sum = 0;

	for (int64_t i = 0; i < job->n; i++)
		sum += work_leaf(i, i < job->heavy ? 10 * job->rounds : job->rounds);
	return sum;
}

/* Computes both grids after all steps, without strips. */
static void heat_plain(struct kernel_job job)
{
	int64_t n = job.n;

	for (; job.steps > 0; job.steps--) {
		double *swap = job.from;

		for (int64_t i = n + 1; i < n * n - n - 1; i++) {
			const double *at = job.from + i;

			if (i % n && i % n != n - 1)
				job.to[i] =
					at[0] + 0.1 * (at[-1] + at[1] + at[-n] + at[n] - 4 * at[0]);
		}
		job.from = job.to;
		job.to = swap;
	}
}

/* Returns the number of tasks of a search, from the levels that it found. */
static int64_t bfs_tasks(const struct kernel_job *job)
{
	int64_t *in_level = figures_alloc((size_t)job->n + 1, sizeof(*in_level));
	struct kernel_job at = *job;
	int64_t tasks = 1;

	for (int64_t i = 0; i < job->n; i++)
		if (job->level[i] >= 0 && job->level[i] < job->n)
			in_level[job->level[i]]++;
	for (int64_t i = 0; in_level[i]; i++) {
		at.frontier_n = in_level[i];
		tasks += 2 * kernel_parts(&at) - 1;
	}
	free(in_level);
	return tasks;
}

/* Levels are right if no edge goes down by more than one, and each node except the first has an
 * edge from the level above: both together determine them. Returns how many other nodes were
 * reached, or -1. */
static int64_t bfs_reached(const struct kernel_job *job)
{
	const int32_t *level = job->level;
	bool *led_to = calloc((size_t)job->n, sizeof(*led_to));
	bool right = led_to && level[0] == 0;
	int64_t reached = 0;

	for (int64_t i = 0; right && i < KERNEL_BFS_DEGREE * job->n; i++) {
		int32_t from = level[i / KERNEL_BFS_DEGREE];
		int32_t to = level[job->edges[i]];

		if (from < 0)
			continue;
		right = to >= 0 && to <= from + 1;
		if (to == from + 1)
			led_to[job->edges[i]] = true;
	}
	for (int64_t i = 1; right && i < job->n; i++) {
		right = led_to[i] ? level[i] > 0 : level[i] == -1;
		reached += led_to[i];
	}
	free(led_to);
	return right ? reached : -1;
}

int peer_run_loop(struct run *run, struct outcome *out)
{
	struct kernel_job job = { .kind = KERNEL_LOOP };
	const char *shape = run->args[2];
	int64_t expected;
	int64_t result;

	if (figures_read(run->args[0], 1, 1000000000, &job.n) < 0 ||
	    figures_read(run->args[1], 0, 1000000000, &job.rounds) < 0 ||
	    parse_parts(run, run->args[3], &job.fixed) < 0)
		return -EINVAL;
	if (strcmp(shape, "balanced") && strcmp(shape, "imbalanced")) {
		fprintf(stderr, "'%s' is neither balanced nor imbalanced\n", shape);
		return -EINVAL;
	}
	if (job.fixed > job.n)
		job.fixed = job.n;
	job.heavy = strcmp(shape, "balanced") ? job.n / 10 : 0;
	expected = loop_plain(&job);
	out->tasks = 2 * kernel_parts(&job);
	out->seconds = -peer_now();
	result = run->peer->steps(&job);
	out->seconds += peer_now();
	peer_check(out, result, expected, "not the sum of all items");
	return 0;
}

int peer_run_heat(struct run *run, struct outcome *out)
{
	struct kernel_job job = { .kind = KERNEL_HEAT };
	int64_t expected;
	int64_t result;
	double *grids;
	double *mine;
	size_t bytes;
	int64_t steps;

	if (figures_read(run->args[0], 3, 32768, &job.n) < 0 ||
	    figures_read(run->args[1], 1, 1000000000, &job.steps) < 0 ||
	    parse_parts(run, run->args[2], &job.fixed) < 0)
		return -EINVAL;
	if (job.fixed > KERNEL_HEAT_STRIPS)
		job.fixed = KERNEL_HEAT_STRIPS;
	steps = job.steps;
	bytes = (size_t)(job.n * job.n) * sizeof(*grids);
	grids = peer_touched(run->peer, 2 * bytes);
	mine = figures_alloc(1, 2 * bytes);
	job.from = mine;
	job.to = mine + job.n * job.n;
	kernel_start(&job);
	heat_plain(job);
	expected = steps * (job.n - 2) * (job.n - 2);
	out->tasks = 1 + steps * (2 * kernel_parts(&job) - 1);
	job.from = grids;
	job.to = grids + job.n * job.n;
	kernel_start(&job);
	out->seconds = -peer_now();
	result = run->peer->steps(&job);
	out->seconds += peer_now();
	/* The last step has written to the other grid than the previous one. */
	snprintf(out->result, sizeof(out->result), "%llu",
		 (unsigned long long)hash_bytes(grids + steps % 2 * job.n * job.n, bytes));
	if (result != expected || memcmp(grids, mine, 2 * bytes))
		out->wrong = "not what it is when computed serially";
	free(mine);
	peer_untouched(run->peer, grids);
	return 0;
}

int peer_run_bfs(struct run *run, struct outcome *out)
{
	struct kernel_job job = { .kind = KERNEL_BFS };
	uint64_t sum = 0;
	int32_t *queues;
	int32_t *edges;
	int32_t *level;
	int64_t result;
	size_t bytes;

	if (figures_read(run->args[0], 2, 100000000, &job.n) < 0 ||
	    parse_parts(run, run->args[1], &job.fixed) < 0)
		return -EINVAL;
	bytes = (size_t)job.n * sizeof(*level);
	edges = peer_touched(run->peer, KERNEL_BFS_DEGREE * bytes);
	level = peer_touched(run->peer, bytes);
	queues = peer_touched(run->peer, 2 * bytes);
	for (int64_t i = 0; i < KERNEL_BFS_DEGREE * job.n; i++)
		edges[i] = (int32_t)(mix((uint64_t)i) % (uint64_t)job.n);
	job.edges = edges;
	job.level = level;
	job.frontier = queues;
	job.next = queues + job.n;
	kernel_start(&job);
	out->seconds = -peer_now();
	result = run->peer->steps(&job);
	out->seconds += peer_now();
	for (int64_t i = 0; i < job.n; i++)
		sum = (sum ^ (uint32_t)level[i]) * HASH;
	snprintf(out->result, sizeof(out->result), "%llu", (unsigned long long)(sum >> 1));
	if (result != bfs_reached(&job))
		out->wrong = "not the levels of this graph";
	out->tasks = bfs_tasks(&job);
	peer_untouched(run->peer, queues);
	peer_untouched(run->peer, level);
	peer_untouched(run->peer, edges);
	return 0;
}

int peer_run_mergesort(struct run *run, struct outcome *out)
{
	struct kernel_job job = { .kind = KERNEL_SORT };
	struct kernel_job at;
	int64_t *arrays[2];
	int64_t steps = 0;
	int64_t result;
	uint64_t sum;

	if (figures_read(run->args[0], 1, 1000000000, &job.n) < 0 ||
	    parse_parts(run, run->args[1], &job.fixed) < 0)
		return -EINVAL;
	for (int i = 0; i < 2; i++)
		arrays[i] = peer_touched(run->peer, (size_t)job.n * sizeof(*arrays[i]));
	job.numbers = arrays[0];
	job.spare = arrays[1];
	if (job.fixed > job.n)
		job.fixed = job.n;
	at = job;
	out->tasks = 1;
	do {
		out->tasks += 2 * kernel_parts(&at) - 1;
		steps++;
	} while (kernel_next(&at));
	sum = peer_sort_fill(job.numbers, job.n);
	out->seconds = -peer_now();
	result = run->peer->steps(&job);
	out->seconds += peer_now();
	/* Each step except the first has written to the other array. */
	peer_sort_check(arrays[(steps - 1) % 2], at.n, sum, out);
	if (result != at.n)
		out->wrong = "not all numbers were sorted";
	for (int i = 0; i < 2; i++)
		peer_untouched(run->peer, arrays[i]);
	return 0;
}

static int compare_i64(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Compares by thread, then by time. */
static int compare_moves(const void *a, const void *b)
{
	const struct kernel_move *x = a, *y = b;

	if (x->place != y->place)
		return x->place > y->place ? 1 : -1;
	return (x->began > y->began) - (x->began < y->began);
}

/* Returns the median of n numbers, which it sorts; -1 if there is none. */
static long long middle(int64_t *numbers, size_t n)
{
	qsort(numbers, n, sizeof(*numbers), compare_i64);
	return n ? (long long)numbers[n / 2] : -1;
}

/* Prints statistics of the moves, for those that ran where they were sent and for the others: their
 * number, the time since the end of the previous one on the same thread, and their own time. */
static void moves_say(struct kernel_move *moves, size_t n, struct outcome *out)
{
	int64_t *times = figures_alloc(4 * n, sizeof(*times));
	int64_t *gaps[2] = { times, times + n }, *works[2] = { times + 2 * n, times + 3 * n };
	size_t n_gaps[2] = { 0 }, n_works[2] = { 0 };

	qsort(moves, n, sizeof(*moves), compare_moves);
	for (size_t i = 0; i < n; i++) {
		int stolen = moves[i].place != moves[i].home;

		works[stolen][n_works[stolen]++] = moves[i].ended - moves[i].began;
		if (i && moves[i - 1].place == moves[i].place)
			gaps[stolen][n_gaps[stolen]++] = moves[i].began - moves[i - 1].ended;
	}
	snprintf(out->extra, sizeof(out->extra),
		 ", \"local\": %zu, \"stolen\": %zu, \"local_gap_ns\": %lld, \"stolen_gap_ns\": "
		 "%lld, "
		 "\"local_work_ns\": %lld, \"stolen_work_ns\": %lld",
		 n_works[0], n_works[1], middle(gaps[0], n_gaps[0]), middle(gaps[1], n_gaps[1]),
		 middle(works[0], n_works[0]), middle(works[1], n_works[1]));
	free(times);
}

int peer_run_moves(struct run *run, struct outcome *out)
{
	struct kernel_job job = { .kind = KERNEL_MOVES };
	struct kernel_job mine;
	int64_t expected = 0;
	int64_t result;

	if (figures_read(run->args[0], 1, 1000000, &job.n) < 0 ||
	    figures_read(run->args[1], 1, 1000000, &job.steps) < 0)
		return -EINVAL;
	job.blocks =
		peer_touched(run->peer, (size_t)(job.n * KERNEL_MOVES_BLOCK) * sizeof(*job.blocks));
	job.moves = peer_touched(run->peer, (size_t)(job.n * job.steps) * sizeof(*job.moves));
	mine = job;
	for (int64_t i = 0; i < job.n; i++) {
		kernel_send(&mine, i);
		expected += kernel_part(&mine, i, job.n);
	}
	expected *= job.steps;
	out->seconds = -peer_now();
	result = run->peer->steps(&job);
	out->seconds += peer_now();
	out->tasks = mine.n * mine.steps + 1;
	peer_check(out, result, expected, "not the hash of all blocks");
	moves_say(mine.moves, (size_t)(mine.n * mine.steps), out);
	peer_untouched(run->peer, mine.moves);
	peer_untouched(run->peer, mine.blocks);
	return 0;
}

size_t peer_steps_bytes(const char *bench, int64_t n, int64_t steps)
{
	if (!strcmp(bench, "moves"))
		return (size_t)n * (KERNEL_MOVES_BLOCK * sizeof(int64_t) +
				    (size_t)steps * sizeof(struct kernel_move));
	if (!strcmp(bench, "matmul"))
		return 3 * (size_t)(n * n) * sizeof(float);
	if (!strcmp(bench, "mergesort"))
		return 2 * (size_t)n * sizeof(int64_t);
	if (!strcmp(bench, "heat"))
		return 2 * (size_t)(n * n) * sizeof(double);
	if (!strcmp(bench, "bfs"))
		return (KERNEL_BFS_DEGREE + 3) * (size_t)n * sizeof(int32_t);
	return 0;
}
