/* SPDX-License-Identifier: MIT */
#include "daemon/sched/job_switch.h"

#include <sys/resource.h>
#include <time.h>

#include "common/clock.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/cpu_account.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/stacklet.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker_state.h"
#include "daemon/sched/fair_queue.h"
#include "shm/board.h"
#include "shm/fence.h"
#include "shm/ledger.h"
#include "shm/stopwatch.h"

/* A worker that had no job for this long reads its CPU clock before it runs the next one. */
#define INTAKE_AWAY ((int64_t)(20 * NSEC_PER_USEC))

/* Returns the part of off, the ns without CPU since the last call, in which the thread slept: the
 * share of voluntary switches among its context switches. */
static uint64_t intake_slept(struct worker *w, uint64_t off)
{
	uint64_t slept, lost;
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage) < 0)
		return 0;
	slept = (uint64_t)usage.ru_nvcsw - w->job.slept;
	lost = (uint64_t)usage.ru_nivcsw - w->job.lost_cpu;
	w->job.slept += slept;
	w->job.lost_cpu += lost;
	return slept ? off / (slept + lost) * slept : 0;
}

/* True if the worker had no job for a while. It may have slept or waited for a CPU, which must not
 * be deducted from its next job. */
static bool intake_was_away(struct worker *w, uint64_t now)
{
	return account_row(&w->job.account) == ACCOUNT_NOBODY &&
	       (int64_t)(now - w->job.account.closed_at) >= INTAKE_AWAY;
}

/* Reads the CPU clock of the worker's thread, and returns it. Not inlined: needed for few jobs. */
__attribute__((noinline)) static uint64_t intake_read_cpu(struct worker *w)
{
	uint32_t row = account_row(&w->job.account);
	struct timespec used = { 0 };
	uint64_t cpu, off, slept;

	/* First the clock that stops without a CPU: a delay between the two readings then does not
	 * count. */
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	cpu = clock_of_timespec(&used);
	off = account_set_cpu(&w->job.account, cpu, clock_ns());
	slept = intake_slept(w, off);
	/* A shorter time than between two readings may belong to another job. */
	if (row != ACCOUNT_NOBODY && slept >= ACCOUNT_STALE)
		fair_charge_sleep(w->pool->fair, row, slept);
	return cpu;
}

void intake_watch_cpu(struct pool *pool, uint32_t row)
{
	struct pool_cpu_limit *c = &pool->cpu_limit;
	bool reached = fair_used(pool->fair, row) >= load_relaxed(&pool->settings.job_cpu_max);

	/* ORDER cpu/watched [U1]: full, the account is open before the flags are read or set. Pairs
	 * with cpu_limits_check(). */
	fence_full();
	if (load_relaxed(&c->watched) && !reached)
		return;
	if (reached)
		store_relaxed(&c->reached, true);
	store_relaxed(&c->watched, true);
	pool_wake_dispatcher(pool);
}

void intake_account(struct worker *w, uint32_t row, bool last, uint64_t now)
{
	struct board_running *running = &w->pool->board->running[w->index];
	uint64_t cpu, ns;
	uint32_t left;

	if (unlikely(account_is_stale(&w->job.account, now) || intake_was_away(w, now)))
		cpu = intake_read_cpu(w);
	else
		cpu = account_cpu(&w->job.account, now);
	ns = account_close(&w->job.account, cpu, &left);
	if (left != ACCOUNT_NOBODY)
		fair_charge(w->pool->fair, left, ns, last);
	w->job.since = now;
	stopwatch_set(&running->busy, row != ACCOUNT_NOBODY, now);
	/* ORDER account/shown [P1]: release, the charges for the last job. A client that learns of
	 * its job's end sees the charge by the worker that has ended it. */
	atomic_store_explicit(&running->job, row, memory_order_release);
	if (row == ACCOUNT_NOBODY) {
		w->job.account.closed_at = now;
		return;
	}
	store_relaxed(&running->since_ns, now);
	account_open(&w->job.account, row, cpu);
	/* Relaxed: the dispatcher is woken when it changes. */
	if (unlikely(load_relaxed(&w->pool->settings.job_cpu_max)))
		intake_watch_cpu(w->pool, row);
}

void worker_mark_job(struct worker *w, uint32_t job)
{
	w->job.row = job;
	/* Relaxed: publishes no other data. */
	stack_bill(&w->engine.cache, job == WORKER_NO_JOB ? NULL : &w->pool->rows.stack_bytes[job],
		   load_relaxed(&w->pool->settings.stack_max));
	/* ORDER verdict/runs [V3]: release, jobs suspended below are counted before. Pairs with
	 * abort_put(). */
	atomic_store_explicit(&w->job.ledger->job, job, memory_order_release);
}

void worker_set_job(struct worker *w, uint32_t job)
{
	intake_account(w, job, false, clock_ns());
	worker_mark_job(w, job);
}
