/* SPDX-License-Identifier: MIT */
/*
 * time_slice.c - which worker checks for waiting jobs, and when, while all are busy
 *
 * Jobs wait in the queues, or suspended in a worker's deque, until running jobs are so far ahead
 * that they must yield (preemption.c). The earliest time of that is known; the worker itself checks
 * then, and no thread before (slice_timer.h).
 *
 * Threads: workers, and the dispatcher before it rests: see job_batches.h.
 *
 * INVARIANTS
 *   I1. If all workers are busy, a thread comes for queued jobs: the dispatcher, or a worker whose
 *       alarm expires. The alarm is set, with the lock of fair held, for the earliest time when a
 *       worker must yield, or in FAIR_TURN_LONG. After each alarm the worker checks (slice_timer.c,
 *       I1): it takes a job, sets the next alarm, or wakes the dispatcher, which calls
 *       intake_tell() for the remaining jobs. A worker that has a preempt request and has not
 *       checked does so at its next fork; so the alarm is another worker's, or expires in
 *       FAIR_TURN_LONG. A worker that ends its job resumes a suspended one, or searches for jobs.
 *   I2. So a job that precedes a running one is started at that one's next fork. The delay is at
 *       most FAIR_TURN_LONG: if a worker has changed to a job that is further ahead than those that
 *       the alarm was set for.
 *   I3. Each worker has an alarm while it has suspended jobs: preempted_start() and
 *       preempted_bring_up() set one, and each check sets the next.
 *   I4. The dispatcher checks at each tick (dispatcher.h) while one of these is true: jobs are in a
 *       ring or a root deque, or wait for a place; a short job must run before INTAKE_SOON; a
 *       worker has no job. There may be a flood of such jobs, which would wake it each time.
 */
#include "daemon/jobs/job_batches.h"

#include "common/clock.h"
#include "daemon/sched/slice_timer.h"
#include "daemon/jobs/ring_drain.h"
#include "common/util.h"
#include "daemon/core/cpu_account.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/preempt_request.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker_state.h"
#include "daemon/sched/fair_queue.h"
#include "shm/board.h"
#include "daemon/core/worker.h"
#include "shm/wake.h"

/* A short job's claim before this time is not worth a timer. */
#define INTAKE_SOON NSEC_PER_MSEC

/* Lock held: sets *ret_in to the ns until a worker must check, with the job that it runs. False:
 * the caller must act now. */
static bool intake_looks_in(struct worker *w, uint32_t runs, bool self, uint64_t *ret_in)
{
	struct fair *fair = w->pool->fair;
	uint64_t in = fair_claims_in(fair, w->index, runs);

	if (runs == ACCOUNT_NOBODY || (in < INTAKE_SOON && !fair_first_is_long(fair, w->index)))
		return false;
	/* The worker has taken the preempt request, and has not checked since. */
	if (in < INTAKE_SOON && !self && preempt_is_requested(w) && worker_is_asked(w))
		in = FAIR_TURN_LONG;
	*ret_in = min(max(in, FAIR_QUANTUM), FAIR_TURN_LONG);
	return true;
}

bool intake_is_watched(struct pool *pool, const struct worker *self, uint32_t row)
{
	struct fair *fair = pool->fair;
	uint64_t first = FAIR_NEVER, now = clock_ns();
	struct worker *next = NULL;
	bool watched;

	if (fair_placed(fair) || worker_roots_pending(pool) || drain_rings_pending(pool))
		return false;
	fair_lock(fair);
	fair_settle_sometimes(fair, now);
	fair_count(fair);
	watched = fair->heap.n;
	for (uint32_t i = 0; i < pool->n_workers && watched; i++) {
		struct worker *w = &pool->workers[i];
		uint32_t runs = w == self ? row : account_row(&w->job.account);
		uint64_t in;

		if (worker_is_parked(w))
			continue;
		watched = intake_looks_in(w, runs, w == self, &in);
		if (watched && in < first) {
			first = in;
			next = w;
		}
	}
	watched &= next != NULL;
	if (watched)
		slice_timer_by(next, now + first, now);
	fair_unlock(fair);
	return watched;
}

void intake_tell(struct worker *w, uint32_t row)
{
	/* Jobs were queued, or left, before the word is read: wake.h, W8. */
	wake_published();
	if (wake_rests(wake_load(&w->pool->board->dispatcher)) &&
	    !intake_is_watched(w->pool, w, row))
		pool_wake_dispatcher(w->pool);
}

/* Lock held: returns when a worker that continues its job must check again, CLOCK_MONOTONIC, ns; 0:
 * never. However soon a claim comes, the worker has an alarm for it, because the dispatcher may
 * sleep (I1). Suspended jobs have their turn after not_before. */
static uint64_t intake_look_at(struct worker *w, const uint32_t *rows, uint32_t n,
			       uint64_t not_before, uint64_t now)
{
	struct fair *fair = w->pool->fair;
	uint64_t turn, claim, in;

	fair_count(fair);
	turn = max(fair_turn_in(fair, w->job.row, rows, n), FAIR_TURN / 4);
	claim = max(fair_claims_in(fair, w->index, w->job.row), FAIR_QUANTUM);
	if (n && not_before > now)
		turn = max(turn, not_before - now);
	in = min(turn, claim);
	return in == FAIR_NEVER ? 0 : now + min(in, FAIR_TURN_LONG);
}

uint32_t intake_turn(struct worker *w, const uint32_t *rows, uint32_t n, uint64_t not_before)
{
	struct fair *fair = w->pool->fair;
	uint64_t now = clock_ns();
	uint32_t row = w->job.row;

	fair_lock(fair);
	fair_settle_sometimes(fair, now);
	if (now >= not_before)
		row = fair_turn(fair, w->job.row, rows, n);
	if (row == w->job.row)
		slice_timer_at(w, intake_look_at(w, rows, n, not_before, now));
	fair_unlock(fair);
	return row;
}
