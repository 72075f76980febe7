/* SPDX-License-Identifier: MIT */
/*
 * job_recovery.c - decides the outcome of the jobs of a pool that has died
 *
 * It runs after the pool was reaped, or has died as an earlier manager's pool (takeover.c), and
 * before the next one is started. recovery_cancel() runs when the next pool is ready and before it
 * is told of the client; then no other process writes the client's rows.
 *
 * THE TABLE
 * 	row		blamed		idempotent	not idempotent
 * 	FREE		-		-		-
 * 	QUEUED		-		stays		stays
 * 	RUNNING		CRASHED		QUEUED *	LOST
 * 	COPYING		CRASHED		LOST		LOST
 * 	FINISHING	the row's own outcome, in each case
 *
 *   If a client has gone, all of its jobs that are not blamed and have no outcome are CANCELLED,
 *   including those still in its rings: their rows take the generation, which no pool accepts twice
 *   (shm/ledger.h, I3). Some clients die after their pool, so this is done again when the next one
 *   is ready.
 *
 *   A QUEUED job may belong to a chain whose word is still in its ring: the next pool updates that
 *   word before it runs any job (daemon/jobs/queue_recovery.h, I1).
 *
 *   * If no job can be blamed (kill -9, out of memory) a job that was put back once before for the
 *     same reason is LOST: it may be the culprit, and would end each next pool. If a pool died with
 *     its manager, by the kernel's or the next manager's signal, no job is suspected.
 *
 * JOBS OF A POOL THAT HAS NOT ENDED
 *   A pending read of an abandoned pool (pool_process.c, I7) can still write into the buffers of
 *   its job. So none of its jobs runs again: idempotent ones are LOST as well.
 *
 * THE BLAMED JOB
 *   The pool's fault handler stores its worker's number; the job of that worker is in its
 *   ledger_worker. If that row has not started, or has ended, no job is blamed: the fault was not
 *   in a task's code, or a task has overwritten the arena. Without a number (SIGKILL from outside)
 *   no job is blamed either. For a fiber in a section that may block, which is on no worker, the
 *   handler stores the job as well. For a job that hangs the dispatcher does: until the kernel has
 *   stopped its worker the job may still end, and the next one on that worker is innocent. Then no
 *   job is blamed, and none is suspected, because the cause is known.
 *
 * INVARIANTS
 *   I1. Each generation gets one outcome: a record is written only while it is pending and of the
 *       row's generation, by a compare-and-swap, and a row becomes FREE only afterwards.
 *   I2. No index or count is taken from shared memory: a dying pool may have written anything to
 *       the arena, and clients write records. Malformed data affects only the jobs concerned. Only
 *       rows determine the blamed job, and whether the pool began a job, because clients can write
 *       anything into records.
 *   I3. A job's group is counted down only with an outcome that is set here. If the record had an
 *       outcome already, the pool may or may not have counted it: the client detects that itself
 *       (shm/group.h, I4).
 *   I4. It can be run again from the start, if the manager dies in it.
 */
#include "daemon/manager/job_recovery.h"

#include <ctype.h>
#include <limits.h>
#include <signal.h>

#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "shm/fence.h"
#include "shm/futex.h"
#include "shm/group.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/watch.h"

/* ORDER ledger/row [L2]: loads and stores here are relaxed: the pool is dead, and waitpid(), or
 * poll() of its pidfd, orders all of its stores before them; the next pool is started after them.
 * Pairs with job_set_row(). */

#define RECOVERY_TRIES 10000u

bool recovery_finish(struct job *job, struct group *groups, uint32_t generation, uint32_t outcome,
		     int32_t code, uint32_t signo)
{
	/* Before the outcome: afterwards the client may reuse the record. */
	struct group *group = group_of(groups, load_relaxed(&job->group));
	struct watch *watch = watch_of(groups);
	uint32_t state = load_relaxed(&job->state);

	/* ORDER job/reuse [J2]: release, as in job_done(). */
	fence_release();
	/* A client that changes the word continuously can make the CAS fail, but not block the
	 * manager. */
	for (uint32_t tries = 0;; tries++) {
		uint32_t old = state >> JOB_GEN_SHIFT & JOB_GEN_MASK;

		if ((state & JOB_OUTCOME_MASK) != JOB_PENDING || tries == RECOVERY_TRIES)
			return false;
		if (generation != UINT32_MAX && old != (generation & JOB_GEN_MASK))
			return false;
		store_relaxed(&job->code, code);
		store_relaxed(&job->signo, signo);
		/* ORDER job/outcome [J1]: release, so that a reader of the outcome sees code and
		 * signo. Pairs with the acquire in job_outcome(). A compare-and-swap, unlike the
		 * pool's exchange: the record may be of a later generation by now. */
		if (atomic_compare_exchange_weak_explicit(
			    &job->state, &state, job_state(old, outcome), memory_order_release,
			    memory_order_relaxed))
			break;
	}
	if (state & JOB_WAITER)
		(void)futex_wake(&job->state, INT_MAX);
	if (watch && state & JOB_WATCHED && watch_end(watch))
		(void)futex_wake(&watch->ended, INT_MAX);
	if (group && group_done(group, 1))
		(void)futex_wake(&group->word, INT_MAX);
	return true;
}

struct recovery_blame {
	uint32_t worker; /* that stored a fault, UINT32_MAX: none */
	bool hung;	 /* the fault is that its job hangs */
	bool told;	 /* the fault names the job */
	uint32_t row;	 /* the blamed job's row; UINT32_MAX: none */
};

static struct recovery_blame recovery_whom(struct arena *arena,
					   const struct recovery_limits *limits,
					   recovery_records *records, void *context)
{
	struct recovery_blame blame = { .worker = UINT32_MAX, .row = UINT32_MAX };
	uint32_t worker = load_relaxed(&arena->fault.worker);
	struct ledger_row now;
	uint32_t row, n;

	if (worker == 0 || worker > limits->n_workers)
		return blame;
	blame.worker = worker - 1;
	blame.hung = load_relaxed(&arena->fault.reason) == LEDGER_FAULT_HANG;
	blame.told = blame.hung || load_relaxed(&arena->fault.row);
	row = blame.told ? load_relaxed(&arena->fault.row) - 1
			 : load_relaxed(&arena->workers[blame.worker].job);
	if (row / limits->jobs_max >= limits->clients_max)
		return blame;
	if (!records(context, row / limits->jobs_max, &n) || row % limits->jobs_max >= n)
		return blame;
	now = ledger_unpack(load_relaxed(&arena_rows(arena)[row]));
	if (blame.told ? now.state == LEDGER_RUNNING &&
				 now.generation == load_relaxed(&arena->fault.generation)
		       : ledger_is_started(now.state))
		blame.row = row;
	return blame;
}

/* Returns the outcome of a job that was running, or has a malformed row; or JOB_PENDING: it runs
 * again. known: the cause of the pool's death is known. abandoned: the pool has not ended. */
static uint32_t recovery_judge(const struct ledger_row *row, bool blamed, bool known, bool gone,
			       bool abandoned)
{
	if (!ledger_is_started(row->state))
		return JOB_LOST;
	if (blamed)
		return JOB_CRASHED;
	if (gone)
		return JOB_CANCELLED;
	if (row->state == LEDGER_RUNNING && row->flags & LEDGER_FLAG_IDEMPOTENT && !abandoned &&
	    (known || !(row->flags & LEDGER_FLAG_REQUEUED)))
		return JOB_PENDING;
	return JOB_LOST;
}

static uint32_t *recovery_counter(struct recovery_report *report, uint32_t outcome)
{
	if (outcome == JOB_CRASHED)
		return &report->crashed;
	return outcome == JOB_CANCELLED ? &report->cancelled : &report->lost;
}

/* Sets the record's outcome, unless it has one. Returns 1 if set, otherwise 0. */
static uint32_t recovery_give(const struct recovery_limits *limits, void *context, uint32_t at,
			      const struct ledger_row *row, struct job *job, struct group *groups,
			      uint32_t outcome, int32_t code, uint32_t signo)
{
	if (!recovery_finish(job, groups, row->generation, outcome, code, signo))
		return 0;
	if (limits->ended)
		limits->ended(context, at / limits->jobs_max, at, row);
	return 1;
}

static void recovery_row(struct arena *arena, const struct recovery_limits *limits,
			 const struct recovery_blame *blame, uint32_t client, uint32_t index,
			 bool gone, struct job *job, struct group *groups, void *context,
			 struct recovery_report *report)
{
	uint32_t at = client * limits->jobs_max + index;
	_Atomic uint64_t *word = &arena_rows(arena)[at];
	bool known = limits->killed || blame->hung || blame->row != UINT32_MAX;
	struct ledger_row row = ledger_unpack(load_relaxed(word));
	uint32_t *counter = &report->finished;
	uint32_t outcome = JOB_LOST, signo = 0;
	int32_t code = 0;

	switch (row.state) {
	case LEDGER_FREE:
		return;
	case LEDGER_QUEUED:
		if (!gone) {
			report->queued++;
			return;
		}
		outcome = JOB_CANCELLED;
		counter = &report->cancelled;
		break;
	case LEDGER_FINISHING:
		report->begun++;
		if (row.outcome >= JOB_DONE && row.outcome <= JOB_LOST)
			outcome = row.outcome;
		/* The record has them already. */
		code = load_relaxed(&job->code);
		signo = load_relaxed(&job->signo);
		break;
	default:
		report->begun++;
		outcome = recovery_judge(&row, blame->row == at, known, gone, limits->abandoned);
		counter = recovery_counter(report, outcome);
	}
	if (outcome == JOB_PENDING) {
		if (!known)
			row.flags |= LEDGER_FLAG_REQUEUED;
		row.state = LEDGER_QUEUED;
		row.task = 0;
		store_relaxed(word, ledger_pack(row));
		report->requeued++;
		return;
	}
	if (blame->row == at) {
		signo = report->signo;
		report->blamed = true;
		report->client = client;
		report->job = job_handle(row.generation, index);
		report->task = row.task ? row.task - 1 : UINT32_MAX;
	}
	*counter += recovery_give(limits, context, at, &row, job, groups, outcome, code, signo);
	FK_CRASH(recovery_given);
	store_relaxed(word, ledger_pack((struct ledger_row){ .generation = row.generation }));
}

/* Copies a name that the pool stored, at most size bytes: a task may have overwritten it. */
static void recovery_name(const char *left, char *ret_name, size_t size)
{
	size_t n = 0;

	for (; n + 1 < size && left[n]; n++)
		ret_name[n] = isgraph((unsigned char)left[n]) ? left[n] : '?';
	ret_name[n] = '\0';
}

/* The same for the worker's backtrace. */
static void recovery_trace(const struct backtrace *left, struct backtrace *ret_trace)
{
	uint32_t n = backtrace_count(left);

	*ret_trace = (struct backtrace){ .n = n };
	for (uint32_t i = 0; i < n; i++) {
		const struct backtrace_place *place = &left->places[i];
		struct backtrace_place *ret = &ret_trace->places[i];

		ret->offset = place->offset;
		recovery_name(place->object, ret->object, sizeof(ret->object));
		recovery_name(place->function, ret->function, sizeof(ret->function));
	}
}

void recovery_run(struct arena *arena, const struct recovery_limits *limits, uint32_t signo,
		  recovery_records *records, void *context, struct recovery_report *ret_report)
{
	struct recovery_blame blame = recovery_whom(arena, limits, records, context);
	struct recovery_report report = { .worker = blame.worker,
					  .signo = signo,
					  .task = UINT32_MAX };

	if (blame.worker != UINT32_MAX) {
		uint32_t said = load_relaxed(&arena->fault.signo);

		if (said > 0 && said < (uint32_t)NSIG)
			report.signo = said;
		report.address = load_relaxed(&arena->fault.address);
		report.overflowed = load_relaxed(&arena->fault.reason) == LEDGER_FAULT_STACK;
		report.stack_size = load_relaxed(&arena->fault.stack_size);
		recovery_name(arena->fault.fiber, report.fiber, sizeof(report.fiber));
		recovery_name(arena->fault.inner, report.inner, sizeof(report.inner));
		recovery_trace(&arena->fault.trace, &report.trace);
		report.hung = blame.hung;
		report.held_ns = load_relaxed(&arena->fault.held_ns);
	}
	for (uint32_t client = 0; client < limits->clients_max; client++) {
		uint32_t n;
		struct job *jobs = records(context, client, &n);
		bool gone;

		if (!jobs)
			continue;
		gone = limits->is_gone && limits->is_gone(context, client);
		for (uint32_t i = 0; i < min(n, limits->jobs_max); i++)
			recovery_row(arena, limits, &blame, client, i, gone, &jobs[i],
				     client_segment_groups(jobs, n), context, &report);
	}
	for (uint32_t worker = 0; worker < limits->n_workers; worker++) {
		store_relaxed(&arena->workers[worker].job, UINT32_MAX);
		for (uint32_t tenant = 0; tenant < limits->n_tenants; tenant++)
			store_relaxed(&arena->rings[tenant][worker].consumer, 0);
	}
	store_relaxed(&arena->fault.worker, 0);
	store_relaxed(&arena->fault.signo, 0);
	store_relaxed(&arena->fault.address, 0);
	store_relaxed(&arena->fault.reason, LEDGER_FAULT_CRASH);
	store_relaxed(&arena->fault.row, 0);
	store_relaxed(&arena->fault.generation, 0);
	store_relaxed(&arena->fault.held_ns, 0);
	store_relaxed(&arena->fault.stack_size, 0);
	store_relaxed(&arena->fault.trace.n, 0);
	arena->fault.fiber[0] = arena->fault.inner[0] = '\0';
	*ret_report = report;
}

uint32_t recovery_cancel(struct arena *arena, const struct recovery_limits *limits, uint32_t client,
			 recovery_records *records, void *context)
{
	_Atomic uint64_t *rows = arena_rows(arena) + (size_t)client * limits->jobs_max;
	uint32_t n_jobs = 0, n = 0;
	struct job *jobs = records(context, client, &n_jobs);
	struct group *groups = jobs ? client_segment_groups(jobs, n_jobs) : NULL;

	for (uint32_t i = 0; jobs && i < min(n_jobs, limits->jobs_max); i++) {
		struct ledger_row row = ledger_unpack(load_relaxed(&rows[i]));

		/* A job in a ring has no row yet. */
		if (row.state == LEDGER_FREE)
			row.generation = load_relaxed(&jobs[i].generation) & JOB_GEN_MASK;
		n += recovery_give(limits, context, client * limits->jobs_max + i, &row, &jobs[i],
				   groups, JOB_CANCELLED, 0, 0);
		store_relaxed(&rows[i], ledger_pack((struct ledger_row){
						.generation = row.generation,
						.state = LEDGER_FREE,
					}));
	}
	return n;
}
