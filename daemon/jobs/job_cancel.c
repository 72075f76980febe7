/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/job_cancel.h"

#include "common/clock.h"
#include "common/crash_site.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/abort_word.h"
#include "daemon/jobs/abort.h"
#include "daemon/jobs/deadline.h"
#include "daemon/jobs/job_end.h"
#include "daemon/sched/fair_queue.h"
#include "shm/job.h"
#include "shm/ledger.h"

#define DEADLINE_TURNS 4u /* maximum number of rounds of DEADLINE_SOME in a call */

/* Ends a job that waits in a queue. False: it is in hand. */
static bool job_forgo(struct pool *pool, uint32_t row, uint32_t generation, uint32_t outcome)
{
	struct fair *fair = pool->fair;
	struct ledger_row now;
	bool cut;

	fair_lock(fair);
	now = ledger_row(pool->arena, row);
	/* A queued row stays QUEUED while the lock is held. */
	cut = now.generation == generation && now.state == LEDGER_QUEUED && fair_cut(fair, row);
	fair_unlock(fair);
	if (cut)
		job_drop(pool, row, outcome, 0);
	return cut;
}

/* The job of this row and generation has exceeded its deadline, or was cancelled: ends it if it
 * waits in a queue, or makes it unwind if it runs. False: it is in hand, and the caller must try
 * again. The dispatcher. */
static bool job_is_over(struct pool *pool, uint32_t row, uint32_t generation)
{
	struct ledger_row now = ledger_row(pool->arena, row);
	uint32_t outcome = job_is_cancelled(pool, row, generation) ? JOB_CANCELLED : JOB_EXPIRED;

	if (now.generation != generation)
		return true;
	if (now.state == LEDGER_QUEUED)
		return job_forgo(pool, row, generation, outcome);
	return now.state != LEDGER_RUNNING || abort_set(pool, row, generation, outcome, 0);
}

void job_cancel(struct pool *pool, uint32_t row, uint32_t generation)
{
	/* Relaxed: a row of an earlier generation still has the job in a ring, or will never have
	 * it: the mark waits for that generation. */
	struct ledger_row now = ledger_row(pool->arena, row);
	bool queued = now.state == LEDGER_QUEUED || now.state == LEDGER_RUNNING;
	bool later = job_is_later(generation, now.generation), over = false;

	if (!later && !(queued && generation == now.generation))
		return;
	cancel_mark(&pool->rows.cancels[row], generation);
	FK_CRASH(job_cancelling);
	(void)abort_set(pool, row, generation, JOB_CANCELLED, 0);
	/* ORDER cancel/accept [V2]: seq_cst, after the mark. Pairs with drain_accept(), which makes
	 * the row QUEUED, and drain_admit(), which reads the mark: one sees the other. */
	now = ledger_unpack(
		atomic_load_explicit(&arena_rows(pool->arena)[row], memory_order_seq_cst));
	if (now.generation != generation) {
		over = job_is_later(now.generation, generation);
	} else if (now.state == LEDGER_QUEUED) {
		if (!job_forgo(pool, row, generation, JOB_CANCELLED))
			deadline_watch(pool, row, generation);
	} else {
		over = now.state != LEDGER_RUNNING;
	}
	/* It ended before the mark was set: remove the mark, so that no later job of this row finds
	 * it. */
	if (over)
		atomic_compare_exchange_strong_explicit(&pool->rows.cancels[row], &generation, 0,
							memory_order_relaxed, memory_order_relaxed);
}

uint64_t deadlines_check(struct pool *pool)
{
	struct deadlines *all = pool->deadlines;
	struct deadline jobs[DEADLINE_SOME];
	uint64_t now = clock_ns();
	uint32_t n = DEADLINE_SOME;

	/* More due jobs wait for the next call, which follows at once; new ones may arrive in
	 * between. */
	for (uint32_t i = 0; i < DEADLINE_TURNS && n == DEADLINE_SOME; i++) {
		n = deadlines_due(all, now, jobs);
		for (uint32_t k = 0; k < n; k++)
			if (job_is_over(pool, jobs[k].row, jobs[k].generation))
				deadline_forget(all, &jobs[k]);
	}
	return deadlines_next(all);
}
