/* SPDX-License-Identifier: MIT */
/*
 * safepoint.c - serves requests: publishes entries, suspends the running frame
 *
 * A thread that sends a request to a running worker lowers the worker's limit (worker_ask()). The
 * worker comes here at its next fork or frame. It takes the request, publishes, and suspends its
 * frame if it has mail or another job has a better claim. A worker in a long leaf reaches no fork,
 * and gets a signal (work_search.c, ASKING), unless the pool has none (worker_signal.h).
 *
 * Threads: the worker with the request: tasks, the other parts of strand, and the handler of
 * the pool's signal (strand_publish_from_signal()).
 *
 * PUBLISHING WORK UNDER A RUNNING LEAF
 *   strand_publish_from_signal() runs in a signal handler on the worker's thread, so only the
 *   compiler must keep the order: the handler sees all stores of the interrupted code so far. It
 *   acts only while `current` is the newest frame. All other code of strand that changes the deque
 *   or the stack clears current first (strand_enter()). On the deque it does the same as the owner
 *   at a safepoint: it pushes at bottom and moves floor up. The inlined code reads floor after it
 *   has stored bottom (fk_pop()): ORDER leaf/expose [E1]. tests/model/expose.c runs the two
 *   together.
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
#include "daemon/engine/nested.h"
#include "daemon/engine/slow_path.h"
#include "daemon/engine/preempt_switch.h"

void strand_publish(struct worker *w)
{
	/* In a signal within fk_pop(), floor may be above bottom; fk_rt_pop() is called next. */
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
	COUNT(w, requests_served);
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
	/* The other job needs an entry above the suspended frame. */
	if (w->engine.fk.bottom == w->engine.fk.end) {
		if (inbox_any(&w->inbox))
			worker_ask(w); /* the slice timer handles everything else */
		return true;
	}
	mail = mail && inbox_any(&w->inbox);
	/* Each job that is preempted in a nested call takes a C stack with it. */
	if (!mail && w->engine.nested && w->engine.n_held >= NESTED_LOOPS / 2)
		return true;
	/* Mail runs first; a preempt request is taken at the next fork. */
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
	/* Root jobs run before this frame if that was decided now, or before, for a frame below
	 * it. */
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
	/* If this is a fork, the next entry that is pushed is the only one to publish. */
	w->engine.publish = strand_steals_itself(w) || !deque_size(&w->engine.frames);
	STRAND_PROFILE(w, go, frame);
	fk_enter(fk, current);
	return true;
}

void strand_publish_from_signal(struct worker *w)
{
	uintptr_t current = w->engine.fk.current;

	if (!current)
		return;
	strand_promote_running(w, current);
	COUNT(w, published_by_signal);
	strand_publish(w);
}
