/* SPDX-License-Identifier: MIT */
/*
 * preempted.c - the list of suspended jobs in a worker's deque
 *
 * preempt_switch.c describes how they alternate.
 */
#include "daemon/engine/preempted.h"

#include "common/clock.h"
#include "daemon/core/hooks.h"
#include "daemon/core/steal_policy.h"

void preempted_set_alarm(struct worker *w)
{
	uint64_t now = clock_ns();

	w->pool->hooks->preempt_by(w, now + POLICY_TURN, now);
}

void preempted_start(struct worker *w)
{
	/* Entries of the last job, if any, are the newest. */
	if (w->job.row == WORKER_NO_JOB ||
	    (w->engine.fk.bottom == w->engine.frames.entries && !w->engine.n_self_stolen))
		return;
	preempted_set_count(&w->roots.preempted_jobs,
			    preempted_add(&w->roots.preempted_jobs,
					  preempted_count(&w->roots.preempted_jobs), w->job.row));
	preempted_set_alarm(w);
}

void preempted_end(struct worker *w, uint32_t row)
{
	struct preempted_jobs *preempted = &w->roots.preempted_jobs;
	uint32_t n = preempted_count(preempted);

	for (uint32_t i = n; i--;) {
		if (preempted->rows[i] != row)
			continue;
		for (; i + 1 < n; i++)
			preempted->rows[i] = preempted->rows[i + 1];
		preempted_set_count(preempted, n - 1);
		return;
	}
}
