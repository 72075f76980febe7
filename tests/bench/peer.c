/* SPDX-License-Identifier: MIT */
#include "tests/bench/peer_run.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/bench/blocks.h"
#include "tests/bench/figures.h"
#include "tests/bench/work.h"

/*
 * Purpose
 *   main() of every benchmark program:
 *
 *       peer_x BENCH ARG... [--threads P] [--repeat R]
 *
 * 	fib N		flat N [ROUNDS]		integrate N EPS		nqueens N
 * 	uts TREE	sort N			matmul N		blocks N
 * 	moves N STEPS	cut-fib N CUTOFF	cut-nqueens N ROWS
 * 	loop N ROUNDS balanced|imbalanced stealing|static
 * 	heat N STEPS stealing|static
 * 	bfs NODES stealing|static
 * 	mergesort N stealing|static
 * 	each N ROUNDS REPS	nest N INNER ROUNDS REPS
 * 	empty N REPS outside|inside
 * 	start			idle
 *
 *   For each of the R runs one line of JSON on stdout:
 *
 *       {"peer": "onetbb", "bench": "fib", "args": ["30"], "threads": 2, "run": 0,
 *        "result": 832040, "seconds": 0.1, "tasks": 2692537, "base_rss_kib": 8000,
 *        "peak_rss_kib": 9000}
 *
 *   `tasks` is the number of tasks of the algorithm (work.h), not of the library. Exit status 0; 1
 *   if a result differs from the known one or the closed form; 2 for a wrong command line.
 *
 * Timing
 *   One call of the benchmark, on arrays that were written once. An untimed fib(16) before the
 *   first run starts the library's threads.
 *
 * Memory
 *   Reading the memory of a process costs it time. A peer with `watch` has one more run for that,
 *   after the timed ones, with its results in every run's line. base_rss_kib is the peak before the
 *   first run: the process and the library's threads.
 *
 * Threads
 *   The runs are on a separate thread with a large stack, because most libraries nest foreign tasks
 *   on the stack of a waiting thread.
 */

double peer_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Not getrusage(), which starts with the parent's peak at exec. */
static long peak_rss_kib(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

void *peer_touched(const struct peer *peer, size_t bytes)
{
	void *mem = peer->alloc ? peer->alloc(bytes) : malloc(bytes);

	if (!mem) {
		fprintf(stderr, "out of memory: %zu bytes\n", bytes);
		exit(1);
	}
	memset(mem, 0xa5, bytes);
	return mem;
}

void peer_untouched(const struct peer *peer, void *mem)
{
	if (peer->release)
		peer->release(mem);
	else
		free(mem);
}

static int parse_real(const char *arg, double *ret)
{
	char *end;
	double value = strtod(arg ? arg : "", &end);

	if (!arg || end == arg || *end || !(value > 0)) {
		fprintf(stderr, "'%s' is not a number greater than 0\n", arg ? arg : "");
		return -EINVAL;
	}
	*ret = value;
	return 0;
}

void peer_check(struct outcome *out, int64_t result, int64_t expected, const char *wrong)
{
	snprintf(out->result, sizeof(out->result), "%lld", (long long)result);
	if (result != expected)
		out->wrong = wrong;
}

static int run_fib(struct run *run, struct outcome *out)
{
	int64_t result;
	int64_t n;

	if (figures_read(run->args[0], 0, 60, &n) < 0)
		return -EINVAL;
	out->seconds = -peer_now();
	result = run->peer->fib(n);
	out->seconds += peer_now();
	out->tasks = work_fib_tasks(n);
	peer_check(out, result, work_fib(n), "not the closed form");
	return 0;
}

static int run_flat(struct run *run, struct outcome *out)
{
	int64_t rounds = 0;
	uint64_t expected = 0;
	uint64_t sum = 0;
	uint32_t *slots;
	int64_t n;

	if (figures_read(run->args[0], 1, 1000000000, &n) < 0)
		return -EINVAL;
	if (run->args[1] && figures_read(run->args[1], 0, 1000000, &rounds) < 0)
		return -EINVAL;
	slots = peer_touched(run->peer, (size_t)n * sizeof(*slots));
	out->seconds = -peer_now();
	run->peer->flat(slots, n, rounds);
	out->seconds += peer_now();
	for (int64_t i = 0; i < n; i++) {
		sum += slots[i];
		expected += work_leaf(i, rounds);
	}
	peer_untouched(run->peer, slots);
	out->tasks = n + 1;
	snprintf(out->result, sizeof(out->result), "%llu", (unsigned long long)sum);
	if (sum != expected)
		out->wrong = "not the sum of all leaves";
	return 0;
}

static int run_integrate(struct run *run, struct outcome *out)
{
	double result;
	double exact;
	double eps;
	double n;

	if (parse_real(run->args[0], &n) < 0)
		return -EINVAL;
	if (parse_real(run->args[1], &eps) < 0)
		return -EINVAL;
	out->seconds = -peer_now();
	result = run->peer->integrate(n, eps);
	out->seconds += peer_now();
	out->tasks = work_integrate_tasks(work_strip_whole(n), eps);
	exact = work_integrate_exact(n);
	snprintf(out->result, sizeof(out->result), "%.17g", result);
	/* Every strip may be off by eps, and each sum by a rounding error. */
	if (!(fabs(result - exact) <= eps * (double)out->tasks + 1e-9 * exact))
		out->wrong = "not the integral";
	return 0;
}

static const int64_t known_queens[WORK_BOARD_MAX + 1] = {
	1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712, 365596, 2279184, 14772512,
};

static int run_nqueens(struct run *run, struct outcome *out)
{
	struct work_board board = { { 0 } };
	int64_t result;
	int64_t n;

	if (figures_read(run->args[0], 1, WORK_BOARD_MAX, &n) < 0)
		return -EINVAL;
	out->seconds = -peer_now();
	result = run->peer->nqueens((int32_t)n);
	out->seconds += peer_now();
	out->tasks = work_nqueens_tasks((int32_t)n, 0, (int32_t)n, board);
	peer_check(out, result, known_queens[n], "not the known number of solutions");
	return 0;
}

/* An error shows when the programs are compared. */
static int run_blocks(struct run *run, struct outcome *out)
{
	int64_t n;

	if (!run->peer->blocks || figures_read(run->args[0], 1, BLOCKS_TIMES, &n) < 0)
		return -EINVAL;
	out->seconds = -peer_now();
	snprintf(out->result, sizeof(out->result), "%lld", (long long)run->peer->blocks(n));
	out->seconds += peer_now();
	out->tasks = n * BLOCKS_ROW * BLOCKS_ROW + 1;
	return 0;
}

static int run_cut_fib(struct run *run, struct outcome *out)
{
	int64_t cutoff;
	int64_t result;
	int64_t n;

	if (!run->peer->cut_fib || figures_read(run->args[1], 1, 60, &cutoff) < 0 ||
	    figures_read(run->args[0], cutoff, 60, &n) < 0)
		return -EINVAL;
	out->seconds = -peer_now();
	result = run->peer->cut_fib(n, cutoff);
	out->seconds += peer_now();
	/* Two kinds of leaves: cutoff and the one below it. */
	out->tasks = work_fib_tasks(n - cutoff + 1);
	peer_check(out, result, work_fib(n), "not the closed form");
	return 0;
}

static int run_cut_nqueens(struct run *run, struct outcome *out)
{
	struct work_board board = { { 0 } };
	int64_t result;
	int64_t rows;
	int64_t n;

	if (!run->peer->cut_nqueens || figures_read(run->args[0], 1, WORK_BOARD_MAX, &n) < 0 ||
	    figures_read(run->args[1], 0, n, &rows) < 0)
		return -EINVAL;
	out->seconds = -peer_now();
	result = run->peer->cut_nqueens((int32_t)n, (int32_t)rows);
	out->seconds += peer_now();
	out->tasks = work_nqueens_tasks((int32_t)n, 0, (int32_t)rows, board);
	peer_check(out, result, known_queens[n], "not the known number of solutions");
	return 0;
}

static int run_uts(struct run *run, struct outcome *out)
{
	const struct uts_tree *tree = run->args[0] ? uts_tree_find(run->args[0]) : NULL;
	struct uts_count count;

	if (!tree) {
		fputs("uts needs one of the trees", stderr);
		for (unsigned int i = 0; (tree = uts_tree_at(i)); i++)
			fprintf(stderr, " %s", tree->name);
		fputs("\n", stderr);
		return -EINVAL;
	}
	out->seconds = -peer_now();
	count = run->peer->uts(tree);
	out->seconds += peer_now();
	out->tasks = tree->known.nodes;
	snprintf(out->result, sizeof(out->result), "%lld", (long long)count.nodes);
	snprintf(out->extra, sizeof(out->extra), ", \"depth\": %lld, \"leaves\": %lld",
		 (long long)count.depth, (long long)count.leaves);
	if (count.nodes != tree->known.nodes)
		out->wrong = "not the published number of nodes";
	else if (tree->known.depth >= 0 && count.depth != tree->known.depth)
		out->wrong = "not the published depth";
	else if (tree->known.leaves >= 0 && count.leaves != tree->known.leaves)
		out->wrong = "not the published number of leaves";
	return 0;
}

uint64_t peer_sort_fill(int64_t *numbers, int64_t n)
{
	uint64_t sum = 0;

	for (int64_t i = 0; i < n; i++) {
		numbers[i] = work_sort_input(i);
		sum += (uint64_t)numbers[i] * 0x9e3779b97f4a7c15 ^ (uint64_t)numbers[i] >> 32;
	}
	return sum;
}

void peer_sort_check(const int64_t *numbers, int64_t n, uint64_t sum, struct outcome *out)
{
	uint64_t hash = 0;
	uint64_t found = 0;

	for (int64_t i = 0; i < n; i++) {
		found += (uint64_t)numbers[i] * 0x9e3779b97f4a7c15 ^ (uint64_t)numbers[i] >> 32;
		hash = (hash ^ (uint64_t)numbers[i]) * 0x9e3779b97f4a7c15;
		if (i && numbers[i - 1] > numbers[i])
			out->wrong = "not in order";
	}
	if (found != sum)
		out->wrong = "not the same numbers any more";
	snprintf(out->result, sizeof(out->result), "%llu", (unsigned long long)(hash >> 1));
}

static int run_sort(struct run *run, struct outcome *out)
{
	uint64_t sum;
	int64_t *tmp;
	int64_t *a;
	int64_t n;

	if (figures_read(run->args[0], 1, 1000000000, &n) < 0)
		return -EINVAL;
	a = peer_touched(run->peer, (size_t)n * sizeof(*a));
	tmp = peer_touched(run->peer, (size_t)n * sizeof(*tmp));
	sum = peer_sort_fill(a, n);
	out->seconds = -peer_now();
	run->peer->sort(a, tmp, n);
	out->seconds += peer_now();
	peer_sort_check(a, n, sum, out);
	peer_untouched(run->peer, tmp);
	peer_untouched(run->peer, a);
	out->tasks = work_sort_tasks(n);
	return 0;
}

static const struct {
	const char *name;
	int args_min;
	int args_max;
	int (*run)(struct run *run, struct outcome *out);
} benches[] = {
	{ "fib", 1, 1, run_fib },
	{ "flat", 1, 2, run_flat },
	{ "integrate", 2, 2, run_integrate },
	{ "nqueens", 1, 1, run_nqueens },
	{ "uts", 1, 1, run_uts },
	{ "sort", 1, 1, run_sort },
	{ "matmul", 1, 1, peer_run_matmul },
	{ "loop", 4, 4, peer_run_loop },
	{ "heat", 3, 3, peer_run_heat },
	{ "bfs", 2, 2, peer_run_bfs },
	{ "mergesort", 2, 2, peer_run_mergesort },
	{ "blocks", 1, 1, run_blocks },
	{ "cut-fib", 2, 2, run_cut_fib },
	{ "cut-nqueens", 2, 2, run_cut_nqueens },
	{ "moves", 2, 2, peer_run_moves },
	{ "each", 3, 3, peer_run_each },
	{ "nest", 4, 4, peer_run_nest },
	{ "empty", 3, 3, peer_run_empty },
};

static void print(const struct run *run, int nth, const struct outcome *out, const char *watched)
{
	printf("{\"peer\": \"%s\", \"bench\": \"%s\", \"args\": [", run->peer->name, run->bench);
	for (int i = 0; run->args[i]; i++)
		printf("%s\"%s\"", i ? ", " : "", run->args[i]);
	printf("], \"threads\": %d, \"run\": %d, \"result\": %s, \"seconds\": %.9f, "
	       "\"tasks\": %lld, \"base_rss_kib\": %ld, \"peak_rss_kib\": %ld%s%s%s}\n",
	       run->threads, nth, out->result, out->seconds, (long long)out->tasks, run->base_kib,
	       peak_rss_kib(), out->extra, out->noted, watched);
	fflush(stdout);
}

/* Returns the bytes of all arrays of a benchmark. */
static size_t array_bytes(const struct run *run)
{
	int64_t n = run->args[0] ? strtoll(run->args[0], NULL, 10) : 0;

	if (n <= 0)
		return 0;
	if (!strcmp(run->bench, "flat"))
		return (size_t)n * sizeof(uint32_t);
	if (!strcmp(run->bench, "sort"))
		return 2 * (size_t)n * sizeof(int64_t);
	return peer_steps_bytes(run->bench, n, run->args[1] ? strtoll(run->args[1], NULL, 10) : 0);
}

/* All runs of one benchmark. Returns the exit status. */
static int runs(struct run *run, int (*bench)(struct run *run, struct outcome *out))
{
	int n = run->repeat + !!run->peer->watch;
	struct outcome *outs = calloc((size_t)n, sizeof(*outs));
	char watched[256] = "";
	int status = 2;

	if (!outs) {
		fputs("out of memory\n", stderr);
		return 1;
	}
	for (int i = 0; i < n; i++) {
		struct outcome *out = &outs[i];

		if (i == run->repeat)
			run->peer->watch(true, watched, sizeof(watched));
		if (bench(run, out) < 0)
			goto end;
		if (run->peer->note)
			run->peer->note(out->noted, sizeof(out->noted));
		if (i == run->repeat)
			run->peer->watch(false, watched, sizeof(watched));
		if (out->wrong) {
			fprintf(stderr, "%s %s: the result %s is wrong: %s\n", run->peer->name,
				run->bench, out->result, out->wrong);
			status = 1;
			goto end;
		}
	}
	for (int i = 0; i < run->repeat; i++)
		print(run, i, &outs[i], watched);
	status = 0;
end:
	free(outs);
	return status;
}

static void *runner(void *arg)
{
	struct run *run = arg;
	size_t bench = 0;
	int args = 0;

	run->status = 2;
	while (bench < sizeof(benches) / sizeof(benches[0]) &&
	       strcmp(benches[bench].name, run->bench))
		bench++;
	while (run->args[args])
		args++;
	if (bench == sizeof(benches) / sizeof(benches[0]) || args < benches[bench].args_min ||
	    args > benches[bench].args_max) {
		fprintf(stderr, "no such benchmark, or not its arguments: %s\n", run->bench);
		return NULL;
	}
	if (run->peer->prepare)
		run->peer->prepare(run->bench, array_bytes(run));
	if (run->peer->start)
		run->peer->start(run->threads);
	run->peer->fib(16);
	run->base_kib = peak_rss_kib();
	run->status = runs(run, benches[bench].run);
	if (run->peer->stop)
		run->peer->stop();
	return NULL;
}

int peer_main(const struct peer *peer, int argc, char **argv)
{
	static const struct option options[] = {
		{ "threads", required_argument, NULL, 't' },
		{ "repeat", required_argument, NULL, 'r' },
		{ NULL, 0, NULL, 0 },
	};
	struct run run = { .peer = peer, .threads = 1, .repeat = 1 };
	pthread_attr_t attr;
	pthread_t thread;
	int64_t value;
	int c;
	int r;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == '?' || figures_read(optarg, 1, 4096, &value) < 0)
			return 2;
		if (c == 't')
			run.threads = (int)value;
		else
			run.repeat = (int)value;
	}
	if (optind >= argc) {
		fprintf(stderr, "usage: %s BENCH ARG... [--threads P] [--repeat R]\n", argv[0]);
		return 2;
	}
	run.bench = argv[optind];
	run.args = argv + optind + 1;
	if (!strcmp(run.bench, "start") || !strcmp(run.bench, "idle"))
		return peer_run_start(&run);
	pthread_attr_init(&attr);
	r = pthread_attr_setstacksize(&attr, (size_t)PEER_STACK_MIB << 20);
	if (!r)
		r = pthread_create(&thread, &attr, runner, &run);
	pthread_attr_destroy(&attr);
	if (r) {
		fprintf(stderr, "cannot start a thread: %s\n", strerror(r));
		return 1;
	}
	pthread_join(thread, NULL);
	return run.status;
}
