/* SPDX-License-Identifier: MIT */
/* stalled: a pool that a signal stops, from a task or from outside; one that survives its SIGKILL;
 * and one whose board a task has overwritten: others are soon served again */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "shm/ledger.h"
#define CHECK_TIMEOUT 150
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"
#include "tests/support/kept.h"
#include "tests/support/other_user.h"

#define QUEUED 20
#define LIMIT  "--hang-timeout=1s"

static struct daemon d;
static fk_client *c;
static fk_job queued[QUEUED];

static void setup(const char *sandbox)
{
	c = JOBS_BEGIN(&d, "--workers=2", LIMIT, sandbox, NULL);
}

static void queue(void)
{
	for (int i = 0; i < QUEUED; i++)
		queued[i] = jobs_submit(c, "null:add", FK_IDEMPOTENT, i, 1000);
}

/* Checks that each queued job is done, once. */
static void see_queued(void)
{
	for (int i = 0; i < QUEUED; i++)
		jobs_see(c, queued[i], i + 1000);
}

/* A task overwrites this part of a segment. */
static void fill(const char *segment, size_t from, size_t bytes)
{
	ck_assert_int_eq(fk_call(c, "wild:fill", NULL, segment, (int64_t)from, (int64_t)bytes), 0);
}

/* ------------------------------------------------------------------------ stopped by a signal */

START_TEST(pool_stopped_from_outside_is_continued_once_and_then_killed)
{
	pid_t pool;

	setup(NULL);
	other_user_begin(&d);
	pool = daemon_pool(&d);
	ck_assert_int_eq(kill(pool, SIGSTOP), 0);
	queue();
	see_queued();
	/* The thread that handles the signal may get its CPU after these jobs. */
	DAEMON_AWAIT(daemon_logged(&d, "was stopped by a signal for 1", "sending SIGCONT"));
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	other_user_end("SIGSTOP");

	other_user_begin(&d);
	ck_assert_int_eq(kill(pool, SIGSTOP), 0);
	queue();
	see_queued();
	ck_assert_uint_eq(jobs_crash(&d, 1)->reason, CRASH_HANG);
	ck_assert_uint_eq(jobs_crash(&d, 1)->client_pid, 0);
	DAEMON_AWAIT(daemon_logged(&d, "no job can be blamed",
				   "it was stopped by a signal again, after it had been"));
	other_user_end("SIGSTOP for the second time");
	ck_assert_uint_eq(daemon_crashes(&d), 1);
	jobs_end(&d, c);
}
END_TEST

/* The task stops the pool once. */
static void see_continued(const char *sandbox, const char *task)
{
	fk_job job;
	pid_t pool;

	setup(sandbox);
	pool = daemon_pool(&d);
	other_user_begin(&d);
	job = jobs_submit(c, task, 0, 1, 0);
	DAEMON_AWAIT(daemon_logged(&d, "was stopped by a signal for 1", "sending SIGCONT"));
	jobs_see(c, job, 1);
	queue();
	see_queued();
	other_user_end(task);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	jobs_end(&d, c);
}

START_TEST(task_that_stops_the_pool_once_is_DONE)
{
	see_continued("--sandbox=off", "stall:stop");
}
END_TEST

/* With the sandbox: it refuses the signal if a task sends it, but not the timer. */
START_TEST(pool_stopped_by_the_timer_of_a_task_is_continued)
{
	see_continued(NULL, "stall:stop_later");
}
END_TEST

START_TEST(task_that_stops_the_pool_repeatedly_is_LOST_with_it)
{
	fk_job job;

	setup("--sandbox=off");
	other_user_begin(&d);
	job = jobs_submit(c, "stall:stop", 0, INT64_MAX, 0);
	DAEMON_AWAIT(daemon_is_all(daemon_pool(&d), 'T') || daemon_crashes(&d));
	queue();
	see_queued();
	ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_LOST);
	ck_assert_int_eq(fk_release(c, job), 0);
	ck_assert_uint_eq(jobs_crash(&d, 1)->reason, CRASH_HANG);
	other_user_end("a task that stops the pool again and again");
	ck_assert_uint_eq(daemon_crashes(&d), 1);
	jobs_end(&d, c);
}
END_TEST

/* ------------------------------------------------------------------------ asleep */

static void connect_and_call(void)
{
	daemon_call_fib(&d);
}

/* says: a task has stored a fault report of the pool, which should then end. */
static void see_sleeper_ended(bool says)
{
	pid_t visitor, pool;
	uint64_t since;
	fk_job job;

	setup(NULL);
	pool = daemon_pool(&d);
	if (says)
		fill("forkd-arena", offsetof(struct arena, fault), sizeof(struct ledger_fault));
	job = jobs_submit(c, "stall:doze", 0, 0, 0);
	DAEMON_AWAIT((jobs_running(&d, "stall:doze") && daemon_is_all(pool, 'S')) ||
		     daemon_crashes(&d));
	since = clock_ns();
	visitor = daemon_client(connect_and_call, OTHER_USER_UID);
	ck_assert_int_eq(daemon_reap(visitor), 0);
	printf("a pool that sleeps%s: another user's connection and job took %.1f ms\n",
	       says ? " and says that it ends" : "",
	       (double)(clock_ns() - since) / (double)NSEC_PER_MSEC);
	queue();
	see_queued();
	ck_assert_int_eq(jobs_outcome(c, job, NULL), FK_LOST);
	ck_assert_int_eq(fk_release(c, job), 0);
	ck_assert_uint_eq(jobs_crash(&d, 1)->reason, CRASH_HANG);
	DAEMON_AWAIT(daemon_logged(&d, "no job can be blamed", "although it had CPU time"));
	jobs_end(&d, c);
}

START_TEST(sleeping_pool_that_handles_no_signal_is_killed)
{
	see_sleeper_ended(false);
}
END_TEST

START_TEST(sleeping_pool_with_a_false_fault_report_is_killed)
{
	see_sleeper_ended(true);
}
END_TEST

/* Overwrites the words of all sleepers, as a task may do, by a thread of the task. */
static void hush(void)
{
	static const struct {
		size_t from, stride, n;
	} words[] = {
		{ offsetof(struct board, workers[0].wake), sizeof(struct board_worker), 2 },
		{ offsetof(struct board, dispatcher), 4, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		int64_t n = -1;

		ck_assert_int_eq(fk_call(c, "stall:hush", &n, (int64_t)words[i].from,
					 (int64_t)words[i].stride, (int64_t)words[i].n),
				 0);
		ck_assert_int_eq(n, 0);
	}
}

static bool is_hushed(void)
{
	return !atomic_load(&d.board->workers[0].wake) && !atomic_load(&d.board->workers[1].wake) &&
	       !atomic_load(&d.board->dispatcher);
}

START_TEST(pool_whose_words_show_no_sleeper_wakes_up)
{
	uint64_t since;
	fk_job job;

	setup(NULL);
	/* A worker may search just then; it writes its word again. */
	hush();
	for (uint64_t asked = clock_ns(); !is_hushed(); (void)poll(NULL, 0, 1)) {
		if (clock_ns() - asked < 2 * NSEC_PER_SEC)
			continue;
		asked = clock_ns();
		hush();
	}
	since = clock_ns();
	job = jobs_submit(c, "null:add", 0, 1, 2);
	jobs_see(c, job, 3);
	printf("words that a task has cleared: a job took %.1f ms\n",
	       (double)(clock_ns() - since) / (double)NSEC_PER_MSEC);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	jobs_end(&d, c);
}
END_TEST

/* ------------------------------------------------------------------------ surviving SIGKILL */

/* As with a debugger: SIGKILL takes the process to its exit, but not further. */
struct held {
	_Atomic int seized; /* 1, or a negative errno */
	_Atomic bool exits;
};

static struct held *held;
static pid_t held_pool;

static void hold_exit(void)
{
	int status;

	if (ptrace(PTRACE_SEIZE, held_pool, NULL, (void *)PTRACE_O_TRACEEXIT) < 0) {
		atomic_store(&held->seized, -errno);
		return;
	}
	atomic_store(&held->seized, 1);
	while (waitpid(held_pool, &status, __WALL) == held_pool && WIFSTOPPED(status)) {
		if (status >> 16 == PTRACE_EVENT_EXIT)
			atomic_store(&held->exits, true);
		else
			(void)ptrace(PTRACE_CONT, held_pool, NULL,
				     (void *)(intptr_t)(status >> 16 ? 0 : WSTOPSIG(status)));
	}
	for (;;)
		(void)pause();
}

/* From now on the pool cannot be ended. Returns the process that holds it; 0 if no process may:
 * then the test is not run. */
static pid_t hold_pool(const TTest *test, pid_t pool)
{
	pid_t pid;

	held = daemon_share(sizeof(*held));
	held_pool = pool;
	pid = daemon_client(hold_exit, DAEMON_UID);
	DAEMON_AWAIT(atomic_load(&held->seized));
	if (atomic_load(&held->seized) == 1)
		return pid;
	check_unit_not_run(test, "ptrace is not allowed here");
	(void)daemon_reap(pid);
	return 0;
}

START_TEST(pool_that_does_not_end_is_abandoned_and_replaced)
{
	volatile unsigned char *gate;
	fk_job once, idempotent;
	pid_t pool, holder, visitor;
	char text[64];

	setup("--workers=3");
	pool = daemon_pool(&d);
	holder = hold_pool(pool_that_does_not_end_is_abandoned_and_replaced, pool);
	if (!holder) {
		jobs_end(&d, c);
		return;
	}
	other_user_begin(&d);
	once = jobs_submit(c, "hang:spin", 0, 0, 0);
	idempotent = jobs_hold(c, FK_IDEMPOTENT, &gate);
	DAEMON_AWAIT(jobs_running(&d, "hang:spin") && jobs_running(&d, "crash:hold"));
	/* The manager kills the pool for it, perhaps before the call has returned. */
	(void)fk_call(c, "wild:fill", NULL, "forkd-board",
		      (int64_t)offsetof(struct board, manager.n_workers), INT64_C(4));
	visitor = daemon_client(connect_and_call, OTHER_USER_UID);
	queue();
	DAEMON_AWAIT(atomic_load(&held->exits));
	ck_assert_int_eq(jobs_outcome(c, once, NULL), FK_LOST);
	ck_assert_int_eq(fk_release(c, once), 0);
	see_queued();
	ck_assert_int_eq(daemon_reap(visitor), 0);
	/* A read by the job may still be running. */
	ck_assert_int_eq(jobs_outcome(c, idempotent, NULL), FK_LOST);
	ck_assert_int_eq(fk_release(c, idempotent), 0);
	other_user_end("a pool that does not end");
	ck_assert_uint_eq(daemon_crashes(&d), 1);
	ck_assert_int_ne(daemon_pool(&d), pool);
	(void)snprintf(text, sizeof(text), "pool (pid %d) was killed", (int)pool);
	ck_assert(daemon_logged(&d, text, "has not ended"));
	/* And its end is noticed. */
	daemon_kill_client(holder);
	DAEMON_AWAIT(daemon_logged(&d, "abandoned pool", "has ended"));
	jobs_end(&d, c);
}
END_TEST

START_TEST(next_manager_abandons_it_as_well)
{
	struct systemd_stub *store;
	volatile uint8_t *gate;
	pid_t pool, holder;
	fk_job job;

	store = kept_start(&d, "--workers=2", NULL);
	c = daemon_open(&d);
	pool = daemon_pool(&d);
	job = jobs_hold(c, FK_IDEMPOTENT, &gate);
	DAEMON_AWAIT(jobs_running(&d, "crash:hold"));
	holder = hold_pool(next_manager_abandons_it_as_well, pool);
	/* The second time with the new arena in the store. */
	for (int i = 0; i < (holder ? 2 : 0); i++) {
		kept_kill(&d, store);
		queue();
		kept_ready(&d, store);
		see_queued();
		/* LOST with the pool that has not ended, and run again with the other one. */
		if (i == 0) {
			jobs_see_end(c, job, "LOST");
			ck_assert_int_eq(fk_release(c, job), 0);
			job = jobs_hold(c, FK_IDEMPOTENT, &gate);
		}
		DAEMON_AWAIT(jobs_running(&d, "crash:hold"));
		ck_assert(atomic_load(&held->exits));
		ck_assert(daemon_logged(&d, "the last forkd's pool", "has not ended after 5 s"));
	}
	*gate = 1;
	jobs_see_end(c, job, "DONE");
	ck_assert(!daemon_logged(&d, "are disconnected", ""));
	ck_assert_int_eq(fk_close(c), 0);
	if (holder)
		daemon_kill_client(holder);
	kept_stop(&d, store);
}
END_TEST

/* ------------------------------------------------------------------------ the board */

/* Clients that connect are served, queued jobs are done, and another pool runs. */
static void spoils(const char *what, size_t from, size_t bytes)
{
	uint64_t since, control, number = daemon_crashes(&d) + 1;
	pid_t pool = daemon_pool(&d);

	since = clock_ns();
	ck_assert_int_eq(daemon_reap(daemon_client(connect_and_call, OTHER_USER_UID)), 0);
	control = clock_ns() - since;
	fill("forkd-board", from, bytes);
	since = clock_ns();
	ck_assert_int_eq(daemon_reap(daemon_client(connect_and_call, OTHER_USER_UID)), 0);
	printf("%s: another user's connection and job took %.1f ms, without it %.1f ms\n", what,
	       (double)(clock_ns() - since) / (double)NSEC_PER_MSEC,
	       (double)control / (double)NSEC_PER_MSEC);
	queue();
	see_queued();
	ck_assert_uint_eq(jobs_crash(&d, number)->client_pid, 0);
	DAEMON_AWAIT(daemon_logged(&d, "no job can be blamed", "over the front of the board"));
	(void)jobs_pool_after(&d, pool);
}

START_TEST(overwritten_head_of_the_board_is_restored_and_the_pool_ended)
{
	setup(NULL);
	spoils("the head of the board", 0, sizeof(struct segment));
	spoils("the number of workers", offsetof(struct board, manager.n_workers), 4);
	jobs_end(&d, c);
}
END_TEST

START_TEST(overwritten_task_table_is_restored_and_the_pool_ended)
{
	setup(NULL);
	spoils("the task table", offsetof(struct board, tasks), 64 * sizeof(struct board_task));
	spoils("the number of tasks", offsetof(struct board, n_tasks), 4);
	jobs_end(&d, c);
}
END_TEST

CHECK_MAIN("stalled")
