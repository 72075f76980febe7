/* SPDX-License-Identifier: MIT */
/*
 * scenario: a worker that gets no CPU time delays no job except the one whose frame it runs
 *
 * A real-time program takes the CPU of worker 0 (the hog). Jobs are queued to worker 0 while both
 * workers sleep. They must end without CPU time of worker 0, or because it was moved to another
 * CPU. This must happen while the hog runs, which ends before the client's own check after
 * CLIENT_TICK_NS. The kernel gives other programs 5 % of a hog's CPU, so this is repeated until
 * worker 0 has none. Three of the tests need two CPUs in one NUMA node, and permission to use
 * SCHED_FIFO.
 */
#define CHECK_TIMEOUT 120

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"
#include "daemon/host/topology.h"
#include "shm/wake.h"
#include "tests/support/check_unit.h"
#include "tests/support/daemon.h"
#include "tests/support/jobs.h"

#define JOBS	      8u
#define HOG_PERIOD_MS 1200
#define ROUNDS	      40u /* of the dispatcher: STARVED_TICK apart, as long as a worker is awake */
#define HOG_SPARE     (100 * NSEC_PER_MSEC)
#define HOG_S	      10u /* maximum */

static struct daemon d;

struct hog {
	_Atomic bool runs;
	_Atomic uint64_t ends; /* time at which it leaves the CPU, clock_ns() */
};

static struct hog *hog;

/* Restricts this process to this CPU. */
static void run_on(uint32_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	DAEMON_MUST(sched_setaffinity(0, sizeof(set), &set) == 0);
}

static void leave(uint32_t cpu)
{
	cpu_set_t set;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	CPU_CLR(cpu, &set);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
}

static bool be_real_time(void)
{
	const struct sched_param param = { .sched_priority = 1 };

	return sched_setscheduler(0, SCHED_FIFO, &param) == 0;
}

static pid_t start_hog(uint32_t cpu)
{
	pid_t pid;

	atomic_store(&hog->runs, false);
	atomic_store(&hog->ends, clock_ns() + HOG_S * NSEC_PER_SEC);
	pid = daemon_fork(DAEMON_UID);
	if (pid) {
		DAEMON_AWAIT(atomic_load(&hog->runs));
		return pid;
	}
	run_on(cpu);
	DAEMON_MUST(be_real_time());
	atomic_store(&hog->runs, true);
	while (clock_ns() < atomic_load(&hog->ends))
		;
	atomic_store(&hog->runs, false);
	for (;;)
		(void)pause();
}

/* Starts a pool of two workers, with this program on another CPU than worker 0. Returns worker 0's
 * CPU. */
static uint32_t start(void)
{
	uint32_t cpu;

	hog = daemon_share(sizeof(*hog));
	daemon_start(&d, "--workers=2", NULL);
	cpu = atomic_load(&d.board->workers[0].cpu);
	leave(cpu);
	return cpu;
}

/* Queues short jobs to worker 0, and waits for them. Returns the time in ns. */
static uint64_t call_jobs(fk_client *c)
{
	struct fk_request requests[JOBS];
	union fk_value n = { .i64 = 20 };
	fk_job jobs[JOBS];
	uint64_t began;

	for (uint32_t i = 0; i < JOBS; i++)
		requests[i] = (struct fk_request){ .task = jobs_task(c, "fib:fib"),
						   .values = &n,
						   .size = 1,
						   .options.place = FK_PLACE_WORKER };
	began = clock_ns();
	ck_assert_int_eq(fk_submit_batch(c, requests, JOBS, 0, jobs), 0);
	for (uint32_t i = 0; i < JOBS; i++) {
		int64_t result = 0;

		ck_assert_int_eq(fk_wait(c, jobs[i], FK_FOREVER), 0);
		ck_assert_int_eq(fk_result(c, jobs[i], &result, sizeof(result)), 0);
		ck_assert_int_eq(result, 6765);
		ck_assert_int_eq(fk_release(c, jobs[i]), 0);
	}
	return clock_ns() - began;
}

static pid_t thread_of(uint32_t worker)
{
	return (pid_t)atomic_load(&d.board->workers[worker].tid);
}

static int cpus_of(uint32_t worker)
{
	cpu_set_t set;

	ck_assert_int_eq(sched_getaffinity(thread_of(worker), sizeof(set), &set), 0);
	return CPU_COUNT(&set);
}

static bool sleeps(uint32_t worker)
{
	return wake_rests(wake_load(&d.board->workers[worker].wake));
}

/* Returns true if the jobs have ended while the hog ran and worker 0 had no CPU. */
static bool call_without(fk_client *c, uint32_t cpu, uint64_t *ret_ns)
{
	pid_t pid = start_hog(cpu);
	uint64_t before;
	bool without;

	/* The kernel gives other programs their share at the end of a period in which they want a
	 * CPU. */
	(void)poll(NULL, 0, HOG_PERIOD_MS);
	DAEMON_AWAIT(sleeps(0) && sleeps(1));
	before = daemon_cpu_ns(thread_of(0));
	atomic_store(&hog->ends, clock_ns() + CLIENT_TICK_NS - HOG_SPARE);
	*ret_ns = call_jobs(c);
	without = atomic_load(&hog->runs) &&
		  (cpus_of(0) > 1 || daemon_cpu_ns(thread_of(0)) == before);
	daemon_kill_client(pid);
	return without;
}

START_TEST(jobs_queued_to_a_starved_worker_run_on_another)
{
	uint32_t cpu = start();
	fk_client *c = daemon_open(&d);
	uint64_t waited, control;

	DAEMON_AWAIT(call_without(c, cpu, &waited));
	control = call_jobs(c);
	printf("# %u jobs queued to a worker without CPU time: %.2f ms; control: %.2f ms\n", JOBS,
	       (double)waited / 1e6, (double)control / 1e6);
	daemon_stop_close(&d, c);
}
END_TEST

START_TEST(starved_worker_is_unpinned_until_it_is_pinned_again)
{
	uint32_t cpu = start();
	fk_client *c = daemon_open(&d);
	union fk_value gate = { .buf = { .size = 1 } };
	struct fk_request request = { .task = jobs_task(c, "crash:hold"),
				      .values = &gate,
				      .size = 1,
				      .options.place = FK_PLACE_WORKER,
				      .options.flags = FK_STRICT };
	fk_job job;
	pid_t pid;

	ck_assert_int_eq(fk_alloc(c, gate.buf.size, &gate.buf.data), 0);
	*(volatile char *)gate.buf.data = 0;
	ck_assert_int_eq(fk_submit_batch(c, &request, 1, 0, &job), 0);
	DAEMON_AWAIT(daemon_counter(&d, "jobs_started") == 1);
	DAEMON_AWAIT(cpus_of(0) == 1);
	pid = start_hog(cpu);
	DAEMON_AWAIT(cpus_of(0) > 1);
	ck_assert_int_gt(daemon_counter(&d, "starved"), 0);
	daemon_kill_client(pid);
	DAEMON_AWAIT(cpus_of(0) == 1);
	*(volatile char *)gate.buf.data = 1;
	ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_DONE);
	daemon_stop_close(&d, c);
}
END_TEST

/* Cancels the job of worker 0 while the hog runs. Returns true if worker 0 was moved. */
static bool cancel_beside(fk_client *c, uint32_t cpu)
{
	union fk_value forever = { .i64 = 60 };
	struct fk_request request = { .task = jobs_task(c, "fib:fib"),
				      .values = &forever,
				      .size = 1 };
	uint64_t before = daemon_counter(&d, "cpu_moves");
	fk_job job;
	pid_t pid;

	ck_assert_int_eq(fk_submit_batch(c, &request, 1, 0, &job), 0);
	DAEMON_AWAIT(!sleeps(0) && !sleeps(1));
	pid = start_hog(cpu);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_CANCELLED);
	ck_assert(atomic_load(&hog->runs));
	daemon_kill_client(pid);
	return daemon_counter(&d, "cpu_moves") > before;
}

/* Returns true if worker 0 may run only on its own CPU. The dispatcher pins no worker while all
 * sleep. */
static bool is_at_home(fk_client *c, uint32_t cpu)
{
	cpu_set_t set;

	(void)call_jobs(c);
	return cpus_of(0) == 1 && sched_getaffinity(thread_of(0), sizeof(set), &set) == 0 &&
	       CPU_ISSET(cpu, &set);
}

START_TEST(starved_worker_is_moved_when_its_job_is_cancelled)
{
	uint32_t cpu = start();
	fk_client *c = daemon_open(&d);

	/* The dispatcher may be first: it unpins the worker. */
	DAEMON_AWAIT(cancel_beside(c, cpu));
	DAEMON_AWAIT(is_at_home(c, cpu));
	daemon_stop_close(&d, c);
}
END_TEST

START_TEST(worker_whose_task_sleeps_in_a_system_call_is_not_starved)
{
	union fk_value ignored = { .i64 = 0 };
	struct fk_request request = { .values = &ignored, .size = 1 };
	uint64_t before, rounds;
	fk_client *c;
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	request.task = jobs_task(c, "hang:wait");
	ck_assert_int_eq(fk_submit_batch(c, &request, 1, 0, &job), 0);
	DAEMON_AWAIT(daemon_counter(&d, "jobs_started") == 1);
	DAEMON_AWAIT(daemon_proc_state(thread_of(0)) == 'S' && !sleeps(0));
	/* A check that began before the worker slept has ended. */
	rounds = daemon_counter(&d, "dispatcher_passes");
	DAEMON_AWAIT(daemon_counter(&d, "dispatcher_passes") >= rounds + 2);
	before = daemon_counter(&d, "starved");
	rounds = daemon_counter(&d, "dispatcher_passes");
	DAEMON_AWAIT(daemon_counter(&d, "dispatcher_passes") >= rounds + ROUNDS);
	ck_assert_uint_eq(daemon_counter(&d, "starved") - before, 0);
	/* Nothing else ends this task. */
	ck_assert_int_eq(kill(daemon_pool(&d), SIGKILL), 0);
	ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_LOST);
	daemon_stop_close(&d, c);
}
END_TEST

static bool can_be_real_time(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(!be_real_time());
	return pid > 0 && daemon_reap(pid) == 0;
}

/* Workers are unpinned within a NUMA node. */
static bool are_neighbours(void)
{
	const struct topology_place *first, *second;
	struct topology *topology;
	bool yes;

	if (topology_new(NULL, 2, 0, NULL, NULL, 0, &topology) < 0)
		return false;
	first = topology_place(topology, 0);
	second = topology_place(topology, 1);
	yes = first->group == second->group && first->cpu != second->cpu;
	topology_free(topology);
	return yes;
}

int main(void)
{
	const char *lacks = !are_neighbours()	? "no two cores in the first NUMA node"
			  : !can_be_real_time() ? "SCHED_FIFO is not allowed"
						: NULL;

	if (lacks)
		check_unit_leave_out(lacks, &jobs_queued_to_a_starved_worker_run_on_another,
				     &starved_worker_is_unpinned_until_it_is_pinned_again,
				     &starved_worker_is_moved_when_its_job_is_cancelled);
	return check_unit_main("starved");
}
