/* SPDX-License-Identifier: MIT */
/*
 * park: workers whose CPUs are withdrawn (offline workers), in a whole pool: the jobs that they
 * still run, the jobs that they leave to others, and the workers that stay. check_cpus.c has CPUs
 * that really go offline.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/core/worker.h"
#include "daemon/pool/manager_requests.h"
#include "tests/support/intake_rig.h"
#include "tests/support/tasks.h"

static _Atomic uint64_t here, there; /* strands that ran on the right worker, or not */

static void count_place(uint32_t worker)
{
	atomic_fetch_add(worker_self()->index == worker ? &here : &there, 1);
}

/* Placed on worker 1. */
FK_LEAF_TASK(fk_void, placed, ())
{
	count_place(1);
}

/* Migrates to each worker in turn, n times. */
FK_TASK(int64_t, tour, (int64_t, n), int64_t i;)
FK_NO_LEAF(tour)
{
	for (self->i = 0; self->i < self->n; self->i++) {
		FK_GO_TO_WORKER((uint32_t)self->i % rig.pool->n_workers);
		count_place((uint32_t)self->i % rig.pool->n_workers);
	}
	FK_RETURN(self->i);
}
FK_END(tour)

/* Migrates to node 1 and back, n times; worker 1 is the only one there. */
FK_TASK(int64_t, node_tour, (int64_t, n), int64_t i;)
FK_NO_LEAF(node_tour)
{
	for (self->i = 0; self->i < self->n; self->i++) {
		FK_GO_TO_NODE((uint32_t)self->i % 2);
		count_place((uint32_t)self->i % 2);
	}
	FK_RETURN(self->i);
}
FK_END(node_tour)

/* Its continuation is private, and its leaf waits for it. */
FK_TASK(fk_void, hides, (), )
FK_NO_LEAF(hides)
{
	FK_FORK_VOID(hold);
	atomic_store(&flag, 1);
	FK_JOIN();
	FK_RETURN();
}
FK_END(hides)

static _Atomic bool gate;

FK_LEAF_TASK(fk_void, gated, ())
{
	while (!atomic_load(&gate))
		;
}

FK_EXPORT(gated, 0, "Waits until the gate is open")
FK_EXPORT(placed, 0, "Counts whether it runs on worker 1")
FK_EXPORT(tour, 0, "Goes from worker to worker")
FK_EXPORT(node_tour, 0, "Goes from node to node")
FK_EXPORT(hides, 0, "Hides work behind a leaf")

/* From now on these workers may use their CPUs, one bit each. */
static void choose(uint64_t usable)
{
	const uint64_t bits[LIMIT_WORKERS / 64] = { usable };

	park_choose(rig.pool, bits, (uint32_t)__builtin_popcountll(usable), 0);
}

static bool rests_parked(uint32_t worker)
{
	return wake_state(wake_load(&rig.pool->workers[worker].board->wake)) == WAKE_PARKED;
}

static void until_parked(uint32_t worker)
{
	while (!rests_parked(worker))
		sched_yield();
}

/* Returns the workers that are not offline, one bit each. */
static uint64_t staying(void)
{
	uint64_t bits = 0;

	for (uint32_t i = 0; i < rig.pool->n_workers; i++)
		bits |= (uint64_t)!worker_is_parked(&rig.pool->workers[i]) << i;
	return bits;
}

static void submit_to(uint32_t index, const char *task, uint32_t place)
{
	submit_placed(index, task, place, index % rig.pool->n_workers);
}

/* Two jobs that need each other: one waits on its worker for a flag that the other sets. */
static void both_run(void)
{
	atomic_store(&flag, 0);
	submit_to(900, "intake:hold", 0);
	submit_to(901, "intake:set", 0);
	rig_all_done(&rig, 900, 902);
}

static uint64_t roots_of(uint32_t worker)
{
	return atomic_load(&rig.pool->board->counters[worker].jobs_started);
}

/* Worker 0 runs job 0 until the flag is set. */
static void occupy(void)
{
	uint64_t before = roots_of(0);

	atomic_store(&flag, 0);
	submit_to(0, "intake:hold", STRICT(0));
	while (roots_of(0) == before)
		sched_yield();
}

START_TEST(offline_worker_runs_only_jobs_that_no_other_may_run)
{
	start(2);
	for (uint32_t round = 0; round < 20; round++) {
		uint64_t before;

		choose(1);
		until_parked(1);
		before = roots_of(1);
		atomic_store(&here, 0);
		occupy();
		/* Many jobs that any worker may start, and no worker takes. */
		for (uint32_t i = 1; i <= 50; i++)
			submit_to(i, "intake:count", 0);
		while (fair_queued(rig.pool->fair) < 50)
			sched_yield();
		for (uint32_t i = 51; i <= 60; i++)
			submit_to(i, "intake:placed", STRICT(1));
		rig_all_done(&rig, 51, 61);
		ck_assert_uint_eq(atomic_load(&here), 10);
		ck_assert_uint_eq(fair_queued(rig.pool->fair), 50);
		until_parked(1);
		atomic_store(&flag, 1);
		rig_all_done(&rig, 0, 51);
		ck_assert_int_eq(rig_call(&rig, "intake:fib", 18), 2584);
		ck_assert_uint_eq(roots_of(1), before + 10);
		choose(3);
		both_run();
	}
	ck_assert_uint_eq(atomic_load(&there), 0);
	ck_assert_uint_ge(rig_counter(&rig, offline_sleeps), 20);
	rig_stop(&rig);
}
END_TEST

START_TEST(frames_that_migrate_to_an_offline_worker_run_there)
{
	start(2);
	choose(1);
	until_parked(1);
	ck_assert_int_eq(rig_call(&rig, "intake:tour", 200), 200);
	ck_assert_uint_eq(atomic_load(&here), 200);
	ck_assert_uint_eq(atomic_load(&there), 0);
	ck_assert_uint_eq(atomic_load(&rig.pool->board->counters[1].steals), 0);
	until_parked(1);
	rig_stop(&rig);
}
END_TEST

START_TEST(jobs_of_a_node_with_only_offline_workers_run)
{
	rig_start_on(&rig, "numa:2 core:1 pu:1", 2, &fk_module, false);
	choose(1);
	until_parked(1);
	for (uint32_t i = 0; i < 20; i++) {
		submit_to(i, "intake:placed", job_place(JOB_PLACE_NODE, 1, 1));
		ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
	}
	ck_assert_uint_eq(atomic_load(&here), 20);
	ck_assert_int_eq(rig_call(&rig, "intake:node_tour", 100), 100);
	ck_assert_uint_eq(atomic_load(&there), 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(jobs_of_a_node_with_only_offline_workers_run_in_parallel)
{
	const uint32_t place = job_place(JOB_PLACE_NODE, 1, 1);

	rig_start_on(&rig, "numa:2 core:2 pu:1", 4, &fk_module, false);
	choose(3);
	for (uint32_t i = 0; i < 20; i++) {
		atomic_store(&flag, 0);
		until_parked(2);
		until_parked(3);
		submit_to(0, "intake:hold", place);
		while (rests_parked(2) && rests_parked(3))
			sched_yield();
		submit_to(1, "intake:set", place);
		rig_all_done(&rig, 0, 2);
	}
	ck_assert_uint_gt(roots_of(2), 0);
	ck_assert_uint_gt(roots_of(3), 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(continuation_below_a_leaf_of_an_offline_worker_is_stolen)
{
	start(2);
	choose(1);
	until_parked(1);
	for (uint32_t i = 0; i < 20; i++) {
		atomic_store(&flag, 0);
		submit_to(i, "intake:hides", STRICT(1));
		ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
	}
	rig_stop(&rig);
}
END_TEST

/* The worker finishes the batch that it has taken, though no other worker is free, and takes no
 * more. */
START_TEST(busy_worker_that_goes_offline_takes_no_more_jobs)
{
	start(2);
	for (uint32_t round = 0; round < 20; round++) {
		uint64_t before = roots_of(1);

		occupy();
		atomic_store(&gate, false);
		for (uint32_t i = 1; i < 900; i++)
			submit_to(i, "intake:gated", 0);
		while (roots_of(1) == before)
			sched_yield();
		choose(1);
		atomic_store(&gate, true);
		until_parked(1);
		ck_assert_uint_le(roots_of(1) - before, 1 + WORKER_ROOTS);
		atomic_store(&flag, 1);
		rig_all_done(&rig, 0, 900);
		choose(3);
	}
	rig_stop(&rig);
}
END_TEST

/* ------------------------------------------------------------------------ no wake-up is lost */

static struct lazy_trace trace;
static _Atomic uint32_t published; /* jobs 0 to published - 1 */
static _Atomic uint32_t wanted;	   /* number of them that must run */

/* Worker 1's word is PARKED, and the state still counts it as searching. A job is published, and a
 * thread that wants to wake a worker for it finds a searching one. */
static void on_begin(struct lazy_trace *t)
{
	struct worker *w = worker_self();
	static _Thread_local bool inside;

	(void)t;
	if (!w || w->index != 1 || !rests_parked(1) || inside ||
	    atomic_load(&published) == atomic_load(&wanted))
		return;
	/* The other worker sleeps. */
	if ((lazy_load(&rig.pool->idle.lazy.groups[0]) & LAZY_SLEEPER) !=
	    lazy_bit(&rig.pool->idle.lazy, 0))
		return;
	inside = true;
	submit_to(atomic_load(&published), "intake:count", 0);
	atomic_fetch_add(&published, 1);
	inside = false;
}

static void on_end(struct lazy_trace *t, enum lazy_step step, uint32_t worker, uint32_t group,
		   uint64_t value)
{
	(void)t;
	(void)step;
	(void)worker;
	(void)group;
	(void)value;
}

static void watch(struct pool *pool)
{
	trace = (struct lazy_trace){ .begin = on_begin, .end = on_end };
	pool->idle.lazy.trace = &trace;
}

static bool all_sleep(void)
{
	uint64_t state = lazy_load(&rig.pool->idle.lazy.groups[0]);

	return lazy_asleep(state) == rig.pool->n_workers;
}

START_TEST(job_left_to_a_worker_that_goes_offline_is_passed_on)
{
	rig_prepare = watch;
	start(2);
	for (uint32_t round = 0; round < 50; round++) {
		while (!all_sleep())
			sched_yield();
		atomic_store(&wanted, round + 1);
		choose(1);
		until_parked(1);
		while (atomic_load(&published) == round)
			sched_yield();
		ck_assert_uint_eq(rig_wait(&rig, round), JOB_DONE);
		choose(3);
	}
	ck_assert_uint_eq(roots_of(1), 0);
	rig_stop(&rig);
}
END_TEST

static _Atomic bool done;

/* Repeatedly changes the set of workers that stay. */
static void *flip(void *arg)
{
	uint64_t all = (UINT64_C(1) << rig.pool->n_workers) - 1, random = 7;

	(void)arg;
	while (!atomic_load(&done)) {
		struct timespec pause = { .tv_nsec = (long)(random >> 32) % 3000000 };

		choose(xorshift64(&random) & all);
		(void)nanosleep(&pause, NULL);
	}
	return NULL;
}

static void flips(const char *machine, uint32_t workers, const char *scheduler, uint32_t rounds)
{
	pthread_t flipper;

	atomic_store(&done, false);
	atomic_store(&there, 0);
	rig_start_on(&rig, machine, workers, &fk_module, false);
	ck_assert_int_eq(pool_set(rig.pool, "scheduler", scheduler), 0);
	ck_assert_int_eq(pthread_create(&flipper, NULL, flip, NULL), 0);
	for (uint32_t round = 0; round < rounds; round++) {
		int64_t n = 12;

		for (uint32_t i = 1; i <= 20; i++)
			submit_to(i, "intake:count", i % 3 ? 0 : STRICT(i % workers));
		rig_submit(&rig, 21, "intake:tour", &n, sizeof(n));
		submit_to(22, "intake:placed", STRICT(1));
		atomic_store(&flag, 0);
		submit_to(23, "intake:hold", STRICT(round % workers));
		submit_to(24, "intake:set", STRICT((round + 1) % workers));
		ck_assert_int_eq(rig_call(&rig, "intake:fib", 15), 610);
		rig_all_done(&rig, 1, 25);
	}
	atomic_store(&done, true);
	pthread_join(flipper, NULL);
	ck_assert_uint_eq(atomic_load(&there), 0);
	ck_assert_uint_gt(rig_counter(&rig, offline_sleeps), 0);
	choose(0);
	rig_stop(&rig);
}

START_TEST(no_job_is_lost_while_workers_go_offline_and_return)
{
	flips("core:2 pu:1", 2, "lazy", 150);
	flips("numa:2 core:2 pu:1", 4, "lazy", 150);
}
END_TEST

START_TEST(no_job_is_lost_if_workers_sleep_only_offline)
{
	flips("numa:2 core:2 pu:1", 4, "busy", 60);
}
END_TEST

/* ------------------------------------------------------------------------ the dispatcher looks */

int __real_pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set);
int __wrap_pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set);

/* The kernel's answer when worker 1 is pinned: an errno, or 0; and the number of answers. */
static _Atomic int refusal;
static _Atomic uint32_t refused;

int __wrap_pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
{
	int error = atomic_load(&refusal);

	if (!error || !pthread_equal(thread, rig.pool->workers[1].thread))
		return __real_pthread_setaffinity_np(thread, size, set);
	atomic_fetch_add(&refused, 1);
	return error;
}

static void begin_looking(struct pool *pool)
{
	park_begin(pool);
}

/* Workers of a rig are not pinned: the first check pins them. */
START_TEST(unpinned_worker_goes_offline_only_if_its_cpu_is_gone)
{
	rig_prepare = begin_looking;
	atomic_store(&refusal, EPERM);
	start(2);
	while (atomic_load(&refused) < 2)
		ck_assert_int_eq(rig_call(&rig, "intake:fib", 15), 610);
	ck_assert_uint_eq(staying(), 3);
	atomic_store(&refusal, EINVAL);
	while (staying() != 1)
		ck_assert_int_eq(rig_call(&rig, "intake:fib", 15), 610);
	until_parked(1);
	atomic_store(&refusal, 0);
	while (staying() != 3)
		ck_assert_int_eq(rig_call(&rig, "intake:fib", 15), 610);
	rig_stop(&rig);
}
END_TEST

/* Returns how many CPUs worker 0 may use. */
static int spread(void)
{
	cpu_set_t set;

	ck_assert_int_eq(pthread_getaffinity_np(rig.pool->workers[0].thread, sizeof(set), &set), 0);
	return CPU_COUNT(&set);
}

START_TEST(tid_overwritten_by_a_task_pins_no_other_process)
{
	cpu_set_t all, now;
	pid_t child;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	if (CPU_COUNT(&all) < 2) {
		check_unit_not_run(tid_overwritten_by_a_task_pins_no_other_process, "one CPU");
		return;
	}
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	rig_prepare = begin_looking;
	start(2);
	while (spread() > 1)
		ck_assert_int_eq(rig_call(&rig, "intake:fib", 15), 610);
	atomic_store(&rig.pool->board->workers[0].tid, (uint32_t)child);
	ck_assert_int_eq(pthread_setaffinity_np(rig.pool->workers[0].thread, sizeof(all), &all), 0);
	do {
		ck_assert_int_eq(rig_call(&rig, "intake:fib", 15), 610);
		ck_assert_int_eq(sched_getaffinity(child, sizeof(now), &now), 0);
		ck_assert_int_eq(CPU_COUNT(&now), CPU_COUNT(&all));
	} while (spread() > 1);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	rig_stop(&rig);
}
END_TEST

/* ------------------------------------------------------------------------ which ones stay */

START_TEST(at_least_one_worker_stays_online)
{
	const uint64_t all[LIMIT_WORKERS / 64] = { 15 }, none[LIMIT_WORKERS / 64] = { 0 };

	rig_start_on(&rig, "core:4 pu:1", 4, &fk_module, false);
	park_choose(rig.pool, all, 4, 0);
	ck_assert_uint_eq(staying(), 15);
	park_choose(rig.pool, all, 4, 1);
	ck_assert_uint_eq(staying(), 1);
	choose(8);
	ck_assert_uint_eq(staying(), 8);
	park_choose(rig.pool, all, 4, 3);
	ck_assert_uint_eq(staying(), 7);
	park_choose(rig.pool, all, 4, 9);
	ck_assert_uint_eq(staying(), 15);
	/* On CPUs that belong to no worker. */
	park_choose(rig.pool, none, 2, 0);
	ck_assert_uint_eq(staying(), 3);
	park_choose(rig.pool, none, 9, 0);
	ck_assert_uint_eq(staying(), 15);
	park_choose(rig.pool, none, 9, 1);
	ck_assert_uint_eq(staying(), 1);
	park_choose(rig.pool, none, 0, 0);
	ck_assert_uint_eq(staying(), 1);
	ck_assert_int_eq(rig_call(&rig, "intake:fib", 15), 610);
	rig_stop(&rig);
}
END_TEST

START_TEST(cpu_max_counts_cpus_and_not_the_workers_that_share_one)
{
	const uint64_t all[LIMIT_WORKERS / 64] = { 15 };

	rig_start_on(&rig, "core:2 pu:1", 4, &fk_module, false);
	park_choose(rig.pool, all, 2, 2);
	ck_assert_uint_eq(staying(), 15);
	park_choose(rig.pool, all, 2, 1);
	ck_assert_uint_eq(staying(), 5);
	rig_stop(&rig);
}
END_TEST

CHECK_MAIN("park")
