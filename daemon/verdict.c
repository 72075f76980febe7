/* SPDX-License-Identifier: MIT */
#include "daemon/verdict.h"

#include "common/crash.h"
#include "daemon/pool.h"
#include "shm/fence.h"
#include "shm/job.h"

static uint64_t verdict_pack(int32_t code, uint32_t generation, uint32_t outcome)
{
	return (uint64_t)(uint32_t)code << 32 | (uint64_t)(generation & JOB_GEN_MASK) << 8 |
	       (outcome & 0xffu);
}

void verdict_begin(struct pool *pool, uint32_t row, uint32_t generation)
{
	/* ORDER verdict/cancel [V1]: seq_cst, before the look at the mark of a queued job's cancel.
	 * Pairs with verdict_set(), whose caller has stored that mark: one sees the other. */
	atomic_store_explicit(&pool->verdicts[row], verdict_pack(0, generation, 0),
			      memory_order_seq_cst);
}

/* Puts an outcome into a word that has none. */
static void verdict_put(struct pool *pool, uint32_t row, uint64_t word, int32_t code,
			uint32_t outcome)
{
	uint32_t generation = (uint32_t)(word >> 8) & JOB_GEN_MASK;

	if (word & 0xffu)
		return;
	/* Relaxed: nothing but the word itself is handed over. */
	if (!atomic_compare_exchange_strong_explicit(&pool->verdicts[row], &word,
						     verdict_pack(code, generation, outcome),
						     memory_order_relaxed, memory_order_relaxed))
		return;
	FK_CRASH(verdict_put);
	/* ORDER verdict/runs [V3]: full, the verdict comes before the look at who runs the job.
	 * Pairs with worker_set_job(). The others are left alone. */
	fence_full();
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[i];

		/* Or it may have set the job aside: aside_claims(). */
		if (atomic_load_explicit(&w->ledger->job, memory_order_acquire) == row ||
		    aside_any(&w->asides))
			worker_ask(w);
	}
	fibers_cancel(pool, row);
}

void verdict_fail(struct pool *pool, uint32_t row, int32_t code)
{
	verdict_put(pool, row, atomic_load_explicit(&pool->verdicts[row], memory_order_relaxed),
		    code, JOB_FAILED);
}

bool verdict_set(struct pool *pool, uint32_t row, uint32_t generation, uint32_t outcome)
{
	/* ORDER verdict/cancel [V1]: seq_cst, pairs with verdict_begin(). */
	uint64_t word = atomic_load_explicit(&pool->verdicts[row], memory_order_seq_cst);

	if (((uint32_t)(word >> 8) & JOB_GEN_MASK) != generation)
		return false;
	verdict_put(pool, row, word, 0, outcome);
	hang_expect(pool);
	return true;
}

struct verdict verdict_get(struct pool *pool, uint32_t row)
{
	/* Relaxed: worker_ask() and worker_take_request() order it; a strand that begins with an
	 * older word is asked afterwards. */
	uint64_t word = row == WORKER_NO_JOB
			      ? 0
			      : atomic_load_explicit(&pool->verdicts[row], memory_order_relaxed);

	return (struct verdict){ .outcome = (uint32_t)word & 0xffu, .code = (int32_t)(word >> 32) };
}
