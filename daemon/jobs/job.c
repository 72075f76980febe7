/* SPDX-License-Identifier: MIT */
/*
 * job.c - runs a job in the pool
 *
 * The root frame of a job is at the bottom of a stack. It holds the data taken from the job's
 * record (job_input.h) and the result, and is the parent of the exported task. When the task
 * returns, by C or through fk_rt_finish(), the job gets its outcome.
 *
 * Threads: job_run() and the root's resume: workers. job_end.c gives the outcome; job_cancel.c has
 * cancellation and deadlines.
 *
 * INVARIANTS
 *     I1. The row goes QUEUED -> RUNNING -> FINISHING -> FREE; the record's outcome is exchanged
 *         between the last two. If copies of buffers must be written back, it goes from RUNNING to
 *         COPYING first (shm/ledger.h, I6). A job that is cancelled, exceeds its deadline, or loses
 *         its client while it waits in a queue goes QUEUED -> FINISHING: the thread that removed it
 *         from the queue ends it (job_drop()).
 *     I2. A request to end a job is not lost, wherever the job is. The request is written first,
 *         then the row is read. Not QUEUED yet: the thread that accepts it reads the mark
 *         afterwards (drain_admit()). In a queue: it is removed. In hand, on its way to or from a
 *         queue or in a root deque: the dispatcher checks again (deadline_watch()). By then the job
 *         is in a queue, to which it returns if its worker does not start it (intake_recall()), or
 *         RUNNING. RUNNING: the request is in the verdict, or job_run() finds mark, deadline or
 *         client when it checks after abort_begin(). A client's request survives the pool, in the
 *         record (shm/job.h, I5): the thread that accepts the job or finds it QUEUED copies it to
 *         the mark (drain_admit()).
 *
 *   If the client dies: its segment stays mapped while active > 0; the result is written to memory
 *   that no process reads. If the pool dies: the manager finds the row in one of the states above.
 */
#include "daemon/jobs/job.h"

#include <errno.h>
#include <string.h>

#include <forkd/client.h>

#include "common/clock.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "daemon/jobs/deadline.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/clients.h"
#include "daemon/core/stacklet.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/jobs/job_end.h"
#include "daemon/sched/fair_queue.h"
#include "daemon/sched/job_switch.h"
#include "shm/board.h"
#include "shm/job.h"
#include "daemon/core/work_span.h"
#include "daemon/jobs/job_input.h"
#include "daemon/jobs/job_local.h"
#include "daemon/core/trace.h"
#include "daemon/core/job_abort.h"
#include "shm/fence.h"
#include "shm/ledger.h"

static struct fk_frame *job_resume(struct fk_worker *fk, struct fk_frame *frame);

static const struct fk_task job_task = { "(root)", job_resume, NULL, NULL, sizeof(struct root) };

/* Called before any code of the task runs, for crash reports. */
static void job_name_task(struct pool *pool, uint32_t at, uint32_t task)
{
	struct ledger_row row = ledger_row(pool->arena, at);

	row.task = task + 1;
	/* Relaxed: the state is unchanged. */
	store_relaxed(&arena_rows(pool->arena)[at], ledger_pack(row));
}

/* Writes copies of buffers back to the client. The job ends as DONE: it gets no verdict any
 * more. */
static void job_write_back(struct worker *w, struct root *root)
{
	job_set_row(root->pool, root->row, LEDGER_COPYING, 0, w->index);
	/* If the pool is killed, it has written all that precedes this point in the program (and
	 * the manager waits for its end): so a compiler fence is enough. */
	fence_signal();
	input_write_back(&root->record);
	FK_CRASH(job_copied);
}

/* The task has returned: stores the result in the record. */
static void job_done(struct worker *w, struct root *root)
{
	struct verdict verdict;

	job_locals_end(root->pool, root->row);
	verdict = abort_get(root->pool, root->row);
	if (root->pool->mode.profile)
		profile_end(root->pool->mode.profile, &root->fk, !verdict.outcome,
			    &root->pool->board->profile);
	stack_trim(&w->engine.cache, w->engine.top);
	if (!verdict.outcome) {
		if (input_has_changes(&root->record))
			job_write_back(w, root);
		/* ORDER job/reuse [J2]: release, this job was published before its result is
		 * stored. Pairs with client_end_in_table(). */
		fence_release();
		memcpy(root->job->result, root->record.result,
		       root->record.task->signature.results_size);
	}
	input_unload(&root->record, &w->engine.cache);
	job_end(w, root, verdict.outcome ? verdict.outcome : JOB_DONE, verdict.code);
}

static struct fk_frame *job_resume(struct fk_worker *fk, struct fk_frame *frame)
{
	struct root *root = (struct root *)frame;

	/* The root is at the bottom of the worker's stack, which is otherwise empty. */
	fk->sp = (char *)root;
	job_done(worker_of(fk), root);
	return NULL;
}

void job_run(struct worker *w, uint32_t row)
{
	struct pool *pool = w->pool;
	struct client_entry *client = clients_of(pool, row);
	struct root *root = (struct root *)w->engine.fk.sp;
	const struct fk_export *export;
	struct verdict verdict;
	bool over;
	int r;

	_Static_assert(sizeof(struct root) + sizeof(struct fk_stack) + INPUT_ROOM + FK_SLACK +
				       1024 <=
			       STACK_MIN,
		       "a root, copies and first frames fit on the first stacklet");
	memset(root, 0, offsetof(struct root, record));
	root->pool = pool;
	root->client = client;
	root->job = &client->jobs[row % pool->jobs_max];
	root->row = row;
	root->generation = ledger_row(pool->arena, row).generation;
	root->drained_ns = load_relaxed(&root->job->drained_ns);
	/* For a job right after another one: when that had ended, and its waiters were woken. */
	root->started_ns = w->roots.next_ns ? w->roots.next_ns : clock_ns();
	w->roots.next_ns = 0;
	if (root->drained_ns > root->started_ns)
		root->drained_ns = root->started_ns;
	root->fk.task = &job_task;
	root->fk.slot = 0;
	fk_set_site(&root->fk, FK_PARTED);
	root->fk.job = row;
	root->fk.steals = 0;
	root->fk.stack = NULL;
	root->fk.parent = NULL;
	root->fk.top = (char *)(root + 1);
	store_relaxed(&root->fk.joins, 0);
	job_set_row(pool, row, LEDGER_RUNNING, 0, w->index);
	/* The board is written after the ledger. If the pool dies, the manager finds RUNNING each
	 * job that a client has seen run. */
	board_show_task(pool->board, row, UINT32_MAX);
	intake_account(w, row, false, root->started_ns);
	COUNT(w, jobs_started);
	worker_mark_job(w, row);
	trace_root(w, row, root->drained_ns);
	FK_CRASH(job_running);

	abort_begin(pool, row, root->generation);
	FK_CRASH(job_begun);
	/* A client that has gone needs no result.
	 * ORDER verdict/cancel [V1]: seq_cst, after abort_begin(): clients_gone() stores the state
	 * before it reads the rows. */
	if (atomic_load_explicit(&client->state, memory_order_seq_cst) != CLIENT_LIVE ||
	    job_is_unwanted(root->job, root->generation) ||
	    job_is_cancelled(pool, row, root->generation)) {
		job_end(w, root, JOB_CANCELLED, 0);
		return;
	}
	/* Or the dispatcher has handled the deadline since abort_begin(), and removed it. */
	over = deadline_is_over(pool, row, root->generation, root->started_ns);
	verdict = abort_get(pool, row);
	if (over || verdict.outcome) {
		job_end(w, root, verdict.outcome ? verdict.outcome : JOB_EXPIRED, verdict.code);
		return;
	}
	r = fair_place(pool->fair, row) == FAIR_NOWHERE
		  ? -FK_E_PLACE
		  : input_load(&root->record, &pool->modules, &pool->permission, client, root->job,
			       &w->engine.cache, &root->fk.top);
	/* A lack of memory is not the record's fault. */
	if (r < 0 && r != -FK_E_COPIES) {
		add_relaxed(&pool->board->clients[job_slot(root)].refused, 1);
		COUNT(w, jobs_refused);
	}
	if (r < 0) {
		job_end(w, root, JOB_FAILED, r);
		return;
	}
	export = root->record.task->export;
	FK_CRASH(job_loaded);
	job_name_task(pool, row, root->record.index);
	board_show_task(pool->board, row, root->record.index);
	trace_task(w, job_slot(root), row, root->started_ns - root->drained_ns);
	/* If the deque is empty, no frame below needs FK_UNWIND. */
	if (w->engine.fk.bottom == w->engine.frames.entries)
		w->engine.fk.unwinds = 0;
	w->engine.base = &root->fk;
	w->engine.fk.sp = root->fk.top;
	w->engine.fk.slot = (uintptr_t)root->record.result | FK_CALLED;
	w->engine.fk.child = export->task;
	if (pool->mode.profile)
		profile_begin(pool->mode.profile, &root->fk);
	/* While the root task is a long leaf, thieves can take the entries below:
	 * strand_publish_from_signal(). */
	fk_enter(&w->engine.fk, (uintptr_t)&root->fk);
	export->enter(&w->engine.fk, w->engine.fk.sp, root->record.result, root->record.args);
	fk_enter(&w->engine.fk, 0);
	w->engine.fk.sp = (char *)root;
	/* Reached only if the strand was never left: the same worker, the same stack. */
	job_done(w, root);
}
