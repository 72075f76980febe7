/* SPDX-License-Identifier: MIT */
/*
 * worker_thread.c - the main loop of a worker's thread
 *
 * A strand begins when the loop starts a job or resumes a frame. It ends when it returns here, or
 * when a function of the engine jumps here (STRAND_JUMP).
 */
#include "daemon/pool/worker_thread.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/options.h"
#include "common/relaxed.h"
#include "daemon/core/deque.h"
#include "daemon/core/mailbox.h"
#include "daemon/core/steal_policy.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/spin_policy.h"
#include "daemon/core/stacklet.h"
#include "daemon/core/trace.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/engine/nested.h"
#include "daemon/engine/preempted.h"
#include "daemon/engine/slow_path.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/jobs/job.h"
#include "daemon/pool/idle_trim.h"
#include "daemon/pool/work_search.h"
#include "daemon/pool/worker_signal.h"
#include "daemon/pool/worker_sleep.h"
#include "daemon/sched/slice_timer.h"
#include "daemon/sched/job_switch.h"
#include "shm/board.h"
#include "shm/ledger.h"
#include "shm/wake.h"

/* Guard below a worker's C stack: a module may be compiled without stack probes, and then the frame
 * that overflows may be larger than a page. A frame that skips the guard is in another worker's
 * stack. */
#define WORKER_GUARD (1u << 20)

/* Publishes counters that the owner keeps in plain fields. */
static void worker_counters(struct worker *w)
{
	store_relaxed(&w->counters->forks, w->engine.forks);
	store_relaxed(&w->counters->stacklets, w->engine.cache.allocated);
	store_relaxed(&w->counters->stack_bytes, (uint64_t)w->engine.cache.bytes);
}

static void worker_run_root(struct worker *w, uint32_t row)
{
	if (shutdown_declines(&w->pool->shutdown) && intake_decline(w, row)) {
		w->roots.next_ns = 0;
		return;
	}
	/* Entries in the deque wait for a child that has moved, or are suspended: they are no
	 * ancestors of this job. */
	w->engine.job_base = w->engine.fk.bottom;
	preempted_start(w);
	COUNT(w, strands);
	strand_fuzz_limit(w);
	job_run(w, row);
	trace_strand_end(w);
}

void worker_loop(struct worker *worker)
{
	bool jumped = STRAND_SET(worker);
	struct worker *w = worker_self(); /* registers are lost after a jump */

	if (jumped)
		trace_strand_end(w);
	for (;;) {
		struct fk_frame *frame = w->engine.unwind ? w->engine.unwind : w->engine.next;
		uint32_t row;

		if (frame) {
			strand_run(w, frame);
			continue;
		}
		worker_counters(w);
		if (stack_dirtied(&w->engine.cache))
			pool_wake_dispatcher(w->pool);
		switch (worker_find(w, &row)) {
		case WORKER_STOP:
			if (nested_may_stop(w))
				return;
			break;
		case WORKER_ROOT:
			worker_run_root(w, row);
			break;
		case WORKER_FRAME:
			w->engine.job_base = w->engine.fk.bottom;
			strand_run(w, w->engine.next);
			break;
		}
	}
}

void worker_init(struct worker *w, struct pool *pool, uint32_t index,
		 struct fk_entry *frame_entries, uint64_t n_frame_entries,
		 struct fk_entry *root_entries)
{
	memset(w, 0, sizeof(*w));
	deque_init(&w->engine.frames, frame_entries, n_frame_entries);
	deque_init(&w->roots.deque, root_entries, WORKER_ROOTS);
	w->pool = pool;
	w->index = index;
	w->job.row = w->roots.preempted = WORKER_NO_JOB;
	w->thief.random =
		UINT64_C(0x9e3779b97f4a7c15) * (index + 1 + (uint64_t)pool->mode.fuzz_seed * 256);
	w->board = &pool->board->workers[index];
	w->counters = &pool->board->counters[index];
	w->job.ledger = &pool->arena->workers[index];
	w->engine.fk.bottom = w->engine.fk.floor = frame_entries;
	w->engine.job_base = frame_entries;
	inbox_init(&w->inbox);
	slice_timer_init(w);
	w->engine.fk.end = frame_entries + n_frame_entries;
	store_relaxed(&w->requests.signal_wait, POLICY_SIGNAL_MIN);
	w->engine.stack_limit = 1; /* no request, and no frame fits: there is no stack yet */
	store_relaxed(&w->engine.fk.limit, worker_limit(w));
	worker_mark_job(w, WORKER_NO_JOB);
	spin_init(&w->thief.spin);
	/* A worker starts as busy without work, as in lazy_init(): its first search makes it
	 * looking. */
	store_relaxed(&w->board->wake, WAKE_BUSY);
}

void worker_begin_asleep(struct worker *w)
{
	/* Relaxed, both: there are no threads yet. */
	store_relaxed(&w->requests.absent, true);
	store_relaxed(&w->board->wake, WAKE_SLEEPING);
	lazy_begin_asleep(&w->pool->idle.lazy, w->index);
	stopwatch_set(&w->pool->board->running[w->index].asleep, true, clock_ns());
}

int worker_start(struct worker *w)
{
	struct pool *pool = w->pool;
	pthread_attr_t attr;
	int r;

	pthread_attr_init(&attr);
	r = -pthread_attr_setstacksize(&attr, pool->options->worker_stack);
	if (r == 0)
		r = -pthread_attr_setguardsize(&attr, WORKER_GUARD);
	if (r == 0)
		r = -pthread_create(&w->thread, &attr, pool->worker, w);
	if (r < 0)
		w->thread = 0;
	pthread_attr_destroy(&attr);
	return r;
}

uint64_t workers_start(struct pool *pool)
{
	uint64_t now = pool->n_late ? clock_ns() : 0, again = 0;

	for (uint32_t i = 0; pool->n_late && i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[i];
		uint32_t state = wake_state(wake_load(&w->board->wake));

		if (w->thread || state == WAKE_SLEEPING)
			continue;
		if (now >= pool->late_at) {
			if (worker_start(w) == 0) {
				pool->n_late--;
				continue;
			}
			pool->late_at = now + WORKER_AGAIN;
		}
		if (state != WAKE_PARKED)
			worker_stay_absent(w);
		again = pool->late_at;
	}
	return again;
}

void worker_fini(struct worker *w)
{
	free(w->engine.self_stolen);
	inbox_fini(&w->inbox);
	slice_timer_fini(w);
	stack_cache_fini(&w->engine.cache);
}

void *worker_main(void *arg)
{
	struct worker *w = arg;

	worker_set_self(w);
	worker_signal_begin(w->pool);
	pthread_setname_np(pthread_self(), "forkd-worker");
	prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
	store_relaxed(&w->board->tid, (uint32_t)syscall(SYS_gettid));
	slice_timer_begin(w);
	nested_begin(w, __builtin_frame_address(0));
	if (load_relaxed(&w->requests.absent))
		worker_arrive(w);
	/* It may find a job before its first search: worker_init(). */
	wake_busy(&w->board->wake);
	(void)sem_post(&w->pool->started);
	worker_loop(w);
	nested_end(w);
	slice_timer_end(w);
	return NULL;
}
