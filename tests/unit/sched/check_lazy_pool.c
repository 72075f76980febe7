/* SPDX-License-Identifier: MIT */
/*
 * The lazy invariant (daemon/core/lazy_policy.h, L1) in every state of recorded traces of real
 * pools. They have 8 workers on one node to 112 on two, with SMT, on unlike packages and in a ring,
 * both schedulers, random work. Also the behaviour of such a pool, idle and busy.
 */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "daemon/core/lazy_policy.h"
#include "daemon/core/pool_settings.h"
#include "daemon/pool/manager_requests.h"
#include "shm/wake.h"
#include "tests/support/check_unit.h"
#include "tests/support/machines.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

/* ------------------------------------------------------------------------ traces */

#define WORKERS 8u
#define EVENTS	(1u << 20)

struct event {
	uint8_t step;
	uint8_t worker;
	uint8_t group;
	uint64_t state;
};

_Static_assert(LIMIT_WORKERS <= 256, "workers fit into an event");

/* The record, under the lock that orders it. */
static struct {
	struct lazy_trace trace;
	pthread_mutex_t lock;
	struct event *events;
	uint32_t n;
	uint32_t n_groups;
} record;

static void record_begin(struct lazy_trace *trace)
{
	(void)trace;
	pthread_mutex_lock(&record.lock);
}

static void record_end(struct lazy_trace *trace, enum lazy_step step, uint32_t worker,
		       uint32_t group, uint64_t value)
{
	(void)trace;
	if (step != LAZY_NOTHING && record.n < EVENTS)
		record.events[record.n++] = (struct event){ .step = (uint8_t)step,
							    .worker = (uint8_t)worker,
							    .group = (uint8_t)group,
							    .state = value };
	pthread_mutex_unlock(&record.lock);
}

static void record_prepare(struct pool *pool)
{
	record.trace = (struct lazy_trace){ .begin = record_begin, .end = record_end };
	pthread_mutex_init(&record.lock, NULL);
	record.events = malloc(EVENTS * sizeof(*record.events));
	ck_assert_ptr_nonnull(record.events);
	record.n = 0;
	record.n_groups = pool->idle.lazy.n_groups;
	pool->idle.lazy.trace = &record.trace;
}

enum role { BUSY, LOOKS, SLEEPS, PARKED };
enum charge { NONE, LEAVING, CHARGED, DEFERRED };

struct replay {
	uint32_t n;
	enum role role[LIMIT_WORKERS];
	enum charge charge[LIMIT_WORKERS];
	uint32_t group[LIMIT_WORKERS];
};

static const char *replay_step(struct replay *r, const struct event *e)
{
	enum role *role = &r->role[e->worker];
	enum charge *charge = &r->charge[e->worker];

	switch (e->step) {
	case LAZY_TO_BUSY:
		if (*role != LOOKS)
			return "busy only from looking";
		*role = BUSY;
		*charge = CHARGED;
		return NULL;
	case LAZY_TO_LOOK:
		if (*role != BUSY)
			return "from busy to looking";
		*role = LOOKS;
		*charge = NONE;
		return NULL;
	case LAZY_TO_SLEEP:
		if (*role != LOOKS)
			return "asleep only from looking";
		*role = SLEEPS;
		*charge = LEAVING;
		return NULL;
	case LAZY_TO_PARK:
		if (*role != LOOKS)
			return "parked only from looking";
		*role = PARKED;
		*charge = CHARGED;
		return NULL;
	case LAZY_ASLEEP:
		if (*charge == LEAVING)
			*charge = NONE;
		return NULL;
	case LAZY_ROUSED:
	case LAZY_WOKEN:
		if (*role != SLEEPS && *role != PARKED)
			return "woken only from sleep";
		*role = LOOKS;
		*charge = e->step == LAZY_WOKEN ? CHARGED : NONE;
		return NULL;
	case LAZY_SETTLED:
		*charge = NONE;
		return NULL;
	case LAZY_DEFERRED:
		*charge = DEFERRED;
		return NULL;
	}
	return "an unknown step";
}

/* Checks invariant L1 in one state, and that the state is the sum of the steps. */
static const char *replay_check(const struct replay *r, const struct event *e)
{
	uint32_t busy[LAZY_GROUPS] = { 0 }, looks[LAZY_GROUPS] = { 0 }, sleeps[LAZY_GROUPS] = { 0 };
	uint32_t parked[LAZY_GROUPS] = { 0 };
	uint32_t all_busy = 0, charged = 0, deferred = 0;

	for (uint32_t w = 0; w < r->n; w++) {
		uint32_t c = r->group[w];

		busy[c] += r->role[w] == BUSY;
		looks[c] += r->role[w] == LOOKS;
		sleeps[c] += r->role[w] == SLEEPS;
		parked[c] += r->role[w] == PARKED;
		all_busy += r->role[w] == BUSY;
		charged += r->charge[w] == CHARGED || r->charge[w] == LEAVING;
		deferred += r->charge[w] == DEFERRED && r->role[w] == BUSY;
	}
	if (lazy_busy(e->state) != busy[e->group] ||
	    lazy_asleep(e->state) != sleeps[e->group] + parked[e->group])
		return "the state is the sum of the steps";
	for (uint32_t c = 0; c < record.n_groups; c++)
		if (sleeps[c] && !looks[c] && all_busy && !charged && !(all_busy == 1 && deferred))
			return "L1: no group is in need without a charge";
	return NULL;
}

/* Returns the error in a trace, or NULL. */
static const char *replay(const struct event *events, uint32_t n, const struct replay *start)
{
	struct replay r = *start;

	for (uint32_t i = 0; i < n; i++) {
		const char *wrong;

		wrong = replay_step(&r, &events[i]);
		if (!wrong)
			wrong = replay_check(&r, &events[i]);
		if (wrong)
			return wrong;
	}
	return NULL;
}

static struct rig rig;

static void replay_start(struct replay *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->n = rig.pool->n_workers;
	for (uint32_t w = 0; w < ret->n; w++)
		ret->group[w] = rig.pool->idle.lazy.seats[w].group;
}

/* A job that never forks. */
FK_LEAF_TASK(int64_t, alone, (int64_t, n))
{
	for (volatile int64_t i = 0; i < 1000 * n; i = i + 1)
		;
	return n;
}

/* A tree whose leaves wait until as many of them run at once as there are workers. */
static _Atomic uint32_t arrived;
static uint32_t to_arrive;

FK_TASK(int64_t, meet, (int64_t, depth), int64_t x; int64_t y;)
{
	if (!depth) {
		atomic_fetch_add(&arrived, 1);
		while (atomic_load(&arrived) < to_arrive)
			sched_yield();
		FK_LEAF(1);
	}
}
FK_BODY(meet)
{
	FK_FORK(x, meet, self->depth - 1);
	FK_CALL(y, meet, self->depth - 1);
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(meet)

FK_EXPORT(meet, 0, "needs all workers")
FK_EXPORT(alone, 0, "never forks")
FK_MODULE(lazy, "test tasks")

static int64_t serial_fib(int64_t n)
{
	return n < 2 ? n : serial_fib(n - 1) + serial_fib(n - 2);
}

static uint32_t sleepers(void)
{
	uint32_t n = 0;

	for (uint32_t c = 0; c < rig.pool->idle.lazy.n_groups; c++)
		n += lazy_asleep(lazy_load(&rig.pool->idle.lazy.groups[c]));
	return n;
}

/* Waits until all workers sleep. */
static void until_all_sleep(void)
{
	while (sleepers() < rig.pool->n_workers)
		sched_yield();
}

/* Jobs that fork and jobs that do not, one by one and many at a time, with and without pauses. */
static void random_work(uint32_t rounds, bool pauses)
{
	uint32_t random = 12345;

	for (uint32_t round = 0; round < rounds; round++) {
		uint32_t n = 1 + (random >> 8) % 12;

		for (uint32_t i = 0; i < n; i++) {
			int64_t arg = 1 + (int64_t)(random >> 16) % 16;

			rig_submit(&rig, i, random >> 28 & 1 ? "lazy:fib" : "lazy:alone", &arg,
				   sizeof(arg));
			random = random * 1664525u + 1013904223u;
		}
		rig_all_done(&rig, 0, n);
		if (pauses && round % 4 == 0)
			until_all_sleep();
		random = random * 1664525u + 1013904223u;
	}
}

static _Atomic bool flips;

/* Takes other workers offline each time, and sometimes none. */
static void *flip(void *arg)
{
	uint64_t random = 7;

	(void)arg;
	while (atomic_load(&flips)) {
		const uint64_t usable[LIMIT_WORKERS / 64] = { xorshift64(&random), random };

		park_choose(rig.pool, usable, 1, random % 4 ? 0 : rig.pool->n_workers / 2);
		(void)poll(NULL, 0, 1);
	}
	return NULL;
}

/* machine: as topology_new() takes it. parks: workers go offline and return all the time. */
static void traced_with(const char *machine, uint32_t workers, uint32_t n_groups,
			uint32_t scheduler, bool parks)
{
	struct replay start;
	const char *wrong;
	uint32_t sleeps = 0, woken = 0, parked = 0;
	pthread_t flipper;

	rig_prepare = record_prepare;
	rig_start_on(&rig, machine, workers, &fk_module, false);
	ck_assert_uint_eq(rig.pool->idle.lazy.n_groups, n_groups);
	ck_assert_int_eq(pool_set(rig.pool, "scheduler",
				  scheduler == OPTIONS_SCHEDULER_BUSY ? "busy" : "lazy"),
			 0);
	atomic_store(&flips, parks);
	ck_assert_int_eq(pthread_create(&flipper, NULL, flip, NULL), 0);
	random_work(workers > WORKERS ? 40 : 200, scheduler == OPTIONS_SCHEDULER_LAZY);
	ck_assert_int_eq(rig_call(&rig, "lazy:fib", 22), serial_fib(22));
	atomic_store(&flips, false);
	pthread_join(flipper, NULL);
	replay_start(&start);
	rig_stop(&rig);

	wrong = replay(record.events, record.n, &start);
	ck_assert_msg(!wrong, "%s: %s", machine, wrong);
	for (uint32_t i = 0; i < record.n; i++) {
		sleeps += record.events[i].step == LAZY_TO_SLEEP;
		woken += record.events[i].step == LAZY_WOKEN;
		parked += record.events[i].step == LAZY_TO_PARK;
	}
	printf("%s, %u workers, %u groups: %u steps, %u sleeps, %u woken, %u parked\n", machine,
	       workers, n_groups, record.n, sleeps, woken, parked);
	ck_assert_int_eq(parked > 0, parks);
	if (scheduler == OPTIONS_SCHEDULER_LAZY) {
		ck_assert_uint_gt(sleeps, workers);
		ck_assert_uint_gt(woken, 0);
	}
	free(record.events);
}

static void traced(const char *machine, uint32_t workers, uint32_t n_groups, uint32_t scheduler)
{
	traced_with(machine, workers, n_groups, scheduler, false);
}

START_TEST(invariant_holds_in_one_group)
{
	traced("core:8 pu:1", WORKERS, 1, OPTIONS_SCHEDULER_LAZY);
}
END_TEST

START_TEST(invariant_holds_in_two_groups)
{
	traced("numa:2 core:4 pu:1", WORKERS, 2, OPTIONS_SCHEDULER_LAZY);
}
END_TEST

START_TEST(invariant_holds_in_four_groups)
{
	traced("numa:4 core:2 pu:1", WORKERS, 4, OPTIONS_SCHEDULER_LAZY);
}
END_TEST

START_TEST(invariant_holds_with_a_group_for_each_worker)
{
	traced("numa:8 core:1 pu:1", WORKERS, 8, OPTIONS_SCHEDULER_LAZY);
}
END_TEST

START_TEST(invariant_holds_in_two_groups_of_56)
{
	traced("numa:2 core:56 pu:1", 112, 2, OPTIONS_SCHEDULER_LAZY);
}
END_TEST

START_TEST(invariant_holds_if_a_node_has_two_groups)
{
	traced("numa:1 core:60 pu:1", 60, 2, OPTIONS_SCHEDULER_LAZY);
}
END_TEST

START_TEST(invariant_holds_with_smt)
{
	traced("numa:2 core:2 pu:2", WORKERS, 2, OPTIONS_SCHEDULER_LAZY);
}
END_TEST

START_TEST(invariant_holds_on_unlike_packages_and_in_a_ring)
{
	traced(machines_xml("asymmetric"), 7, 2, OPTIONS_SCHEDULER_LAZY);
	traced(machines_xml("ring"), WORKERS, 4, OPTIONS_SCHEDULER_LAZY);
}
END_TEST

START_TEST(invariant_holds_with_the_busy_scheduler)
{
	traced("numa:2 core:4 pu:1", WORKERS, 2, OPTIONS_SCHEDULER_BUSY);
	traced("numa:4 core:2 pu:1", WORKERS, 4, OPTIONS_SCHEDULER_BUSY);
}
END_TEST

START_TEST(invariant_holds_while_workers_go_offline_and_return)
{
	traced_with("core:4 pu:1", 4, 1, OPTIONS_SCHEDULER_LAZY, true);
	traced_with("numa:4 core:2 pu:1", WORKERS, 4, OPTIONS_SCHEDULER_LAZY, true);
	traced_with("numa:2 core:4 pu:1", WORKERS, 2, OPTIONS_SCHEDULER_BUSY, true);
}
END_TEST

START_TEST(invalid_trace_is_detected)
{
	/* Two workers of one group; the others are busy throughout. */
	const uint64_t busy = LAZY_BUSY;
	struct event events[] = {
		{ LAZY_TO_LOOK, 0, 0, busy },	  { LAZY_TO_LOOK, 1, 0, 0 },
		{ LAZY_TO_SLEEP, 1, 0, 2 },	  { LAZY_ASLEEP, 1, 0, 2 },
		{ LAZY_TO_BUSY, 0, 0, busy + 2 }, { LAZY_WOKEN, 1, 0, busy },
		{ LAZY_SETTLED, 0, 0, busy },	  { LAZY_SETTLED, 1, 0, busy },
		{ LAZY_TO_BUSY, 1, 0, 2 * busy }, { LAZY_SETTLED, 1, 0, 2 * busy },
	};
	struct replay start = { .n = WORKERS, .group = { 0, 0, 1, 1, 1, 1, 1, 1 } };
	struct event saved;

	record.n_groups = 2;
	ck_assert_ptr_null(replay(events, ARRAY_SIZE(events), &start));
	/* Settled without a wake. */
	saved = events[5];
	events[5] = (struct event){ LAZY_SETTLED, 0, 0, busy + 2 };
	ck_assert_ptr_nonnull(replay(events, 6, &start));
	events[5] = saved;
	/* The last searcher goes to sleep, and finds no worker active. */
	events[4] = (struct event){ LAZY_TO_SLEEP, 0, 0, 3 };
	events[5] = (struct event){ LAZY_ASLEEP, 0, 0, 3 };
	ck_assert_ptr_nonnull(replay(events, 6, &start));
	/* A charge that waits for a fork, though others are busy. */
	events[4] = (struct event){ LAZY_TO_BUSY, 0, 0, busy + 2 };
	events[5] = (struct event){ LAZY_DEFERRED, 0, 0, busy + 2 };
	ck_assert_ptr_nonnull(replay(events, 6, &start));
	/* One step too many in the state. */
	events[4].state += busy;
	ck_assert_ptr_nonnull(replay(events, 5, &start));
}
END_TEST

/* ------------------------------------------------------------------------ a pool */

START_TEST(idle_pool_sleeps_and_runs_every_job)
{
	rig_start_on(&rig, "numa:2 core:2 pu:1", 4, &fk_module, false);
	for (int64_t i = 0; i < 300; i++) {
		if (i % 3 == 0)
			until_all_sleep();
		ck_assert_int_eq(rig_call(&rig, i % 2 ? "lazy:fib" : "lazy:alone", i % 16),
				 i % 2 ? serial_fib(i % 16) : i % 16);
	}
	until_all_sleep();
	ck_assert_uint_eq(atomic_load(&rig.pool->idle.lazy.active), 0);
	ck_assert_uint_eq(atomic_load(&rig.pool->idle.lazy.needs_thief), 3);
	ck_assert_uint_gt(rig_counter(&rig, sleeps), 4);
	rig_stop(&rig);
}
END_TEST

START_TEST(each_group_keeps_a_thief_while_one_worker_forks)
{
	int64_t arg = 1;
	uint32_t thieves;

	rig_start_on(&rig, "numa:4 core:2 pu:1", WORKERS, &fk_module, false);
	until_all_sleep();
	atomic_store(&tasks_opened, 0);
	rig_submit(&rig, 0, "lazy:until", &arg, sizeof(arg));
	/* All others except one per group are asleep; those sleep with a timeout. */
	do {
		sched_yield();
		thieves = 0;
		for (uint32_t c = 0; c < 4; c++) {
			struct lazy_group *group = &rig.pool->idle.lazy.groups[c];
			uint64_t value = lazy_load(group);

			thieves += lazy_looking(group, value) + lazy_busy(value) >= 1;
		}
	} while (thieves < 4 || rig_counter(&rig, timed_sleeps) < 20);
	atomic_store(&tasks_opened, 1);
	ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	ck_assert_uint_gt(rig_counter(&rig, wakes_far), 0);
	until_all_sleep();
	rig_stop(&rig);
}
END_TEST

/* The first thief takes the root's continuation, and leaves those between it and the leaf in which
 * the owner waits. The thief had been asleep, so it wakes others for them. */
START_TEST(woken_worker_that_leaves_work_wakes_others)
{
	rig_start_on(&rig, "core:8 pu:1", WORKERS, &fk_module, false);
	to_arrive = WORKERS;
	for (uint32_t i = 0; i < 20; i++) {
		until_all_sleep();
		atomic_store(&arrived, 0);
		ck_assert_int_eq(rig_call(&rig, "lazy:meet", 5), 32);
	}
	ck_assert_uint_gt(rig_counter(&rig, wakes_extra), 0);
	ck_assert_uint_gt(rig_counter(&rig, wakes), rig_counter(&rig, wakes_extra));
	rig_stop(&rig);
}
END_TEST

START_TEST(job_that_never_forks_wakes_no_worker)
{
	int64_t arg = 10;

	rig_start_on(&rig, "numa:2 core:4 pu:1", WORKERS, &fk_module, false);
	for (uint32_t i = 0; i < 20; i++) {
		until_all_sleep();
		rig_submit(&rig, 0, "lazy:alone", &arg, sizeof(arg));
		ck_assert_uint_eq(rig_wait(&rig, 0), JOB_DONE);
	}
	ck_assert_uint_eq(rig_counter(&rig, wakes), 0);
	rig_stop(&rig);
}
END_TEST

static bool nobody_sleeps(void)
{
	for (uint32_t i = 0; i < rig.pool->n_workers; i++)
		if (wake_state(wake_load(&rig.pool->board->workers[i].wake)) == WAKE_SLEEPING)
			return false;
	return true;
}

START_TEST(scheduler_is_switched_while_the_pool_runs)
{
	rig_start_on(&rig, "numa:2 core:2 pu:1", 4, &fk_module, false);
	for (uint32_t i = 0; i < 5; i++) {
		uint64_t sleeps;

		until_all_sleep();
		ck_assert_int_eq(pool_set(rig.pool, "scheduler", "busy"), 0);
		while (!nobody_sleeps() || sleepers())
			sched_yield();
		sleeps = rig_counter(&rig, sleeps);
		ck_assert_int_eq(rig_call(&rig, "lazy:fib", 15), serial_fib(15));
		ck_assert_uint_eq(rig_counter(&rig, sleeps), sleeps);
		ck_assert(nobody_sleeps());
		ck_assert_int_eq(pool_set(rig.pool, "scheduler", "lazy"), 0);
	}
	until_all_sleep();
	rig_stop(&rig);
}
END_TEST

/* A task has allocated all memory. */
static bool no_memory;

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

char *__wrap_strdup(const char *text)
{
	return no_memory ? NULL : __real_strdup(text);
}

START_TEST(setting_an_option_needs_no_memory)
{
	rig_start_on(&rig, NULL, 2, &fk_module, false);
	no_memory = true;
	ck_assert_int_eq(pool_set(rig.pool, "spin", "7us"), 0);
	ck_assert_int_eq(pool_set(rig.pool, "scheduler", "busy"), 0);
	no_memory = false;
	ck_assert_uint_eq(pool_spin(rig.pool), 7000);
	ck_assert(!pool_is_lazy(rig.pool));
	rig_stop(&rig);
}
END_TEST

START_TEST(only_marked_options_are_set_while_the_pool_runs)
{
	rig_start_on(&rig, NULL, 2, &fk_module, false);
	ck_assert_int_eq(pool_set(rig.pool, "spin", "7us"), 0);
	ck_assert_uint_eq(pool_spin(rig.pool), 7000);
	ck_assert_int_eq(pool_set(rig.pool, "spin", "2s"), -ERANGE);
	ck_assert_int_eq(pool_set(rig.pool, "scheduler", "idle"), -EINVAL);
	ck_assert_int_eq(pool_set(rig.pool, "workers", "3"), -EPERM);
	ck_assert_int_eq(pool_set(rig.pool, "spinn", "3"), -ENOENT);
	ck_assert_uint_eq(pool_spin(rig.pool), 7000);
	ck_assert(pool_is_lazy(rig.pool));
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("lazy_pool")
