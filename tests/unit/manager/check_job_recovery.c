/* SPDX-License-Identifier: MIT */
/* job_recovery: the whole table of daemon/manager/job_recovery.c on an artificial arena, one record
 * for each cell. */
#define CHECK_SETUP    setup
#define CHECK_TEARDOWN NULL

#include "daemon/manager/job_recovery.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "shm/group.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/limits.h"
#include "tests/support/check_unit.h"

#define CLIENTS 3u
#define JOBS	16u
#define GEN	7u

static struct arena *arena;
static struct job *records[CLIENTS];  /* client 1 has none */
static struct recovery_report report; /* of the last run */

static struct job *find(void *context, uint32_t client, uint32_t *ret_n)
{
	(void)context;
	if (client >= CLIENTS || !records[client])
		return NULL;
	*ret_n = JOBS - 4; /* fewer than jobs_max */
	return records[client];
}

static const struct recovery_limits limits = {
	.n_workers = 4, .clients_max = CLIENTS, .jobs_max = JOBS, .n_tenants = 2
};

static _Atomic uint64_t *row(uint32_t client, uint32_t job)
{
	return &arena_rows(arena)[client * JOBS + job];
}

static void setup(void)
{
	size_t size = arena_workers_offset(CLIENTS, JOBS);

	free(arena);
	arena = aligned_alloc(64, size);
	memset(arena, 0, size);
	/* Must not be called. */
	memset(arena, 0xff, offsetof(struct arena, fault));
	for (uint32_t w = 0; w < 4; w++)
		arena->workers[w].job = UINT32_MAX;
	for (uint32_t c = 0; c < CLIENTS; c += 2) {
		free(records[c]);
		records[c] = aligned_alloc(64, JOBS * sizeof(struct job));
		memset(records[c], 0, JOBS * sizeof(struct job));
		for (uint32_t i = 0; i < JOBS; i++)
			records[c][i].state = job_state(GEN, JOB_PENDING);
	}
}

/* Each job's task is one more than its index. */
static void put(uint32_t client, uint32_t job, uint32_t state, uint32_t flags, uint32_t worker,
		uint32_t outcome)
{
	*row(client, job) = ledger_pack((struct ledger_row){ .generation = GEN,
							     .state = state,
							     .flags = flags,
							     .worker = worker,
							     .outcome = outcome,
							     .task = job + 1 + 1 });
}

/* A worker has stored a fault report, for this job. */
static void fault(uint32_t worker, uint32_t client, uint32_t job)
{
	arena->fault.worker = worker + 1;
	arena->workers[worker].job = client * JOBS + job;
}

static void run_within(const struct recovery_limits *some, uint32_t signo)
{
	memset(&report, 'x', sizeof(report));
	recovery_run(arena, some, signo, find, NULL, &report);
}

static void run(uint32_t signo)
{
	run_within(&limits, signo);
}

static bool is_gone(void *context, uint32_t client)
{
	(void)context;
	return client == 2;
}

static void run_gone(void)
{
	struct recovery_limits some = limits;

	some.is_gone = is_gone;
	run_within(&some, SIGSEGV);
}

/* Checks how many jobs had which fate; the rest of the report is ignored. */
static void counts(struct recovery_report expected)
{
	ck_assert_uint_eq(report.crashed, expected.crashed);
	ck_assert_uint_eq(report.lost, expected.lost);
	ck_assert_uint_eq(report.cancelled, expected.cancelled);
	ck_assert_uint_eq(report.finished, expected.finished);
	ck_assert_uint_eq(report.requeued, expected.requeued);
	ck_assert_uint_eq(report.queued, expected.queued);
	ck_assert_uint_eq(report.begun, expected.begun);
}

#define COUNTS(...) counts((struct recovery_report){ __VA_ARGS__ })

/* Checks the outcome in the record and the state in the row. */
static void is(uint32_t client, uint32_t job, uint32_t outcome, uint32_t state)
{
	struct ledger_row r = ledger_unpack(*row(client, job));

	ck_assert_uint_eq(records[client][job].state, job_state(GEN, outcome));
	ck_assert_uint_eq(r.state, state);
	ck_assert_uint_eq(r.generation, GEN);
}

START_TEST(each_cell_of_the_table_has_its_outcome)
{
	/* state x idempotent, none of them to blame; worker 2 faults, running job 10 */
	put(0, 0, LEDGER_FREE, 0, 0, 0);
	put(0, 1, LEDGER_FREE, LEDGER_FLAG_IDEMPOTENT, 0, 0);
	put(0, 2, LEDGER_QUEUED, 0, 0, 0);
	put(0, 3, LEDGER_QUEUED, LEDGER_FLAG_IDEMPOTENT, 0, 0);
	put(0, 4, LEDGER_RUNNING, 0, 1, 0);
	put(0, 5, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT, 1, 0);
	put(0, 6, LEDGER_FINISHING, 0, 1, JOB_FAILED);
	put(0, 7, LEDGER_FINISHING, LEDGER_FLAG_IDEMPOTENT, 1, JOB_DONE);
	/* suspended on the worker that faulted: not the job that it was running */
	put(0, 8, LEDGER_RUNNING, 0, 2, 0);
	put(0, 9, LEDGER_FINISHING, 0, 2, JOB_EXPIRED);
	put(0, 10, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT, 2, 0);
	put(0, 11, LEDGER_COPYING, LEDGER_FLAG_IDEMPOTENT, 1, 0);
	fault(2, 0, 10);
	arena->fault.signo = SIGBUS;
	arena->fault.address = 0x1234;
	records[0][6].code = -77;
	arena->rings[1][3].consumer = 2;

	run(SIGSEGV);
	is(0, 0, JOB_PENDING, LEDGER_FREE);
	is(0, 1, JOB_PENDING, LEDGER_FREE);
	is(0, 2, JOB_PENDING, LEDGER_QUEUED);
	is(0, 3, JOB_PENDING, LEDGER_QUEUED);
	is(0, 4, JOB_LOST, LEDGER_FREE);
	is(0, 5, JOB_PENDING, LEDGER_QUEUED);
	is(0, 6, JOB_FAILED, LEDGER_FREE);
	ck_assert_int_eq(records[0][6].code, -77);
	is(0, 7, JOB_DONE, LEDGER_FREE);
	is(0, 8, JOB_LOST, LEDGER_FREE);
	is(0, 9, JOB_EXPIRED, LEDGER_FREE);
	is(0, 10, JOB_CRASHED, LEDGER_FREE); /* idempotent or not */
	is(0, 11, JOB_LOST, LEDGER_FREE);    /* idempotent or not */
	ck_assert_uint_eq(records[0][10].signo, SIGBUS);
	ck_assert_uint_eq(records[0][4].signo, 0);

	COUNTS(.crashed = 1, .lost = 3, .requeued = 1, .finished = 3, .queued = 2, .begun = 8);
	ck_assert(report.blamed);
	ck_assert_uint_eq(report.client, 0);
	ck_assert_uint_eq(report.job, job_handle(GEN, 10));
	ck_assert_uint_eq(report.task, 11);
	ck_assert_uint_eq(report.worker, 2);
	ck_assert_uint_eq(report.signo, SIGBUS);
	ck_assert_uint_eq(report.address, 0x1234);

	/* The front is ready for the next pool. */
	ck_assert_uint_eq(arena->fault.worker, 0);
	ck_assert_uint_eq(arena->workers[2].job, UINT32_MAX);
	ck_assert_uint_eq(arena->rings[1][3].consumer, 0);
}
END_TEST

/* The dispatcher has reported this job as hanging; worker 2 ran it. */
static void hang(uint32_t client, uint32_t job, uint32_t generation)
{
	arena->fault.worker = 2 + 1;
	arena->fault.signo = SIGKILL;
	arena->fault.reason = LEDGER_FAULT_HANG;
	arena->fault.row = client * JOBS + job + 1;
	arena->fault.generation = generation;
	arena->fault.held_ns = 12345;
}

START_TEST(hanging_job_is_blamed_like_a_faulting_one)
{
	put(0, 0, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT, 1, 0);
	put(0, 1, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT, 2, 0);
	hang(0, 1, GEN);
	/* The worker runs another task of this job. */
	arena->workers[2].job = 0;
	run(SIGKILL);
	is(0, 0, JOB_PENDING, LEDGER_QUEUED);
	is(0, 1, JOB_CRASHED, LEDGER_FREE);
	ck_assert_uint_eq(records[0][1].signo, SIGKILL);
	ck_assert(report.blamed);
	ck_assert(report.hung);
	ck_assert_uint_eq(report.held_ns, 12345);
	ck_assert_uint_eq(report.requeued, 1);
	/* Another process kills the next pool. */
	put(0, 1, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT, 2, 0);
	run(SIGKILL);
	ck_assert(!report.hung);
	ck_assert(!report.blamed);
	ck_assert_uint_eq(report.held_ns, 0);
}
END_TEST

/* Its worker ran until the kernel had stopped it. */
START_TEST(hanging_job_that_has_ended_blames_no_job)
{
	static const struct {
		uint32_t state, generation, row;
	} cells[] = {
		{ LEDGER_FREE, GEN, 1 },	{ LEDGER_FINISHING, GEN, 1 },
		{ LEDGER_COPYING, GEN, 1 },	{ LEDGER_QUEUED, GEN + 1, 1 },
		{ LEDGER_RUNNING, GEN + 1, 1 }, { LEDGER_RUNNING, GEN, 0xffff },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cells); i++) {
		setup();
		put(0, 0, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT | LEDGER_FLAG_REQUEUED, 1, 0);
		put(0, 1, cells[i].state, 0, 2, JOB_DONE);
		/* The next job of its worker. */
		put(0, 2, LEDGER_RUNNING, 0, 2, 0);
		arena->workers[2].job = 2;
		hang(0, cells[i].row, cells[i].generation);
		run(SIGKILL);
		ck_assert(!report.blamed);
		ck_assert(report.hung);
		ck_assert_uint_eq(report.crashed, 0);
		is(0, 2, JOB_LOST, LEDGER_FREE);
		/* The cause of death is known: no other job is a suspect. */
		is(0, 0, JOB_PENDING, LEDGER_QUEUED);
	}
}
END_TEST

/* A client may have removed the memory to which its buffers are written back. */
START_TEST(fault_while_buffers_are_written_back_blames_that_job)
{
	put(0, 0, LEDGER_COPYING, LEDGER_FLAG_IDEMPOTENT, 2, 0);
	put(0, 1, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT, 2, 0);
	fault(2, 0, 0);
	run(SIGBUS);
	is(0, 0, JOB_CRASHED, LEDGER_FREE);
	is(0, 1, JOB_PENDING, LEDGER_QUEUED);
	COUNTS(.crashed = 1, .requeued = 1, .begun = 2);
	ck_assert_uint_eq(report.job, job_handle(GEN, 0));
}
END_TEST

START_TEST(each_job_gets_exactly_one_outcome)
{
	put(0, 0, LEDGER_RUNNING, 0, 1, 0);
	put(0, 1, LEDGER_FINISHING, 0, 1, JOB_DONE);
	put(0, 2, LEDGER_FINISHING, 0, 1, JOB_DONE);
	put(0, 3, LEDGER_RUNNING, 0, 1, 0);
	/* 1: the pool wrote the record and died before the row; 2: and the client has submitted the
	 * next generation; 3: malformed data of a client */
	records[0][1].state = job_state(GEN, JOB_DONE);
	records[0][1].code = 5;
	records[0][2].state = job_state(GEN + 1, JOB_PENDING);
	records[0][3].state = 0xffffffff;
	run(SIGKILL);
	is(0, 0, JOB_LOST, LEDGER_FREE);
	ck_assert_uint_eq(records[0][1].state, job_state(GEN, JOB_DONE));
	ck_assert_int_eq(records[0][1].code, 5);
	ck_assert_uint_eq(records[0][2].state, job_state(GEN + 1, JOB_PENDING));
	ck_assert_uint_eq(records[0][3].state, 0xffffffff);
	/* Jobs that got their outcome here; all of them had begun. */
	COUNTS(.lost = 1, .begun = 4);

	/* A second run changes nothing. */
	records[0][0].state = job_state(GEN + 1, JOB_PENDING);
	run(SIGKILL);
	ck_assert_uint_eq(records[0][0].state, job_state(GEN + 1, JOB_PENDING));
	COUNTS(0);
}
END_TEST

/* A group is decremented for each outcome that is given here, and for no other. */
START_TEST(groups_are_counted_down)
{
	struct group *groups;

	/* After the existing records. */
	groups = client_segment_groups(records[0], JOBS - 4);
	memset(groups, 0, 4 * sizeof(*groups));
	for (uint32_t i = 0; i < 7; i++)
		records[0][i].group = i == 6 ? LIMIT_GROUPS + 1 : 1 + i / 4;
	group_add(&groups[0], 4);
	group_add(&groups[1], 2);
	put(0, 0, LEDGER_RUNNING, 0, 1, 0);
	put(0, 1, LEDGER_QUEUED, 0, 1, 0);
	put(0, 2, LEDGER_FINISHING, 0, 1, JOB_DONE);
	/* 3: it had its outcome already, and was counted or not */
	put(0, 3, LEDGER_FINISHING, 0, 1, JOB_DONE);
	records[0][3].state = job_state(GEN, JOB_DONE);
	put(0, 4, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT, 1, 0);
	put(0, 5, LEDGER_RUNNING, 0, 1, 0);
	put(0, 6, LEDGER_RUNNING, 0, 1, 0);
	ck_assert_uint_ne(group_announce(&groups[1], 1), 0);
	run(SIGKILL);
	ck_assert_uint_eq(group_count(group_load(&groups[0])), 2);
	ck_assert_uint_eq(group_count(group_load(&groups[1])), 1);
	ck_assert_uint_eq(group_load(&groups[2]), 0);
	/* All groups end. */
	for (uint32_t i = 0; i < 6; i++)
		(void)recovery_finish(&records[0][i], groups, UINT32_MAX, JOB_CANCELLED, 0, 0);
	ck_assert_uint_eq(group_count(group_load(&groups[0])), 1);
	ck_assert_uint_eq(group_count(group_load(&groups[1])), 0);
}
END_TEST

/* The ends of watched jobs are counted, for jobs that get their outcome here. */
START_TEST(ends_of_watched_jobs_are_counted)
{
	static struct {
		struct group groups[LIMIT_GROUPS];
		struct watch watch;
	} table;
	static struct job jobs[3];

	for (uint32_t i = 0; i < 3; i++) {
		atomic_store(&jobs[i].state, job_state(GEN, JOB_PENDING));
		if (i != 1)
			ck_assert_int_eq(job_watch(&jobs[i]), 1);
	}
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert(recovery_finish(&jobs[i], table.groups, GEN, JOB_LOST, 0, 0));
		ck_assert_uint_eq(jobs[i].state, job_state(GEN, JOB_LOST));
		ck_assert_uint_eq(table.watch.ended, i == 2 ? 2 : 1);
		ck_assert(!recovery_finish(&jobs[i], table.groups, GEN, JOB_CRASHED, 0, 0));
		ck_assert_uint_eq(table.watch.ended, i == 2 ? 2 : 1);
	}
}
END_TEST

START_TEST(without_blame_an_idempotent_job_runs_again_once)
{
	put(2, 0, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT, 1, 0);
	put(2, 1, LEDGER_RUNNING, 0, 0, 0);
	run(SIGKILL);
	ck_assert(!report.blamed);
	COUNTS(.lost = 1, .requeued = 1, .begun = 2);
	is(2, 0, JOB_PENDING, LEDGER_QUEUED);
	is(2, 1, JOB_LOST, LEDGER_FREE);

	put(2, 0, LEDGER_RUNNING, ledger_unpack(*row(2, 0)).flags, 1, 0);
	run(SIGKILL);
	is(2, 0, JOB_LOST, LEDGER_FREE);
}
END_TEST

/* A running read may still write into its buffers. */
START_TEST(idempotent_job_of_a_pool_that_has_not_ended_is_LOST)
{
	struct recovery_limits some = limits;

	some.abandoned = true;
	put(2, 0, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT, 1, 0);
	put(2, 1, LEDGER_QUEUED, LEDGER_FLAG_IDEMPOTENT, 0, 0);
	run_within(&some, SIGKILL);
	COUNTS(.lost = 1, .queued = 1, .begun = 1);
	is(2, 0, JOB_LOST, LEDGER_FREE);
	is(2, 1, JOB_PENDING, LEDGER_QUEUED);
	some.killed = true;
	put(2, 0, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT, 1, 0);
	run_within(&some, SIGKILL);
	ck_assert_uint_eq(report.requeued, 0);
}
END_TEST

START_TEST(idempotent_job_reruns_without_limit_if_another_job_is_blamed)
{
	for (uint32_t i = 0; i < 3; i++) {
		put(2, 0, LEDGER_RUNNING, ledger_unpack(*row(2, 0)).flags | LEDGER_FLAG_IDEMPOTENT,
		    1, 0);
		put(0, 0, LEDGER_RUNNING, 0, 0, 0);
		fault(0, 0, 0);
		run(SIGSEGV);
		is(2, 0, JOB_PENDING, LEDGER_QUEUED);
	}
}
END_TEST

/* Other workers may run its other jobs now, and the worker itself ran no job's code. */
START_TEST(fault_of_a_worker_without_a_running_row_blames_no_job)
{
	static const uint32_t names[] = {
		UINT32_MAX,
		0xdeadbeef,
		2 * JOBS + 5 /* FREE */,
		2 * JOBS + 6 /* QUEUED */,
		2 * JOBS + 7 /* FINISHING */,
		1 * JOBS /* no client */,
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		setup();
		put(2, 2, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT, 0, 0);
		put(2, 3, LEDGER_RUNNING, 0, 0, 0);
		put(2, 4, LEDGER_RUNNING, 0, 1, 0);
		put(2, 6, LEDGER_QUEUED, 0, 0, 0);
		put(2, 7, LEDGER_FINISHING, 0, 0, JOB_DONE);
		arena->fault.worker = 1;
		arena->fault.address = 0x1234;
		arena->workers[0].job = names[i];
		run(SIGSEGV);
		is(2, 3, JOB_LOST, LEDGER_FREE);
		ck_assert_uint_eq(records[2][3].signo, 0);
		is(2, 4, JOB_LOST, LEDGER_FREE);
		is(2, 6, JOB_PENDING, LEDGER_QUEUED);
		is(2, 7, JOB_DONE, LEDGER_FREE);
		/* This job may be the cause: it runs once more only. */
		is(2, 2, JOB_PENDING, LEDGER_QUEUED);
		ck_assert_uint_eq(ledger_unpack(*row(2, 2)).flags & LEDGER_FLAG_REQUEUED,
				  LEDGER_FLAG_REQUEUED);
		ck_assert(!report.blamed);
		COUNTS(.lost = 2, .finished = 1, .requeued = 1, .queued = 1, .begun = 4);
		/* The known facts are reported all the same. */
		ck_assert_uint_eq(report.worker, 0);
		ck_assert_uint_eq(report.address, 0x1234);
	}
}
END_TEST

/* A client overwrites its records while its job crashes the pool. */
START_TEST(client_writes_to_its_records_change_neither_blame_nor_progress)
{
	put(0, 0, LEDGER_RUNNING, 0, 1, 0);
	put(0, 1, LEDGER_RUNNING, 0, 2, 0);
	records[0][0].state = job_state(GEN, JOB_DONE);
	records[0][1].state = 0;
	fault(1, 0, 0);
	run(SIGSEGV);
	ck_assert(report.blamed);
	ck_assert_uint_eq(report.client, 0);
	ck_assert_uint_eq(report.job, job_handle(GEN, 0));
	ck_assert_uint_eq(report.task, 1);
	COUNTS(.begun = 2);
	ck_assert_uint_eq(ledger_unpack(*row(0, 0)).state, LEDGER_FREE);
	ck_assert_uint_eq(ledger_unpack(*row(0, 1)).state, LEDGER_FREE);
}
END_TEST

START_TEST(queued_jobs_of_a_client_that_left_are_no_progress_of_the_pool)
{
	put(2, 0, LEDGER_QUEUED, 0, 0, 0);
	put(2, 1, LEDGER_QUEUED, 0, 0, 0);
	/* It had its outcome when its client left. */
	records[2][1].state = job_state(GEN, JOB_CANCELLED);
	run_gone();
	is(2, 0, JOB_CANCELLED, LEDGER_FREE);
	is(2, 1, JOB_CANCELLED, LEDGER_FREE);
	COUNTS(.cancelled = 1);
}
END_TEST

START_TEST(malformed_data_in_the_arena_has_no_effect)
{
	arena->fault.worker = 200; /* more than there are */
	arena->fault.signo = 4096;
	put(0, 0, 9, 0, 77, 0);
	put(0, 1, LEDGER_FINISHING, 0, 0, 15);
	put(0, JOBS - 1, LEDGER_RUNNING, 0, 0, 0); /* after the client's table */
	put(1, 0, LEDGER_RUNNING, 0, 0, 0);	   /* no client */
	run(SIGABRT);
	ck_assert(!report.blamed);
	ck_assert_uint_eq(report.signo, SIGABRT);
	is(0, 0, JOB_LOST, LEDGER_FREE);
	is(0, 1, JOB_LOST, LEDGER_FREE);
	COUNTS(.lost = 1, .finished = 1, .begun = 2);
	ck_assert_uint_eq(records[0][JOBS - 1].state, job_state(GEN, JOB_PENDING));

	fault(1, 1, 0); /* a client that does not exist */
	run(SIGSEGV);
}
END_TEST

START_TEST(jobs_of_a_gone_client_are_cancelled)
{
	for (uint32_t client = 0; client < CLIENTS; client += 2) {
		put(client, 0, LEDGER_QUEUED, 0, 0, 0);
		put(client, 1, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT, 1, 0);
		put(client, 2, LEDGER_RUNNING, 0, 1, 0);
		put(client, 3, LEDGER_FINISHING, 0, 1, JOB_DONE);
		put(client, 5, LEDGER_COPYING, LEDGER_FLAG_IDEMPOTENT, 1, 0);
	}
	put(2, 4, LEDGER_RUNNING, LEDGER_FLAG_IDEMPOTENT, 2, 0);
	fault(2, 2, 4);
	run_gone();
	is(0, 0, JOB_PENDING, LEDGER_QUEUED);
	is(0, 1, JOB_PENDING, LEDGER_QUEUED);
	is(0, 2, JOB_LOST, LEDGER_FREE);
	is(0, 3, JOB_DONE, LEDGER_FREE);
	is(2, 0, JOB_CANCELLED, LEDGER_FREE);
	is(2, 1, JOB_CANCELLED, LEDGER_FREE);
	is(2, 2, JOB_CANCELLED, LEDGER_FREE);
	is(2, 3, JOB_DONE, LEDGER_FREE);
	/* It is to blame, whether its client has left or not. */
	is(2, 4, JOB_CRASHED, LEDGER_FREE);
	is(0, 5, JOB_LOST, LEDGER_FREE);
	is(2, 5, JOB_CANCELLED, LEDGER_FREE);
	COUNTS(.crashed = 1, .lost = 2, .cancelled = 4, .finished = 2, .requeued = 1, .queued = 1,
	       .begun = 9);
}
END_TEST

/* As if client 0 had left since. */
START_TEST(ring_entries_of_a_gone_client_are_not_accepted_by_the_next_pool)
{
	put(0, 0, LEDGER_QUEUED, LEDGER_FLAG_IDEMPOTENT, 0, 0);
	/* 1: in a ring, the row is of the generation before; 2: it has ended */
	*row(0, 1) = ledger_pack((struct ledger_row){ .generation = GEN - 1 });
	put(0, 2, LEDGER_FREE, 0, 0, 0);
	records[0][2].state = job_state(GEN, JOB_DONE);
	for (uint32_t i = 0; i < JOBS; i++)
		records[0][i].generation = GEN;
	put(2, 0, LEDGER_QUEUED, 0, 0, 0);
	/* All except the one that has ended: as many as the table has. */
	ck_assert_uint_eq(recovery_cancel(arena, &limits, 0, find, NULL), JOBS - 4 - 1);
	is(0, 0, JOB_CANCELLED, LEDGER_FREE);
	is(0, 1, JOB_CANCELLED, LEDGER_FREE);
	is(0, 2, JOB_DONE, LEDGER_FREE);
	is(2, 0, JOB_PENDING, LEDGER_QUEUED);
	ck_assert_uint_eq(recovery_cancel(arena, &limits, 0, find, NULL), 0);
	ck_assert_uint_eq(recovery_cancel(arena, &limits, 1, find, NULL), 0); /* no client */
}
END_TEST

CHECK_MAIN("job_recovery")
