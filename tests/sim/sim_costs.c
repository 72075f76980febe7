/* SPDX-License-Identifier: MIT */
/*
 * sim_costs.c - measures the costs of costs.def on this machine
 *
 * Prints lines of "name value # how", in nanoseconds, for costs_read(). Each figure is the minimum
 * of several rounds with many repetitions, without contention, which the model adds. The slow paths
 * of a fork are measured together, in forkd's own pool, with every fork treated as stolen (struct
 * pool, force_steals). The result is the time of a stolen fork of fib, without the overwriting of
 * the C stack and the atomic operations. It scales the parts in costs.def. The costs of tasks come
 * from the benchmarks: tests/sim/simulate adds them.
 *
 * Callers: tests/sim/simulate, for `make sim`. The argument is the directory of the shipped
 * modules.
 */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/util.h"
#include "shm/fence.h"
#include "shm/futex.h"
#include "tests/support/rig.h"
#include "tests/sim/costs.h"

#define COSTS_ROUNDS  50 /* short ones: one of them is not disturbed */
#define COSTS_REPEAT  20000
#define COSTS_BOUNCES 1000
#define COSTS_WAKES   200
#define COSTS_FIB     20
#define COSTS_FORKS   10945.0 /* in it: fib(21) - 1 inner nodes of the tree fork once each */
#define COSTS_ATOMICS 6 /* of a stolen fork: request, publication, steal, reclaim, two joins */

/* Two words that bounce between two threads, each in its own lines. */
static struct {
	_Alignas(256) _Atomic uint32_t ball;
	_Alignas(256) _Atomic uint32_t word;
	_Alignas(256) _Atomic uint64_t woken_at;
	_Alignas(256) _Atomic uint32_t stop;
	int cpus[2];
} shared;

static const char *modules;

static void pin(int which)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)shared.cpus[which], &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("sim_costs: sched_setaffinity");
}

static void put(const char *name, double ns, const char *how)
{
	printf("%-14s %10.2f # %s\n", name, ns, how);
}

static double least(double (*measure)(void))
{
	double best = measure();

	for (int i = 1; i < COSTS_ROUNDS; i++) {
		double ns = measure();

		best = min(best, ns);
	}
	return best;
}

static double rmw(void)
{
	uint64_t since = clock_ns();

	for (uint32_t i = 0; i < COSTS_REPEAT; i++)
		atomic_fetch_add(&shared.word, 1);
	return (double)(clock_ns() - since) / COSTS_REPEAT;
}

static double fence(void)
{
	uint64_t since = clock_ns();

	for (uint32_t i = 0; i < COSTS_REPEAT; i++) {
		atomic_store_explicit(&shared.word, i, memory_order_relaxed);
		fence_full();
	}
	return (double)(clock_ns() - since) / COSTS_REPEAT;
}

/* A victim's cached word, picked by a random number through a table, as victims_pick(). */
static double probe(void)
{
	static _Atomic uint64_t words[64 * 8];
	static uint16_t table[256];
	uint64_t random = 88172645463325252u, sum = 0, since;

	for (uint32_t i = 0; i < ARRAY_SIZE(table); i++)
		table[i] = (uint16_t)(i % 64);
	since = clock_ns();
	for (uint32_t i = 0; i < COSTS_REPEAT; i++) {
		(void)xorshift64(&random);
		sum += atomic_load_explicit(&words[table[random >> 56] * 8], memory_order_relaxed);
	}
	atomic_store(&shared.word, (uint32_t)sum);
	return (double)(clock_ns() - since) / COSTS_REPEAT;
}

static void *bounce(void *arg)
{
	(void)arg;
	pin(1);
	for (uint32_t i = 0; i < COSTS_BOUNCES; i++) {
		while (atomic_load_explicit(&shared.ball, memory_order_acquire) != 2 * i + 1)
			fence_pause();
		atomic_store_explicit(&shared.ball, 2 * i + 2, memory_order_release);
	}
	return NULL;
}

/* One way of a line between two cores. */
static double line_near(void)
{
	pthread_t thread;
	uint64_t since;

	atomic_store(&shared.ball, 0);
	pthread_create(&thread, NULL, bounce, NULL);
	since = clock_ns();
	for (uint32_t i = 0; i < COSTS_BOUNCES; i++) {
		atomic_store_explicit(&shared.ball, 2 * i + 1, memory_order_release);
		while (atomic_load_explicit(&shared.ball, memory_order_acquire) != 2 * i + 2)
			fence_pause();
		if (!i) /* the thread runs */
			since = clock_ns();
	}
	uint64_t ns = clock_ns() - since;

	pthread_join(thread, NULL);
	return (double)ns / (2.0 * COSTS_BOUNCES);
}

/* Sleeps on every even value of the word; stores when it ran. */
static void *sleeper(void *arg)
{
	(void)arg;
	pin(1);
	for (uint32_t i = 0; i < COSTS_WAKES; i++) {
		while (atomic_load(&shared.word) == 2 * i)
			futex_wait(&shared.word, 2 * i, 0);
		atomic_store(&shared.woken_at, clock_ns());
		while (atomic_load(&shared.word) == 2 * i + 1)
			fence_pause();
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The time of a wake on both sides: the lower quartiles, because others use the machine. */
static void wakes(double *ret_call, double *ret_run)
{
	double calls[COSTS_WAKES], runs[COSTS_WAKES];
	pthread_t thread;

	atomic_store(&shared.word, 0);
	pthread_create(&thread, NULL, sleeper, NULL);
	for (uint32_t i = 0; i < COSTS_WAKES; i++) {
		uint64_t before, after, at;

		/* No counter shows that it is in the futex. If it is not, the figure is small, and
		 * the quartile excludes it. */
		usleep(300);
		atomic_store(&shared.woken_at, 0);
		before = clock_ns();
		atomic_store(&shared.word, 2 * i + 1);
		futex_wake(&shared.word, 1);
		after = clock_ns();
		while (!(at = atomic_load(&shared.woken_at)))
			fence_pause();
		calls[i] = (double)(after - before);
		runs[i] = at > before ? (double)(at - before) : 0;
		atomic_store(&shared.word, 2 * i + 2);
	}
	pthread_join(thread, NULL);
	qsort(calls, COSTS_WAKES, sizeof(*calls), compare);
	qsort(runs, COSTS_WAKES, sizeof(*runs), compare);
	*ret_call = calls[COSTS_WAKES / 4];
	*ret_run = runs[COSTS_WAKES / 4];
}

/* Additional work of the pool for each strand if forks are forced: strand_scribble(). */
static __attribute__((noinline)) double scribble(void)
{
	unsigned char dead[16 << 10];
	uint64_t since = clock_ns();

	for (int i = 0; i < 100; i++) {
		memset(dead, 0xa5, sizeof(dead));
		__asm__ volatile("" : : "r"(dead) : "memory");
	}
	return (double)(clock_ns() - since) / 100;
}

/* ns of a fork of fib in forkd's own pool of one worker. */
static double fork_ns(const struct fk_module *module, bool forced, double *ret_strands)
{
	static struct rig rig;
	double best = 0;

	rig_start(&rig, 1, module, forced);
	for (int i = 0; i < COSTS_ROUNDS; i++) {
		uint64_t since = clock_ns();
		double ns;

		rig_call(&rig, "fib:fib", COSTS_FIB);
		ns = (double)(clock_ns() - since) / COSTS_FORKS;
		best = i ? min(best, ns) : ns;
	}
	*ret_strands = (double)rig_counter(&rig, strands) / COSTS_ROUNDS / COSTS_FORKS;
	rig_stop(&rig);
	return best;
}

static void slow_paths(const char *directory, double rmw_ns)
{
	/* The parts of one stolen fork, as costs.def has them. */
	static const char *const names[] = { "unnest",	"resume", "attend",
					     "publish", "adopt",  "finish" };
	double parts[] = {
#define COST(name, ns, help) [offsetof(struct costs, name) / sizeof(uint64_t)] = ns,
#include "tests/sim/costs.def"
#undef COST
	};
	size_t at[] = { offsetof(struct costs, unnest), offsetof(struct costs, resume),
			offsetof(struct costs, attend), offsetof(struct costs, publish),
			offsetof(struct costs, adopt),	offsetof(struct costs, finish) };
	char path[4096], error[512] = "";
	const struct fk_module *module;
	double fresh, forced, strands, sum = 0, scale;
	struct stat st;

	snprintf(path, sizeof(path), "%s/fib.so", directory);
	if (module_open(path, &module, &st, error, sizeof(error)) != 0) {
		fprintf(stderr, "sim_costs: %s: %s\n", path, error);
		exit(1);
	}
	fresh = fork_ns(module, false, &strands);
	forced = fork_ns(module, true, &strands) - strands * least(scribble);
	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		sum += parts[at[i] / sizeof(uint64_t)];
	scale = (forced - fresh - COSTS_ATOMICS * rmw_ns) / sum;
	scale = max(scale, 0.1);
	printf("# a fork: %.2f ns; stolen: %.2f ns, %.2f strands; scale of the parts: %.2f\n",
	       fresh, forced, strands, scale);
	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		put(names[i], parts[at[i] / sizeof(uint64_t)] * scale, "a part of a stolen fork");
}

/* A test only because tests/support/rig.c, which has the pool, asserts as tests do. */
START_TEST(measure)
{
	double rmw_ns = least(rmw), line_ns = 0, call, run;

	slow_paths(modules, rmw_ns);
	pin(0);
	put("rmw", rmw_ns, "fetch_add on one's own line");
	put("fence", least(fence), "a store and a full fence");
	put("probe", least(probe), "pick a victim, look at its word");
	for (int i = 0; i < 10; i++) {
		double ns = least(line_near);

		line_ns = i ? min(line_ns, ns) : ns;
	}
	put("line_near", line_ns, "ping-pong between two cores, one way");
	wakes(&call, &run);
	put("wake_call", call, "futex_wake, the waker's side, lower quartile");
	put("wake_run", run, "from the call to the sleeper's first instruction, lower quartile");
	put("idle_shallow", 0, "in wake_run");
	put("idle_deep", 0, "in wake_run");
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("costs");
	TCase *tcase = tcase_create("costs");
	SRunner *runner = srunner_create(suite);
	cpu_set_t set;
	int n = 0, failed;

	if (argc != 2) {
		fprintf(stderr,
			"sim_costs: name the directory of the modules, daemon/modules/.libs\n");
		return 2;
	}
	modules = argv[1];
	sched_getaffinity(0, sizeof(set), &set);
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET((size_t)i, &set))
			shared.cpus[n++] = i;
	if (n < 2) {
		printf("# one CPU: nothing between two cores was measured\n");
		return 77;
	}
	tcase_add_test(tcase, measure);
	suite_add_tcase(suite, tcase);
	srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
