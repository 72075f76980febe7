/* SPDX-License-Identifier: MIT */
/*
 * worker_sleep.c - how workers sleep; sched/wake.c wakes them
 *
 * WHO IS AWAKE
 *   lazy_policy.h has the group states, the invariant L1 to L6 and the steps; spin_policy.h how
 *   long a thief spins. work_search.c, sched/wake.c and this file make the steps together with the
 *   words on the board (shm/wake.h):
 *	busy -> look	word LOOKING, step
 *	look -> busy	step, word BUSY and full fence, then the charge: at once, or as duty at the
 *			first fork, through the attention that every fork looks at
 *	look -> sleep	word SLEEPING and full fence, step, then what lazy_policy.h, L6 says about
 *			jobs; if the step is refused it sleeps for POLICY_TIMED_SLEEP, counted as
 *			looking
 *	sleep -> look	a thread of the pool that wakes a worker makes the step, then changes its
 *			word and rings its bell (bell.h); a client wakes it by the word alone, and
 *			the worker makes the step itself
 *	look -> parked	word PARKED and full fence, step, then what there is for others is handed on
 *			to them, as by one that turns busy; awake again, it takes what only it may
 *   With the scheduler set to busy only parked workers sleep: one that looks in vain yields, and
 *   looks again.
 *
 * WHAT IT COSTS (tests/bench/bench_sleep.c)
 *   To wake a worker: the states of the groups up to the one that has a sleeper, the own one first;
 *   a step, and the system call. To go to sleep: a step, and a look at the own root deque. Neither
 *   grows with tenants or workers. The last looker of a group reads the summary words of all
 *   tenants too, when it sleeps or turns busy, because clients can write nowhere else; a search
 *   reads those of DRAIN_SCAN_SOME tenants at a time.
 */
#include "daemon/pool/worker_sleep.h"

#include "common/clock.h"
#include "common/relaxed.h"
#include "daemon/core/bell.h"
#include "daemon/core/deque.h"
#include "daemon/core/mailbox.h"
#include "daemon/core/lazy_policy.h"
#include "daemon/core/steal_policy.h"
#include "daemon/core/pool_settings.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/stacklet.h"
#include "daemon/core/stop.h"
#include "daemon/core/trace.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/jobs/pending.h"
#include "daemon/sched/cpu_parking.h"
#include "daemon/sched/wake.h"
#include "shm/board.h"
#include "shm/fence.h"
#include "shm/stopwatch.h"
#include "shm/trace.h"
#include "shm/wake.h"

/* Awake again: the dispatcher may want to know. */
static void worker_call(struct pool *pool)
{
	/* ORDER park/wants [I2]: full, between the step out of its sleep and the look at what is
	 * wanted. Pairs with park_may_rest(). */
	fence_full();
	if (load_relaxed(&pool->park->wants) == PARK_CALL)
		park_call(pool);
}

/* Waits while its word and its bell are these; how: TRACE_SLEEP ...; ns: at most, or 0. */
static void worker_wait(struct worker *w, uint32_t how, uint32_t value, uint32_t heard, uint64_t ns)
{
	struct stopwatch *rested = &w->pool->board->running[w->index].rested;
	uint64_t now = clock_ns();

	stopwatch_set(rested, true, now);
	trace_rest(w, how);
	/* ORDER starved/away [A2]: the full fence of wake_prepare() or wake_parked() stands between
	 * the end of its job and the look whether it is away. Pairs with starved_hurry(). */
	park_return(w);
	bell_wait(&w->board->wake, value, &w->requests.bell, heard, ns ? now + ns : 0);
	trace_awake(w, how);
	stopwatch_set(rested, false, clock_ns());
}

/* What it has to look at itself, before: its own root deque, and all jobs if no other worker
 * does. */
bool worker_rest(struct worker *w)
{
	struct pool *pool = w->pool;
	struct lazy *l = &pool->idle.lazy;
	uint32_t heard = bell_heard(&w->requests.bell);
	uint32_t value = wake_prepare(&w->board->wake);
	enum lazy_rest rest = lazy_sleep(l, w->index);
	bool sleeps = rest == LAZY_SLEEPS;
	bool jobs;

	if (rest == LAZY_TIMED_INDEBTED)
		worker_pass(w);
	if (!sleeps)
		lazy_timed_sleep(l, w->index);
	jobs = w->roots.placed_job || deque_size(&w->roots.deque) || inbox_any(&w->inbox) ||
	       intake_mine(w) ||
	       ((!sleeps || !lazy_spins(worker_group(w))) && worker_jobs_pending(pool));
	/* ORDER pool/settings [P1]: both after the full fence of wake_prepare(): a thread that
	 * changes them wakes all that sleep after a full fence. Pairs with pool_wake_all(). */
	/* The stack for what it looked for may have come from what all workers keep. */
	if (stack_dirtied(&w->engine.cache))
		pool_wake_dispatcher(pool);
	if (!jobs && pool_is_lazy(pool) && !pool_ends(pool) && !worker_is_parked(w)) {
		if (sleeps)
			COUNT(w, sleeps);
		else
			COUNT(w, naps);
		worker_wait(w, sleeps ? TRACE_SLEEP : TRACE_NAP, value, heard,
			    sleeps ? 0 : POLICY_TIMED_SLEEP);
	}
	wake_store(&w->board->wake, WAKE_LOOKING);
	if (!sleeps) {
		lazy_timed_sleep_end(l, w->index);
		return false;
	}
	if (!lazy_rise(l, w->index, LAZY_ROUSED))
		worker_pass(w);
	worker_call(pool);
	return true;
}

void worker_park(struct worker *w)
{
	struct pool *pool = w->pool;
	struct lazy *l = &pool->idle.lazy;
	uint32_t heard, value;
	bool mine;

	/* What is left of a batch. */
	intake_recall(pool, w);
	heard = bell_heard(&w->requests.bell);
	value = wake_parked(&w->board->wake);
	lazy_park(l, w->index);
	/* What others left to this one while it looked, or woke it for (lazy_policy.h, L6, L7). */
	if (lazy_spins(worker_group(w)) || !worker_jobs_pending(pool))
		worker_pass(w);
	else if (!worker_wake_one(pool, w))
		pool_wake_dispatcher(pool);
	if (stack_dirtied(&w->engine.cache))
		pool_wake_dispatcher(pool);
	mine = w->roots.placed_job || inbox_any(&w->inbox) || intake_mine(w);
	/* ORDER pool/settings [P1]: after the full fence of wake_parked(), as in worker_rest(). */
	if (worker_is_parked(w) && !pool_ends(pool) && (!mine || !w->engine.stack)) {
		COUNT(w, parks);
		/* Without memory for a stack it comes again. */
		worker_wait(w, TRACE_PARK, value, heard, mine ? POLICY_TIMED_SLEEP : 0);
	}
	wake_store(&w->board->wake, WAKE_LOOKING);
	if (!lazy_rise(l, w->index, LAZY_ROUSED))
		worker_pass(w);
	lazy_return(l, w->index);
	worker_call(pool);
}
