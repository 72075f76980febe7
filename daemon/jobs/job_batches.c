/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/job_batches.h"

#include "common/clock.h"
#include "common/crash_site.h"
#include "daemon/core/deque.h"
#include "daemon/core/shutdown.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/jobs/ring_drain.h"
#include "daemon/jobs/pending.h"
#include "daemon/jobs/placed_jobs.h"
#include "daemon/sched/fair_queue.h"
#include "daemon/sched/wake.h"
#include "shm/board.h"
#include "shm/limits.h"
#include "shm/wake.h"

/* ------------------------------------------------------------------------ to workers */

/* Lock held: queues the rows of a drain. */
static void intake_queue(struct drain *drain, uint64_t now)
{
	if (drain->n) {
		fair_push(drain->pool->fair, drain->first, drain->n, now);
		FK_CRASH(queue_linked);
	}
}

/* Puts rows onto the worker's own root deque, which is empty. */
static void intake_publish(struct worker *w, const uint64_t *rows, uint64_t n)
{
	if (!n)
		return;
	/* Entries are written from position 0 on, so no public ones may be left there. */
	deque_reclaim(&w->roots.deque);
	deque_reset(&w->roots.deque);
	deque_push_all(&w->roots.deque, w->roots.deque.entries, rows, n);
	FK_CRASH(roots_published);
	worker_mark_roots(w);
}

/* Lock held: takes the batch to run next. Returns its size. */
static uint32_t intake_pick(struct worker *w, uint64_t *ret_rows, uint64_t now)
{
	uint32_t rows[WORKER_ROOTS];
	uint32_t n = fair_pick(w->pool->fair, w->index, rows, WORKER_ROOTS, now);

	_Static_assert(FAIR_BATCH_JOBS <= WORKER_ROOTS, "a batch fits on a root deque");
	for (uint32_t i = 0; i < n; i++)
		ret_rows[i] = rows[i];
	return n;
}

/* I1: the worker had rows in hand and has published some. left: there are more than it starts
 * itself. A worker that searched in between has not seen them. If this worker is not busy, it does
 * the rest when it becomes busy (work_search.c). row: the job that it runs then. */
static void intake_pass_on(struct worker *w, bool left, uint32_t row)
{
	struct pool *pool = w->pool;
	bool busy = wake_state(wake_load(&w->board->wake)) == WAKE_BUSY, alone;

	left |= fair_queued(pool->fair);
	alone = left && busy && !worker_wake_one(pool, w);
	/* intake_tell() knows the workers of a place. */
	if (alone || fair_placed(pool->fair))
		intake_tell(w, row);
}

/* The same, after the worker took rows off the rings. */
static void intake_pass_on_drain(struct worker *w, const struct drain *drain, bool left,
				 uint32_t row)
{
	if (drain->placed)
		intake_wake_places(w->pool, w);
	intake_pass_on(w, left || drain->more, row);
	if (drain->earlier)
		pool_wake_dispatcher(w->pool);
}

bool intake_take_mine(struct worker *w, uint32_t *ret_row)
{
	struct fair *fair = w->pool->fair;
	uint32_t n;

	if (!intake_mine(w))
		return false;
	fair_lock(fair);
	n = fair_pick(fair, w->index, ret_row, 1, clock_ns());
	fair_unlock(fair);
	return n;
}

bool intake_drain(struct worker *w, uint32_t *ret_row)
{
	struct fair *fair = w->pool->fair;
	struct drain drain = drain_of(w);
	uint64_t rows[WORKER_ROOTS];
	uint32_t n = 0;

	drain_rings(&drain);
	if (drain.n && !drain.mixed && !drain.placed && !drain.more &&
	    fair_direct(fair, drain.client, drain.n)) {
		for (uint32_t row = drain.first; n < drain.n; row = fair->rows[row].next - 1)
			rows[n++] = row;
	} else if (drain.n || fair_queued(fair) || intake_mine(w)) {
		uint64_t now = clock_ns();

		fair_lock(fair);
		intake_queue(&drain, now);
		n = intake_pick(w, rows, now);
		fair_unlock(fair);
	}
	if (n) {
		FK_CRASH(queue_picked);
		*ret_row = (uint32_t)rows[0];
		intake_publish(w, rows + 1, n - 1);
	}
	intake_pass_on_drain(w, &drain, n > 1, n ? *ret_row : w->job.row);
	return n;
}

void intake_collect(struct pool *pool, uint32_t round)
{
	struct fair *fair = pool->fair;
	struct drain drain = {
		.pool = pool,
		.counters = &pool->board->counters[BOARD_POOL],
		.consumer = LIMIT_WORKERS + 1,
		.round = round,
	};

	drain_rings(&drain);
	if (!drain.n)
		return;
	fair_lock(fair);
	intake_queue(&drain, clock_ns());
	fair_unlock(fair);
	intake_wake_places(pool, NULL);
}

/* Takes all rows off a worker's root deque. */
static uint32_t intake_take_back(struct worker *from, uint32_t *ret_rows)
{
	uint64_t rows[WORKER_ROOTS], n;
	enum deque_status status;

	do
		status = deque_steal_share(&from->roots.deque, DEQUE_ALL, rows, WORKER_ROOTS, &n);
	while (status == DEQUE_RACE);
	if (status == DEQUE_EMPTY)
		return 0;
	for (uint64_t i = 0; i < n; i++)
		ret_rows[i] = (uint32_t)rows[i];
	worker_clear_roots(from);
	return (uint32_t)n;
}

bool intake_preempt(struct worker *w)
{
	struct fair *fair = w->pool->fair;
	struct drain drain = drain_of(w);
	uint32_t back[WORKER_ROOTS + 1];
	uint64_t rows[WORKER_ROOTS];
	uint32_t n = 0, n_back = intake_take_back(w, back);
	uint64_t now;

	if (w->roots.placed_job)
		back[n_back++] = w->roots.placed_job - 1;
	w->roots.placed_job = 0;
	drain_rings(&drain);
	now = clock_ns();
	fair_lock(fair);
	fair_return(fair, back, n_back, now);
	intake_queue(&drain, now);
	fair_settle_sometimes(fair, now);
	if (fair_claims(fair, w->index, w->job.row, now - w->job.since))
		n = intake_pick(w, rows, now);
	fair_unlock(fair);
	if (n)
		w->roots.preempted = w->job.row;
	/* A row with a place is alone, and must not be in the deque, where others would take it. A
	 * single row that this worker starts next is put there after the others were notified,
	 * because no other worker is needed for it. */
	if (n && fair_place(fair, (uint32_t)rows[0]) > FAIR_NOWHERE)
		w->roots.placed_job = (uint32_t)rows[0] + 1;
	else if (n > 1)
		intake_publish(w, rows, n);
	intake_pass_on_drain(w, &drain, n > 1, n ? (uint32_t)rows[0] : w->job.row);
	if (n == 1 && !w->roots.placed_job)
		intake_publish(w, rows, n);
	return n;
}

bool intake_decline(struct worker *w, uint32_t row)
{
	struct fair *fair = w->pool->fair;
	uint32_t rows[WORKER_ROOTS + 1] = { row };
	bool declines;

	fair_lock(fair);
	declines = shutdown_declines(&w->pool->shutdown);
	if (declines)
		fair_return(fair, rows, 1 + intake_take_back(w, rows + 1), clock_ns());
	fair_unlock(fair);
	return declines;
}

bool intake_again(struct worker *w, uint32_t *ret_row)
{
	struct fair *fair = w->pool->fair;
	uint64_t rows[WORKER_ROOTS], now;
	uint32_t n = 0;

	if (w->roots.preempted != WORKER_NO_JOB && (fair_queued(fair) || intake_mine(w))) {
		now = clock_ns();
		fair_lock(fair);
		fair_settle_sometimes(fair, now);
		if (fair_claims(fair, w->index, w->roots.preempted, FAIR_QUANTUM))
			n = intake_pick(w, rows, now);
		fair_unlock(fair);
	}
	if (!n) {
		w->roots.preempted = WORKER_NO_JOB;
		return false;
	}
	*ret_row = (uint32_t)rows[0];
	intake_publish(w, rows + 1, n - 1);
	intake_pass_on(w, n > 1, *ret_row);
	return true;
}

bool intake_steal(struct worker *w, struct worker *victim, uint32_t *ret_row)
{
	uint64_t rows[WORKER_ROOTS], n;
	enum deque_status status;

	do
		status = deque_steal(&victim->roots.deque, rows, WORKER_ROOTS, &n);
	while (status == DEQUE_RACE);
	if (status == DEQUE_EMPTY)
		return false;
	FK_CRASH(roots_stolen);
	COUNT_ADD(w, job_steals, n);
	*ret_row = (uint32_t)rows[0];
	intake_publish(w, rows + 1, n - 1);
	return true;
}

void intake_recall(struct pool *pool, struct worker *from)
{
	struct fair *fair = pool->fair;
	uint32_t rows[WORKER_ROOTS], n;

	if (!deque_size(&from->roots.deque))
		return;
	n = intake_take_back(from, rows);
	FK_CRASH(roots_recalled);
	fair_lock(fair);
	fair_return(fair, rows, n, clock_ns());
	fair_unlock(fair);
}
