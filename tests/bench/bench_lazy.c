/* SPDX-License-Identifier: MIT */
/*
 * bench_lazy - what it costs to go to sleep and to wake somebody, by tenants and workers
 *
 * WHAT IT IS
 *   The pool of a test's rig, before it has threads: this program makes the steps of its workers
 *   itself, with daemon/worker.c compiled into it, so that what is timed is the work that is done
 *   before and after a futex, and the futex's own price for a wake, and no CPU's way out of its
 *   idle state. Each row is the same operation in a pool of 2 workers with 1 tenant, and in one of
 *   128 workers in two groups with 64 tenants; the ratio is what issue 3 asks about.
 *
 *	to sleep         a worker that leaves a cell in which another one looks, and its way back
 *	to sleep, last   the last one that looks, in an idle pool: reads all tenants
 *	to nap           the last one, while another worker is busy: the same
 *	to wake          a busy worker wakes the only one in its cell
 *	to wake, any     the dispatcher, with everybody asleep
 *	to turn busy     with another one that looks, and back
 *	one look         of a search, for a job, in vain
 *
 *   Lines of JSON with --json. Nothing is asserted about time.
 */
#include "daemon/worker.c"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util.h"
#include "tests/rig.h"

#define ROUNDS 20000u
#define BATCH  16u

enum operation { SLEEP, SLEEP_LAST, NAP, WAKE, WAKE_ANY, TURN, LOOK, OPERATIONS };

static const char *const names[OPERATIONS] = {
	[SLEEP] = "to sleep", [SLEEP_LAST] = "to sleep, last", [NAP] = "to nap",
	[WAKE] = "to wake",   [WAKE_ANY] = "to wake, any",     [TURN] = "to turn busy",
	[LOOK] = "one look",
};

static uint32_t n_tenants;
static double result[OPERATIONS];
static bool wrong; /* libcheck's assertions make system calls, also where they hold */

FK_TASK(int64_t, nothing, (int64_t, n))
{
	FK_LEAF(n);
}
FK_NO_BODY(nothing)
FK_END(nothing)

FK_EXPORT(nothing, "n:i64 -> i64", 0, "nothing")
FK_MODULE(bench, "of bench_lazy")

static void add_tenants(struct pool *pool)
{
	for (uint32_t i = 1; i < n_tenants; i++) {
		int fd = segment_create("tenant", SEGMENT_TENANT,
					tenant_segment_size(pool->n_workers), 0, 0, 0600);

		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(intake_add_tenant(pool, i, i, fd), 0);
		(void)close(fd);
	}
}

/* As after a worker's futex, without it. */
static void asleep(struct worker *w)
{
	(void)wake_prepare(&w->board->wake);
	ck_assert_int_eq(lazy_sleep(&w->pool->lazy, w->index), LAZY_SLEEPS);
}

static void awake(struct worker *w)
{
	wake_store(&w->board->wake, WAKE_LOOKING);
	(void)lazy_rouse(&w->pool->lazy, w->index);
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Median of many rounds, in ns. prepare() and undo() are not timed. */
static double measure(struct pool *pool, void (*prepare)(struct pool *), void (*run)(struct pool *),
		      void (*undo)(struct pool *))
{
	static double times[ROUNDS];

	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t batch = prepare || undo ? 1 : BATCH;
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
	qsort(times, ROUNDS, sizeof(times[0]), compare);
	return times[ROUNDS / 2];
}

/* Worker 0 rests; the pool is about to end, so that it does not enter the futex. */
static void rest(struct pool *pool)
{
	(void)worker_rest(&pool->workers[0]);
}

static void wake_one(struct pool *pool)
{
	wrong |= !worker_wake_one(pool, &pool->workers[0]);
}

static void wake_any(struct pool *pool)
{
	wrong |= !worker_wake_one(pool, NULL);
}

/* Whoever was woken sleeps again. */
static void all_asleep(struct pool *pool)
{
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[i];

		if (wake_state(wake_load(&w->board->wake)) == WAKE_LOOKING)
			asleep(w);
	}
}

/* Worker 0 is busy, and nobody looks in its cell: what lazy_sleep() would refuse to the last one. */
static void lay_down(struct pool *pool)
{
	struct lazy_cell *own = worker_cell(&pool->workers[0]);

	for (uint32_t i = 1; i < pool->n_workers; i++) {
		_Atomic uint32_t *word = &pool->workers[i].board->wake;

		if (lazy_cell_of(&pool->lazy, i) != own ||
		    wake_state(wake_load(word)) != WAKE_LOOKING)
			continue;
		(void)wake_prepare(word);
		atomic_fetch_or(&own->census, lazy_bit(&pool->lazy, i));
		lazy_note(&pool->lazy, own);
	}
}

static void turn(struct pool *pool)
{
	worker_turn_busy(&pool->workers[0]);
	worker_turn_looking(&pool->workers[0]);
}

static void look(struct pool *pool)
{
	uint32_t row;

	wrong |= worker_look_for_job(&pool->workers[0], &row);
}

static void bench(struct pool *pool)
{
	struct worker *w = pool->workers;
	uint32_t n = pool->n_workers;

	add_tenants(pool);
	for (uint32_t i = 0; i < n; i++)
		worker_turn_looking(&w[i]);
	atomic_store(&pool->stop, POOL_ENDING);
	for (uint32_t i = 2; i < n; i++)
		asleep(&w[i]);

	result[SLEEP] = measure(pool, NULL, rest, NULL);
	result[TURN] = measure(pool, NULL, turn, NULL);
	result[LOOK] = measure(pool, NULL, look, NULL);
	asleep(&w[1]);
	result[SLEEP_LAST] = measure(pool, NULL, rest, NULL);
	asleep(&w[0]);
	result[WAKE_ANY] = measure(pool, NULL, wake_any, all_asleep);
	/* Another one is busy, far away where there is a far away. */
	awake(&w[n - 1]);
	worker_turn_busy(&w[n - 1]);
	awake(&w[0]);
	result[NAP] = measure(pool, NULL, rest, NULL);
	worker_turn_busy(&w[0]);
	if (n == 2)
		worker_turn_looking(&w[1]);
	for (uint32_t thief; (thief = lazy_pick(&pool->lazy, 0)) != LAZY_NOBODY;)
		wake_store(&w[thief].board->wake, WAKE_LOOKING);
	result[WAKE] = measure(pool, lay_down, wake_one, NULL);

	ck_assert(!wrong);

	/* As lazy_init() leaves it. */
	atomic_store(&pool->stop, POOL_RUNNING);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t state = wake_state(wake_load(&w[i].board->wake));

		if (state == WAKE_SLEEPING)
			awake(&w[i]);
		if (state != WAKE_BUSY)
			lazy_turn_busy(&pool->lazy, i);
		wake_store(&w[i].board->wake, WAKE_BUSY);
		w[i].duty = false;
		worker_take_request(&w[i]);
	}
}

static void run(const char *machine, uint32_t workers, uint32_t tenants)
{
	static struct rig rig;

	n_tenants = tenants;
	rig_prepare = bench;
	rig_start_on(&rig, machine, workers, &fk_module, false);
	ck_assert_int_eq(rig_call(&rig, "bench:nothing", 7), 7);
	rig_stop(&rig);
}

static double small[OPERATIONS];

START_TEST(both_pools)
{
	run("numa:1 core:2 pu:1", 2, 1);
	memcpy(small, result, sizeof(small));
	run("numa:2 core:64 pu:1", 128, 64);
}
END_TEST

static void print(bool json)
{
	if (!json)
		printf("%-16s %14s %16s %7s\n%-16s %14s %16s\n", "ns", "2 workers", "128 workers",
		       "ratio", "", "1 tenant", "64 tenants");
	for (uint32_t i = 0; i < OPERATIONS; i++)
		if (json)
			printf("{\"bench\": \"lazy\", \"operation\": \"%s\", \"small_ns\": %.1f, "
			       "\"large_ns\": %.1f}\n",
			       names[i], small[i], result[i]);
		else
			printf("%-16s %14.0f %16.0f %7.2f\n", names[i], small[i], result[i],
			       result[i] / small[i]);
}

/* The rig fails as a test does. */
int main(int argc, char *argv[])
{
	Suite *suite = suite_create("bench_lazy");
	TCase *tcase = tcase_create("both pools");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(tcase, both_pools);
	tcase_set_timeout(tcase, 600);
	suite_add_tcase(suite, tcase);
	srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	if (failed)
		srunner_print(runner, CK_NORMAL);
	else
		print(argc > 1 && streq(argv[1], "--json"));
	srunner_free(runner);
	return failed != 0;
}
