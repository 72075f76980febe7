/* SPDX-License-Identifier: MIT */
/*
 * scenario: jobs are charged the CPU time that they have used, whatever other programs run
 *
 * WHAT IS COMPARED
 *   Two CPU times between two samples: the one charged to all connections (cpu_ns on the board),
 *   and that of all workers' threads by the kernel's account (/proc/TID/schedstat). Each worker has
 *   a job, or one is queued, from the first sample to the second: so none searches for work, which
 *   is not charged. A sample is taken when accounts are settled, and again if the workers have used
 *   much CPU time during it. If jobs ran out, the comparison is repeated. On each worker's CPU two
 *   loops of other programs run: by the clock on the wall a job takes three times as long.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "daemon/core/cpu_account.h"
#include "shm/wake.h"
#define CHECK_TIMEOUT 240
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"

#define WORKERS	  2u
#define LOOPS	  2u /* on each worker's CPU */
#define USERS	  2u
#define FIRST_UID 65530u
#define USED	  (400 * NSEC_PER_MSEC) /* between two samples */
#define NEAR	  (4 * NSEC_PER_MSEC)	/* within a sample */
#define JOBS	  1000u			/* of a user, queued at once */
#define JOB_US	  500

struct shared {
	_Atomic uint32_t ready; /* users whose jobs are queued */
	_Atomic uint32_t open;	/* long jobs are to end */
	_Atomic uint32_t over;	/* users all of whose jobs have ended */
};

struct sample {
	uint64_t used;	  /* by all workers */
	uint64_t charged; /* to all clients */
};

static struct shared *shared;
static struct daemon d;
static pid_t loops[WORKERS * LOOPS];

static uint64_t charged(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < d.board->manager.clients_max; i++)
		sum += atomic_load(&d.board->clients[i].cpu_ns);
	return sum;
}

/* Returns the CPU time of all workers. */
static uint64_t used(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < d.board->manager.n_workers; i++)
		sum += daemon_cpu_ns((pid_t)atomic_load(&d.board->workers[i].tid));
	return sum;
}

static bool all_sleep(void)
{
	for (uint32_t i = 0; i < d.board->manager.n_workers; i++)
		if (!wake_rests(wake_load(&d.board->workers[i].wake)) ||
		    daemon_proc_state((pid_t)atomic_load(&d.board->workers[i].tid)) != 'S')
			return false;
	return true;
}

/* Returns true if all jobs of a user have ended, because this process got its CPU too late. */
static bool ran_out(void)
{
	return atomic_load(&shared->over) > 0;
}

/* Returns true if the accounts were settled, and little time was used during the sample; or if jobs
 * ran out. */
static bool take_sample(struct sample *ret)
{
	uint64_t settled = atomic_load(&d.board->settled_ns), before = used();

	DAEMON_AWAIT_BUSY(atomic_load(&d.board->settled_ns) != settled || ran_out());
	ret->charged = charged();
	ret->used = used();
	return ret->used - before <= NEAR || ran_out();
}

static void run_loop(uint32_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	/* Without pins the kernel chooses the CPUs of the loops. */
	if (cpu < CPU_SETSIZE)
		DAEMON_MUST(sched_setaffinity(0, sizeof(set), &set) == 0);
	for (;;)
		;
}

static void start(void)
{
	shared = daemon_share(sizeof(*shared));
	daemon_start(&d, "--workers=2", NULL);
	for (uint32_t i = 0; i < ARRAY_SIZE(loops); i++) {
		loops[i] = daemon_fork(DAEMON_UID);
		if (!loops[i])
			run_loop(atomic_load(&d.board->workers[i % WORKERS].cpu));
	}
}

static void stop(void)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(loops); i++)
		daemon_kill_client(loops[i]);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

/* A user with short jobs, all queued at once. */
static void call_short(void)
{
	struct fk_open_options options = { .n_jobs = JOBS };
	const union fk_value us = { .i64 = JOB_US };
	struct fk_request requests[JOBS];
	fk_job jobs[JOBS];
	const fk_task *task;
	fk_client *c = NULL;

	DAEMON_MUST(fk_open(d.socket, &options, &c) == 0);
	DAEMON_MUST(fk_task_find(c, "spin:cpu", &task) == 0);
	for (uint32_t i = 0; i < JOBS; i++)
		requests[i] = (struct fk_request){ .task = task, .values = &us, .size = 1 };
	DAEMON_MUST(fk_submit_batch(c, requests, JOBS, 0, jobs) == 0);
	atomic_fetch_add(&shared->ready, 1);
	for (uint32_t i = 0; i < JOBS; i++) {
		DAEMON_MUST(fk_wait(c, jobs[i], FK_FOREVER) == 0);
		DAEMON_MUST(fk_outcome(c, jobs[i], NULL, NULL) == FK_DONE);
	}
	atomic_fetch_add(&shared->over, 1);
	DAEMON_MUST(fk_close(c) == 0);
}

/* A user with one job, which never forks. */
static void call_long(void)
{
	struct fk_buffer buffer = { NULL, 1 };
	volatile uint8_t *gate;
	const fk_task *task;
	fk_client *c = NULL;
	fk_job job;

	DAEMON_MUST(fk_open(d.socket, NULL, &c) == 0);
	DAEMON_MUST(fk_task_find(c, "crash:hold", &task) == 0);
	DAEMON_MUST(fk_alloc(c, buffer.size, &buffer.data) == 0);
	gate = buffer.data;
	*gate = 0;
	DAEMON_MUST(fk_submit(c, task, 0, &job, buffer) == 0);
	atomic_fetch_add(&shared->ready, 1);
	while (!atomic_load(&shared->open))
		(void)poll(NULL, 0, 1);
	*gate = 1;
	DAEMON_MUST(fk_wait(c, job, FK_FOREVER) == 0);
	DAEMON_MUST(fk_outcome(c, job, NULL, NULL) == FK_DONE);
	DAEMON_MUST(fk_close(c) == 0);
}

/* Returns the number of pending jobs of the daemon. */
static uint32_t pending(void)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < d.board->manager.clients_max; i++)
		sum += atomic_load(&d.board->clients[i].left_ns) ? 0
								 : board_client_pending(d.board, i);
	return sum;
}

/* Returns true if all workers were busy from one sample to the other. */
static bool compare(void (*user)(void))
{
	struct sample from, to;
	pid_t users[USERS];
	bool busy;

	atomic_store(&shared->ready, 0);
	atomic_store(&shared->open, 0);
	atomic_store(&shared->over, 0);
	for (uint32_t i = 0; i < USERS; i++)
		users[i] = daemon_client(user, FIRST_UID + i);
	DAEMON_AWAIT(atomic_load(&shared->ready) == USERS);
	DAEMON_AWAIT(jobs_running(&d, NULL) == WORKERS || ran_out());
	DAEMON_AWAIT_BUSY(take_sample(&from));
	DAEMON_AWAIT(used() >= from.used + USED || ran_out());
	DAEMON_AWAIT_BUSY(take_sample(&to));
	busy = !ran_out() && pending() >= WORKERS;
	atomic_store(&shared->open, 1);
	for (uint32_t i = 0; i < USERS; i++)
		ck_assert_int_eq(daemon_reap(users[i]), 0);
	if (!busy)
		return false;
	to.used -= from.used;
	to.charged -= from.charged;
	printf("# used %.1f ms, charged %.1f ms\n", (double)to.used / 1e6,
	       (double)to.charged / 1e6);
	ck_assert_uint_ge(to.charged, to.used - to.used / 20);
	ck_assert_uint_le(to.charged, to.used + to.used / 20);
	return true;
}

START_TEST(short_jobs_are_charged_their_cpu_time_while_other_programs_run)
{
	start();
	/* Until a comparison is valid. */
	while (!compare(call_short))
		continue;
	stop();
}
END_TEST

START_TEST(long_jobs_are_charged_their_cpu_time_while_other_programs_run)
{
	start();
	while (!compare(call_long))
		continue;
	stop();
}
END_TEST

/* Returns the unit of a time that forkctl prints, in ns. */
static double unit(const char *name)
{
	return name[0] == 's' ? 1e9 : name[0] == 'm' ? 1e6 : name[0] == 'u' ? 1e3 : 1;
}

START_TEST(forkctl_call_prints_the_cpu_time_of_its_job)
{
	char text[512], name[4] = "";
	const char *line;
	uint64_t had;
	double cpu = 0;

	start();
	DAEMON_AWAIT(all_sleep());
	had = used();
	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "call", "--timing", "spin:us", "300000",
				    NULL),
			 0);
	DAEMON_AWAIT(all_sleep());
	had = used() - had;
	line = strstr(text, "CPU");
	ck_assert_ptr_nonnull(line);
	ck_assert_int_eq(sscanf(line, "CPU %lf %3s", &cpu, name), 2);
	cpu *= unit(name);
	printf("# used %.1f ms, printed %.1f ms\n", (double)had / 1e6, cpu / 1e6);
	ck_assert(cpu <= (double)(had + had / 20 + ACCOUNT_STALE));
	stop();
}
END_TEST

#define QUEUED	 128u /* more than bypass the queues */
#define SLEEPS	 20
#define SLEEP_US 5000

/* Queued jobs update the virtual times. */
static uint64_t virtual_time(fk_client *c)
{
	fk_job jobs[QUEUED];

	for (uint32_t i = 0; i < ARRAY_SIZE(jobs); i++)
		jobs[i] = jobs_submit(c, "fib:fib", 0, 10, 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(jobs); i++)
		jobs_see(c, jobs[i], 55);
	return atomic_load(&d.board->clients[c->id].vtime_ns);
}

/* The task blocks its worker during the sleep, so its user's virtual time advances. The share of
 * sleep in the time without a CPU is an estimate. */
START_TEST(sleeping_task_uses_no_cpu_time_but_virtual_time_of_its_user)
{
	const uint64_t slept = SLEEPS * SLEEP_US * NSEC_PER_USEC;
	uint64_t had, sum, vtime;
	fk_client *c;

	c = JOBS_BEGIN(&d, "--workers=1", NULL);
	DAEMON_AWAIT(all_sleep());
	had = used();
	sum = charged();
	vtime = atomic_load(&d.board->clients[c->id].vtime_ns);
	jobs_see(c, jobs_submit(c, "spin:sleep", 0, SLEEPS, SLEEP_US), SLEEPS);
	DAEMON_AWAIT(all_sleep());
	had = used() - had;
	sum = charged() - sum;
	printf("# used %.1f ms, charged %.1f ms\n", (double)had / 1e6, (double)sum / 1e6);
	ck_assert_uint_le(sum, had + slept / 20);
	DAEMON_AWAIT(virtual_time(c) >= vtime + slept / 4);
	jobs_end(&d, c);
}
END_TEST

CHECK_MAIN("cpu_time")
