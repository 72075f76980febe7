/* SPDX-License-Identifier: MIT */
/*
 * self_steal.c - the check modes: a worker steals from itself
 *
 * Used only in modes that pool_set_fork_mode() has set:
 * - force_steals: limit stays 0. Each fork is published and taken off the deque by its own worker,
 *   which resumes it as a thief when the child has ended.
 * - late_children: the same, but the worker resumes it at once. A forked child that gets a frame is
 *   suspended first, as if it had moved.
 * - fuzz_seed: some forks, at random, are treated as with force_steals; schedule_fuzz.c adds
 *   further disturbances.
 * - profile: as force_steals, on one worker; STRAND_PROFILE is at each place where a task's code
 *   begins or ends (work_span.c).
 * No mode does more than thieves, movers and requests do, only in another order or more often.
 *
 * Threads: the owner of the entries: at a fork, at a child's first frame, between two strands.
 *
 * INVARIANTS
 *   I1. self_stolen belongs to the worker alone, newest last. Its entries are in no deque. They are
 *       adopted like stolen ones, when the worker's own deque is empty (worker_find()).
 *   I2. n_delayed of them are STRAND_DELAYED, each of which may have a stack.
 */
#include "daemon/engine/engine_internal.h"

#include <stdlib.h>

#include "common/relaxed.h"
#include "daemon/engine/preempted.h"

/* word: a frame, with or without STRAND_DELAYED. */
static void strand_self_steal_add(struct worker *w, uint64_t word)
{
	if (w->engine.n_self_stolen == w->engine.max_self_stolen) {
		w->engine.max_self_stolen =
			w->engine.max_self_stolen ? 2 * w->engine.max_self_stolen : 1024;
		w->engine.self_stolen =
			reallocarray(w->engine.self_stolen, w->engine.max_self_stolen,
				     sizeof(*w->engine.self_stolen));
		if (!w->engine.self_stolen)
			abort();
	}
	store_relaxed(&w->engine.self_stolen[w->engine.n_self_stolen++].word, word);
}

static uint64_t strand_self_steal_last(const struct worker *w)
{
	return load_relaxed(&w->engine.self_stolen[w->engine.n_self_stolen - 1].word);
}

void strand_self_steal(struct worker *w)
{
	uint64_t word, n;

	while (deque_steal(&w->engine.frames, &word, 1, &n) == DEQUE_STOLEN) {
		strand_self_steal_add(w, word);
		COUNT(w, steals);
	}
}

void strand_self_steal_all(struct worker *w)
{
	for (struct fk_entry *e = w->engine.fk.floor; e < w->engine.fk.bottom; e++) {
		strand_self_steal_add(w, load_relaxed(&e->word));
		COUNT(w, steals);
	}
	strand_reset_deque(w);
}

bool strand_delay(struct worker *w, struct fk_frame *child)
{
	if (child->slot & FK_CALLED || !w->engine.n_self_stolen ||
	    w->engine.n_delayed >= WORKER_DELAYED ||
	    strand_self_steal_last(w) != (uintptr_t)child->parent)
		return false;
	w->engine.n_delayed++;
	strand_set_aside(w, child);
	w->engine.n_self_stolen--;
	strand_self_steal_add(w, (uintptr_t)child | STRAND_DELAYED);
	strand_self_steal_add(w, (uintptr_t)child->parent);
	return true;
}

struct fk_frame *strand_pop_self_stolen(struct worker *w)
{
	struct fk_frame *frame;
	uint64_t word;

	if (!w->engine.n_self_stolen)
		return NULL;
	word = strand_self_steal_last(w);
	frame = (struct fk_frame *)(uintptr_t)(word & ~STRAND_DELAYED);
	w->engine.n_self_stolen--;
	w->engine.n_delayed -= word & STRAND_DELAYED;
	preempted_end(w, frame->job);
	return frame;
}
