/* SPDX-License-Identifier: MIT */
/*
 * bench_steals.c - the pool's memory over many steals
 *
 * Starts a private forkd and runs jobs in it until there were N steals:
 *
 * 	bench_steals [--threads P] [--steals N] [--forced]
 *
 * Most of them are in a flat loop of leaves that last about as long as a steal. Trees add steals
 * that end in a join by another worker. forced: every fork is treated as stolen (forkd's
 * fork-mode=stolen), so the parent's stack is handed over and returned each time.
 *
 * One line of JSON:
 * 	{"bench": "steals", "what": "taken", "threads": 2, "steals": 300000, "jobs": 306,
 * 	 "seconds": 1.4, "idle": {"steals": 0, "pss_kib": 2100, "rss_kib": 5200},
 * 	 "tenths": [{...}, ...], "decades": [{...}, ...]}
 * tenths: after each tenth of the steals; decades: after 10^4, 10^5 ... of them. Memory that steals
 * leak would show as growth after the first tenth. Exit status 0; 1 if a result was wrong, or if
 * PSS has grown by more than GROWTH_KIB after the first tenth; 2 for a wrong command line.
 *
 * Threads: the main thread of one process.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/clock.h"
#include "shm/limits.h"
#include "tests/bench/bench_pool.h"
#include "tests/bench/figures.h"
#include "tests/bench/work.h"

#define TENTHS	    10
#define DECADES_MAX 12
#define DECADE_MIN  10000
#define GROWTH_KIB  1024
#define LEAVES	    20000
#define ROUNDS	    1000

struct look {
	uint64_t steals;
	int64_t pss_kib;
	int64_t rss_kib;
};

static struct bench_pool pool;
static fk_client *client;

static struct look look(void)
{
	return (struct look){ bench_pool_counter(client, "steals"), bench_pool_pss(client),
			      bench_pool_rss(client) };
}

static void print_look(const struct look *at)
{
	printf("{\"steals\": %llu, \"pss_kib\": %lld, \"rss_kib\": %lld}",
	       (unsigned long long)at->steals, (long long)at->pss_kib, (long long)at->rss_kib);
}

static void print_looks(const char *name, const struct look *looks, int n)
{
	printf(", \"%s\": [", name);
	for (int i = 0; i < n; i++) {
		printf("%s", i ? ", " : "");
		print_look(&looks[i]);
	}
	printf("]");
}

/* Returns the number of jobs it has run. */
static uint64_t run_some(int64_t rounds, int64_t loop_sum)
{
	union fk_value loop[2] = { { .i64 = LEAVES }, { .i64 = rounds } };
	uint64_t jobs = 1;
	int64_t found;

	bench_pool_call(client, bench_pool_task(client, "flat:rounds"), loop, 2, &found,
			sizeof(found));
	if (found != loop_sum)
		bench_die("flat:rounds: %lld is wrong", (long long)found);
	for (int64_t n = 16; n < 24; n++, jobs++) {
		union fk_value value = { .i64 = n };

		bench_pool_call(client, bench_pool_task(client, "fib:fib"), &value, 1, &found,
				sizeof(found));
		if (found != work_fib(n))
			bench_die("fib:fib %lld is wrong", (long long)n);
	}
	return jobs;
}

static int soak(int threads, bool forced, uint64_t target)
{
	struct look idle;
	struct look tenths[TENTHS];
	struct look decades[DECADES_MAX];
	uint64_t next = DECADE_MIN;
	uint64_t steals = 0;
	uint64_t jobs = 0;
	uint64_t began;
	int64_t rounds = forced ? 1 : ROUNDS; /* a forced steal needs no thief in time */
	int64_t expected = 0;
	int64_t most = 0;
	int tenth = 0;
	int decade = 0;

	for (int64_t i = 0; i < LEAVES; i++)
		expected += work_leaf(i, rounds);
	bench_pool_start_with(&pool, BENCH_MODULES_COUNTED, threads,
			      forced ? "--fork-mode=stolen" : NULL);
	client = bench_pool_open(&pool, 0, 0);
	idle = look();
	began = clock_ns();
	while (tenth < TENTHS) {
		jobs += run_some(rounds, expected);
		steals = bench_pool_counter(client, "steals");
		for (; decade < DECADES_MAX && steals >= next && next <= target; next *= 10)
			decades[decade++] = look();
		for (; tenth < TENTHS && steals >= target / TENTHS * (uint64_t)(tenth + 1);
		     tenth++) {
			tenths[tenth] = look();
			if (tenths[tenth].pss_kib > most)
				most = tenths[tenth].pss_kib;
		}
	}
	printf("{\"bench\": \"steals\", \"what\": \"%s\", \"threads\": %d, \"steals\": %llu, "
	       "\"jobs\": %llu, \"seconds\": %.3f, \"idle\": ",
	       forced ? "forced" : "taken", threads, (unsigned long long)steals,
	       (unsigned long long)jobs, (double)(clock_ns() - began) * 1e-9);
	print_look(&idle);
	print_looks("tenths", tenths, TENTHS);
	print_looks("decades", decades, decade);
	printf("}\n");
	fk_close(client);
	bench_pool_stop(&pool);
	if (most <= tenths[0].pss_kib + GROWTH_KIB)
		return 0;
	fprintf(stderr, "PSS has grown with the steals: %lld KiB, then %lld KiB\n",
		(long long)tenths[0].pss_kib, (long long)most);
	return 1;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "threads", required_argument, NULL, 't' },
		{ "steals", required_argument, NULL, 'n' },
		{ "forced", no_argument, NULL, 'f' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t target = 300000;
	bool forced = false;
	int threads = 2;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 't')
			threads = (int)figures_number(optarg, 1, LIMIT_WORKERS);
		else if (c == 'n')
			target = (uint64_t)figures_number(optarg, TENTHS, INT64_C(100000000000));
		else if (c == 'f')
			forced = true;
		else
			return 2;
	}
	if (optind != argc || (threads < 2 && !forced)) {
		fprintf(stderr,
			"usage: %s [--threads P] [--steals N] [--forced]\n"
			"with one worker nothing is stolen: --threads 2 or --forced\n",
			argv[0]);
		return 2;
	}
	return soak(threads, forced, target);
}
