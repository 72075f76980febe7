/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/abort.h"

#include "common/crash_site.h"
#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/abort_word.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/engine/preempted.h"
#include "daemon/fiber/cancel.h"
#include "daemon/jobs/hang_detector.h"
#include "daemon/jobs/starved.h"
#include "shm/fence.h"
#include "shm/job.h"
#include "shm/ledger.h"

/* Puts an outcome into a word that has none. False: it has one, or belongs to another job. */
static bool abort_put(struct pool *pool, uint32_t row, uint64_t word, int32_t code,
		      uint32_t outcome)
{
	if (!abort_word_put(&pool->rows.aborts[row], word, code, outcome))
		return false;
	FK_CRASH(abort_put);
	/* ORDER verdict/runs [V3]: full, the verdict comes before the reads of the workers' jobs.
	 * Pairs with worker_mark_job(). */
	fence_full();
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[i];

		/* Or the worker may have suspended the job: preempted_claims(). */
		if (atomic_load_explicit(&w->job.ledger->job, memory_order_acquire) == row ||
		    preempted_any(&w->roots.preempted_jobs))
			worker_ask(w);
	}
	fibers_cancel(pool, row);
	return true;
}

void abort_fail(struct pool *pool, uint32_t row, int32_t code)
{
	(void)abort_put(pool, row, load_relaxed(&pool->rows.aborts[row]), code, JOB_FAILED);
}

bool abort_set(struct pool *pool, uint32_t row, uint32_t generation, uint32_t outcome, int32_t code)
{
	uint64_t word = abort_word_look(&pool->rows.aborts[row]);

	if (abort_generation(word) != generation)
		return false;
	/* A client may request this repeatedly. */
	if (abort_put(pool, row, word, code, outcome))
		starved_expect(pool);
	/* Also without a change: no client waited for the end of a job that had failed, until
	 * now. */
	hang_expect(pool);
	return true;
}
