/* SPDX-License-Identifier: MIT */
/* hanging: jobs of a real forkd that ignore a cancel or deadline because they never fork; and jobs
 * that are slow, or starved, and must not be blamed */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "shm/ledger.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"

#define QUEUED 20

static struct daemon d;
static fk_client *c;

/* Returns the worker that runs a job of this task that has begun since then; -1 if none does. */
static int64_t where(const char *name, uint64_t since_ns)
{
	for (uint32_t i = 0; i < d.board->manager.n_workers; i++) {
		const struct board_running *now = &d.board->running[i];
		uint32_t job = atomic_load(&now->job), task = board_job_task(d.board, job);

		if (job != UINT32_MAX && task < LIMIT_TASKS &&
		    streq(d.board->tasks[task].name, name) &&
		    atomic_load(&now->since_ns) >= since_ns)
			return i;
	}
	return -1;
}

/* Submits a job with this timeout; 0: none. It has begun when this returns. On a busy machine a job
 * that expires before it begins gets more time. */
static fk_job run(const char *name, int64_t a, int64_t b, uint64_t timeout_ns)
{
	const union fk_value values[2] = { { .i64 = a }, { .i64 = b } };
	struct fk_request request = { .values = values, .options.timeout_ns = timeout_ns };
	uint64_t since = clock_ns();
	fk_job job;

	ck_assert_int_eq(fk_task_find(c, name, &request.task), 0);
	request.size = fk_task_args_size(request.task) / 8;
	for (;; request.options.timeout_ns *= 2) {
		ck_assert_int_eq(fk_submit_batch(c, &request, 1, 0, &job), 0);
		DAEMON_AWAIT(where(name, since) >= 0 || (timeout_ns && fk_poll(c, job)));
		if (!timeout_ns || fk_outcome(c, job, NULL, NULL) != FK_EXPIRED)
			return job;
		ck_assert_int_eq(fk_release(c, job), 0);
	}
}

/* A job that is busy until the first byte of *ret_gate, which is on the heap, is not 0. */
static fk_job hold(unsigned int flags, volatile unsigned char **ret_gate)
{
	fk_job job = jobs_hold(c, flags, ret_gate);

	DAEMON_AWAIT(where("crash:hold", 0) >= 0);
	return job;
}

/* Checks that this running job is blamed, and no other. */
static void blamed(fk_job job, const char *name, pid_t pool)
{
	const struct board_crash *crash;
	uint64_t before = daemon_crashes(&d);
	int signo = 0;

	ck_assert_int_eq(jobs_outcome(c, job, &signo), FK_CRASHED);
	ck_assert_int_eq(signo, SIGKILL);
	crash = jobs_crash(&d, max(before, UINT64_C(1)));
	ck_assert_uint_eq(crash->pid, (uint32_t)pool);
	ck_assert_uint_eq(crash->reason, CRASH_HANG);
	ck_assert_uint_eq(crash->job, job);
	ck_assert_uint_lt(crash->worker, 2);
	ck_assert_str_eq(crash->task, name);
	DAEMON_AWAIT(daemon_logged(&d, "was killed by hang-timeout", name));
	ck_assert(daemon_logged(&d, "ran without a fork for", name));
	ck_assert_int_eq(fk_release(c, job), 0);
	(void)jobs_pool_after(&d, pool);
}

/* ------------------------------------------------------------------------ jobs that hang */

START_TEST(job_that_spins_beyond_its_deadline_is_CRASHED)
{
	fk_job bad, twice, queued[QUEUED];
	volatile unsigned char *gate;
	char output[4096];
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=100ms", NULL);
	pool = daemon_pool(&d);
	twice = hold(FK_IDEMPOTENT, &gate);
	bad = run("hang:spin", 0, 0, 200 * NSEC_PER_MSEC);
	jobs_queue(c, 0, queued, QUEUED);
	blamed(bad, "hang:spin", pool);
	jobs_see_queue(c, queued, QUEUED);
	DAEMON_AWAIT(where("crash:hold", 0) >= 0);
	*gate = 1;
	jobs_drop(c, twice, "DONE");
	ck_assert_uint_eq(jobs_crash(&d, 1)->requeued, 1);
	ck_assert_uint_eq(jobs_crash(&d, 1)->lost, 0);
	ck_assert_uint_eq(jobs_crash(&d, 1)->client_pid, (uint32_t)getpid());
	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "crashes", NULL), 0);
	ck_assert_ptr_nonnull(strstr(output, " hang "));
	ck_assert_ptr_nonnull(strstr(output, " hang:spin "));
	jobs_end(&d, c);
}
END_TEST

/* A job running at the same time that is not idempotent is LOST. The timeout is longer than the CPU
 * time that a sleeping task uses for its answers during the test's patience. */
static void cancelled(const char *name, int64_t a)
{
	fk_job bad, once;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=150ms", NULL);
	pool = daemon_pool(&d);
	once = run("hang:work", 60000, 0, 0);
	bad = run(name, a, 0, 0);
	ck_assert_int_eq(fk_cancel(c, bad), 0);
	blamed(bad, name, pool);
	jobs_drop(c, once, "LOST");
	jobs_end(&d, c);
}

START_TEST(job_that_waits_in_read_after_a_cancel_is_CRASHED)
{
	cancelled("hang:wait", 0);
}
END_TEST

START_TEST(job_that_sleeps_after_a_cancel_is_CRASHED)
{
	cancelled("hang:nap", 1);
}
END_TEST

START_TEST(job_that_spins_while_it_unwinds_is_CRASHED)
{
	cancelled("hang:untidy", -1);
}
END_TEST

/* It waits for a worker that is busy long after the cancel. */
START_TEST(job_that_hangs_long_after_a_cancel_is_CRASHED)
{
	volatile unsigned char *gate;
	fk_job busy, bad;
	uint64_t moved;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=100ms", NULL);
	pool = daemon_pool(&d);
	busy = hold(0, &gate);
	moved = daemon_counter(&d, "frames_suspended");
	bad = jobs_submit(c, "hang:untidy", 0, where("crash:hold", 0), 0);
	/* It has begun, and waits for that worker. */
	DAEMON_AWAIT(daemon_counter(&d, "frames_suspended") > moved);
	ck_assert_int_eq(fk_cancel(c, bad), 0);
	(void)poll(NULL, 0, 300);
	*gate = 1;
	jobs_drop(c, busy, "DONE");
	blamed(bad, "hang:untidy", pool);
	jobs_end(&d, c);
}
END_TEST

START_TEST(job_that_spins_on_two_workers_is_blamed_once)
{
	fk_job bad;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=100ms", NULL);
	pool = daemon_pool(&d);
	bad = run("hang:spread", 0, 0, 0);
	DAEMON_AWAIT(daemon_counter(&d, "steals") == 1);
	ck_assert_int_eq(fk_cancel(c, bad), 0);
	blamed(bad, "hang:spread", pool);
	jobs_end(&d, c);
}
END_TEST

static void spin_and_stay(void)
{
	(void)jobs_submit(daemon_open(&d), "hang:spin", 0, 0, 0);
	for (;;)
		(void)pause();
}

START_TEST(client_killed_while_its_job_spins_is_removed)
{
	const struct board_crash *crash;
	pid_t pool, client;
	uint32_t clients;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=100ms", NULL);
	clients = atomic_load(&d.board->manager.clients);
	pool = daemon_pool(&d);
	client = daemon_client(spin_and_stay, DAEMON_UID);
	DAEMON_AWAIT(jobs_running(&d, "hang:spin") == 1);
	daemon_kill_client(client);
	crash = jobs_crash(&d, 1);
	ck_assert_uint_eq(crash->reason, CRASH_HANG);
	ck_assert_str_eq(crash->task, "hang:spin");
	ck_assert_uint_eq(crash->client_pid, (uint32_t)client);
	(void)jobs_pool_after(&d, pool);
	DAEMON_AWAIT(atomic_load(&d.board->manager.clients) == clients);
	jobs_end(&d, c);
}
END_TEST

START_TEST(task_that_hangs_repeatedly_is_refused_to_its_user)
{
	int64_t n = 0;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=100ms", "--quarantine-task-crashes=2",
		       NULL);
	for (int i = 1; i <= 2; i++) {
		pid_t pool = daemon_pool(&d);
		fk_job bad = run("hang:spin", 0, 0, 0);

		ck_assert_int_eq(fk_cancel(c, bad), 0);
		jobs_drop(c, bad, "CRASHED");
		ck_assert_uint_eq(jobs_crash(&d, (uint64_t)i)->reason, CRASH_HANG);
		(void)jobs_pool_after(&d, pool);
	}
	ck_assert_int_eq(fk_call(c, "hang:spin", &n, INT64_C(0)), -EKEYREVOKED);
	jobs_end(&d, c);
}
END_TEST

/* ------------------------------------------------------------------------ jobs that do not */

START_TEST(job_that_was_not_cancelled_may_run_long)
{
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=100ms", NULL);
	job = run("hang:work", 500, 0, 0);
	jobs_see(c, job, 500);
	/* A job with a deadline as well, until that has passed. */
	job = run("hang:work", 500, 0, DAEMON_PATIENCE * NSEC_PER_SEC);
	jobs_see(c, job, 500);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	jobs_end(&d, c);
}
END_TEST

START_TEST(job_that_spins_stays_with_hang_timeout_off)
{
	uint64_t before;
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=0", "--stop-timeout=100ms", NULL);
	job = run("hang:spin", 0, 0, 0);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	before = daemon_pool_cpu_ns(&d);
	DAEMON_AWAIT(daemon_pool_cpu_ns(&d) - before > 500 * NSEC_PER_MSEC);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_int_eq(fk_outcome(c, job, NULL, NULL), FK_PENDING);
	jobs_end(&d, c);
}
END_TEST

static void ends_in_time(const char *limit, const char *name, int64_t a, int64_t b)
{
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", limit, NULL);
	job = run(name, a, b, 0);
	jobs_cancel(c, job);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	jobs_end(&d, c);
}

START_TEST(slow_job_that_forks_in_time_is_not_blamed)
{
	ends_in_time("--hang-timeout=1s", "hang:slow", 100, 0);
}
END_TEST

/* All together they take more than the timeout, but each makes progress. */
START_TEST(job_that_unwinds_slowly_is_not_blamed)
{
	ends_in_time("--hang-timeout=200ms", "hang:tidy", 9, 50);
}
END_TEST

#define SPINNERS     16
#define STARVED_NICE 10

static void spin(void)
{
	for (volatile int on = 1; on;)
		;
}

/* With 16 other programs on its CPUs, and all its processes stopped for 90 % of the time, it gets 1
 * % of a CPU. Many times the timeout passes in real time. */
START_TEST(starved_job_is_not_blamed)
{
	struct timespec run_for = { .tv_nsec = 4000000 }, stop_for = { .tv_nsec = 36000000 };
	uint64_t asked, stops = 0;
	pid_t spinners[SPINNERS], pool;
	fk_job job;

	/* All of these have a low priority: other tests that run now must not starve. */
	(void)setpriority(PRIO_PROCESS, 0, STARVED_NICE);
	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=300ms", NULL);
	pool = daemon_pool(&d);
	job = run("hang:slow", 60, 0, 0);
	for (int i = 0; i < SPINNERS; i++)
		spinners[i] = daemon_client(spin, DAEMON_UID);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	asked = clock_ns();
	for (; !fk_poll(c, job); stops++) {
		(void)nanosleep(&run_for, NULL);
		daemon_suspend(pool);
		(void)nanosleep(&stop_for, NULL);
		ck_assert_int_eq(kill(pool, SIGCONT), 0);
	}
	printf("%" PRIu64 " ms, %" PRIu64 " stops\n", (clock_ns() - asked) / NSEC_PER_MSEC, stops);
	for (int i = 0; i < SPINNERS; i++) {
		daemon_kill_client(spinners[i]);
	}
	ck_assert_int_eq(fk_outcome(c, job, NULL, NULL), FK_CANCELLED);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	jobs_end(&d, c);
}
END_TEST

/* ------------------------------------------------------------------------ the pool itself */

/* Blocks this thread of the pool. A running job is LOST; the next pool serves all clients. */
static void stuck(const char *thread, const char *busy, uint32_t n_busy)
{
	const struct board_crash *crash;
	fk_client *other;
	fk_job once[2];
	int64_t n = -1;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=100ms", NULL);
	pool = daemon_pool(&d);
	once[0] = run(busy, 0, 0, 0);
	ck_assert_int_eq(fk_call(c, "hang:stick", &n, thread), 0);
	ck_assert_int_eq(n, 0);
	for (uint32_t i = 1; i < n_busy; i++)
		once[i] = run(busy, 0, 0, 0);
	other = daemon_open(&d);
	crash = jobs_crash(&d, 1);
	ck_assert_uint_eq(crash->pid, (uint32_t)pool);
	ck_assert_uint_eq(crash->reason, CRASH_HANG);
	ck_assert_uint_eq(crash->client_pid, 0);
	ck_assert_uint_eq(crash->lost, n_busy);
	/* The pool has a second to answer, whatever the hang timeout of tasks is. */
	DAEMON_AWAIT(daemon_logged(&d, "no job can be blamed", "it did not answer for 1"));
	for (uint32_t i = 0; i < n_busy; i++)
		ck_assert_int_eq(jobs_outcome(c, once[i], NULL), FK_LOST);
	(void)jobs_pool_after(&d, pool);
	ck_assert_int_eq(fk_call(other, "fib:fib", &n, INT64_C(20)), 0);
	ck_assert_int_eq(n, 6765);
	ck_assert_int_eq(fk_close(other), 0);
	jobs_end(&d, c);
}

START_TEST(pool_whose_channel_is_stuck_is_replaced)
{
	stuck("", "hang:spin", 1);
}
END_TEST

START_TEST(pool_whose_dispatcher_is_stuck_is_replaced)
{
	stuck("forkd-dispatch", "hang:spin", 1);
}
END_TEST

START_TEST(stuck_pool_is_detected_while_its_workers_sleep)
{
	stuck("", "hang:wait", 2);
}
END_TEST

static void connect_and_leave(void)
{
	ck_assert_int_eq(fk_close(daemon_open(&d)), 0);
}

START_TEST(stopped_pool_owes_no_answer)
{
	pid_t pool, client;
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=100ms", NULL);
	pool = daemon_pool(&d);
	job = run("hang:slow", 1, 0, 0);
	daemon_suspend(pool);
	client = daemon_client(connect_and_leave, DAEMON_UID);
	/* Not a wait for a state: nothing must happen in this time. */
	(void)poll(NULL, 0, 1000);
	ck_assert_int_eq(kill(pool, SIGCONT), 0);
	ck_assert_int_eq(daemon_reap(client), 0);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	jobs_cancel(c, job);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	jobs_end(&d, c);
}
END_TEST

/* ------------------------------------------------------------------------ a debugger */

/* Starts a process that traces the main thread of the pool until it is killed, and continues it
 * after each signal. Returns -1 if it may not; this test is then reported as not run. */
static pid_t trace(const TTest *test)
{
	pid_t pool = daemon_pool(&d), tracer = fork();
	int status;

	ck_assert_int_ge(tracer, 0);
	if (!tracer) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (ptrace(PTRACE_SEIZE, pool, NULL, NULL) < 0)
			_exit(EXIT_FAILURE);
		while (waitpid(pool, &status, __WALL) == pool && WIFSTOPPED(status))
			(void)ptrace(PTRACE_CONT, pool, NULL,
				     (void *)(uintptr_t)(WSTOPSIG(status) & 0x7f));
		_exit(EXIT_SUCCESS);
	}
	DAEMON_AWAIT(daemon_proc_status(pool, "TracerPid") == tracer || daemon_has_ended(tracer));
	if (daemon_proc_status(pool, "TracerPid") == tracer)
		return tracer;
	check_unit_not_run(test, "ptrace is not allowed here");
	return -1;
}

static void trace_no_more(pid_t tracer)
{
	daemon_kill_client(tracer);
}

/* Waits until the pool has used this much CPU time while a debugger traced it. */
static void left_alone(uint64_t ms)
{
	uint64_t before = daemon_pool_cpu_ns(&d);

	DAEMON_AWAIT(daemon_pool_cpu_ns(&d) - before > ms * NSEC_PER_MSEC);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
}

START_TEST(job_that_hangs_in_a_debugger_is_blamed_after_the_debugger_ends)
{
	pid_t pool, tracer;
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=100ms", NULL);
	pool = daemon_pool(&d);
	tracer = trace(job_that_hangs_in_a_debugger_is_blamed_after_the_debugger_ends);
	job = run("hang:spin", 0, 0, 0);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	if (tracer > 0) {
		left_alone(1000);
		DAEMON_AWAIT(
			daemon_logged(&d, "hang-timeout ends no job while", "traces the pool"));
		ck_assert_int_eq(fk_outcome(c, job, NULL, NULL), FK_PENDING);
		trace_no_more(tracer);
	}
	blamed(job, "hang:spin", pool);
	jobs_end(&d, c);
}
END_TEST

START_TEST(task_cannot_pretend_that_a_debugger_traces_the_pool)
{
	int64_t n = 0;
	pid_t pool;
	fk_job job;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=100ms", NULL);
	pool = daemon_pool(&d);
	ck_assert_int_eq(fk_call(c, "hang:disguise", &n, INT64_C(0)), 0);
	ck_assert_int_eq(n, 1);
	job = run("hang:spin", 0, 0, 0);
	ck_assert_int_eq(fk_cancel(c, job), 0);
	blamed(job, "hang:spin", pool);
	jobs_end(&d, c);
}
END_TEST

START_TEST(pool_stuck_in_a_debugger_is_replaced_after_the_debugger_ends)
{
	pid_t pool, tracer;
	fk_job job;
	int64_t n;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=100ms", NULL);
	pool = daemon_pool(&d);
	tracer = trace(pool_stuck_in_a_debugger_is_replaced_after_the_debugger_ends);
	job = run("hang:spin", 0, 0, 0);
	ck_assert_int_eq(fk_call(c, "hang:stick", &n, "forkd-dispatch"), 0);
	ck_assert_int_eq(n, 0);
	/* Three times the time that it has without a debugger. */
	if (tracer > 0) {
		left_alone(3000);
		trace_no_more(tracer);
	}
	ck_assert_uint_eq(jobs_crash(&d, 1)->reason, CRASH_HANG);
	jobs_drop(c, job, "LOST");
	(void)jobs_pool_after(&d, pool);
	jobs_end(&d, c);
}
END_TEST

/* A row of an ended job says RUNNING; no other part of the job is left. */
static void lose(fk_job job, const char *name)
{
	uint64_t at = c->id * (uint64_t)d.board->manager.jobs_max + (job & 0xffff);
	struct ledger_row row = {
		.generation = (uint32_t)(job >> 16),
		.state = LEDGER_RUNNING,
		.worker = 1,
	};

	while (!streq(d.board->tasks[row.task++].name, name))
		;
	jobs_see_end(c,
		     jobs_submit(c, "wild:word", 0,
				 (int64_t)(arena_rows_offset() + at * sizeof(uint64_t)),
				 (int64_t)ledger_pack(row)),
		     "DONE");
	atomic_store(&client_job(c, job)->state, row.generation << JOB_GEN_SHIFT | JOB_PENDING);
}

START_TEST(cancelled_job_that_no_worker_has_is_CRASHED)
{
	fk_job waits, lost;
	pid_t pool;

	c = JOBS_BEGIN(&d, "--workers=2", "--hang-timeout=1s", NULL);
	pool = daemon_pool(&d);
	/* Its fiber waits, and it is not cancelled. */
	waits = jobs_submit(c, "fiber:forever", 0, 1, 0);
	lost = jobs_submit(c, "null:add", 0, 1, 2);
	jobs_see_end(c, lost, "DONE");
	lose(lost, "null:add");
	ck_assert_int_eq(fk_cancel(c, lost), 0);
	blamed(lost, "null:add", pool);
	jobs_drop(c, waits, "LOST");
	jobs_end(&d, c);
}
END_TEST

CHECK_MAIN("hanging")
