/* SPDX-License-Identifier: MIT */
/* The engine alone: daemon/core, engine and fiber, without sched, jobs, pool and manager. Two
 * workers take the root tasks of an array and steal from each other. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include <forkd/task.h>

#include "common/options.h"
#include "common/relaxed.h"
#include "daemon/core/abort_word.h"
#include "daemon/core/hooks.h"
#include "daemon/core/job_abort.h"
#include "daemon/core/preempt_request.h"
#include "daemon/core/worker.h"
#include "daemon/engine/nested.h"
#include "daemon/engine/slow_path.h"
#include "daemon/fiber/cancel.h"
#include "daemon/fiber/create.h"
#include "daemon/fiber/fiber.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/host/topology.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "tests/support/check_unit.h"
#include "tests/support/fiber_tree.h"
#include "tests/support/tasks.h"

#define WORKERS 2u
#define ROOTS	32u
#define ENTRIES 4096u

/* A root task with one argument. Its row is its index. */
struct job_root {
	const struct fk_task *task;
	void (*enter)(struct fk_worker *w, char *sp, void *result, const void *args);
	int64_t arg, result;
	int64_t order; /* position among the ended roots, from 1 */
	struct verdict verdict;
};

#define ROOT(name, n) ((struct job_root){ &name##__task, name##__enter, n, 0, 0, { 0, 0 } })

static struct worker workers[WORKERS];
static struct fk_entry entries[WORKERS][ENTRIES];
static _Alignas(4096) char memory[64 << 20];
static struct stack_arena stacks;
static struct job_root roots[ROOTS];
static _Atomic uint32_t n_roots, n_taken, n_ended, n_stolen, n_preempted;

static void wake(struct pool *p, uint32_t index, struct worker *waker)
{
	(void)p, (void)index, (void)waker; /* no worker sleeps */
}

static void set_job(struct worker *w, uint32_t row)
{
	w->job.row = row;
	atomic_store_explicit(&w->job.ledger->job, row, memory_order_release);
}

/* The safepoint: a root that has not started preempts the running one. */
static bool preempt(struct worker *w)
{
	(void)w;
	n_preempted++;
	return n_taken < n_roots;
}

static void fail_job(struct worker *w, int code)
{
	_Atomic uint64_t *word = &w->pool->rows.aborts[w->job.row];

	(void)abort_word_put(word, load_relaxed(word), code, JOB_FAILED);
	for (uint32_t i = 0; i < WORKERS; i++)
		worker_ask(&workers[i]);
	fibers_cancel(w->pool, w->job.row);
}

static struct pool pool = {
	.options = &(const struct options){ .blocking_max = 1 },
	.board = &(struct board){},
	.arena = &(struct arena){},
	.n_workers = WORKERS,
	.workers = workers,
	.n_groups = 1,
	/* Other hooks are not called: no fiber yields, and no root waits in a deque, blocks or
	 * hangs. */
	.hooks = &(const struct pool_hooks){ .wake = wake,
					     .set_job = set_job,
					     .preempt = preempt,
					     .fail_job = fail_job },
	.rows.aborts = (_Atomic uint64_t[ROOTS]){},
	.rows.stack_bytes = (_Atomic uint64_t[ROOTS]){},
	.fibers = &(struct fibers){},
};

/* Calls the root task when its frame begins. Once it has returned, the root ends. */
static struct fk_frame *root_resume(struct fk_worker *fk, struct fk_frame *frame)
{
	struct job_root *root = &roots[frame->job];

	if (!(fk_site(frame) & FK_SITE_MASK)) {
		fk_set_site(frame, FK_PARTED | 1);
		fk->sp = frame->top;
		fk->slot = (uintptr_t)&root->result | FK_CALLED;
		fk->child = root->task;
		root->enter(fk, fk->sp, &root->result, &root->arg);
	}
	fk->sp = (char *)frame;
	stack_trim(&worker_of(fk)->engine.cache, worker_of(fk)->engine.top);
	root->verdict = abort_get(&pool, frame->job);
	root->order = ++n_ended;
	return NULL;
}

static const struct fk_task root_task = { .name = "(root)", .resume = root_resume };

/* Puts the frame of the next root, as a suspended one, on the worker's empty stack. Returns it. */
static struct fk_frame *next_root(struct worker *w)
{
	uint32_t row = n_taken < n_roots ? n_taken++ : ROOTS;
	struct fk_frame *frame;

	if (row >= n_roots)
		return NULL;
	w->roots.root_first = false;
	ck_assert(strand_own_stack(w));
	frame = (struct fk_frame *)(void *)w->engine.fk.sp;
	*frame = (struct fk_frame){ .task = &root_task, .job = row, .top = (char *)(frame + 1) };
	fk_set_site(frame, FK_PARTED | FK_MOVED);
	abort_word_begin(&pool.rows.aborts[row], 1);
	return frame;
}

static struct fk_frame *steal(struct worker *w, struct worker *victim)
{
	uint64_t word, n;

	set_job(w, WORKER_NO_JOB);
	worker_ask(victim);
	if (deque_steal(&victim->engine.frames, &word, 1, &n) != DEQUE_STOLEN)
		return NULL;
	n_stolen++;
	return (struct fk_frame *)(uintptr_t)word;
}

static void *work(void *arg)
{
	worker_set_self(arg);
	nested_begin(worker_self(), __builtin_frame_address(0));
	(void)STRAND_SET(worker_self());
	while (n_ended < n_roots) {
		struct worker *w = worker_self();
		struct fk_frame *frame = w->engine.unwind ? w->engine.unwind : w->engine.next;

		if (!frame &&
		    ((frame = inbox_pop(&w->inbox)) || (frame = next_root(w)) ||
		     (frame = strand_pop_own(w)) || (frame = steal(w, &workers[1 - w->index])))) {
			strand_adopt(w, frame);
			w->engine.job_base = w->engine.fk.bottom;
		}
		if (frame)
			strand_run(w, frame);
		else
			sched_yield();
	}
	nested_end(worker_self());
	return NULL;
}

/* Runs the first n roots of the array. */
static void run(uint32_t n)
{
	n_roots = n;
	ck_assert_int_eq(topology_new("core:2 pu:1", WORKERS, 0, NULL, NULL, 0, &pool.topology), 0);
	ck_assert_int_eq(stack_arena_init(&stacks, memory, memory + sizeof(memory)), 0);
	for (uint32_t i = 0; i < WORKERS; i++) {
		struct worker *w = &workers[i];

		w->pool = &pool;
		w->index = i;
		w->board = &pool.board->workers[i];
		w->counters = &pool.board->counters[i];
		w->job.ledger = &pool.arena->workers[i];
		deque_init(&w->engine.frames, entries[i], ENTRIES);
		w->engine.fk.bottom = w->engine.fk.floor = entries[i];
		w->engine.fk.end = entries[i] + ENTRIES;
		inbox_init(&w->inbox);
		stack_cache_init(&w->engine.cache, &stacks);
		stack_bill(&w->engine.cache, NULL, UINT64_MAX);
		set_job(w, WORKER_NO_JOB);
	}
	ck_assert_int_eq(fibers_reserve(&pool), 0);
	ck_assert_int_eq(pthread_create(&workers[1].thread, NULL, work, &workers[1]), 0);
	(void)work(&workers[0]);
	pthread_join(workers[1].thread, NULL);
	fibers_fini(&pool);
	topology_free(pool.topology);
}

#define COUNTED(name)                                                                              \
	(load_relaxed(&workers[0].counters->name) + load_relaxed(&workers[1].counters->name))

/* Its child ends once the continuation runs, which then is on the other worker. */
FK_TASK(int64_t, is_stolen, (int64_t, n), int64_t x;)
FK_NO_LEAF(is_stolen)
{
	FK_FORK(x, until, self->n);
	atomic_store(&tasks_opened, 1);
	FK_JOIN();
	FK_RETURN(self->x + 1);
}
FK_END(is_stolen)

/* While the other worker is busy, another root preempts this one at the next fork. */
FK_TASK(int64_t, is_preempted, (int64_t, n), int64_t x;)
FK_NO_LEAF(is_preempted)
{
	while (!atomic_load(&tasks_reached))
		sched_yield();
	preempt_request(worker_self());
	FK_FORK(x, fib, self->n);
	FK_JOIN();
	atomic_store(&tasks_opened, 1);
	FK_RETURN(self->x);
}
FK_END(is_preempted)

/* ------------------------------------------------------------------------ tests */

START_TEST(all_roots_of_an_array_run)
{
	for (uint32_t i = 0; i < ROOTS; i++)
		roots[i] = ROOT(fib, 20);
	run(ROOTS);
	ck_assert_uint_eq(n_ended, ROOTS);
	for (uint32_t i = 0; i < ROOTS; i++)
		ck_assert_int_eq(roots[i].result, 6765);
}
END_TEST

START_TEST(continuation_of_a_fork_is_stolen)
{
	roots[0] = ROOT(is_stolen, 41);
	run(1);
	ck_assert_int_eq(roots[0].result, 42);
	ck_assert_uint_gt(n_stolen, 0);
	ck_assert_uint_gt(COUNTED(published), 0);
	ck_assert_uint_gt(COUNTED(forks_stolen), 0);
	ck_assert_uint_eq(COUNTED(joins_waited), COUNTED(joins_last));
}
END_TEST

START_TEST(another_root_preempts_at_a_safepoint)
{
	roots[0] = ROOT(held, 1);
	roots[1] = ROOT(is_preempted, 15);
	roots[2] = ROOT(fib, 10);
	run(3);
	ck_assert_uint_eq(n_preempted, 1);
	ck_assert_uint_gt(COUNTED(frames_suspended), 0);
	ck_assert_int_eq(roots[2].order, 1);
	ck_assert_int_eq(roots[2].result, 55);
	ck_assert_int_eq(roots[1].result, 610);
	ck_assert_int_eq(roots[0].result, 1);
}
END_TEST

START_TEST(only_the_root_whose_task_fails_fails)
{
	roots[0] = ROOT(fails_below, 7);
	roots[1] = ROOT(fib, 10);
	run(2);
	ck_assert_uint_eq(roots[0].verdict.outcome, JOB_FAILED);
	ck_assert_int_eq(roots[0].verdict.code, -EDOM);
	ck_assert_uint_eq(roots[1].verdict.outcome, 0);
	ck_assert_int_eq(roots[1].result, 55);
}
END_TEST

START_TEST(fibers_wait_for_each_other)
{
	roots[0] = ROOT(tree, 12);
	roots[1] = ROOT(both, 10);
	run(2);
	ck_assert_int_eq(roots[0].result, 144);
	ck_assert_int_eq(roots[1].result, 55 + 10 * 55);
	ck_assert_uint_eq(COUNTED(fibers), 465 + 177 + 1);
}
END_TEST

CHECK_MAIN("engine")
