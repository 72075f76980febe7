/* SPDX-License-Identifier: MIT */
/*
 * bench_sleep - the cost of going to sleep and of waking a worker, by tenants and workers
 *
 * The steps of tests/support/sleep_steps.h, timed, in pools of 8, 32 and 128 workers (two groups
 * each) with 1, 8 and 64 tenants. Each figure is a median, in ns, with its ratio to that of the
 * smallest pool: it must not grow with tenants x workers. A step that needs a preparation is timed
 * alone, with the cost of the clock, which is printed too. The others are timed in batches.
 *
 * Lines of JSON with --json. Nothing is asserted about time; tests/unit/pool/check_sleep.c counts
 * loads.
 */
#include "tests/support/sleep_steps.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/util.h"

#define ROUNDS 10000u
#define BATCH  16u

#define SIZES 3u

static const uint32_t workers[SIZES] = { 8, 32, 128 };
static const uint32_t tenants[SIZES] = { 1, 8, 64 };
static const char *const machines[SIZES] = { "numa:2 core:4 pu:1", "numa:2 core:16 pu:1",
					     "numa:2 core:64 pu:1" };

static double now[SLEEP_OPERATIONS]; /* of the pool being measured */
static double result[SIZES][SIZES][SLEEP_OPERATIONS];

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median(double times[ROUNDS])
{
	qsort(times, ROUNDS, sizeof(times[0]), compare);
	return times[ROUNDS / 2];
}

static void sleep_measure(enum sleep_operation operation, struct pool *pool,
			  void (*prepare)(struct pool *pool), void (*run)(struct pool *pool),
			  void (*undo)(struct pool *pool))
{
	static double times[ROUNDS];
	uint32_t batch = prepare || undo ? 1 : BATCH;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t start;

		if (prepare)
			prepare(pool);
		start = clock_ns();
		for (uint32_t k = 0; k < batch; k++)
			run(pool);
		times[i] = (double)(clock_ns() - start) / batch;
		if (undo)
			undo(pool);
	}
	now[operation] = median(times);
}

static double clock_cost(void)
{
	static double times[ROUNDS];

	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t start = clock_ns();

		times[i] = (double)(clock_ns() - start);
	}
	return median(times);
}

START_TEST(all_pools)
{
	for (uint32_t w = 0; w < SIZES; w++) {
		for (uint32_t t = 0; t < SIZES; t++) {
			sleep_run(machines[w], workers[w], tenants[t]);
			memcpy(result[w][t], now, sizeof(now));
		}
	}
}
END_TEST

static void print_json(void)
{
	for (uint32_t w = 0; w < SIZES; w++)
		for (uint32_t t = 0; t < SIZES; t++)
			for (uint32_t i = 0; i < SLEEP_OPERATIONS; i++)
				printf("{\"bench\": \"sleep\", \"operation\": \"%s\", "
				       "\"workers\": %u, \"tenants\": %u, \"ns\": %.1f, "
				       "\"ratio\": %.3f}\n",
				       sleep_names[i], workers[w], tenants[t], result[w][t][i],
				       result[w][t][i] / result[0][0][i]);
}

static void print_table(void)
{
	printf("ns, and over the first; the clock alone: %.0f\n%-16s", clock_cost(), "workers");
	for (uint32_t w = 0; w < SIZES; w++)
		for (uint32_t t = 0; t < SIZES; t++)
			printf("%12u", workers[w]);
	printf("\n%-16s", "tenants");
	for (uint32_t w = 0; w < SIZES; w++)
		for (uint32_t t = 0; t < SIZES; t++)
			printf("%12u", tenants[t]);
	for (uint32_t i = 0; i < SLEEP_OPERATIONS; i++) {
		printf("\n%-16s", sleep_names[i]);
		for (uint32_t w = 0; w < SIZES; w++)
			for (uint32_t t = 0; t < SIZES; t++)
				printf("%7.0f %4.2f", result[w][t][i],
				       result[w][t][i] / result[0][0][i]);
	}
	printf("\n");
}

/* The rig fails as a test does. */
int main(int argc, char *argv[])
{
	Suite *suite = suite_create("bench_sleep");
	TCase *tcase = tcase_create("all pools");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(tcase, all_pools);
	tcase_set_timeout(tcase, 600);
	suite_add_tcase(suite, tcase);
	srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	if (failed)
		srunner_print(runner, CK_NORMAL);
	else if (argc > 1 && streq(argv[1], "--json"))
		print_json();
	else
		print_table();
	srunner_free(runner);
	return failed != 0;
}
