/* SPDX-License-Identifier: MIT */
/*
 * safepoint.c - others ask: entries become public, the running frame makes way
 *
 * A thread with a request to a busy worker lowers its limit (worker_ask()), and the worker comes
 * here at its next fork or frame: it takes the request, publishes, and sets its frame aside if
 * there is mail or another job has a better claim. A worker in a long leaf reaches none, and gets a
 * signal (work_search.c, ASKING).
 *
 * Threads: the worker that was asked: tasks, the other parts of strand, and the handler of
 * WORKER_SIGNAL (strand_publish_from_signal()).
 *
 * EXPOSING WORK UNDER A RUNNING LEAF
 *   strand_publish_from_signal() runs in a signal handler on the worker's thread, so it needs no
 *   ordering but the compiler's: it sees what the interrupted code has stored so far. It acts only
 *   while `current` names the newest frame; whatever else of strand changes the deque or the stack
 *   is entered with current cleared first (strand_enter()). What it does to the deque is what the
 *   owner does at attention: it pushes at bottom and moves floor up, and the inlined code reads
 *   floor after it has stored bottom (fk_pop()): ORDER leaf/expose [E1]. tests/model/expose.c runs
 *   the two together.
 */
#include "daemon/engine/engine_internal.h"

#include "common/crash_site.h"
#include "common/util.h"
#include "daemon/core/deque.h"
#include "daemon/core/mailbox.h"
#include "daemon/core/hooks.h"
#include "daemon/core/steal_policy.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/work_span.h"
#include "daemon/core/preempt_request.h"
#include "daemon/core/job_abort.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/engine/slow_path.h"
#include "daemon/engine/preempt_switch.h"

void strand_publish(struct worker *w)
{
	/* Under a signal, within fk_pop(), floor may be above bottom: on its way to fk_rt_pop(). */
	uint64_t private = w->engine.fk.bottom > w->engine.fk.floor
				 ? (uint64_t)(w->engine.fk.bottom - w->engine.fk.floor)
				 : 0;
	uint64_t public = deque_size(&w->engine.frames);
	uint64_t n = strand_steals_itself(w)
			   ? min(private, POLICY_PUBLIC - min(public, POLICY_PUBLIC))
			   : policy_publish(public, private, POLICY_PUBLIC);

	/* A signal between fk_rt_attend() and the push that follows has nothing to publish yet. */
	if (!n)
		return;
	w->engine.publish = false;
	w->engine.fk.floor += n;
	FK_CRASH(strand_publishing);
	deque_publish(&w->engine.frames, n);
	FK_CRASH(strand_published);
	COUNT_ADD(w, published, n);
}

void fk_rt_publish(struct fk_worker *fk)
{
	uintptr_t current = fk->current;
	struct worker *w = strand_enter(fk);

	if (w->pool->mode.profile) {
		profile_stop(w->pool->mode.profile);
		profile_fork(w->pool->mode.profile, strand_newest(w));
	}
	if (w->engine.publish)
		strand_publish(w);
	if (w->pool->mode.force_steals || (w->pool->mode.fuzz_seed && worker_random(w) >> 63))
		strand_self_steal(w);
	STRAND_PROFILE(w, go, NULL);
	fk_enter(fk, current);
}

bool strand_safepoint(struct worker *w, struct fk_frame *frame, bool mail)
{
	uint32_t turn = WORKER_NO_JOB;
	bool asked, preempted;

	worker_take_request(w);
	COUNT(w, attentions);
	if (w->thief.wake_debt) {
		w->thief.wake_debt = false;
		w->pool->hooks->wake_one(w->pool, w);
	}
	if (abort_get(w->pool, w->job.row).outcome) {
		w->engine.unwind = frame;
		return false;
	}
	/* A profile is of one job at a time. */
	if (w->pool->mode.profile)
		return true;
	/* What goes first needs a place above the frame that is set aside. */
	if (w->engine.fk.bottom == w->engine.fk.end) {
		if (inbox_any(&w->inbox))
			worker_ask(w); /* its alarm rings for all else */
		return true;
	}
	mail = mail && inbox_any(&w->inbox);
	/* Mail goes first; a preempt request is taken at the next fork. */
	asked = !mail && preempt_take_request(w);
	if (mail && preempt_is_requested(w))
		worker_ask(w);
	preempted = asked && w->pool->hooks->preempt(w);
	if (!mail && !preempted && !preempted_claims(w, asked, &turn))
		return true;
	strand_set_aside(w, frame);
	(void)strand_push(w, frame);
	FK_CRASH(preempted_put);
	if (turn != WORKER_NO_JOB)
		preempted_bring_up(w, turn);
	w->engine.job_base = w->engine.fk.bottom;
	strand_publish(w);
	/* What is on the root deque goes before this frame if that was judged now, or before, for a
	 * frame below. */
	w->roots.root_first = preempted || (mail && w->roots.root_first);
	return false;
}

bool fk_rt_attend(struct fk_worker *fk, struct fk_frame *frame, uint32_t site)
{
	uintptr_t current = fk->current;
	struct worker *w = strand_enter(fk);

	STRAND_PROFILE(w, stop);
	fk_set_site(frame, site | FK_PARTED);
	if (!strand_safepoint(w, frame, true))
		return false;
	strand_publish(w);
	w->engine.empty_polls = 0;
	/* There is nothing else than what is pushed next, if this is a fork. */
	w->engine.publish = strand_steals_itself(w) || !deque_size(&w->engine.frames);
	STRAND_PROFILE(w, go, frame);
	fk_enter(fk, current);
	return true;
}

void strand_publish_from_signal(struct worker *w)
{
	uintptr_t current = w->engine.fk.current;
	struct fk_frame *frame = (struct fk_frame *)(current & ~FK_IN_CHILD);

	if (!current)
		return;
	/* The C activations live on: with the deque full, a frame that has forked stays fresh. The
	 * newest one's child may be on its way to a frame of its own, which is there then; if there
	 * is none, the place is free all the same (FK_SLACK). */
	if (strand_promote_chain(w, frame, NULL, false) && current & FK_IN_CHILD &&
	    frame != w->engine.base && !(fk_site(frame) & FK_PARTED))
		strand_promote_parent(
			w, frame,
			(struct fk_frame *)(void *)((char *)frame + frame->task->frame_size),
			false);
	COUNT(w, exposed);
	strand_publish(w);
}
