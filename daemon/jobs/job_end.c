/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/job_end.h"

#include "common/clock.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/clients.h"
#include "daemon/core/trace.h"
#include "daemon/core/abort_word.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/host/job_times.h"
#include "daemon/jobs/deadline.h"
#include "daemon/sched/job_switch.h"
#include "shm/board.h"
#include "shm/fence.h"
#include "shm/futex.h"
#include "shm/group.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/limits.h"
#include "shm/watch.h"

/* Result of a job: its row, generation, outcome, code and times. */
struct job_end {
	uint32_t row;
	uint32_t generation;
	uint32_t outcome;
	int32_t code;
	uint32_t worker; /* the worker that ran it; UINT32_MAX: none */
	uint64_t drained_ns;
	uint64_t started_ns;
	uint64_t ended_ns;
};

/* FINISHING -> FREE, unless the client has seen the outcome and submitted the record again, and
 * drain_accept() has accepted that. */
static void job_free_row(struct pool *pool, uint32_t at, uint32_t generation)
{
	_Atomic uint64_t *word = &arena_rows(pool->arena)[at];
	uint64_t finishing = load_relaxed(word);
	struct ledger_row row = ledger_unpack(finishing);

	if (row.generation != generation || row.state != LEDGER_FINISHING)
		return;
	row = (struct ledger_row){ .generation = generation, .state = LEDGER_FREE };
	atomic_compare_exchange_strong_explicit(word, &finishing, ledger_pack(row),
						memory_order_relaxed, memory_order_relaxed);
}

bool job_is_cancelled(struct pool *pool, uint32_t row, uint32_t generation)
{
	return cancel_is_marked(&pool->rows.cancels[row], generation);
}

/* Updates the statistics of the tenant of a job that ends; its row is FINISHING. */
static void job_count_time(struct pool *pool, uint32_t tenant, const struct job_end *end)
{
	if (end->worker == UINT32_MAX)
		/* Relaxed: a statistic. */
		add_relaxed(&pool->board->tenants[tenant].dropped, 1);
	else
		times_count(&pool->board->times[tenant][end->worker],
			    end->started_ns - end->drained_ns, end->ended_ns - end->started_ns,
			    times_id(end->row, end->generation));
}

/* Gives the job its outcome; the caller holds the row. True if it has woken waiters. */
static bool job_end_row(struct pool *pool, const struct job_end *end)
{
	struct client_entry *client = clients_of(pool, end->row);
	struct job *job = &client->jobs[end->row % pool->jobs_max];
	struct board_client *board = &pool->board->clients[clients_slot(&pool->clients, client)];
	struct watch *watch = watch_of(client->groups);
	struct group *group;
	uint32_t told;
	bool woke = false;

	/* ORDER job/reuse [J2]: release, as in job_done(). */
	fence_release();
	store_relaxed(&job->code, end->code);
	store_relaxed(&job->signo, 0);
	store_relaxed(&job->worker, end->worker);
	store_relaxed(&job->started_ns, end->started_ns);
	store_relaxed(&job->ended_ns, end->ended_ns);
	job_set_row(pool, end->row, LEDGER_FINISHING, end->outcome, end->worker);
	FK_CRASH(job_finishing);
	job_count_time(pool, client->tenant, end);
	FK_CRASH(job_timed);
	deadline_remove(pool, end->row);

	add_relaxed(&board->jobs, 1);
	add_relaxed(&board->run_ns, end->ended_ns - end->started_ns);
	if (end->started_ns > end->drained_ns)
		add_relaxed(&board->wait_ns, end->started_ns - end->drained_ns);
	if (end->outcome != JOB_DONE)
		add_relaxed(&board->failed, 1);
	group = group_of(client->groups, load_relaxed(&job->group));
	if (job_is_cancelled(pool, end->row, end->generation))
		store_relaxed(&pool->rows.cancels[end->row], 0);
	told = job_finish(job, end->generation, end->outcome);
	if (told) {
		FK_CRASH(job_ended);
		if (told & JOB_WAITER)
			futex_wake(&job->state, INT32_MAX);
		if (told & JOB_WATCHED && watch_end(watch)) {
			FK_CRASH(job_watched);
			futex_wake(&watch->ended, INT32_MAX);
		}
		woke = true;
	}
	FK_CRASH(job_told);
	if (group && group_done(group, 1)) {
		FK_CRASH(job_counted);
		futex_wake(&group->word, INT32_MAX);
		woke = true;
	}
	FK_CRASH(job_woken);
	job_free_row(pool, end->row, end->generation);
	FK_CRASH(job_freed);
	clients_put(pool, client);
	return woke;
}

/* Counts a job that ends on this worker for the task that its row names, if it began one. */
static void job_count_task(struct worker *w, uint32_t row, uint64_t run_ns)
{
	uint32_t task = ledger_row(w->pool->arena, row).task;
	struct board_load *load;

	if (!task || task > LIMIT_TASKS)
		return;
	load = &w->pool->board->loads[w->index][task - 1];
	times_add(&load->jobs, 1);
	times_add(&load->run_ns, run_ns);
}

void job_end(struct worker *w, struct root *root, uint32_t outcome, int32_t code)
{
	bool begun = ledger_row(w->pool->arena, root->row).task;
	uint64_t now = clock_ns();
	struct job_end end = {
		.row = root->row,
		.generation = root->generation,
		.outcome = outcome,
		.code = code,
		.worker = w->index,
		.drained_ns = root->drained_ns,
		.started_ns = begun ? root->started_ns : now,
		.ended_ns = begun ? max(now, root->started_ns + 1) : now,
	};

	intake_account(w, WORKER_NO_JOB, true, end.ended_ns);
	job_count_task(w, root->row, end.ended_ns - end.started_ns);
	trace_job_end(w, job_slot(root), root->row, outcome, code, end.ended_ns - end.started_ns);
	if (outcome == JOB_DONE)
		COUNT(w, jobs_done);
	else
		COUNT(w, jobs_failed);
	/* Waking takes longer with more waiters: do not charge that to the next job. */
	if (job_end_row(root->pool, &end))
		w->job.since = clock_ns();
	worker_mark_job(w, WORKER_NO_JOB);
}

void job_drop(struct pool *pool, uint32_t row, uint32_t outcome, int32_t code)
{
	struct job *job = &clients_of(pool, row)->jobs[row % pool->jobs_max];
	uint64_t now = clock_ns();
	struct job_end end = {
		.row = row,
		.generation = ledger_row(pool->arena, row).generation,
		.outcome = outcome,
		.code = code,
		.worker = UINT32_MAX,
		.drained_ns = load_relaxed(&job->drained_ns),
		.started_ns = now,
		.ended_ns = now,
	};

	FK_CRASH(job_dropping);
	/* Relaxed: a statistic. */
	add_relaxed(&pool->board->counters[BOARD_POOL].jobs_dropped, 1);
	(void)job_end_row(pool, &end);
}
