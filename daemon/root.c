/* SPDX-License-Identifier: MIT */
/*
 * daemon/root.c - a job as the pool runs it
 *
 * WHAT IT IS
 *   The root frame of a job: it stands at the bottom of a stack, holds the arguments that were
 *   copied in and the result, and is the parent that the exported task is called by. When the task
 *   returns, by C or through fk_rt_finish(), the job gets its outcome.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   root_run() and the root's resume: workers. root_cancel(): the channel's thread.
 *
 * INVARIANTS
 *   I1. Every word of the record is loaded once, checked, and used from the copy.
 *   I2. The row goes QUEUED -> RUNNING -> FINISHING -> FREE; the record's outcome is exchanged in
 *       between the last two.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The client: its segment stays mapped while active > 0; the result is written to memory that
 *   nobody reads. The pool: the manager finds the row in one of the states above.
 */
#include "daemon/root.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "daemon/deadline.h"
#include "daemon/pool.h"
#include "daemon/profile.h"
#include "daemon/strand.h"
#include "daemon/verdict.h"
#include "shm/futex.h"
#include "shm/ref.h"

struct root {
	struct fk_frame fk;
	struct pool *pool;
	struct intake_client *client;
	struct job *job;
	uint32_t row;
	uint32_t generation;
	uint32_t task;
	uint32_t deadline;    /* its place among the pool's deadlines; under their lock */
	uint64_t deadline_ns; /* 0: none */
	uint64_t drained_ns;
	uint64_t started_ns;
	/* arguments as the task sees them, and what to copy back and free */
	struct job_ref refs[SIGNATURE_MAX_ARGS];
	uint64_t args[LIMIT_ARGS / 8];
	uint64_t result[LIMIT_RESULT / 8];
};

static struct fk_frame *root_resume(struct fk_worker *fk, struct fk_frame *frame);

static const struct fk_task root_task = { "(root)", root_resume, NULL, NULL, sizeof(struct root) };

static const struct module_task *root_module_task(struct root *root)
{
	return &root->pool->modules.tasks[root->task];
}

/* The task works on the client's own memory. */
static bool root_shares_buffers(const struct module_task *task)
{
	return task->export->flags & FK_EXPORT_CHANGING_BUFFERS;
}

/* Turns one reference into what the task sees. */
static int root_copy_in(struct root *root, const struct signature_item *item, struct job_ref *ref,
			bool share)
{
	struct intake_client *client = root->client;
	uint64_t align = item->type == SIGNATURE_STR ? 1 : 8;
	struct fk_buf *buf = (struct fk_buf *)((char *)root->args + item->offset);
	void *from = ref_resolve(client->heap, client->heap_size, *ref, align);

	buf->data = NULL;
	buf->size = ref->size;
	if (!from)
		return -EFAULT;
	if (share && item->type != SIGNATURE_STR) {
		buf->data = from;
		return 0;
	}
	buf->data = malloc(ref->size + 1);
	if (!buf->data)
		return -ENOMEM;
	memcpy(buf->data, from, ref->size);
	((char *)buf->data)[ref->size] = '\0';
	return 0;
}

/* Frees copies; writes those that the task may have changed back first, if it did its work. */
static void root_copy_out(struct root *root, bool done)
{
	const struct module_task *task = root_module_task(root);

	for (uint32_t i = 0; i < task->signature.n_args; i++) {
		const struct signature_item *item = &task->signature.args[i];
		struct fk_buf *buf = (struct fk_buf *)((char *)root->args + item->offset);

		if (!signature_is_reference(item->type) || !buf->data)
			continue;
		if (item->type != SIGNATURE_STR && root_shares_buffers(task))
			continue;
		if (done && item->type == SIGNATURE_IOBUF) {
			void *to = ref_resolve(root->client->heap, root->client->heap_size,
					       root->refs[i], 8);

			if (to)
				memcpy(to, buf->data, root->refs[i].size);
		}
		free(buf->data);
		buf->data = NULL;
	}
}

/* Checks the record and copies the arguments in. Returns 0 or the code that the job fails with. */
static int root_load(struct root *root)
{
	struct job *job = root->job;
	struct modules *modules = &root->pool->modules;
	uint32_t index = atomic_load_explicit(&job->task, memory_order_relaxed);
	uint32_t args_size = atomic_load_explicit(&job->args_size, memory_order_relaxed);
	uint64_t hash = atomic_load_explicit(&job->task_hash, memory_order_relaxed);
	const struct module_task *task;
	int r = 0;

	if (index >= modules->n_tasks)
		return -ENOENT;
	task = &modules->tasks[index];
	if (task->hash != hash)
		return -ESTALE;
	if (args_size != task->signature.args_size)
		return -EINVAL;
	root->task = index;
	memcpy(root->args, job->args, args_size);
	/* All references first: a failure in between leaves only NULL or what is to be freed. */
	for (uint32_t i = 0; i < task->signature.n_args; i++) {
		const struct signature_item *item = &task->signature.args[i];

		if (!signature_is_reference(item->type))
			continue;
		memcpy(&root->refs[i], (char *)root->args + item->offset, sizeof(root->refs[i]));
		memset((char *)root->args + item->offset, 0, sizeof(struct fk_buf));
	}
	for (uint32_t i = 0; i < task->signature.n_args && r == 0; i++)
		if (signature_is_reference(task->signature.args[i].type))
			r = root_copy_in(root, &task->signature.args[i], &root->refs[i],
					 root_shares_buffers(task));
	if (r < 0)
		root_copy_out(root, false);
	return r;
}

static void root_row(struct root *root, uint32_t state, uint32_t outcome, uint32_t worker)
{
	_Atomic uint64_t *word = &arena_rows(root->pool->arena)[root->row];
	struct ledger_row row = ledger_unpack(atomic_load_explicit(word, memory_order_relaxed));

	row.state = state;
	row.outcome = outcome;
	row.worker = worker;
	/* ORDER ledger/row [L2]: release, what led to the state comes before it. Nobody reads it
	 * while the pool lives but who starts or ends the job; the manager reads it after. */
	atomic_store_explicit(word, ledger_pack(row), memory_order_release);
}

/* FINISHING -> FREE, unless the client has seen the outcome, submitted the record again, and that
 * was accepted in the meantime (intake_accept()). */
static void root_row_free(struct root *root)
{
	_Atomic uint64_t *word = &arena_rows(root->pool->arena)[root->row];
	uint64_t finishing = atomic_load_explicit(word, memory_order_relaxed);
	struct ledger_row row = ledger_unpack(finishing);

	if (row.generation != root->generation || row.state != LEDGER_FINISHING)
		return;
	row = (struct ledger_row){ .generation = root->generation, .state = LEDGER_FREE };
	atomic_compare_exchange_strong_explicit(word, &finishing, ledger_pack(row),
						memory_order_relaxed, memory_order_relaxed);
}

/* Its client has cancelled it. */
static bool root_is_cancelled(const struct root *root)
{
	/* ORDER verdict/cancel [V1]: seq_cst, after verdict_begin(). Pairs with root_cancel(). */
	return atomic_load_explicit(&root->pool->cancels[root->row], memory_order_seq_cst) ==
	       root->generation;
}

/* Its deadline has passed before it was started. */
static bool root_is_late(const struct root *root)
{
	return root->deadline_ns && root->started_ns >= root->deadline_ns;
}

/* Gives the job its outcome. The root is gone after it. */
static void root_end(struct worker *w, struct root *root, uint32_t outcome, int32_t code)
{
	struct pool *pool = root->pool;
	struct intake_client *client = root->client;
	struct job *job = root->job;
	struct board_client *board = &pool->board->clients[client - pool->intake.clients];
	uint64_t now = clock_ns();
	struct group *group;

	intake_account(w, WORKER_NO_JOB, true, now);
	atomic_store_explicit(&job->code, code, memory_order_relaxed);
	atomic_store_explicit(&job->signo, 0, memory_order_relaxed);
	atomic_store_explicit(&job->worker, w->index, memory_order_relaxed);
	atomic_store_explicit(&job->started_ns, root->started_ns, memory_order_relaxed);
	atomic_store_explicit(&job->ended_ns, now, memory_order_relaxed);
	root_row(root, LEDGER_FINISHING, outcome, w->index);
	if (root->deadline_ns)
		deadline_remove(pool, &root->deadline);

	atomic_fetch_add_explicit(&board->jobs, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&board->run_ns, now - root->started_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&board->wait_ns, root->started_ns - root->drained_ns,
				  memory_order_relaxed);
	if (outcome == JOB_DONE) {
		COUNT(w, jobs_done);
	} else {
		COUNT(w, jobs_failed);
		atomic_fetch_add_explicit(&board->failed, 1, memory_order_relaxed);
	}
	group = group_of(client_segment_groups(client->jobs, client->n_jobs),
			 atomic_load_explicit(&job->group, memory_order_relaxed));
	if (root_is_cancelled(root))
		atomic_store_explicit(&pool->cancels[root->row], 0, memory_order_relaxed);
	if (job_finish(job, root->generation, outcome))
		futex_wake(&job->state, INT32_MAX);
	if (group && group_done(group, 1))
		futex_wake(&group->word, INT32_MAX);
	root_row_free(root);
	intake_put(pool, client);
}

/* The task has returned: the result goes into the record. */
static void root_done(struct worker *w, struct root *root)
{
	const struct module_task *task = root_module_task(root);
	struct verdict verdict = verdict_get(root->pool, root->row);

	if (root->pool->profile)
		profile_end(root->pool->profile, &root->fk, !verdict.outcome,
			    &root->pool->board->profile);
	root_copy_out(root, !verdict.outcome);
	if (!verdict.outcome)
		memcpy(root->job->result, root->result, task->signature.results_size);
	root_end(w, root, verdict.outcome ? verdict.outcome : JOB_DONE, verdict.code);
	worker_set_job(w, WORKER_NO_JOB);
}

static struct fk_frame *root_resume(struct fk_worker *fk, struct fk_frame *frame)
{
	struct root *root = (struct root *)frame;

	/* It stands at the bottom of the worker's stack, which is empty now. */
	fk->sp = (char *)root;
	root_done(worker_of(fk), root);
	return NULL;
}

/*
 * Where the job is to start (shm/job.h, PLACES). Sets *ret_to to the worker that it has to be
 * handed to, or NULL if it may start here. Returns 0, or -EINVAL if there is no such place.
 */
static int root_place(struct worker *w, struct job *job, struct worker **ret_to)
{
	uint32_t place = w->placed ? 0 : atomic_load_explicit(&job->place, memory_order_relaxed);
	uint32_t index = place & JOB_PLACE_INDEX_MASK;
	struct worker *to = w;

	w->placed = false;
	*ret_to = NULL;
	if (!place)
		return 0;
	if (job_place_kind(place) == JOB_PLACE_WORKER)
		to = pool_worker_at(w->pool, index);
	else if (job_place_kind(place) == JOB_PLACE_NODE)
		to = pool_worker_on(w->pool, w, index);
	else if (place & JOB_PLACE_STRICT || index || job_place_kind(place))
		to = NULL;
	if (!to)
		return -EINVAL;
	if (to != w && place & JOB_PLACE_STRICT)
		*ret_to = to;
	return 0;
}

void root_run(struct worker *w, uint32_t row)
{
	struct pool *pool = w->pool;
	struct intake_client *client = &pool->intake.clients[row / pool->arena->max_jobs];
	struct root *root = (struct root *)w->fk.sp;
	const struct module_task *task;
	struct worker *to;
	int r = root_place(w, &client->jobs[row % pool->arena->max_jobs], &to);

	if (to) {
		worker_send(w, to, (struct inbox_item){ .row = row });
		return;
	}
	_Static_assert(sizeof(struct root) + sizeof(struct fk_stack) + 1024 <= STACK_MIN,
		       "a root and its first frames fit on the first stacklet");
	memset(root, 0, offsetof(struct root, args));
	root->pool = pool;
	root->client = client;
	root->job = &client->jobs[row % pool->arena->max_jobs];
	root->row = row;
	root->generation = ledger_unpack(atomic_load_explicit(&arena_rows(pool->arena)[row],
							      memory_order_relaxed))
				   .generation;
	root->drained_ns = atomic_load_explicit(&root->job->drained_ns, memory_order_relaxed);
	root->started_ns = clock_ns();
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
	atomic_store_explicit(&root->fk.joins, 0, memory_order_relaxed);
	intake_account(w, row, false, root->started_ns);
	worker_set_job(w, row);
	root_row(root, LEDGER_RUNNING, 0, w->index);

	verdict_begin(pool, row, root->generation);
	root->deadline = DEADLINE_NONE;
	root->deadline_ns = atomic_load_explicit(&root->job->deadline_ns, memory_order_relaxed);
	/* A client that is gone wants no answer any more.
	 * ORDER verdict/cancel [V1]: seq_cst, after verdict_begin(): intake_gone() stores the state
	 * before it looks at the rows. */
	if (atomic_load_explicit(&client->state, memory_order_seq_cst) != CLIENT_LIVE ||
	    root_is_cancelled(root)) {
		root_end(w, root, JOB_CANCELLED, 0);
		worker_set_job(w, WORKER_NO_JOB);
		return;
	}
	if (root_is_late(root)) {
		root_end(w, root, JOB_EXPIRED, 0);
		worker_set_job(w, WORKER_NO_JOB);
		return;
	}
	if (r == 0)
		r = root_load(root);
	if (r < 0) {
		atomic_fetch_add_explicit(
			&pool->board->clients[client - pool->intake.clients].refused, 1,
			memory_order_relaxed);
		COUNT(w, refused);
		root_end(w, root, JOB_FAILED, r);
		worker_set_job(w, WORKER_NO_JOB);
		return;
	}
	task = root_module_task(root);
	atomic_store_explicit(&w->ledger->task, root->task, memory_order_relaxed);
	if (root->deadline_ns)
		deadline_add(pool, row, root->generation, root->deadline_ns, &root->deadline);
	/* With nothing below there is no frame that would want to be told. */
	if (w->fk.bottom == w->frames.entries)
		w->fk.unwinds = 0;
	w->base = &root->fk;
	w->fk.sp = root->fk.top;
	w->fk.slot = (uintptr_t)root->result | FK_CALLED;
	w->fk.child = task->export->task;
	if (pool->profile)
		profile_begin(pool->profile, &root->fk);
	task->export->enter(&w->fk, w->fk.sp, root->result, root->args);
	w->fk.sp = (char *)root;
	/* Here the strand was never left: the same worker, the same stack. */
	root_done(w, root);
}

void root_cancel(struct pool *pool, uint32_t row, uint32_t generation)
{
	/* Relaxed: best effort. A row that is passed here and is of the generation before has the
	 * job in a ring still, or will never have it: the mark waits for that generation. */
	struct ledger_row now = ledger_unpack(
		atomic_load_explicit(&arena_rows(pool->arena)[row], memory_order_relaxed));
	bool queued = now.state == LEDGER_QUEUED || now.state == LEDGER_RUNNING;
	bool later = generation != now.generation &&
		     ((generation - now.generation) & JOB_GEN_MASK) <= JOB_GEN_MASK / 2;

	if (!later && !(queued && generation == now.generation))
		return;
	/* ORDER verdict/cancel [V1]: seq_cst, before the look at the verdict. Pairs with
	 * root_run(), which begins the verdict and looks at the mark: one sees the other. */
	atomic_store_explicit(&pool->cancels[row], generation, memory_order_seq_cst);
	verdict_set(pool, row, generation, JOB_CANCELLED);
}
