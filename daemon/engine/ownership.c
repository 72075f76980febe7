/* SPDX-License-Identifier: MIT */
/*
 * ownership.c - transfers of frames, entries and stacks
 *
 * How a worker gets a stack to run on, passes it to a frame and takes it over; suspends the running
 * frame; adopts a stolen or suspended frame; sends a frame to another worker; and takes its own
 * entries back. engine_internal.h has the invariants, O1 to O4.
 *
 * Threads: the worker that owns the deque and the stack: from the other parts of strand and from
 * frame_alloc.c; between two strands from work_search.c and preempt_switch.c. Its signal handler
 * also calls strand_push().
 */
#include "daemon/engine/engine_internal.h"

#include <assert.h>
#include <errno.h>

#include "common/crash_site.h"
#include "common/relaxed.h"
#include "daemon/core/request_word.h"
#include "daemon/core/deque.h"
#include "daemon/core/placement.h"
#include "daemon/core/stacklet.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/engine/slow_path.h"
#include "daemon/core/hooks.h"
#include "daemon/engine/preempted.h"
#include "shm/fence.h"

void strand_set_limit(struct worker *w, struct fk_stack *stacklet)
{
	w->engine.stack_limit = (uintptr_t)stacklet->end - FK_SLACK;
	request_set(&w->engine.fk.limit, worker_limit(w));
}

bool strand_own_stack(struct worker *w)
{
	if (!w->engine.stack) {
		w->engine.stack = stack_new(&w->engine.cache);
		if (!w->engine.stack)
			return false;
	} else if (w->engine.top == w->engine.stack &&
		   w->engine.fk.sp == stack_first(w->engine.stack)) {
		return true;
	}
	w->engine.top = w->engine.stack;
	w->engine.fk.sp = stack_first(w->engine.stack);
	strand_set_limit(w, w->engine.stack);
	return true;
}

bool strand_push_stacklet(struct worker *w, char *sp, size_t size)
{
	struct fk_stack *next = stack_push(&w->engine.cache, w->engine.top, sp, size + FK_SLACK);

	if (!next) {
		worker_fail(w, -ENOMEM);
		return false;
	}
	w->engine.top = next;
	strand_set_limit(w, next);
	return true;
}

char *strand_pop_stacklet(struct worker *w)
{
	char *below = w->engine.top->below;

	w->engine.top = stack_pop(&w->engine.cache, w->engine.top);
	strand_set_limit(w, w->engine.top);
	return below;
}

void strand_give_stack(struct worker *w, struct fk_frame *frame)
{
	if (!stack_give(&w->engine.cache, w->engine.top))
		worker_fail(w, -ENOMEM);
	w->engine.stack->top = w->engine.top;
	frame->stack = w->engine.stack;
	w->engine.stack = NULL;
	w->engine.top = NULL;
	w->engine.fk.sp = NULL;
}

void strand_take_stack(struct worker *w, struct fk_frame *frame)
{
	assert(!w->engine.stack || (w->engine.top == w->engine.stack &&
				    w->engine.fk.sp == stack_first(w->engine.stack)));
	stack_free(&w->engine.cache, w->engine.stack);
	stack_take(&w->engine.cache);
	w->engine.stack = frame->stack;
	w->engine.top = w->engine.stack->top;
	frame->stack = NULL;
	w->engine.fk.sp = frame->top;
	strand_set_limit(w, w->engine.top);
}

void strand_set_aside(struct worker *w, struct fk_frame *frame)
{
	COUNT(w, frames_suspended);
	fk_set_site(frame, fk_site(frame) | FK_MOVED);
	if (w->engine.fk.sp == frame->top) {
		fk_set_site(frame, fk_site(frame) | FK_STACKED);
		strand_give_stack(w, frame);
	} else {
		stack_trim(&w->engine.cache, w->engine.top);
	}
}

void strand_adopt(struct worker *w, struct fk_frame *frame)
{
	uint32_t flags = fk_site(frame) & (FK_MOVED | FK_STACKED);

	if (w->job.row != frame->job) {
		w->pool->hooks->set_job(w, frame->job);
		/* ORDER verdict/runs [V3]: full, before the loop reads the job's verdict. Pairs
		 * with abort_put(). */
		fence_full();
	}
	fk_set_site(frame, fk_site(frame) & ~flags);
	if (flags & FK_STACKED) {
		strand_take_stack(w, frame);
		return;
	}
	if (!(flags & FK_MOVED))
		frame->steals++;
	/* A new child of the frame needs a stack to run on; stacks of children that it waits for
	 * are elsewhere. */
	if (!strand_own_stack(w))
		worker_fail(w, -ENOMEM);
}

/* Sends a frame to one particular worker. Returns 0 or -ENOMEM. */
static int strand_send(struct worker *w, struct worker *to, struct fk_frame *frame)
{
	int r = inbox_push(&to->inbox, frame);

	if (r < 0)
		return r;
	FK_CRASH(mail_put);
	w->pool->hooks->wake(to->pool, to->index, w);
	worker_ask(to);
	return 0;
}

bool fk_rt_move(struct fk_worker *fk, struct fk_frame *frame, uint32_t site, enum fk_goal goal,
		uint32_t index)
{
	uintptr_t current = fk->current;
	struct worker *w = strand_enter(fk);
	struct worker *to = goal == FK_TO_WORKER ? pool_worker_at(w->pool, index)
						 : pool_worker_on(w->pool, w, index);

	if (!to)
		worker_fail(w, -EINVAL);
	if (!to || to == w) {
		fk_enter(fk, current);
		return true;
	}
	fk_set_site(frame, site | FK_PARTED);
	strand_set_aside(w, frame);
	if (strand_send(w, to, frame) == 0)
		return false;
	worker_fail(w, -ENOMEM);
	strand_adopt(w, frame);
	fk_enter(fk, current);
	return true;
}

bool strand_push(struct worker *w, struct fk_frame *frame)
{
	struct fk_entry *b = w->engine.fk.bottom;

	if (b == w->engine.fk.end)
		return false;
	/* Relaxed: published later, by a release in deque_publish(). */
	store_relaxed(&b->word, (uintptr_t)frame);
	w->engine.fk.bottom = b + 1;
	return true;
}

bool strand_reclaim(struct worker *w)
{
	uint64_t n = deque_reclaim(&w->engine.frames);

	w->engine.fk.floor -= n;
	COUNT_ADD(w, unpublished, n);
	return n > 0;
}

struct fk_frame *strand_pop_own(struct worker *w)
{
	struct fk_frame *newest = strand_newest(w);

	if (!newest) {
		strand_reset_deque(w);
		return NULL;
	}
	/* A suspended frame; or, after its child has moved to another worker, a self-stolen one. */
	w->engine.job_base = --w->engine.fk.bottom;
	FK_CRASH(preempted_taken);
	preempted_end(w, newest->job);
	return newest;
}
