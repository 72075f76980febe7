/* SPDX-License-Identifier: MIT */
/*
 * root.c - a job as the pool runs it
 *
 * WHAT IT IS
 *   The root frame of a job: it stands at the bottom of a stack, holds what was taken out of the
 *   job's record (record.h) and the result, and is the parent that the exported task is called by.
 *   When the task returns, by C or through fk_rt_finish(), the job gets its outcome.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   root_run() and the root's resume: workers. root_cancel(): the channel's thread.
 *   root_is_over(): the dispatcher. root_drop(): who has the row in hand, on any thread.
 *
 * INVARIANTS
 *   I1. The row goes QUEUED -> RUNNING -> FINISHING -> FREE; the record's outcome is exchanged in
 *       between the last two. From RUNNING it goes to COPYING first where copies of buffers are to
 *       be written back (shm/ledger.h, I6). A job that is cancelled, late, or whose client is gone
 *       while it waits in a queue goes QUEUED -> FINISHING: whoever took it out of the queue has it
 *       in hand, and ends it (root_drop()).
 *   I2. A wish that a job ends is not lost, wherever the job is. The wish is written first, then
 *       the row is looked at. Not QUEUED yet: who accepts it looks at the mark afterwards
 *       (drain_admit()). In a queue: it is cut out. In hand, on its way to or from a queue or in
 *       a root deque: the dispatcher looks again (deadline_watch()); by then it is in a queue,
 *       which it comes back to if its worker does not start it (intake_recall()), or RUNNING.
 *       RUNNING: the verdict has it, or root_run() finds mark, deadline or client when it looks
 *       after verdict_begin(). The wish of a client outlives the pool, in the record (shm/job.h,
 *       I5): who accepts the job or finds it QUEUED makes it the mark (drain_admit()).
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The client: its segment stays mapped while active > 0; the result is written to memory that
 *   nobody reads. The pool: the manager finds the row in one of the states above.
 */
#include "daemon/jobs/root.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "daemon/jobs/abort.h"
#include "daemon/jobs/deadline.h"
#include "common/util.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/registry.h"
#include "daemon/core/stack.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/jobs/intake.h"
#include "daemon/sched/fair.h"
#include "daemon/sched/job_switch.h"
#include "shm/board.h"
#include "shm/group.h"
#include "shm/job.h"
#include "shm/limits.h"
#include "shm/watch.h"
#include "daemon/core/profile.h"
#include "daemon/jobs/record.h"
#include "daemon/engine/strand.h"
#include "daemon/host/job_times.h"
#include "daemon/core/trace.h"
#include "daemon/core/verdict.h"
#include "daemon/core/verdict_word.h"
#include "shm/fence.h"
#include "shm/futex.h"
#include "shm/ledger.h"

struct root {
	struct fk_frame fk;
	struct pool *pool;
	struct registry_client *client;
	struct job *job;
	uint32_t row;
	uint32_t generation;
	uint64_t drained_ns;
	uint64_t started_ns;
	struct record record; /* from its record_load() on */
};

static struct fk_frame *root_resume(struct fk_worker *fk, struct fk_frame *frame);

/* Its client's. */
static uint32_t root_slot(const struct root *root)
{
	return registry_slot(&root->pool->registry, root->client);
}

static const struct fk_task root_task = { "(root)", root_resume, NULL, NULL, sizeof(struct root) };

/* What a job ends with. */
struct root_end {
	uint32_t row;
	uint32_t generation;
	uint32_t outcome;
	int32_t code;
	uint32_t worker; /* that ran it, UINT32_MAX if none did */
	uint64_t drained_ns;
	uint64_t started_ns;
	uint64_t ended_ns;
};

/* Who has the row in hand. */
static void root_set_row(struct pool *pool, uint32_t at, uint32_t state, uint32_t outcome,
			 uint32_t worker)
{
	struct ledger_row row = ledger_row(pool->arena, at);

	row.state = state;
	row.outcome = outcome;
	row.worker = worker;
	/* ORDER ledger/row [L2]: release, what led to the state comes before it. While the pool
	 * lives others look at it only to find out what else to look at; the manager reads it
	 * after. */
	atomic_store_explicit(&arena_rows(pool->arena)[at], ledger_pack(row), memory_order_release);
}

/* Who has the row in hand, before any code of the task runs: for blame. */
static void root_name_task(struct pool *pool, uint32_t at, uint32_t task)
{
	struct ledger_row row = ledger_row(pool->arena, at);

	row.task = task + 1;
	/* Relaxed: the state is as it was. */
	store_relaxed(&arena_rows(pool->arena)[at], ledger_pack(row));
}

/* FINISHING -> FREE, unless the client has seen the outcome, submitted the record again, and that
 * was accepted in the meantime (drain_accept()). */
static void root_free_row(struct pool *pool, uint32_t at, uint32_t generation)
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

bool root_is_cancelled(struct pool *pool, uint32_t row, uint32_t generation)
{
	return cancel_is_marked(&pool->rows.cancels[row], generation);
}

/* What its tenant is told of a job that ends; its row is FINISHING. */
static void root_count_time(struct pool *pool, uint32_t tenant, const struct root_end *end)
{
	if (end->worker == UINT32_MAX)
		/* Relaxed: a statistic. */
		add_relaxed(&pool->board->tenants[tenant].dropped, 1);
	else
		times_count(&pool->board->times[tenant][end->worker],
			    end->started_ns - end->drained_ns, end->ended_ns - end->started_ns,
			    times_id(end->row, end->generation));
}

/* Gives the job its outcome; the row is in the caller's hand. True if it has woken who waited. */
static bool root_finish(struct pool *pool, const struct root_end *end)
{
	struct registry_client *client = registry_of(pool, end->row);
	struct job *job = &client->jobs[end->row % pool->max_jobs];
	struct board_client *board = &pool->board->clients[registry_slot(&pool->registry, client)];
	struct watch *watch = watch_of(client->groups);
	struct group *group;
	uint32_t told;
	bool woke = false;

	/* ORDER job/reuse [J2]: release, as in root_done(). */
	fence_release();
	store_relaxed(&job->code, end->code);
	store_relaxed(&job->signo, 0);
	store_relaxed(&job->worker, end->worker);
	store_relaxed(&job->started_ns, end->started_ns);
	store_relaxed(&job->ended_ns, end->ended_ns);
	root_set_row(pool, end->row, LEDGER_FINISHING, end->outcome, end->worker);
	FK_CRASH(root_finishing);
	root_count_time(pool, client->tenant, end);
	FK_CRASH(root_timed);
	deadline_remove(pool, end->row);

	add_relaxed(&board->jobs, 1);
	add_relaxed(&board->run_ns, end->ended_ns - end->started_ns);
	if (end->started_ns > end->drained_ns)
		add_relaxed(&board->wait_ns, end->started_ns - end->drained_ns);
	if (end->outcome != JOB_DONE)
		add_relaxed(&board->failed, 1);
	group = group_of(client->groups, load_relaxed(&job->group));
	if (root_is_cancelled(pool, end->row, end->generation))
		store_relaxed(&pool->rows.cancels[end->row], 0);
	told = job_finish(job, end->generation, end->outcome);
	if (told) {
		FK_CRASH(root_ended);
		if (told & JOB_WAITER)
			futex_wake(&job->state, INT32_MAX);
		if (told & JOB_WATCHED && watch_end(watch)) {
			FK_CRASH(root_watched);
			futex_wake(&watch->ended, INT32_MAX);
		}
		woke = true;
	}
	FK_CRASH(root_told);
	if (group && group_done(group, 1)) {
		FK_CRASH(root_counted);
		futex_wake(&group->word, INT32_MAX);
		woke = true;
	}
	FK_CRASH(root_woken);
	root_free_row(pool, end->row, end->generation);
	FK_CRASH(root_freed);
	registry_put(pool, client);
	return woke;
}

/* A job ends here that began with the task that its row names, if it came to one. */
static void root_count_task(struct worker *w, uint32_t row, uint64_t run_ns)
{
	uint32_t task = ledger_row(w->pool->arena, row).task;
	struct board_load *load;

	if (!task || task > LIMIT_TASKS)
		return;
	load = &w->pool->board->loads[w->index][task - 1];
	times_add(&load->jobs, 1);
	times_add(&load->run_ns, run_ns);
}

/*
 * Gives a job that was started its outcome: the root is gone after it, and the worker runs none. A
 * job has run for 0 ns if and only if its task was not begun: its code is the pool's then.
 */
static void root_end(struct worker *w, struct root *root, uint32_t outcome, int32_t code)
{
	bool begun = ledger_row(w->pool->arena, root->row).task;
	uint64_t now = clock_ns();
	struct root_end end = {
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
	root_count_task(w, root->row, end.ended_ns - end.started_ns);
	trace_job_end(w, root_slot(root), root->row, outcome, code, end.ended_ns - end.started_ns);
	if (outcome == JOB_DONE)
		COUNT(w, jobs_done);
	else
		COUNT(w, jobs_failed);
	/* A wake takes as long as there are waiters: that is not the next job's time. */
	if (root_finish(root->pool, &end))
		w->job.since = clock_ns();
	worker_set_job(w, WORKER_NO_JOB);
}

void root_drop(struct pool *pool, uint32_t row, uint32_t outcome, int32_t code)
{
	struct job *job = &registry_of(pool, row)->jobs[row % pool->max_jobs];
	uint64_t now = clock_ns();
	struct root_end end = {
		.row = row,
		.generation = ledger_row(pool->arena, row).generation,
		.outcome = outcome,
		.code = code,
		.worker = UINT32_MAX,
		.drained_ns = load_relaxed(&job->drained_ns),
		.started_ns = now,
		.ended_ns = now,
	};

	FK_CRASH(root_dropping);
	/* Relaxed: a statistic. */
	add_relaxed(&pool->board->counters[BOARD_POOL].dropped, 1);
	(void)root_finish(pool, &end);
}

/* Copies of buffers become the client's. The job ends as DONE: no verdict comes to it any more. */
static void root_write_back(struct worker *w, struct root *root)
{
	root_set_row(root->pool, root->row, LEDGER_COPYING, 0, w->index);
	/* What a pool has written when it is killed is what stands before that place in the program
	 * (and the manager waits for its end): so the compiler alone is to be told. */
	fence_signal();
	record_write_back(&root->record);
	FK_CRASH(root_copied);
}

/* The task has returned: the result goes into the record. */
static void root_done(struct worker *w, struct root *root)
{
	struct verdict verdict = verdict_get(root->pool, root->row);

	if (root->pool->mode.profile)
		profile_end(root->pool->mode.profile, &root->fk, !verdict.outcome,
			    &root->pool->board->profile);
	stack_trim(&w->engine.cache, w->engine.top);
	if (!verdict.outcome) {
		if (record_has_changes(&root->record))
			root_write_back(w, root);
		/* ORDER job/reuse [J2]: release, this job was published before its result stands
		 * there. Pairs with client_end_in_table(). */
		fence_release();
		memcpy(root->job->result, root->record.result,
		       root->record.task->signature.results_size);
	}
	record_unload(&root->record, &w->engine.cache);
	root_end(w, root, verdict.outcome ? verdict.outcome : JOB_DONE, verdict.code);
}

static struct fk_frame *root_resume(struct fk_worker *fk, struct fk_frame *frame)
{
	struct root *root = (struct root *)frame;

	/* It stands at the bottom of the worker's stack, which is empty now. */
	fk->sp = (char *)root;
	root_done(worker_of(fk), root);
	return NULL;
}

void root_run(struct worker *w, uint32_t row)
{
	struct pool *pool = w->pool;
	struct registry_client *client = registry_of(pool, row);
	struct root *root = (struct root *)w->engine.fk.sp;
	const struct fk_export *export;
	struct verdict verdict;
	bool over;
	int r;

	_Static_assert(sizeof(struct root) + sizeof(struct fk_stack) + RECORD_ROOM + FK_SLACK +
				       1024 <=
			       STACK_MIN,
		       "a root, copies and first frames fit on the first stacklet");
	memset(root, 0, offsetof(struct root, record));
	root->pool = pool;
	root->client = client;
	root->job = &client->jobs[row % pool->max_jobs];
	root->row = row;
	root->generation = ledger_row(pool->arena, row).generation;
	root->drained_ns = load_relaxed(&root->job->drained_ns);
	/* Right after another one: when that had ended, and who waited for it was woken. */
	root->started_ns = w->roots.next_ns ? w->roots.next_ns : clock_ns();
	w->roots.next_ns = 0;
	if (root->drained_ns > root->started_ns)
		root->drained_ns = root->started_ns;
	root->fk.task = &root_task;
	root->fk.slot = 0;
	fk_set_site(&root->fk, FK_PARTED);
	root->fk.job = row;
	root->fk.steals = 0;
	root->fk.stack = NULL;
	root->fk.parent = NULL;
	root->fk.top = (char *)(root + 1);
	store_relaxed(&root->fk.joins, 0);
	root_set_row(pool, row, LEDGER_RUNNING, 0, w->index);
	/* The board comes after the ledger. If the pool dies, the manager finds RUNNING what a
	 * client has seen run. */
	board_show_task(pool->board, row, UINT32_MAX);
	intake_account(w, row, false, root->started_ns);
	COUNT(w, roots);
	worker_set_job(w, row);
	trace_root(w, row, root->drained_ns);
	FK_CRASH(root_running);

	verdict_begin(pool, row, root->generation);
	FK_CRASH(root_begun);
	/* A client that is gone wants no answer any more.
	 * ORDER verdict/cancel [V1]: seq_cst, after verdict_begin(): registry_gone() stores the
	 * state before it looks at the rows. */
	if (atomic_load_explicit(&client->state, memory_order_seq_cst) != CLIENT_LIVE ||
	    job_is_unwanted(root->job, root->generation) ||
	    root_is_cancelled(pool, row, root->generation)) {
		root_end(w, root, JOB_CANCELLED, 0);
		return;
	}
	/* Or the dispatcher has seen to it since the verdict began, and forgotten it. */
	over = deadline_is_over(pool, row, root->generation, root->started_ns);
	verdict = verdict_get(pool, row);
	if (over || verdict.outcome) {
		root_end(w, root, verdict.outcome ? verdict.outcome : JOB_EXPIRED, verdict.code);
		return;
	}
	r = fair_place(pool->fair, row) == FAIR_NOWHERE
		  ? -EINVAL
		  : record_load(&root->record, &pool->modules, &pool->permit, client, root->job,
				&w->engine.cache, &root->fk.top);
	/* That there is no memory for it now is not the record's fault. */
	if (r < 0 && r != -ENOMEM) {
		add_relaxed(&pool->board->clients[root_slot(root)].refused, 1);
		COUNT(w, refused);
	}
	if (r < 0) {
		root_end(w, root, JOB_FAILED, r);
		return;
	}
	export = root->record.task->export;
	FK_CRASH(root_loaded);
	root_name_task(pool, row, root->record.index);
	board_show_task(pool->board, row, root->record.index);
	trace_task(w, root_slot(root), row, root->started_ns - root->drained_ns);
	/* With nothing below there is no frame that would want to be told. */
	if (w->engine.fk.bottom == w->engine.frames.entries)
		w->engine.fk.unwinds = 0;
	w->engine.base = &root->fk;
	w->engine.fk.sp = root->fk.top;
	w->engine.fk.slot = (uintptr_t)root->record.result | FK_CALLED;
	w->engine.fk.child = export->task;
	if (pool->mode.profile)
		profile_begin(pool->mode.profile, &root->fk);
	/* In a long leaf of its own, what waits below is to be had by others: strand_expose(). */
	fk_enter(&w->engine.fk, (uintptr_t)&root->fk);
	export->enter(&w->engine.fk, w->engine.fk.sp, root->record.result, root->record.args);
	fk_enter(&w->engine.fk, 0);
	w->engine.fk.sp = (char *)root;
	/* Here the strand was never left: the same worker, the same stack. */
	root_done(w, root);
}

/* Ends a job that waits in a queue. False: it is in hand. */
static bool root_forgo(struct pool *pool, uint32_t row, uint32_t generation, uint32_t outcome)
{
	struct fair *fair = pool->fair;
	struct ledger_row now;
	bool cut;

	fair_lock(fair);
	now = ledger_row(pool->arena, row);
	/* What is in a queue stays QUEUED as long as the lock is held. */
	cut = now.generation == generation && now.state == LEDGER_QUEUED && fair_cut(fair, row);
	fair_unlock(fair);
	if (cut)
		root_drop(pool, row, outcome, 0);
	return cut;
}

bool root_is_over(struct pool *pool, uint32_t row, uint32_t generation)
{
	struct ledger_row now = ledger_row(pool->arena, row);
	uint32_t outcome = root_is_cancelled(pool, row, generation) ? JOB_CANCELLED : JOB_EXPIRED;

	if (now.generation != generation)
		return true;
	if (now.state == LEDGER_QUEUED)
		return root_forgo(pool, row, generation, outcome);
	return now.state != LEDGER_RUNNING || verdict_set(pool, row, generation, outcome);
}

void root_cancel(struct pool *pool, uint32_t row, uint32_t generation)
{
	/* Relaxed: a row that is passed here and is of the generation before has the job in a ring
	 * still, or will never have it: the mark waits for that generation. */
	struct ledger_row now = ledger_row(pool->arena, row);
	bool queued = now.state == LEDGER_QUEUED || now.state == LEDGER_RUNNING;
	bool later = job_is_later(generation, now.generation), over = false;

	if (!later && !(queued && generation == now.generation))
		return;
	cancel_mark(&pool->rows.cancels[row], generation);
	FK_CRASH(root_cancelling);
	(void)verdict_set(pool, row, generation, JOB_CANCELLED);
	/* ORDER cancel/accept [V2]: seq_cst, after the mark. Pairs with drain_accept(), which
	 * makes the row QUEUED, and drain_admit(), which looks at the mark: one sees the other. */
	now = ledger_unpack(
		atomic_load_explicit(&arena_rows(pool->arena)[row], memory_order_seq_cst));
	if (now.generation != generation) {
		over = job_is_later(now.generation, generation);
	} else if (now.state == LEDGER_QUEUED) {
		if (!root_forgo(pool, row, generation, JOB_CANCELLED))
			deadline_watch(pool, row, generation);
	} else {
		over = now.state != LEDGER_RUNNING;
	}
	/* It ended before the mark was there: no later job of this row is to find it. */
	if (over)
		atomic_compare_exchange_strong_explicit(&pool->rows.cancels[row], &generation, 0,
							memory_order_relaxed, memory_order_relaxed);
}
