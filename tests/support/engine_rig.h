/* SPDX-License-Identifier: MIT */
/*
 * engine_rig.h - the engine alone: daemon/core, engine and fiber, without the service above them
 *
 * The roots of a test are in an array. Two threads are its workers: they take roots, and steal from
 * each other. A process runs one array.
 */
#ifndef TESTS_ENGINE_RIG_H
#define TESTS_ENGINE_RIG_H

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include <forkd/task.h>

#include "common/options.h"
#include "common/relaxed.h"
#include "daemon/core/hooks.h"
#include "daemon/core/stacklet.h"
#include "daemon/core/job_abort.h"
#include "daemon/core/abort_word.h"
#include "daemon/core/worker.h"
#include "daemon/engine/slow_path.h"
#include "daemon/fiber/cancel.h"
#include "daemon/fiber/fiber.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/host/topology.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "tests/support/check_unit.h"

#define WORKERS 2u
#define ROOTS	32u
#define ENTRIES 4096u
#define STACKS	(UINT64_C(256) << 20) /* bytes */

/* A job: a task with one argument. Its row is its index. */
struct job_root {
	const struct fk_task *task;
	void (*enter)(struct fk_worker *w, char *sp, void *result, const void *args);
	int64_t arg;
	int64_t result;
	int64_t order; /* in which it has ended, from 1 */
	struct verdict verdict;
};

#define ROOT(name, n) ((struct job_root){ &name##__task, name##__enter, n, 0, 0, { 0, 0 } })

/* Its frame, on the stack of the worker that has started it. */
struct root_frame {
	struct fk_frame fk;
	struct job_root *root;
};

static const struct options options = { .blocking_max = 1 };
static struct pool pool;
static struct fibers fibers;
static struct worker workers[WORKERS];
static struct fk_entry entries[WORKERS][ENTRIES];
static struct stack_arena stacks;
static struct job_root roots[ROOTS];
static _Atomic uint32_t n_roots, n_taken, n_ended, n_stolen, n_preempted;

/* ------------------------------------------------------------------------ the hooks */

#pragma GCC diagnostic ignored "-Wunused-parameter"

static bool wake_one(struct pool *p, struct worker *waker)
{
	return true; /* no worker sleeps */
}

static void wake(struct pool *p, uint32_t index, struct worker *waker)
{
}

static void set_job(struct worker *w, uint32_t row)
{
	w->job.row = row;
	stack_bill(&w->engine.cache, row == WORKER_NO_JOB ? NULL : &pool.rows.stack_bytes[row],
		   STACKS);
	atomic_store_explicit(&w->job.ledger->job, row, memory_order_release);
}

/* The safepoint: a root that is not taken goes before the one that runs. */
static bool preempt(struct worker *w)
{
	if (atomic_load(&n_taken) == atomic_load(&n_roots))
		return false;
	atomic_fetch_add(&n_preempted, 1);
	return true;
}

static uint32_t turn(struct worker *w, const uint32_t *rows, uint32_t n, uint64_t not_before)
{
	return w->job.row;
}

static void fail_job(struct worker *w, int code)
{
	_Atomic uint64_t *word = &pool.rows.aborts[w->job.row];

	(void)abort_word_put(word, load_relaxed(word), code, JOB_FAILED);
	for (uint32_t i = 0; i < WORKERS; i++)
		worker_ask(&workers[i]);
	fibers_cancel(&pool, w->job.row);
}

static void charge(struct pool *p, uint32_t row, uint64_t ns)
{
}

static bool hang_is_reached(struct pool *p, uint64_t *held)
{
	return false;
}

static void preempt_by(struct worker *w, uint64_t at, uint64_t now)
{
}

static void hang_expect(struct pool *p)
{
}

static const struct pool_hooks hooks = {
	.wake_one = wake_one,
	.wake = wake,
	.set_job = set_job,
	.preempt = preempt,
	.turn = turn,
	.preempt_by = preempt_by,
	.fail_job = fail_job,
	.charge = charge,
	.hang_expect = hang_expect,
	.hang_is_reached = hang_is_reached,
};

/* ------------------------------------------------------------------------ the workers */

static void end_root(struct worker *w, struct root_frame *frame)
{
	struct job_root *root = frame->root;

	stack_trim(&w->engine.cache, w->engine.top);
	root->verdict = abort_get(&pool, w->job.row);
	set_job(w, WORKER_NO_JOB);
	root->order = atomic_fetch_add(&n_ended, 1) + 1;
}

static struct fk_frame *root_resume(struct fk_worker *fk, struct fk_frame *frame)
{
	fk->sp = (char *)frame;
	end_root(worker_of(fk), (struct root_frame *)frame);
	return NULL;
}

static const struct fk_task root_task = { "(root)", root_resume, NULL, NULL,
					  sizeof(struct root_frame) };

static bool run_root(struct worker *w)
{
	uint32_t row = atomic_load(&n_taken);
	struct root_frame *frame = (struct root_frame *)(void *)w->engine.fk.sp;
	struct job_root *root;

	do {
		if (row >= atomic_load(&n_roots))
			return false;
	} while (!atomic_compare_exchange_strong(&n_taken, &row, row + 1));
	root = &roots[row];
	memset(frame, 0, sizeof(*frame));
	frame->root = root;
	frame->fk.task = &root_task;
	frame->fk.job = row;
	frame->fk.top = (char *)(frame + 1);
	fk_set_site(&frame->fk, FK_PARTED);
	set_job(w, row);
	abort_word_begin(&pool.rows.aborts[row], 1);
	if (w->engine.fk.bottom == w->engine.frames.entries)
		w->engine.fk.unwinds = 0;
	w->engine.job_base = w->engine.fk.bottom;
	w->engine.base = &frame->fk;
	w->engine.fk.sp = frame->fk.top;
	w->engine.fk.slot = (uintptr_t)&root->result | FK_CALLED;
	w->engine.fk.child = root->task;
	fk_enter(&w->engine.fk, (uintptr_t)&frame->fk);
	root->enter(&w->engine.fk, w->engine.fk.sp, &root->result, &root->arg);
	fk_enter(&w->engine.fk, 0);
	w->engine.fk.sp = (char *)frame;
	end_root(w, frame);
	return true;
}

static struct fk_frame *steal(struct worker *w)
{
	uint64_t word, n;

	if (deque_steal(&workers[1 - w->index].engine.frames, &word, 1, &n) != DEQUE_STOLEN) {
		worker_ask(&workers[1 - w->index]);
		return NULL;
	}
	atomic_fetch_add(&n_stolen, 1);
	return (struct fk_frame *)(uintptr_t)word;
}

/* What is sent here, what a root goes before, its own frames, roots, and frames of the other. */
static struct fk_frame *find(struct worker *w, bool *ret_root)
{
	struct fk_frame *frame = inbox_pop(&w->inbox);
	bool root_first = w->roots.root_first;

	w->roots.root_first = false;
	if (!frame && root_first && strand_own_stack(w) && (*ret_root = run_root(w)))
		return NULL;
	if (!frame)
		frame = strand_pop_own(w);
	if (frame)
		return frame;
	set_job(w, WORKER_NO_JOB);
	if (strand_own_stack(w) && (*ret_root = run_root(w)))
		return NULL;
	return steal(w);
}

static void loop(struct worker *worker)
{
	(void)STRAND_SET(worker);
	for (;;) {
		struct worker *w = worker_self();
		struct fk_frame *frame = w->engine.unwind ? w->engine.unwind : w->engine.next;
		bool root = false;

		if (!frame) {
			if (atomic_load(&n_ended) == atomic_load(&n_roots))
				return;
			frame = find(w, &root);
			if (frame) {
				strand_adopt(w, frame);
				w->engine.job_base = w->engine.fk.bottom;
			}
		}
		if (frame)
			strand_run(w, frame);
		else if (!root)
			sched_yield();
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	char here;

	worker_set_self(w);
	w->engine.fk.cstack_limit = (uintptr_t)&here - WORKER_STACK_NEST;
	switch_adopt(&w->engine.loop);
	loop(w);
	switch_destroy(&w->engine.loop);
	return NULL;
}

static void *map(uint64_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	return memory;
}

/* Runs n roots of the array, and those that they add. */
static void run(uint32_t n)
{
	char *memory = map(STACKS);

	n_roots = n;
	pool.hooks = &hooks;
	pool.fibers = &fibers;
	pool.options = &options;
	pool.n_workers = WORKERS;
	pool.workers = workers;
	pool.n_groups = 1;
	pool.stacks = &stacks;
	pool.board = map(sizeof(struct board));
	pool.arena = map(arena_workers_offset(1, ROOTS));
	pool.rows.aborts = map(ROOTS * sizeof(*pool.rows.aborts));
	pool.rows.stack_bytes = map(ROOTS * sizeof(*pool.rows.stack_bytes));
	ck_assert_int_eq(topology_new("numa:1 core:2 pu:1", WORKERS, NULL, NULL, 0, &pool.topology),
			 0);
	ck_assert_int_eq(stack_arena_init(&stacks, memory, memory + STACKS), 0);
	for (uint32_t i = 0; i < WORKERS; i++) {
		struct worker *w = &workers[i];

		deque_init(&w->engine.frames, entries[i], ENTRIES);
		w->pool = &pool;
		w->index = i;
		w->board = &pool.board->workers[i];
		w->counters = &pool.board->counters[i];
		w->job.ledger = &pool.arena->workers[i];
		w->engine.fk.bottom = w->engine.fk.floor = w->engine.job_base = entries[i];
		w->engine.fk.end = entries[i] + ENTRIES;
		w->engine.stack_limit = 1; /* there is no stack yet */
		store_relaxed(&w->engine.fk.limit, 1);
		inbox_init(&w->inbox);
		stack_cache_init(&w->engine.cache, &stacks);
		set_job(w, WORKER_NO_JOB);
	}
	ck_assert_int_eq(fibers_init(&pool), 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	fibers_fini(&pool);
	topology_free(pool.topology);
}

#define COUNTED(name)                                                                              \
	(load_relaxed(&workers[0].counters->name) + load_relaxed(&workers[1].counters->name))

#endif
