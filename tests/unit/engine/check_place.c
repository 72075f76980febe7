/* SPDX-License-Identifier: MIT */
/*
 * place - tasks that migrate to another worker or another NUMA node
 *
 * Tasks migrate from worker to worker and check their place (worker_self()) first: alone, below
 * nested forks and calls, thousands at once. They go to workers that sleep, to busy ones, and to
 * the current one, on synthetic machines of hwloc. A lost wake-up makes a test hang, because no
 * other worker may take a frame that was sent to a worker.
 */
#define CHECK_TIMEOUT 200

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "daemon/core/preempt_request.h"
#include "daemon/pool/dispatcher.h"
#include "daemon/pool/manager_requests.h"
#include "tests/support/check_unit.h"
#include "tests/support/quiet.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

static struct rig rig;
static _Atomic uint64_t trips, wrong;
static _Atomic uint32_t host;

static void arrived(uint32_t worker)
{
	atomic_fetch_add_explicit(&trips, 1, memory_order_relaxed);
	if (worker_self()->index != worker)
		atomic_fetch_add(&wrong, 1);
}

static void arrived_on(uint32_t node)
{
	atomic_fetch_add_explicit(&trips, 1, memory_order_relaxed);
	if (worker_self()->group != node)
		atomic_fetch_add(&wrong, 1);
}

static uint32_t worker_of_seed(int64_t seed)
{
	return (uint32_t)((uint64_t)seed * UINT64_C(0x9e3779b97f4a7c15) >> 40) %
	       rig.pool->n_workers;
}

/* Migrates to each worker in turn, n times. */
FK_TASK(int64_t, tour, (int64_t, n), int64_t i;)
FK_NO_LEAF(tour)
{
	for (self->i = 0; self->i < self->n * rig.pool->n_workers; self->i++) {
		FK_GO_TO_WORKER((uint32_t)self->i % rig.pool->n_workers);
		arrived((uint32_t)self->i % rig.pool->n_workers);
	}
	FK_RETURN(self->i);
}
FK_END(tour)

/* Migrates to the current worker. */
FK_TASK(int64_t, stay, (int64_t, n), int64_t i;)
FK_NO_LEAF(stay)
{
	for (self->i = 0; self->i < self->n; self->i++)
		FK_GO_TO_WORKER(worker_self()->index);
	FK_RETURN(self->i);
}
FK_END(stay)

FK_TASK(int64_t, nowhere, (int64_t, place))
FK_NO_LEAF(nowhere)
{
	FK_GO_TO_WORKER((uint32_t)self->place);
	FK_RETURN(1);
}
FK_END(nowhere)

FK_TASK(int64_t, no_node, (int64_t, place))
FK_NO_LEAF(no_node)
{
	FK_GO_TO_NODE((uint32_t)self->place);
	FK_RETURN(1);
}
FK_END(no_node)

/* A tree whose tasks migrate between any two steps. */
FK_DECLARE(int64_t, trip, (int64_t, n, int64_t, seed), int64_t x; int64_t y;)

FK_FINE_TASK(int64_t, fine_trip, (int64_t, n, int64_t, seed), int64_t x; int64_t y;)
{
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(fine_trip)
{
	FK_CALL(x, trip, self->n - 1, self->seed * 7 + 1);
	FK_FORK(y, fine_trip, self->n - 2, self->seed * 7 + 5);
	if (self->seed % 2) {
		FK_GO_TO_WORKER(worker_of_seed(self->seed));
		arrived(worker_of_seed(self->seed));
	}
	FK_JOIN();
	FK_RETURN(self->x + self->y);
}
FK_END(fine_trip)

FK_DEFINE(int64_t, trip, (int64_t, n, int64_t, seed))
{
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(trip)
{
	if (self->seed % 3) {
		FK_GO_TO_WORKER(worker_of_seed(self->seed));
		arrived(worker_of_seed(self->seed));
	}
	FK_FORK(x, fine_trip, self->n - 1, self->seed * 7 + 1);
	if (self->seed % 5 == 0) {
		/* A fork is outstanding. */
		FK_GO_TO_WORKER(worker_of_seed(self->seed + 1));
		arrived(worker_of_seed(self->seed + 1));
	}
	FK_FORK(y, trip, self->n - 2, self->seed * 7 + 3);
	FK_JOIN();
	if (self->seed % 4 == 0) {
		FK_GO_TO_WORKER(worker_of_seed(self->seed + 2));
		arrived(worker_of_seed(self->seed + 2));
	}
	FK_RETURN(self->x + self->y);
}
FK_END(trip)

FK_TASK(int64_t, trips_of, (int64_t, seed), int64_t x;)
FK_NO_LEAF(trips_of)
{
	FK_CALL(x, trip, 10, self->seed);
	FK_RETURN(self->x);
}
FK_END(trips_of)

/* Two children of one parent that change places: the first one returns to the parent's worker,
 * while the parent waits only for the second, which has left. */
FK_TASK(int64_t, there_and_back, (int64_t, there, int64_t, n), int64_t i;)
FK_NO_LEAF(there_and_back)
{
	for (self->i = 0; self->i < self->n; self->i++) {
		FK_GO_TO_WORKER((uint32_t)(self->there + self->i) % rig.pool->n_workers);
		arrived((uint32_t)(self->there + self->i) % rig.pool->n_workers);
	}
	FK_RETURN(1);
}
FK_END(there_and_back)

FK_TASK(int64_t, swap, (int64_t, n), int64_t x[3]; int64_t i; int64_t sum;)
FK_NO_LEAF(swap)
{
	self->sum = 0;
	for (self->i = 0; self->i < self->n; self->i++) {
		FK_FORK(x[0], there_and_back, self->i + 1, 2);
		FK_FORK(x[1], there_and_back, self->i + 1, 1 + self->i % 3);
		FK_FORK(x[2], there_and_back, self->i, 2);
		FK_JOIN();
		self->sum += self->x[0] + self->x[1] + self->x[2];
	}
	FK_RETURN(self->sum);
}
FK_END(swap)

/* Migrates to each node in turn. */
FK_TASK(int64_t, nodes, (int64_t, n), int64_t i;)
FK_NO_LEAF(nodes)
{
	for (self->i = 0; self->i < self->n * rig.pool->n_groups; self->i++) {
		FK_GO_TO_NODE((uint32_t)self->i % rig.pool->n_groups);
		arrived_on((uint32_t)self->i % rig.pool->n_groups);
	}
	FK_RETURN(self->i);
}
FK_END(nodes)

/* Migrates forever, and so do its descendants. */
FK_TASK(int64_t, restless, (int64_t, seed), int64_t x; int64_t y;)
FK_NO_LEAF(restless)
{
	atomic_fetch_add(&tasks_reached, 1);
	if (self->seed % 64 == 63) {
		for (;;) {
			FK_GO_TO_WORKER(worker_of_seed(self->seed++));
			FK_FORK(y, stay, 0);
			FK_JOIN();
		}
	}
	FK_GO_TO_WORKER(worker_of_seed(self->seed));
	FK_FORK(x, restless, self->seed + 1);
	FK_CALL(y, stay, 2);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(restless)

FK_TASK(int64_t, goes_and_fails, (int64_t, seed), int64_t x;)
FK_NO_LEAF(goes_and_fails)
{
	FK_GO_TO_WORKER(worker_of_seed(self->seed));
	FK_CALL(x, fails_below, 5);
	FK_RETURN(self->x);
}
FK_END(goes_and_fails)

/* Keeps its worker until a frame has been sent to it, and then lets it get a preempt request. */
FK_LEAF_TASK(int64_t, hosts, (int64_t, n))
{
	struct worker *w = worker_self();

	atomic_store(&host, w->index);
	while (!inbox_any(&w->inbox))
		sched_yield();
	preempt_request(w);
	return 1;
}

FK_TASK(int64_t, hosts_one, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(hosts_one)
{
	FK_CALL(x, hosts, self->n);
	FK_CALL(y, stay, 1);
	FK_RETURN(self->x);
}
FK_END(hosts_one)

/* Migrates there, and checks that the preempt request is still pending. */
FK_TASK(int64_t, visits, (int64_t, there), )
FK_NO_LEAF(visits)
{
	FK_GO_TO_WORKER((uint32_t)self->there);
	FK_RETURN(preempt_is_requested(worker_self()) && worker_is_asked(worker_self()));
}
FK_END(visits)

FK_EXPORT(tour, 0, "goes to each worker")
FK_EXPORT(stay, 0, "goes to where it is")
FK_EXPORT(nowhere, 0, "goes to a worker")
FK_EXPORT(no_node, 0, "goes to a node")
FK_EXPORT(trips_of, 0, "a tree that travels")
FK_EXPORT(swap, 0, "children that change places")
FK_EXPORT(nodes, 0, "goes to each node")
FK_EXPORT(restless, 0, "travels for ever")
FK_EXPORT(goes_and_fails, 0, "fails elsewhere")
FK_EXPORT(hosts_one, 0, "waits for a visitor")
FK_EXPORT(visits, 0, "is one")
FK_MODULE(t, "test tasks")

static void start(uint32_t workers, bool forced)
{
	atomic_store(&trips, 0);
	atomic_store(&wrong, 0);
	atomic_store(&tasks_opened, 0);
	atomic_store(&tasks_reached, 0);
	rig_start(&rig, workers, &fk_module, forced);
}

static void stop(void)
{
	quiet(&rig);
	ck_assert_uint_eq(atomic_load(&wrong), 0);
	rig_stop(&rig);
}

static void submit(uint32_t job, const char *task, int64_t n)
{
	rig_submit(&rig, job, task, &n, sizeof(n));
}

START_TEST(task_runs_where_it_migrated_to)
{
	for (uint32_t workers = 1; workers <= 4; workers++)
		for (int forced = 0; forced < 2; forced++) {
			start(workers, forced);
			ck_assert_int_eq(rig_call(&rig, "t:tour", 100), 100 * workers);
			ck_assert_uint_eq(atomic_load(&trips), 100 * workers);
			stop();
		}
}
END_TEST

START_TEST(job_on_the_right_worker_stays)
{
	start(2, false);
	ck_assert_int_eq(rig_call(&rig, "t:stay", 1000), 1000);
	ck_assert_uint_eq(rig_counter(&rig, frames_suspended), 0);
	stop();
}
END_TEST

START_TEST(invalid_place_fails_the_job)
{
	static const int64_t places[] = { 2, 3, 1000, UINT32_MAX };

	start(2, false);
	for (uint32_t i = 0; i < 4; i++) {
		submit(1, "t:nowhere", places[i]);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
		ck_assert_int_eq(atomic_load(&rig.jobs[1].code), -EINVAL);
		submit(1, "t:no_node", places[i]);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
		ck_assert_int_eq(atomic_load(&rig.jobs[1].code), -EINVAL);
	}
	stop();
}
END_TEST

START_TEST(busy_worker_accepts_a_migrating_task)
{
	for (uint32_t workers = 1; workers <= 4; workers++) {
		start(workers, false);
		for (uint32_t i = 0; i < workers; i++)
			submit(10 + i, "t:until", 3);
		while (atomic_load(&tasks_reached) < workers)
			sched_yield();
		for (int i = 0; i < 5; i++)
			ck_assert_int_eq(rig_call(&rig, "t:tour", 25), 25 * workers);
		atomic_store(&tasks_opened, 1);
		for (uint32_t i = 0; i < workers; i++)
			ck_assert_uint_eq(rig_wait(&rig, 10 + i), JOB_DONE);
		stop();
	}
}
END_TEST

/* The request means "check which job has the best claim", which an arriving frame does not do. */
START_TEST(worker_that_arrives_keeps_the_preempt_request)
{
	start(2, false);
	for (int i = 0; i < 20; i++) {
		atomic_store(&host, UINT32_MAX);
		submit(1, "t:hosts_one", 0);
		while (atomic_load(&host) == UINT32_MAX)
			sched_yield();
		/* The request is pending when it arrives, and is served at its first fork. */
		ck_assert_int_eq(rig_call(&rig, "t:visits", atomic_load(&host)), 1);
		ck_assert_uint_eq(rig_wait(&rig, 1), JOB_DONE);
	}
	stop();
}
END_TEST

START_TEST(sleeper_is_woken)
{
	start(4, false);
	for (int i = 0; i < 50; i++) {
		uint64_t sleeps = rig_counter(&rig, sleeps);

		ck_assert_int_eq(rig_call(&rig, "t:tour", 3), 12);
		while (rig_counter(&rig, sleeps) < sleeps + 1)
			sched_yield();
	}
	stop();
}
END_TEST

START_TEST(children_that_change_places_join)
{
	for (uint32_t workers = 1; workers <= 4; workers++)
		for (int forced = 0; forced < 2; forced++) {
			start(workers, forced);
			for (int i = 0; i < 10; i++)
				ck_assert_int_eq(rig_call(&rig, "t:swap", 300), 900);
			stop();
		}
}
END_TEST

START_TEST(trees_migrate)
{
	for (uint32_t workers = 1; workers <= 4; workers++)
		for (int forced = 0; forced < 2; forced++) {
			start(workers, forced);
			for (int i = 0; i < 20; i++)
				ck_assert_int_eq(rig_call(&rig, "t:trips_of", i), 55);
			ck_assert_uint_gt(atomic_load(&trips), 0);
			stop();
		}
}
END_TEST

START_TEST(trees_migrate_in_a_storm)
{
	for (uint32_t workers = 2; workers <= 4; workers++) {
		pthread_t storm;

		start(workers, false);
		storm = quiet_storm_begin(&rig);
		for (int i = 0; i < 10; i++)
			ck_assert_int_eq(rig_call(&rig, "t:trips_of", i), 55);
		quiet_storm_end(storm);
		stop();
	}
}
END_TEST

START_TEST(thousands_of_tasks_migrate_at_once)
{
	for (int busy = 0; busy < 2; busy++) {
		start(4, false);
		if (busy)
			ck_assert_int_eq(pool_set(rig.pool, "scheduler", "busy"), 0);
		for (int round = 0; round < 3; round++) {
			for (uint32_t i = 0; i < RIG_JOBS; i++)
				submit(i, i % 8 ? "t:tour" : "t:trips_of", i % 8 ? 2 : i);
			for (uint32_t i = 0; i < RIG_JOBS; i++) {
				ck_assert_uint_eq(rig_wait(&rig, i), JOB_DONE);
				ck_assert_int_eq(*(int64_t *)rig.jobs[i].result, i % 8 ? 8 : 55);
			}
		}
		stop();
	}
}
END_TEST

START_TEST(tasks_migrate_between_nodes_of_synthetic_machines)
{
	static const struct {
		const char *machine;
		uint32_t workers, nodes;
	} machines[] = { { "numa:2 core:2 pu:1", 4, 2 },
			 { "numa:4 core:1 pu:1", 4, 4 },
			 { "numa:1 core:3 pu:1", 3, 1 },
			 { "numa:2 core:4 pu:1", 8, 2 } };

	for (uint32_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		for (int forced = 0; forced < 2; forced++) {
			atomic_store(&trips, 0);
			atomic_store(&wrong, 0);
			rig_start_on(&rig, machines[i].machine, machines[i].workers, &fk_module,
				     forced);
			ck_assert_uint_eq(rig.pool->n_groups, machines[i].nodes);
			for (uint32_t job = 0; job < 20; job++)
				submit(job, "t:nodes", 20);
			for (uint32_t job = 0; job < 20; job++)
				ck_assert_uint_eq(rig_wait(&rig, job), JOB_DONE);
			ck_assert_uint_eq(atomic_load(&trips), 400 * machines[i].nodes);
			ck_assert_int_eq(rig_call(&rig, "t:tour", 20),
					 20 * (int64_t)machines[i].workers);
			submit(1, "t:no_node", machines[i].nodes);
			ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
			stop();
		}
}
END_TEST

START_TEST(migrating_tasks_are_cancelled)
{
	for (uint32_t workers = 1; workers <= 4; workers++)
		for (int forced = 0; forced < 2; forced++) {
			start(workers, forced);
			for (uint32_t round = 0; round < 20; round++) {
				atomic_store(&tasks_reached, 0);
				for (uint32_t i = 0; i < 8; i++)
					submit(i, "t:restless", i);
				submit(8, "t:trips_of", round);
				while (atomic_load(&tasks_reached) < 1 + 20 * round)
					sched_yield();
				for (uint32_t i = 0; i < 8; i++)
					rig_cancel(&rig, i);
				for (uint32_t i = 0; i < 8; i++)
					ck_assert_uint_eq(rig_wait(&rig, i), JOB_CANCELLED);
				ck_assert_uint_eq(rig_wait(&rig, 8), JOB_DONE);
				ck_assert_int_eq(*(int64_t *)rig.jobs[8].result, 55);
			}
			stop();
		}
}
END_TEST

/* Jobs that fail on a worker whose deque has frames of other jobs, whose children have left. */
START_TEST(failure_unwinds_only_frames_of_its_own_job)
{
	for (uint32_t workers = 2; workers <= 4; workers++) {
		start(workers, false);
		for (uint32_t round = 0; round < 20; round++) {
			for (uint32_t i = 0; i < 60; i++)
				submit(i, i % 3 ? "t:goes_and_fails" : "t:trips_of", i);
			for (uint32_t i = 0; i < 60; i++) {
				ck_assert_uint_eq(rig_wait(&rig, i), i % 3 ? JOB_FAILED : JOB_DONE);
				if (i % 3 == 0)
					ck_assert_int_eq(*(int64_t *)rig.jobs[i].result, 55);
			}
		}
		stop();
	}
}
END_TEST

CHECK_MAIN("place")
