/* SPDX-License-Identifier: MIT */
/*
 * preempted.c - the list of jobs that wait below another one in a worker's deque
 *
 * preempt_switch.c says how they take turns.
 */
#include "daemon/engine/preempted.h"

#include "common/clock.h"
#include "daemon/core/hooks.h"
#include "daemon/core/steal_policy.h"

void aside_set_alarm(struct worker *w)
{
	uint64_t now = clock_ns();

	w->pool->hooks->summon_by(w, now + POLICY_TURN, now);
}

void aside_start(struct worker *w)
{
	/* What ran last left the newest entries, if there are any. */
	if (w->job.row == WORKER_NO_JOB ||
	    (w->engine.fk.bottom == w->engine.frames.entries && !w->engine.n_forced))
		return;
	aside_set_count(&w->roots.asides,
			aside_add(&w->roots.asides, aside_count(&w->roots.asides), w->job.row));
	aside_set_alarm(w);
}

void aside_end(struct worker *w, uint32_t row)
{
	struct asides *asides = &w->roots.asides;
	uint32_t n = aside_count(asides);

	for (uint32_t i = n; i--;) {
		if (asides->rows[i] != row)
			continue;
		for (; i + 1 < n; i++)
			asides->rows[i] = asides->rows[i + 1];
		aside_set_count(asides, n - 1);
		return;
	}
}
