/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/cpu_limit.h"

#include <stdatomic.h>

#include "common/relaxed.h"
#include "daemon/core/cpu_account.h"
#include "daemon/core/job_abort.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker_state.h"
#include "daemon/jobs/abort.h"
#include "daemon/sched/fair_queue.h"
#include "shm/fence.h"
#include "shm/job.h"
#include "shm/ledger.h"

/* Ends the job of this row if its charge has reached the limit. */
static void cpu_limit_judge(struct pool *pool, uint32_t row, uint64_t limit)
{
	/* ORDER cpu/charge [U2]: acquire, the charge is that of this job, or of a later one (I2).
	 * Pairs with job_set_row(). */
	struct ledger_row job = ledger_unpack(
		atomic_load_explicit(&arena_rows(pool->arena)[row], memory_order_acquire));

	if (fair_used(pool->fair, row) >= limit && job.state == LEDGER_RUNNING &&
	    !abort_get(pool, row).outcome)
		(void)abort_set(pool, row, job.generation, JOB_EXPIRED, JOB_CPU_EXCEEDED);
}

uint64_t cpu_limits_check(struct pool *pool, uint64_t now)
{
	struct pool_cpu_limit *c = &pool->cpu_limit;
	uint64_t limit = load_relaxed(&pool->settings.job_cpu_max);
	bool runs = false;

	if (!limit)
		return 0;
	/* Relaxed: workers may set them as well. */
	if (load_relaxed(&c->watched) && !load_relaxed(&c->reached) && now < c->next)
		return c->next;
	store_relaxed(&c->watched, false);
	store_relaxed(&c->reached, false);
	/* ORDER cpu/watched [U1]: full, between the flags and the accounts (I1). Pairs with
	 * intake_watch_cpu(). */
	fence_full();
	fair_lock(pool->fair);
	fair_settle(pool->fair, now);
	fair_unlock(pool->fair);
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		uint32_t row = account_row(&pool->workers[i].job.account);

		if (row == ACCOUNT_NOBODY)
			continue;
		runs = true;
		cpu_limit_judge(pool, row, limit);
	}
	c->next = runs ? now + CPU_LIMIT_CHECK : 0;
	if (runs)
		store_relaxed(&c->watched, true);
	return c->next;
}
