/* SPDX-License-Identifier: MIT */
/*
 * slow_path.c - the slow paths of tasks
 *
 * The fk_rt_* functions that the macros of forkd/task.h call at a fork, a join and the end of a
 * task. engine_internal.h lists the other files, and the rules of ownership (O1 to O4).
 *
 * ALL THE CASES, when a child C of P has ended on worker W (E = W's deque has entries)
 *
 * 	C ran as         C was    E / reclaim    what happens
 * 	---------------- -------- -------------- -------------------------------------------------
 * 	1 nested, fresh P forked  not parted     P continues in the same C activation
 * 	2 nested, fresh P called  not looked at  P continues in the same C activation
 * 	3 nested, fresh P forked  parted         fk_rt_returned(): as 7, 8 or 9
 * 	4 nested, P resumed  forked  private     P continues in the same C activation
 * 	5 nested, P resumed  forked  taken back  the same, after fk_rt_pop()
 * 	6 nested, P resumed  forked  lost        fk_rt_pop(): P's stack goes to P if W is on it;
 * 	                                         joins - 1; the last child takes P over, else none
 * 	7 resumed        forked   private        fk_rt_finish(): P is popped and resumed
 * 	8 resumed        forked   taken back     the same
 * 	9 resumed        forked   lost           as 6
 * 	10 resumed or nested called   -          P is resumed, or continues in the same C activation
 * 	11 resumed       of root  -              the root frame is resumed: the job ends
 * 	and when P reaches its join
 * 	12 fresh         -        -              nothing to do, nothing is compiled
 * 	13 resumed       steals 0 -              one branch
 * 	14 resumed       steals>0 all have ended fk_rt_join(): takes P's stack over, continues
 * 	15 resumed       steals>0 some have not  fk_rt_join(): the last child resumes P (6 or 9)
 * 	and when the job of P has failed
 * 	16 P would be resumed, or forks          strand_unwind(): waits for stolen children as 14
 * 	                                         and 15 do, frees what P holds, and ends P as
 * 	                                         7 to 11
 * 	17 P has private ancestors of the job    the same with the oldest of them at once
 *
 *   Each row has a counter or a pair of them (forks_stolen, unpublished, joins_last, joins_waited,
 *   frames_materialized, published_by_signal, frames_suspended, unwound), and
 *   tests/unit/engine/check_slow_path.c drives each.
 */
#include "daemon/engine/slow_path.h"

#include <assert.h>
#include <string.h>

#include "common/crash_site.h"
#include "common/relaxed.h"
#include "daemon/core/deque.h"
#include "daemon/core/fork_mode.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/stacklet.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/engine/frame_alloc.h"
#include "daemon/core/join_counter.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/core/trace.h"
#include "daemon/core/job_abort.h"
#include "shm/board.h"

#define STRAND_EMPTY_POLLS                                                                         \
	8u /* successive frames for which a request stays pending that finds nothing to publish */

/* A child of parent has ended after the paths have parted. Returns parent if this was the last
 * child. */
static struct fk_frame *strand_child_ended(struct worker *w, struct fk_frame *parent)
{
	COUNT(w, forks_stolen);
	if (w->engine.fk.sp == parent->top)
		strand_give_stack(w, parent);
	else
		stack_trim(&w->engine.cache, w->engine.top);
	FK_CRASH(join_child);
	if (!join_child(&parent->joins))
		return NULL;
	FK_CRASH(join_last);
	COUNT(w, joins_last);
	parent->steals = 0;
	strand_take_stack(w, parent);
	return parent;
}

/*
 * A forked child of parent has ended in the loop, or left its C activation. Its parent's entry is
 * the newest, or the paths have parted: it was stolen, or the child has gone to another worker.
 * Returns the frame to run next.
 */
static struct fk_frame *strand_pop_parent(struct worker *w, struct fk_frame *parent)
{
	struct fk_frame *newest = strand_newest(w);

	/* Not the entry of an older child that has come back from another worker: that child was on
	 * parent's stack, or finds parent suspended. */
	if (newest == parent && !(fk_site(parent) & FK_MOVED) &&
	    !(parent->steals && w->engine.fk.sp == parent->top)) {
		w->engine.fk.bottom--;
		return parent;
	}
	if (!newest)
		strand_reset_deque(w);
	return strand_child_ended(w, parent);
}

void fk_rt_unnest(struct fk_worker *fk, struct fk_frame *frame, char *sp, uint32_t site)
{
	struct worker *w = strand_enter(fk);

	STRAND_PROFILE(w, enter, frame);
	(void)strand_promote_chain(w, frame, sp, true);
	fk_set_site(frame, site);
	strand_promote(w, frame);
	w->engine.fk.sp = frame->top;
	w->engine.next = frame;
	COUNT(w, frames_materialized);
	if (w->pool->mode.late_children && strand_delay(w, frame))
		w->engine.next = NULL;
	/* The child may reach no fork. */
	if (!w->pool->mode.force_steals && worker_is_asked(w)) {
		if (!strand_safepoint(w, frame, true))
			w->engine.next = NULL;
		strand_publish(w);
		/* Keep the request for the first fork; if no frame forks, drop it after some
		 * frames. */
		if (!deque_size(&w->engine.frames) && w->engine.empty_polls++ < STRAND_EMPTY_POLLS)
			worker_ask(w);
		else
			w->engine.empty_polls = 0;
	}
	STRAND_JUMP(w);
}

void *fk_rt_place(struct fk_worker *fk, char *sp, size_t size)
{
	struct worker *w = strand_enter(fk);
	struct fk_frame *parent;

	STRAND_PROFILE(w, stop);
	if (fk_reach(sp, size) <= w->engine.stack_limit)
		return sp;
	if (strand_push_stacklet(w, sp, size))
		return stack_first(w->engine.top);
	/* Treated as if the child had ended; the parent ends when it would continue. */
	(void)strand_promote_chain(w, &w->engine.nobody, sp, true);
	parent = w->engine.nobody.parent;
	w->engine.fk.sp = sp;
	w->engine.next = w->engine.nobody.slot & FK_CALLED ? parent : strand_pop_parent(w, parent);
	STRAND_JUMP(w);
}

void fk_rt_returned(struct fk_worker *fk, struct fk_frame *frame)
{
	struct worker *w = strand_enter(fk);

	w->engine.fk.sp = frame->top;
	w->engine.next = strand_pop_parent(w, frame);
	STRAND_JUMP(w);
}

bool fk_rt_pop(struct fk_worker *fk, struct fk_frame *frame, struct fk_frame **ret_next)
{
	uintptr_t current = fk->current;
	struct worker *w = strand_enter(fk);

	STRAND_PROFILE(w, stop);
	STRAND_PROFILE(w, leaf_done);
	assert(w->engine.fk.floor == w->engine.fk.bottom + 1);
	if (strand_reclaim(w) && !w->engine.was_held) {
		fk_enter(fk, current);
		return true;
	}
	/* If other strands have run here, the entry may be theirs, or the frame's own after it was
	 * resumed: then the loop has to resume it. */
	w->engine.fk.bottom++;
	*ret_next = strand_pop_parent(w, frame);
	return false;
}

bool fk_rt_join(struct fk_worker *fk, struct fk_frame *frame)
{
	struct worker *w = strand_enter(fk);

	STRAND_PROFILE(w, stop);
	assert(w->engine.fk.sp != frame->top); /* O3 */
	stack_trim(&w->engine.cache, w->engine.top);
	if (!join_parent(&frame->joins, frame->steals)) {
		/* The frame may already run on another worker. */
		COUNT(w, joins_waited);
		FK_CRASH(join_waiting);
		return false;
	}
	frame->steals = 0;
	strand_take_stack(w, frame);
	STRAND_PROFILE(w, join, frame);
	STRAND_PROFILE(w, go, frame);
	return true;
}

/* Removes a frame that has ended from the top of the worker's stack. */
static void strand_drop(struct worker *w, struct fk_frame *frame)
{
	assert(w->engine.fk.sp == frame->top);
	alloc_end(w, frame);
	w->engine.fk.sp = (char *)frame;
	if (w->engine.fk.sp == stack_first(w->engine.top) && w->engine.top->prev)
		w->engine.fk.sp = strand_pop_stacklet(w);
}

struct fk_frame *fk_rt_finish(struct fk_worker *fk, struct fk_frame *frame)
{
	struct worker *w = strand_enter(fk);
	bool called = frame->slot & FK_CALLED;
	struct fk_frame *parent = frame->parent;

	STRAND_PROFILE(w, stop);
	STRAND_PROFILE(w, done, frame);
	if (frame->steals) {
		strand_misused(w, frame->task, "it returned with forks that it has not joined");
		/* It ends after its children, and holds nothing: its body has ended. */
		fk_set_site(frame, FK_PARTED);
		w->engine.unwind = frame;
		return NULL;
	}
	strand_drop(w, frame);
	return called ? parent : strand_pop_parent(w, parent);
}

void fk_rt_count_fork(struct fk_worker *fk)
{
	struct worker *w = worker_of(fk);

	w->engine.forks++;
}
