/* SPDX-License-Identifier: MIT */
/*
 * preempt_switch.c - suspended jobs in a worker's deque alternate with the running job
 *
 * A worker whose job yields to a better claim suspends the running frame: it becomes the newest
 * entry of the deque, and the other job runs above it. A job whose child went to another worker
 * waits there, too. Without an idle thief, the lower job would wait until the upper one ends. So
 * the worker has a slice timer (slice_timer.h), which sends it a preempt request. At the next fork
 * it determines which job has used less than its share (fair_queue.c), and when that may change. If
 * it is a waiting job, the worker suspends the running frame and moves the other job's entries to
 * the newest end:
 *
 * 	oldest [ A a A' ] [ B b B' ]  bottom     A', B': suspended; the loop would resume B'
 * 	oldest [ B b B' ] [ A a A' ]  bottom     after preempted_bring_up(A)
 *
 * Threads: the worker whose deque it is, between two strands. abort.c and slice_signal.c read
 * preempted.n.
 *
 * INVARIANTS
 *   I1. Only private entries are moved: all public ones are taken back first, and published again
 *       afterwards. A thief that read an entry while it moved fails its CAS (deque.h, I3).
 *   I2. Entries of one job keep their order, so thieves still take a job's oldest entry first.
 *   I3. No strand runs, so no entry has a live C activation (engine_internal.h, O4): any worker may
 *       resume any entry, and the order between jobs does not matter. A child that ends and does
 *       not find its parent as the newest entry leaves it there, as if it had been stolen; the
 *       worker that pops it counts that as a steal.
 *   I4. The time of a move grows with the deque. The next move is made at the earliest after
 *       PREEMPTED_SHARE times the duration of the last one, so moves remain a small share. A job
 *       that has failed does not wait for that, and all failed jobs are moved up at once.
 */
#include "daemon/engine/preempt_switch.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "daemon/core/deque.h"
#include "daemon/core/hooks.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/job_abort.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/engine/preempted.h"
#include "daemon/engine/slow_path.h"
#include "shm/ledger.h"

#define PREEMPTED_SHARE 16u

/* Removes jobs that were stolen completely and have ended. Relaxed: a waiting job is RUNNING, and
 * was seen so when it was added; any other row may belong to a new job, or be free. */
static uint32_t preempted_forget(struct worker *w)
{
	const _Atomic uint64_t *rows = arena_rows(w->pool->arena);
	struct preempted_jobs *preempted = &w->roots.preempted_jobs;
	uint32_t n = 0;

	for (uint32_t i = 0; i < preempted_count(preempted); i++) {
		uint32_t row = preempted->rows[i];
		uint64_t word = load_relaxed(&rows[row]);

		if (ledger_unpack(word).state == LEDGER_RUNNING)
			preempted->rows[n++] = row;
	}
	if (n != preempted_count(preempted))
		preempted_set_count(preempted, n);
	return n;
}

bool preempted_claims(struct worker *w, bool asked, uint32_t *ret_row)
{
	struct preempted_jobs *preempted = &w->roots.preempted_jobs;
	uint32_t n = preempted_forget(w);
	uint32_t row;

	for (uint32_t i = 0; i < n; i++) {
		if (abort_get(w->pool, preempted->rows[i]).outcome) {
			*ret_row = preempted->rows[i];
			return true;
		}
	}
	if (!asked)
		return false;
	row = w->pool->hooks->turn(w, preempted->rows, n, preempted->not_before);
	if (row == w->job.row)
		return false;
	*ret_row = row;
	return true;
}

/* Relaxed: no thief may take any of these. */
static uint64_t preempted_word(struct fk_entry *entry)
{
	return load_relaxed(&entry->word);
}

static struct fk_frame *preempted_frame(uint64_t word)
{
	return (struct fk_frame *)(uintptr_t)(word & ~STRAND_DELAYED);
}

/* Moves the entries of this job, and of all that have failed, after the others. Then records the
 * waiting jobs: each that has entries of another job above it, or is to run next. */
static void preempted_sort(struct worker *w, struct fk_entry *entries, uint64_t n, uint32_t row)
{
	struct preempted_jobs *preempted = &w->roots.preempted_jobs;
	uint64_t *words = malloc(n * sizeof(*words)), n_words = 0;
	struct fk_entry *to = entries;
	uint32_t last = WORKER_NO_JOB, n_rows = 0;
	bool goes = false;

	/* Without memory the job continues at its next time slice, or after the jobs above it. */
	for (uint64_t i = 0; words && i < n; i++) {
		uint64_t word = preempted_word(&entries[i]);
		uint32_t job = preempted_frame(word)->job;

		if (job != last)
			goes = job == row || abort_get(w->pool, job).outcome;
		last = job;
		if (goes)
			words[n_words++] = word;
		else
			store_relaxed(&(to++)->word, word);
	}
	if (words)
		deque_copy_in(to, words, n_words);
	free(words);
	last = WORKER_NO_JOB;
	for (uint64_t i = 0; i < n; i++) {
		uint32_t job = preempted_frame(preempted_word(&entries[i]))->job;

		if (job != last)
			n_rows = preempted_add(preempted, n_rows, job);
		last = job;
	}
	/* In one store: other threads never see 0 in between. */
	preempted_set_count(preempted, n_rows);
}

void preempted_bring_up(struct worker *w, uint32_t row)
{
	uint64_t began = clock_ns();

	(void)strand_reclaim(w);
	if (w->engine.n_self_stolen) {
		/* They alternate in the list where the worker keeps self-stolen entries. */
		strand_self_steal_all(w);
		preempted_sort(w, w->engine.self_stolen, w->engine.n_self_stolen, row);
	} else {
		preempted_sort(w, w->engine.fk.floor,
			       (uint64_t)(w->engine.fk.bottom - w->engine.fk.floor), row);
	}
	FK_CRASH(preempted_moved);
	COUNT(w, jobs_resumed);
	w->roots.preempted_jobs.not_before = clock_ns() + PREEMPTED_SHARE * (clock_ns() - began);
	preempted_set_alarm(w);
}
