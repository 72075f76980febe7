/* SPDX-License-Identifier: MIT */
/*
 * tests/bench/bench_cancel.c - how long it takes until a cancelled job has ended
 *
 * WHAT IT IS
 *   Starts a private forkd and cancels jobs that are in full swing:
 *
 *	bench_cancel [--threads P] [--samples N]
 *
 *	tree    a fork-join tree of leaves of 10 us
 *	fib     a fork-join tree of a few instructions a task
 *	deep    DEEP forks within each other, all of them outstanding
 *
 *   The time is that from before fk_cancel() until the client sees that the job has ended. One line
 *   of JSON for each:
 *	{"bench": "cancel", "what": "tree", "threads": 2, "samples": 50, "missed": 0,
 *	 "p50_ns": ..., "p99_ns": ..., "max_ns": ..., "pss_before_kib": ..., "pss_after_kib": ...}
 *   missed: of these, jobs that had ended by themselves before they were cancelled. Exit status 0;
 *   1 if a job ended in another way, or not within 10 s; 2 for a wrong command line. No time makes
 *it fail.
 *
 * ON WHICH THREAD
 *   The main thread of one process.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   See bench_pool.c.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "shm/limits.h"
#include "tests/bench/bench_pool.h"

#define DEEP	    4000000
#define GIVE_UP_NS  UINT64_C(10000000000)
#define SETTLE_NS   100000000
#define LEAF_ROUNDS 8000 /* about 10 us */

static struct bench_pool pool;
static fk_client *client;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* One job, cancelled run_ns after a worker has begun with it. True: it was. */
static bool cancel_one(const fk_task *task, const union fk_value *values, size_t n, uint64_t run_ns,
		       uint64_t *ret_ns)
{
	struct timespec ts = { .tv_nsec = (long)run_ns };
	uint64_t roots = bench_pool_counter(client, "roots");
	uint64_t began;
	int outcome;
	fk_job job;
	int r;

	r = fk_submit_values(client, task, values, n, 0, &job);
	/* Counted when it starts, or with the strand: then the sleep alone has to do. */
	for (int i = 0; r == 0 && i < 1000 && bench_pool_counter(client, "roots") == roots; i++)
		;
	nanosleep(&ts, NULL);
	began = now_ns();
	if (r == 0)
		do
			r = fk_cancel(client, job);
		while (r == -EAGAIN);
	if (r == 0)
		r = fk_wait(client, job, GIVE_UP_NS);
	*ret_ns = now_ns() - began;
	outcome = r < 0 ? r : fk_outcome(client, job, NULL, NULL);
	if (r == 0)
		r = fk_release(client, job);
	if (r < 0)
		bench_die("%s: %s", fk_task_name(task), fk_strerror(r));
	if (outcome != FK_CANCELLED && outcome != FK_DONE)
		bench_die("%s: the outcome is %s", fk_task_name(task), fk_outcome_name(outcome));
	return outcome == FK_CANCELLED;
}

static void cancel_many(const char *what, const char *name, const union fk_value *values, size_t n,
			int threads, uint32_t samples)
{
	struct timespec settle = { .tv_nsec = SETTLE_NS };
	const fk_task *task = bench_pool_task(client, name);
	uint64_t *times = calloc(samples, sizeof(*times));
	int64_t before = bench_pool_pss(client);
	uint64_t random = 1;
	uint32_t missed = 0;

	if (!times)
		bench_die("out of memory");
	for (uint32_t i = 0; i < samples; i++) {
		random = random * 6364136223846793005 + 1442695040888963407;
		missed +=
			!cancel_one(task, values, n, 1000000 + (random >> 33) % 5000000, &times[i]);
	}
	qsort(times, samples, sizeof(*times), compare);
	nanosleep(&settle, NULL);
	printf("{\"bench\": \"cancel\", \"what\": \"%s\", \"threads\": %d, \"samples\": %u, "
	       "\"missed\": %u, \"p50_ns\": %llu, \"p99_ns\": %llu, \"max_ns\": %llu, "
	       "\"pss_before_kib\": %lld, \"pss_after_kib\": %lld}\n",
	       what, threads, samples, missed, (unsigned long long)times[samples / 2],
	       (unsigned long long)times[(samples * 99 + 50) / 100 - 1],
	       (unsigned long long)times[samples - 1], (long long)before,
	       (long long)bench_pool_pss(client));
	fflush(stdout);
	free(times);
}

static uint32_t number(const char *arg, uint32_t high)
{
	char *end;
	unsigned long value = strtoul(arg, &end, 10);

	if (end == arg || *end || !value || value > high) {
		fprintf(stderr, "'%s' is not a number from 1 to %u\n", arg, high);
		exit(2);
	}
	return (uint32_t)value;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "threads", required_argument, NULL, 't' },
		{ "samples", required_argument, NULL, 'n' },
		{ NULL, 0, NULL, 0 },
	};
	union fk_value tree[2] = { { .i64 = 10000000 }, { .i64 = LEAF_ROUNDS } };
	union fk_value fib = { .i64 = 50 };
	union fk_value deep = { .i64 = DEEP };
	uint32_t samples = 50;
	int threads = 2;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 't')
			threads = (int)number(optarg, LIMIT_WORKERS);
		else if (c == 'n')
			samples = number(optarg, 100000);
		else
			return 2;
	}
	if (optind != argc) {
		fprintf(stderr, "usage: %s [--threads P] [--samples N]\n", argv[0]);
		return 2;
	}
	bench_pool_start(&pool, BENCH_MODULES_TEST, threads);
	client = bench_pool_open(&pool, 0, 0);
	cancel_many("tree", "busy:tree", tree, 2, threads, samples);
	cancel_many("deep", "deep:forked", &deep, 1, threads, samples);
	fk_close(client);
	bench_pool_stop(&pool);
	bench_pool_start(&pool, BENCH_MODULES_COUNTED, threads);
	client = bench_pool_open(&pool, 0, 0);
	cancel_many("fib", "fib:fib", &fib, 1, threads, samples);
	fk_close(client);
	bench_pool_stop(&pool);
	return 0;
}
