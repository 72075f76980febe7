/* SPDX-License-Identifier: MIT */
/*
 * bench_forkd.c - forkd's side of `make bench`
 *
 * A client program over libforkclient. It starts a private forkd of this build tree, whose modules
 * are loaded from their shared objects, and submits every job through the daemon.
 *
 * 	bench_forkd BENCH ARG... [--threads P] [--repeat R]     as every peer: see peer.c
 * 	bench_forkd fibers|kept BENCH ARG... [--threads P] [--repeat R]    the same by fibers
 * 	bench_forkd counted fib|flat N [--threads P]            forks counted, and as they should be
 * 	bench_forkd job TASK N [--threads P]                    memory of a task i64 -> i64, of N
 * 	bench_forkd memory TREE [--threads P]                   the same of a tree of UTS
 * 	bench_forkd pingpong warm|idle [--round-trips N] [--gap-us G] [--threads P]
 * 	bench_forkd nulls [--clients C] [--in-flight K] [--seconds S] [--threads P]
 *
 * kept: fibers that are not stolen.
 *
 * One line of JSON per run on stdout. Exit status 0; 1 if a result or a number of forks was wrong;
 * 2 for a wrong command line. No time makes it fail.
 *
 * WHAT IS TIMED
 *   From before the submission to after the result was copied, with the clock of the peers. The
 *   arrays of flat and sort are in the shared heap.
 *
 * INVARIANTS
 *   I1. No forkd outlives this program: see bench_pool.c.
 *   I2. PSS is read only in a separate run, or between runs.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/bench_pool.h"
#include "client/lib/client.h"
#include "common/clock.h"
#include "tests/bench/figures.h"
#include "tests/bench/peer.h"
#include "shm/wake.h"
#include "tests/bench/work.h"

#define ROUND_TRIPS_WARM 1000
#define HEAP_SLACK	 (1u << 20)
#define CLIENTS_MAX	 64

static struct bench_pool pool;
static fk_client *client;
static const char *modules = BENCH_MODULES_SHIPPED;
static size_t heap_size = HEAP_SLACK;
static const char *option; /* of forkd, or NULL */
static bool as_fibers;
static int64_t idle_kib = -1;	  /* PSS of the pool before the first job */
static int64_t idle_rss_kib = -1; /* its largest RSS so far, then */

/* ---------------------------------------------------------------------------- as every peer */

static void prepare(const char *bench, size_t bytes)
{
	static const char *const shipped[] = { "fib", "integrate", "nqueens", "uts" };

	modules = BENCH_MODULES_TEST;
	for (size_t i = 0; i < sizeof(shipped) / sizeof(shipped[0]); i++)
		if (!strcmp(bench, shipped[i]))
			modules = BENCH_MODULES_SHIPPED;
	heap_size = bytes + HEAP_SLACK;
}

static void start(int threads)
{
	bench_pool_start_with(&pool, modules, threads, option);
	client = bench_pool_open(&pool, 0, heap_size);
	idle_kib = bench_pool_pss(client);
	idle_rss_kib = bench_pool_rss_peak(client);
}

static void stop(void)
{
	fk_close(client);
	client = NULL;
	bench_pool_stop(&pool);
}

static void call(const char *name, const union fk_value *values, size_t n, void *ret, size_t size)
{
	bench_pool_call(client, bench_pool_task(client, name), values, n, ret, size);
}

static int64_t call_i64(const char *name, int64_t a, int64_t b, size_t n)
{
	union fk_value values[2] = { { .i64 = a }, { .i64 = b } };
	int64_t result;

	call(name, values, n, &result, sizeof(result));
	return result;
}

static int64_t fib(int64_t n)
{
	/* With the benchmarks' own modules only the untimed first run gets here: any job will
	 * do. */
	if (strcmp(modules, BENCH_MODULES_SHIPPED))
		return call_i64("deep:forked", n, 0, 1);
	return call_i64("fib:fib", n, 0, 1);
}

static struct fk_buffer buffer_of(void *data, size_t size)
{
	return (struct fk_buffer){ .data = data, .size = size };
}

static void flat(uint32_t *out, int64_t n, int64_t rounds)
{
	union fk_value values[2] = {
		{ .buf = buffer_of(out, (size_t)n * sizeof(*out)) },
		{ .i64 = rounds },
	};

	call("flat:fill", values, 2, NULL, 0);
}

static double integrate(double n, double eps)
{
	union fk_value values[2] = { { .f64 = n }, { .f64 = eps } };
	double result;

	call("integrate:integrate", values, 2, &result, sizeof(result));
	return result;
}

static int64_t nqueens(int32_t n)
{
	return call_i64("nqueens:nqueens", n, 0, 1);
}

static struct uts_count uts(const struct uts_tree *tree)
{
	union fk_value value = { .str = tree->name };
	struct {
		int64_t nodes;
		int64_t depth;
		int64_t leaves;
	} result;

	call("uts:uts", &value, 1, &result, sizeof(result));
	return (struct uts_count){ .nodes = result.nodes,
				   .leaves = result.leaves,
				   .depth = result.depth };
}

static void sort(int64_t *a, int64_t *tmp, int64_t n)
{
	union fk_value values[2] = {
		{ .buf = buffer_of(a, (size_t)n * sizeof(*a)) },
		{ .buf = buffer_of(tmp, (size_t)n * sizeof(*tmp)) },
	};

	call("msort:msort", values, 2, NULL, 0);
}

static void matmul(const float *a, const float *b, float *c, int64_t n)
{
	size_t bytes = (size_t)(n * n) * sizeof(float);
	union fk_value values[4] = {
		{ .buf = buffer_of((void *)(uintptr_t)a, bytes) },
		{ .buf = buffer_of((void *)(uintptr_t)b, bytes) },
		{ .buf = buffer_of(c, bytes) },
		{ .i64 = n },
	};

	call("matmul:matmul", values, 4, NULL, 0);
}

static int64_t steps(struct kernel_job *job)
{
	static const char *const names[] = { "steps:loop", "steps:heat", "steps:bfs", "steps:sort",
					     "steps:moves" };
	size_t level = (size_t)job->n * sizeof(*job->level);
	union fk_value values[4] = { { .i64 = job->n } };
	int64_t result;

	if (job->kind == KERNEL_LOOP) {
		values[1].i64 = job->rounds;
		values[2].i64 = job->heavy;
	} else if (job->kind == KERNEL_HEAT) {
		values[0].buf = buffer_of(job->from,
					  2 * (size_t)job->n * (size_t)job->n * sizeof(*job->from));
		values[1].i64 = job->n;
		values[2].i64 = job->steps;
	} else if (job->kind == KERNEL_SORT) {
		values[0].buf = buffer_of(job->numbers, (size_t)job->n * sizeof(*job->numbers));
		values[1].buf = buffer_of(job->spare, values[0].buf.size);
		values[2].i64 = job->n;
	} else if (job->kind == KERNEL_MOVES) {
		values[0].buf = buffer_of(job->blocks, (size_t)job->n * KERNEL_MOVES_BLOCK *
							       sizeof(*job->blocks));
		values[1].buf =
			buffer_of(job->moves, (size_t)(job->n * job->steps) * sizeof(*job->moves));
		values[2].i64 = job->n;
	} else {
		values[0].buf = buffer_of((void *)(uintptr_t)job->edges, KERNEL_BFS_DEGREE * level);
		values[1].buf = buffer_of(job->level, level);
		values[2].buf = buffer_of(job->frontier, 2 * level);
	}
	if (job->kind == KERNEL_MOVES)
		values[3].i64 = job->steps;
	else
		values[3].i64 = as_fibers ? -1 : job->fixed;
	call(names[job->kind], values, 4, &result, sizeof(result));
	return result;
}

static int64_t blocks(int64_t n)
{
	return call_i64("leaf:fresh", n, 0, 1);
}

static int64_t cut_fib(int64_t n, int64_t cutoff)
{
	return call_i64("fibers:fib", n, cutoff, 2);
}

static int64_t cut_nqueens(int32_t n, int32_t rows)
{
	return call_i64("fibers:nqueens", n, rows, 2);
}

/* Reports the workers' counters since the last call: only steals of the timed runs count. */
static void note(char *ret, size_t size)
{
	static const char *const names[] = { "steals", "steal_attempts", "job_steals",
					     "fibers", "fiber_parks",	 "fiber_migrations" };
	static uint64_t before[6];
	size_t n = 0;

	for (size_t i = 0; i < 6 && n < size; i++) {
		uint64_t now = bench_pool_counter(client, names[i]);

		n += (size_t)snprintf(ret + n, size - n, ", \"%s\": %llu", names[i],
				      (unsigned long long)(now - before[i]));
		before[i] = now;
	}
}

static void *take(size_t bytes)
{
	void *mem;

	return fk_alloc(client, bytes, &mem) < 0 ? NULL : mem;
}

static void give(void *mem)
{
	(void)fk_free(client, mem);
}

static void watch(bool begin, char *ret, size_t size)
{
	if (begin) {
		bench_pool_sample_start(client);
		return;
	}
	snprintf(ret, size,
		 ", \"pool_pss_idle_kib\": %lld, \"pool_pss_peak_kib\": %lld, "
		 "\"pool_rss_idle_kib\": %lld, \"pool_rss_peak_kib\": %lld, \"manager_rss_kib\": "
		 "%lld",
		 (long long)idle_kib, (long long)bench_pool_sample_stop(), (long long)idle_rss_kib,
		 (long long)bench_pool_rss_peak(client), (long long)bench_pool_manager_rss(&pool));
}

static int as_peer(const char *name, int argc, char **argv)
{
	struct peer peer = {
		.name = name,
		.start = start,
		.fib = fib,
		.flat = flat,
		.integrate = integrate,
		.nqueens = nqueens,
		.uts = uts,
		.sort = sort,
		.matmul = matmul,
		.steps = steps,
		.blocks = blocks,
		.prepare = prepare,
		.alloc = take,
		.release = give,
		.note = note,
		.watch = watch,
		.stop = stop,
	};

	as_fibers = !!strcmp(name, "forkd");
	if (as_fibers) {
		peer.cut_fib = cut_fib;
		peer.cut_nqueens = cut_nqueens;
		peer.watch = NULL;
	}
	return peer_main(&peer, argc, argv);
}

/* ------------------------------------------------------------------------------ command line */

struct args {
	char **words; /* NULL at the end */
	int threads;
	uint32_t round_trips;
	uint32_t gap_us;
	uint32_t clients;
	uint32_t in_flight;
	uint32_t seconds;
};

static void parse(int argc, char **argv, struct args *args)
{
	static const struct option options[] = {
		{ "threads", required_argument, NULL, 't' },
		{ "round-trips", required_argument, NULL, 'n' },
		{ "gap-us", required_argument, NULL, 'g' },
		{ "clients", required_argument, NULL, 'c' },
		{ "in-flight", required_argument, NULL, 'k' },
		{ "seconds", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	*args = (struct args){
		.threads = 1,
		.round_trips = 10000,
		.gap_us = 1000,
		.clients = 1,
		.in_flight = 256,
		.seconds = 1,
	};
	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 't')
			args->threads = (int)figures_number(optarg, 1, LIMIT_WORKERS);
		else if (c == 'n')
			args->round_trips = (uint32_t)figures_number(optarg, 1, 100000000);
		else if (c == 'g')
			args->gap_us = (uint32_t)figures_number(optarg, 1, 999999);
		else if (c == 'c')
			args->clients = (uint32_t)figures_number(optarg, 1, CLIENTS_MAX);
		else if (c == 'k')
			args->in_flight = (uint32_t)figures_number(optarg, 1, 4096);
		else if (c == 's')
			args->seconds = (uint32_t)figures_number(optarg, 1, 3600);
		else
			exit(2);
	}
	args->words = argv + optind;
}

/* -------------------------------------------------------------------------------- fork counts */

/* A worker stores its count when it ends a strand, which may be after the job's end is seen. Polls
 * until the count is as expected, or has stayed wrong for a second. */
static uint64_t counted_forks(uint64_t before, uint64_t expected)
{
	uint64_t end = clock_ns() + 1000000000;
	uint64_t forks;

	do {
		forks = bench_pool_counter(client, "forks") - before;
		sched_yield();
	} while (forks != expected && clock_ns() < end);
	return forks;
}

static int counted(struct args *args)
{
	const char *bench = args->words[0];
	uint64_t expected;
	uint64_t forks;
	uint64_t before;
	int64_t n;

	if (!bench || (strcmp(bench, "fib") && strcmp(bench, "flat")))
		return 2;
	n = figures_number(args->words[1], 1, strcmp(bench, "fib") ? 100000000 : 60);
	/* fib: every inner node of the tree forks once; flat: every leaf is forked. */
	expected = (uint64_t)(strcmp(bench, "fib") ? n : work_fib(n + 1) - 1);
	modules = BENCH_MODULES_COUNTED;
	start(args->threads);
	before = bench_pool_counter(client, "forks");
	call_i64(strcmp(bench, "fib") ? "flat:flat" : "fib:fib", n, 0, 1);
	forks = counted_forks(before, expected);
	printf("{\"peer\": \"forkd\", \"bench\": \"counted\", \"args\": [\"%s\", \"%lld\"], "
	       "\"threads\": %d, \"forks\": %llu, \"expected\": %llu, \"steals\": %llu}\n",
	       bench, (long long)n, args->threads, (unsigned long long)forks,
	       (unsigned long long)expected,
	       (unsigned long long)bench_pool_counter(client, "steals"));
	stop();
	if (forks == expected)
		return 0;
	fprintf(stderr, "%s %lld: %llu forks, %llu expected\n", bench, (long long)n,
		(unsigned long long)forks, (unsigned long long)expected);
	return 1;
}

/* ------------------------------------------------------------------------------------- memory */

static int memory_line(const struct args *args, const char *what, int64_t result, int64_t expected,
		       uint64_t took_ns)
{
	printf("{\"peer\": \"forkd\", \"bench\": \"memory\", \"args\": [\"%s\", \"%s\"], "
	       "\"threads\": %d, \"result\": %lld, \"seconds\": %.9f, \"pool_pss_idle_kib\": %lld, "
	       "\"pool_pss_peak_kib\": %lld, \"pool_pss_after_kib\": %lld}\n",
	       what, args->words[args->words[1] ? 1 : 0], args->threads, (long long)result,
	       (double)took_ns * 1e-9, (long long)idle_kib, (long long)bench_pool_sample_stop(),
	       (long long)bench_pool_pss(client));
	if (result != expected)
		fprintf(stderr, "%s: the result is %lld, not %lld\n", what, (long long)result,
			(long long)expected);
	return result != expected;
}

/* A task that returns its argument. */
static int job(struct args *args)
{
	uint64_t began;
	int64_t result;
	int64_t n;
	int r;

	if (!args->words[0])
		return 2;
	n = figures_number(args->words[1], 1, 1000000000);
	modules = BENCH_MODULES_TEST;
	start(args->threads);
	bench_pool_sample_start(client);
	began = clock_ns();
	result = call_i64(args->words[0], n, 0, 1);
	r = memory_line(args, args->words[0], result, n, clock_ns() - began);
	stop();
	return r;
}

static int memory(struct args *args)
{
	const struct uts_tree *tree = args->words[0] ? uts_tree_find(args->words[0]) : NULL;
	struct uts_count count;
	uint64_t began;
	int r;

	if (!tree)
		return 2;
	start(args->threads);
	bench_pool_sample_start(client);
	began = clock_ns();
	count = uts(tree);
	r = memory_line(args, "uts:uts", count.nodes, tree->known.nodes, clock_ns() - began);
	stop();
	return r;
}

/* -------------------------------------------------------------------------------- round trips */

static bool all_asleep(void)
{
	for (uint32_t w = 0; w < client->n_workers; w++)
		if (!wake_rests(wake_load(&client->board->workers[w].wake)))
			return false;
	return true;
}

static int pingpong(struct args *args)
{
	const char *mode = args->words[0];
	struct timespec gap = { .tv_nsec = (long)args->gap_us * 1000 };
	uint64_t trips = args->round_trips;
	uint64_t asleep = 0;
	const fk_task *task;
	uint64_t *times;
	bool idle;

	if (!mode || (strcmp(mode, "warm") && strcmp(mode, "idle")))
		return 2;
	idle = !strcmp(mode, "idle");
	times = figures_new(trips);
	modules = BENCH_MODULES_TEST;
	start(args->threads);
	task = bench_pool_task(client, "null:null");
	for (uint64_t i = 0; i < trips + ROUND_TRIPS_WARM; i++) {
		bool measured = i >= ROUND_TRIPS_WARM;
		uint64_t began;
		fk_job null;
		int r;

		if (idle && measured) {
			nanosleep(&gap, NULL);
			asleep += all_asleep();
		}
		began = clock_ns();
		r = fk_submit_packed(client, task, NULL, 0, 0, &null);
		if (r == 0)
			r = fk_wait(client, null, FK_FOREVER);
		if (measured)
			times[i - ROUND_TRIPS_WARM] = clock_ns() - began;
		if (r == 0)
			r = fk_outcome(client, null, NULL, NULL) == FK_DONE ? 0 : -EREMOTEIO;
		if (r == 0)
			r = fk_release(client, null);
		if (r < 0)
			bench_die("null:null: %s", fk_strerror(r));
	}
	stop();
	figures_sort(times, trips);
	printf("{\"peer\": \"forkd\", \"bench\": \"pingpong\", \"mode\": \"%s\", "
	       "\"round_trips\": %llu, \"gap_us\": %u, \"threads\": %d, \"asleep\": %.4f, "
	       "\"p50_ns\": %llu, \"p99_ns\": %llu, \"p999_ns\": %llu, \"max_ns\": %llu}\n",
	       mode, (unsigned long long)trips, idle ? args->gap_us : 0, args->threads,
	       (double)asleep / (double)trips,
	       (unsigned long long)figures_quantile(times, trips, 0.5),
	       (unsigned long long)figures_quantile(times, trips, 0.99),
	       (unsigned long long)figures_quantile(times, trips, 0.999),
	       (unsigned long long)figures_quantile(times, trips, 1));
	free(times);
	return 0;
}

/* ------------------------------------------------------------------------- null jobs per second */

struct nulls {
	/* the parent writes */
	_Alignas(64) _Atomic uint32_t go;
	_Atomic uint32_t end;
	/* each client writes its own line */
	struct {
		_Alignas(64) _Atomic uint64_t done;
		_Atomic uint32_t ready;
	} clients[CLIENTS_MAX];
};

/* One client process: keeps `in_flight` jobs pending, oldest first, until told to end. */
static void nulls_client(struct nulls *nulls, uint32_t index, uint32_t in_flight)
{
	fk_client *c = bench_pool_open(&pool, in_flight, HEAP_SLACK);
	const fk_task *task = bench_pool_task(c, "null:null");
	fk_job *jobs = calloc(in_flight, sizeof(*jobs));
	uint64_t submitted = 0;
	uint64_t done = 0;
	int r = jobs ? 0 : -ENOMEM;

	atomic_store_explicit(&nulls->clients[index].ready, 1, memory_order_relaxed);
	while (!atomic_load_explicit(&nulls->go, memory_order_relaxed))
		sched_yield();
	while (r == 0 && !atomic_load_explicit(&nulls->end, memory_order_relaxed)) {
		while (r == 0 && submitted - done < in_flight)
			r = fk_submit_packed(c, task, NULL, 0, FK_WAIT_ROOM,
					     &jobs[submitted++ % in_flight]);
		if (r == 0)
			r = fk_wait(c, jobs[done % in_flight], FK_FOREVER);
		/* Releases all jobs that have ended by now, in order. */
		while (r == 0 && done < submitted && fk_poll(c, jobs[done % in_flight]) == 1)
			r = fk_release(c, jobs[done++ % in_flight]);
		atomic_store_explicit(&nulls->clients[index].done, done, memory_order_relaxed);
	}
	for (; r == 0 && done < submitted; done++) {
		r = fk_wait(c, jobs[done % in_flight], FK_FOREVER);
		if (r == 0 && fk_outcome(c, jobs[done % in_flight], NULL, NULL) != FK_DONE)
			r = -EREMOTEIO;
	}
	if (r < 0)
		fprintf(stderr, "null:null: %s\n", fk_strerror(r));
	fk_close(c);
	_exit(r < 0);
}

static uint64_t nulls_done(struct nulls *nulls, uint32_t clients)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < clients; i++)
		sum += atomic_load_explicit(&nulls->clients[i].done, memory_order_relaxed);
	return sum;
}

static int nulls(struct args *args)
{
	struct timespec step = { .tv_nsec = 1000000 };
	struct timespec warm = { .tv_nsec = 200000000 };
	struct timespec time = { .tv_sec = args->seconds };
	struct nulls *shared;
	pid_t parent = getpid();
	uint64_t began;
	uint64_t first;
	uint64_t jobs;
	double seconds;
	int failed = 0;

	if (args->words[0])
		return 2;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		bench_die("out of memory");
	modules = BENCH_MODULES_TEST;
	start(args->threads);
	for (uint32_t i = 0; i < args->clients; i++) {
		pid_t pid = fork();

		if (pid < 0)
			bench_die("cannot fork: %s", strerror(errno));
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		nulls_client(shared, i, args->in_flight);
	}
	for (uint32_t i = 0; i < args->clients; i++)
		while (!atomic_load_explicit(&shared->clients[i].ready, memory_order_relaxed)) {
			if (waitpid(-1, NULL, WNOHANG) > 0)
				bench_die("a client has ended at once");
			nanosleep(&step, NULL);
		}
	atomic_store_explicit(&shared->go, 1, memory_order_relaxed);
	nanosleep(&warm, NULL);
	first = nulls_done(shared, args->clients);
	began = clock_ns();
	nanosleep(&time, NULL);
	jobs = nulls_done(shared, args->clients) - first;
	seconds = (double)(clock_ns() - began) * 1e-9;
	atomic_store_explicit(&shared->end, 1, memory_order_relaxed);
	for (uint32_t i = 0; i < args->clients; i++) {
		int status;

		if (wait(&status) < 0 || status)
			failed = 1;
	}
	printf("{\"peer\": \"forkd\", \"bench\": \"nulls\", \"clients\": %u, \"in_flight\": %u, "
	       "\"threads\": %d, \"seconds\": %.3f, \"jobs\": %llu, \"jobs_per_second\": %.0f}\n",
	       args->clients, args->in_flight, args->threads, seconds, (unsigned long long)jobs,
	       (double)jobs / seconds);
	stop();
	munmap(shared, sizeof(*shared));
	return failed;
}

static const struct {
	const char *name;
	int (*run)(struct args *args);
} modes[] = {
	{ "counted", counted },	  { "job", job },     { "memory", memory },
	{ "pingpong", pingpong }, { "nulls", nulls },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		struct args args;
		int r;

		if (strcmp(argv[1], modes[i].name))
			continue;
		parse(argc - 1, argv + 1, &args);
		r = modes[i].run(&args);
		if (r == 2)
			fprintf(stderr, "wrong arguments for %s: see the top of bench_forkd.c\n",
				modes[i].name);
		return r;
	}
	if (argc > 1 && (!strcmp(argv[1], "fibers") || !strcmp(argv[1], "kept"))) {
		if (!strcmp(argv[1], "kept"))
			option = "--fork-mode=kept";
		return as_peer(argv[1], argc - 1, argv + 1);
	}
	return as_peer("forkd", argc, argv);
}
