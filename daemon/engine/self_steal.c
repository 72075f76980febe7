/* SPDX-License-Identifier: MIT */
/*
 * self_steal.c - the modes that check: what a worker steals from itself is kept back
 *
 * Nothing here runs unless pool_set_fork_mode() has said so:
 *
 * force_steals: limit stays 0; each fork is published, and taken off the deque by its own worker
 * (strand_force()), which goes on with it as a thief when the child has ended. late_children: the
 * same, and the worker goes on with it at once; a forked child that gets a frame is set aside
 * first, as if it had moved (strand_delay()). shaken: some forks are treated as with force_steals,
 * by chance; schedule_fuzz.c disturbs besides. profile: as force_steals, on one worker;
 * STRAND_PROFILE stands wherever a task's code begins or ends (work_span.c). None does more than
 * thieves, movers and askers do, in another order or more often.
 *
 * Threads: the worker that keeps it: at a fork, at a child's first frame, between two strands.
 *
 * INVARIANTS
 *   I1. worker->forced is the worker's alone, newest last; an entry there is in no deque any more.
 *       It goes on, adopted as what comes from another worker, when nothing is left in the own
 *       deque (worker_find()).
 *   I2. n_late is how many of them are STRAND_LATE, each of which may have a stack.
 */
#include "daemon/engine/engine_internal.h"

#include <stdlib.h>

#include "common/relaxed.h"
#include "daemon/engine/preempted.h"

/* What the worker keeps back of its own, to go on with later: a frame, and STRAND_LATE. */
static void strand_keep_back(struct worker *w, uint64_t word)
{
	if (w->engine.n_forced == w->engine.max_forced) {
		w->engine.max_forced = w->engine.max_forced ? 2 * w->engine.max_forced : 1024;
		w->engine.forced = reallocarray(w->engine.forced, w->engine.max_forced,
						sizeof(*w->engine.forced));
		if (!w->engine.forced)
			abort();
	}
	store_relaxed(&w->engine.forced[w->engine.n_forced++].word, word);
}

static uint64_t strand_self_steal_last(const struct worker *w)
{
	return load_relaxed(&w->engine.forced[w->engine.n_forced - 1].word);
}

void strand_force(struct worker *w)
{
	uint64_t word, n;

	while (deque_steal(&w->engine.frames, &word, 1, &n) == DEQUE_STOLEN) {
		strand_keep_back(w, word);
		COUNT(w, steals);
	}
}

void strand_keep_all_back(struct worker *w)
{
	for (struct fk_entry *e = w->engine.fk.floor; e < w->engine.fk.bottom; e++) {
		strand_keep_back(w, load_relaxed(&e->word));
		COUNT(w, steals);
	}
	strand_reset_deque(w);
}

bool strand_delay(struct worker *w, struct fk_frame *child)
{
	if (child->slot & FK_CALLED || !w->engine.n_forced || w->engine.n_late >= WORKER_LATE ||
	    strand_self_steal_last(w) != (uintptr_t)child->parent)
		return false;
	w->engine.n_late++;
	strand_set_aside(w, child);
	w->engine.n_forced--;
	strand_keep_back(w, (uintptr_t)child | STRAND_LATE);
	strand_keep_back(w, (uintptr_t)child->parent);
	return true;
}

struct fk_frame *strand_pop_forced(struct worker *w)
{
	struct fk_frame *frame;
	uint64_t word;

	if (!w->engine.n_forced)
		return NULL;
	word = strand_self_steal_last(w);
	frame = (struct fk_frame *)(uintptr_t)(word & ~STRAND_LATE);
	w->engine.n_forced--;
	w->engine.n_late -= word & STRAND_LATE;
	preempted_end(w, frame->job);
	return frame;
}
