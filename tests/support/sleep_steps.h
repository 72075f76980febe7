/* SPDX-License-Identifier: MIT */
/*
 * sleep_steps.h - the steps of a pool's workers before and after their sleep, one by one
 *
 * The pool of a test's rig, before it has threads, with tenants added. The program makes the steps
 * of its workers itself: work_search.c, worker_sleep.c, wake.c, job_batches.c, ring_drain.c and
 * clients.c of daemon/ are compiled into it. So only the work around a futex is measured, and the
 * call that wakes, without a CPU's exit from its idle state.
 *
 * 	to sleep         a worker leaves a group in which another one searches, and returns
 * 	to sleep, last   the last searcher, in an idle pool
 * 	to nap           the last one, while another worker is busy
 * 	to wake          a busy worker wakes the only one in its group
 * 	to wake, any     the dispatcher, with all asleep
 * 	to turn busy     with another searcher, and back
 * 	one look         a search for a job, in vain
 *
 * INCLUDED BY
 *   tests/bench/bench_sleep.c, which times the steps, and tests/unit/pool/check_sleep.c, which
 *   counts their loads. Each defines sleep_measure(), and registers sleep_all_steps() to run before
 *   a rig has threads. Only changes of the pool's code may precede this include.
 */
#pragma once

#include "daemon/core/worker.c"
#include "daemon/pool/work_search.c"
#include "daemon/pool/worker_sleep.c"
#include "daemon/sched/wake.c"

#include "daemon/jobs/ring_drain.c"
#include "daemon/jobs/job_batches.c"
#include "daemon/jobs/pending.c"
#include "daemon/core/clients.c"
#include "daemon/jobs/membership.h"

#include <check.h>

#include "daemon/pool/worker_sleep.h"
#include "daemon/sched/wake.h"
#include "tests/support/rig.h"

enum sleep_operation {
	SLEEP_BESIDE,
	SLEEP_LAST,
	SLEEP_NAP,
	SLEEP_WAKE,
	SLEEP_WAKE_ANY,
	SLEEP_TURN,
	SLEEP_LOOK,
	SLEEP_OPERATIONS
};

static const char *const sleep_names[SLEEP_OPERATIONS] = {
	[SLEEP_BESIDE] = "to sleep",
	[SLEEP_LAST] = "to sleep, last",
	[SLEEP_NAP] = "to nap",
	[SLEEP_WAKE] = "to wake",
	[SLEEP_WAKE_ANY] = "to wake, any",
	[SLEEP_TURN] = "to turn busy",
	[SLEEP_LOOK] = "one look",
};

static uint32_t sleep_n_tenants;
static bool sleep_wrong; /* libcheck's assertions make system calls even if they hold */

/* Repeats a step. prepare() and undo() are not measured; NULL if there is nothing to do in
 * between. */
static void sleep_measure(enum sleep_operation operation, struct pool *pool,
			  void (*prepare)(struct pool *pool), void (*run)(struct pool *pool),
			  void (*undo)(struct pool *pool));

static void sleep_add_tenants(struct pool *pool)
{
	for (uint32_t i = 1; i < sleep_n_tenants; i++) {
		int fd = segment_create("tenant", SEGMENT_TENANT,
					tenant_segment_size(pool->n_workers), 0, 0, 0600);

		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(intake_add_tenant(pool, i, FAIR_WEIGHT, ATTACH_FILE(fd)), 0);
		(void)close(fd);
		/* As if it had clients: tenants without clients are not read. */
		atomic_fetch_or(&pool->clients.peopled[i / 64], UINT64_C(1) << i % 64);
	}
}

/* The state after a worker's futex wait, without the wait. */
static void sleep_asleep(struct worker *w)
{
	(void)wake_prepare(&w->board->wake);
	ck_assert_int_eq(lazy_sleep(&w->pool->idle.lazy, w->index), LAZY_SLEEPS);
}

static void sleep_awake(struct worker *w)
{
	wake_store(&w->board->wake, WAKE_LOOKING);
	(void)lazy_rise(&w->pool->idle.lazy, w->index, LAZY_ROUSED);
}

/* Worker 0 rests; the pool is about to end, so the worker does not enter the futex. */
static void sleep_rest(struct pool *pool)
{
	(void)worker_rest(&pool->workers[0]);
}

static void sleep_wake_one(struct pool *pool)
{
	sleep_wrong |= !worker_wake_one(pool, &pool->workers[0]);
}

static void sleep_wake_any(struct pool *pool)
{
	sleep_wrong |= !worker_wake_one(pool, NULL);
}

/* Puts every worker that was woken back to sleep. */
static void sleep_all_asleep(struct pool *pool)
{
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[i];

		if (wake_state(wake_load(&w->board->wake)) == WAKE_LOOKING)
			sleep_asleep(w);
	}
}

/* Makes worker 0 busy, with no worker searching in its group, which lazy_sleep() would refuse to
 * the last one. */
static void sleep_lay_down(struct pool *pool)
{
	struct lazy_group *own = worker_group(&pool->workers[0]);

	for (uint32_t i = 1; i < pool->n_workers; i++) {
		_Atomic uint32_t *word = &pool->workers[i].board->wake;

		if (lazy_group_of(&pool->idle.lazy, i) != own ||
		    wake_state(wake_load(word)) != WAKE_LOOKING)
			continue;
		(void)wake_prepare(word);
		atomic_fetch_or(&own->state, lazy_bit(&pool->idle.lazy, i));
		lazy_note(&pool->idle.lazy, own);
	}
}

static void sleep_turn(struct pool *pool)
{
	worker_turn_busy(&pool->workers[0], WORKER_NO_JOB);
	worker_turn_looking(&pool->workers[0]);
}

static void sleep_look(struct pool *pool)
{
	uint32_t row;

	sleep_wrong |= worker_look_for_job(&pool->workers[0], &row);
}

static void sleep_all_steps(struct pool *pool)
{
	struct worker *w = pool->workers;
	uint32_t n = pool->n_workers;

	sleep_add_tenants(pool);
	for (uint32_t i = 0; i < n; i++)
		worker_turn_looking(&w[i]);
	atomic_store(&pool->stop, POOL_ENDING);
	for (uint32_t i = 2; i < n; i++)
		sleep_asleep(&w[i]);

	sleep_measure(SLEEP_BESIDE, pool, NULL, sleep_rest, NULL);
	sleep_measure(SLEEP_TURN, pool, NULL, sleep_turn, NULL);
	sleep_measure(SLEEP_LOOK, pool, NULL, sleep_look, NULL);
	sleep_asleep(&w[1]);
	sleep_measure(SLEEP_LAST, pool, NULL, sleep_rest, NULL);
	sleep_asleep(&w[0]);
	sleep_measure(SLEEP_WAKE_ANY, pool, NULL, sleep_wake_any, sleep_all_asleep);
	/* Another worker is busy, in a distant group if there is one. */
	sleep_awake(&w[n - 1]);
	worker_turn_busy(&w[n - 1], WORKER_NO_JOB);
	sleep_awake(&w[0]);
	sleep_measure(SLEEP_NAP, pool, NULL, sleep_rest, NULL);
	worker_turn_busy(&w[0], WORKER_NO_JOB);
	for (uint32_t thief; (thief = lazy_pick(&pool->idle.lazy, 0)) != LAZY_NOBODY;)
		wake_store(&w[thief].board->wake, WAKE_LOOKING);
	sleep_measure(SLEEP_WAKE, pool, sleep_lay_down, sleep_wake_one, NULL);

	ck_assert(!sleep_wrong);

	/* As lazy_init() leaves it. */
	atomic_store(&pool->stop, POOL_RUNNING);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t state = wake_state(wake_load(&w[i].board->wake));

		if (state == WAKE_SLEEPING)
			sleep_awake(&w[i]);
		if (state != WAKE_BUSY)
			lazy_turn_busy(&pool->idle.lazy, i);
		wake_store(&w[i].board->wake, WAKE_BUSY);
		w[i].thief.wake_debt = false;
		worker_take_request(&w[i]);
	}
}

FK_LEAF_TASK(int64_t, nothing, (int64_t, n))
{
	return n;
}

FK_EXPORT(nothing, 0, "nothing")
FK_MODULE(sleep, "of sleep_steps.h")

/* Runs all steps in a pool of this many workers (at least 4) in two groups, and tenants. Afterwards
 * a job runs in it. */
static void sleep_run(const char *machine, uint32_t workers, uint32_t tenants)
{
	static struct rig rig;

	sleep_n_tenants = tenants;
	rig_prepare = sleep_all_steps;
	rig_start_on(&rig, machine, workers, &fk_module, false);
	ck_assert_int_eq(rig_call(&rig, "sleep:nothing", 7), 7);
	rig_stop(&rig);
}
