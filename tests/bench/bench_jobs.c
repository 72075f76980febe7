/* SPDX-License-Identifier: MIT */
/*
 * bench_jobs.c - many jobs, each put on one worker: with stealing, and without
 *
 * Starts a private forkd and submits batches of jobs, one leaf each. The jobs of a batch are
 * divided among the workers in order:
 *
 * 	bench_jobs [--threads P] [--repeat R] [--jobs N] [--rounds M]
 *
 * 	balanced     all jobs have M rounds of arithmetic
 * 	imbalanced   the first tenth of them has ten times as many
 * 	stealing     a worker without jobs takes those of others
 * 	strict       it does not (FK_STRICT)
 *
 * One line of JSON for each pair, of the run with the median time:
 * 	{"bench": "jobs", "shape": "balanced", "stealing": true, "threads": 2, "jobs": 4000,
 * 	 "runs": 5, "seconds": 0.1, "job_steals": 12, "steal_attempts": 345}
 * Exit status 0; 1 if a result was wrong; 2 for a wrong command line.
 *
 * Threads: the main thread of one process.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "shm/limits.h"
#include "tests/bench/bench_pool.h"
#include "tests/bench/figures.h"
#include "tests/bench/work.h"

#define JOBS_MAX   4096u
#define REPEAT_MAX 1000u
#define HEAP	   (1u << 20)

struct figure {
	uint64_t ns;
	uint64_t job_steals;
	uint64_t steal_attempts;
};

static struct bench_pool pool;
static fk_client *client;
static uint32_t threads = 2;
static uint32_t repeat = 5;
static uint32_t n_jobs = 4000;
static uint32_t rounds = 20000;

static union fk_value values[JOBS_MAX][2];
static struct fk_request requests[JOBS_MAX];
static fk_job jobs[JOBS_MAX];
static struct figure figures[REPEAT_MAX];

static int64_t rounds_of(uint32_t job, bool balanced)
{
	return !balanced && job < n_jobs / 10 ? 10 * (int64_t)rounds : (int64_t)rounds;
}

static void run(bool balanced, bool stealing, struct figure *ret)
{
	const fk_task *task = bench_pool_task(client, "busy:spin");
	uint64_t job_steals = bench_pool_counter(client, "job_steals");
	uint64_t attempts = bench_pool_counter(client, "steal_attempts");
	uint64_t began;
	fk_group group;
	int r;

	r = fk_group_new(client, &group);
	if (r < 0)
		bench_die("a group: %s", fk_strerror(r));
	for (uint32_t i = 0; i < n_jobs; i++) {
		values[i][0].i64 = i;
		values[i][1].i64 = rounds_of(i, balanced);
		requests[i] = (struct fk_request){
			.task = task,
			.values = values[i],
			.size = 2,
			.options.group = group,
			.options.flags = stealing ? 0 : FK_STRICT,
			.options.place = FK_PLACE_WORKER,
			.options.place_index = (uint32_t)((uint64_t)i * (uint64_t)threads / n_jobs),
		};
	}
	began = clock_ns();
	r = fk_submit_batch(client, requests, n_jobs, FK_WAIT_ROOM, jobs);
	if (r == 0)
		r = fk_group_wait(client, group, FK_FOREVER);
	ret->ns = clock_ns() - began;
	for (uint32_t i = 0; i < n_jobs && r == 0; i++) {
		int64_t result;

		r = fk_result(client, jobs[i], &result, sizeof(result));
		if (r == 0 && result != work_leaf(i, rounds_of(i, balanced)))
			bench_die("busy:spin: the result is wrong");
	}
	if (r == 0)
		r = fk_release_batch(client, jobs, n_jobs);
	if (r == 0)
		r = fk_group_free(client, group);
	if (r < 0)
		bench_die("busy:spin: %s", fk_strerror(r));
	ret->job_steals = bench_pool_counter(client, "job_steals") - job_steals;
	ret->steal_attempts = bench_pool_counter(client, "steal_attempts") - attempts;
}

static int compare(const void *a, const void *b)
{
	const struct figure *x = a;
	const struct figure *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

static void run_pair(bool balanced, bool stealing)
{
	const struct figure *middle = &figures[repeat / 2];

	for (uint32_t i = 0; i < repeat; i++)
		run(balanced, stealing, &figures[i]);
	qsort(figures, repeat, sizeof(figures[0]), compare);
	printf("{\"bench\": \"jobs\", \"shape\": \"%s\", \"stealing\": %s, \"threads\": %u, "
	       "\"jobs\": %u, \"runs\": %u, \"seconds\": %.9f, \"job_steals\": %llu, "
	       "\"steal_attempts\": %llu}\n",
	       balanced ? "balanced" : "imbalanced", stealing ? "true" : "false", threads, n_jobs,
	       repeat, (double)middle->ns * 1e-9, (unsigned long long)middle->job_steals,
	       (unsigned long long)middle->steal_attempts);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const struct figures_option options[] = {
		{ "threads", 1, LIMIT_WORKERS, &threads },
		{ "repeat", 1, REPEAT_MAX, &repeat },
		{ "jobs", 1, JOBS_MAX, &n_jobs },
		{ "rounds", 1, 1000000000, &rounds },
		{ NULL, 0, 0, NULL },
	};

	figures_options(argc, argv, options);
	bench_pool_start(&pool, BENCH_MODULES_TEST, (int)threads);
	client = bench_pool_open(&pool, n_jobs, HEAP);
	for (int balanced = 1; balanced >= 0; balanced--)
		for (int stealing = 1; stealing >= 0; stealing--)
			run_pair(balanced, stealing);
	fk_close(client);
	bench_pool_stop(&pool);
	return 0;
}
