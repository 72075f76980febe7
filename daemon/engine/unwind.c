/* SPDX-License-Identifier: MIT */
/*
 * unwind.c - jobs that fail, and how they unwind (rows 16 and 17 of slow_path.c)
 *
 * Once a job has a verdict (job_abort.h) the loop resumes none of its frames. A frame that would
 * continue ends here, as if its body had: after its stolen children, and when it has freed what it
 * holds (FK_UNWIND). While the worker runs no task with such a block, all private ancestors of the
 * frame end at once.
 *
 * Threads: workers: strand_run(), instead of resuming a frame.
 */
#include "daemon/engine/engine_internal.h"

#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/stacklet.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/engine/slow_path.h"
#include "daemon/core/hooks.h"

/* The job of frame, on top of the worker's stack, has failed, and no frame on the way needs
 * FK_UNWIND: drops everything down to the oldest private ancestor. Returns that one, which is
 * removed from the deque. */
static struct fk_frame *strand_drop_chain(struct worker *w, struct fk_frame *frame)
{
	struct fk_entry *oldest = max(w->engine.fk.floor, w->engine.job_base);
	struct fk_stack *stacklet = w->engine.top;
	struct fk_frame *parent;

	if (w->engine.fk.unwinds || frame->steals || w->engine.fk.sp != frame->top ||
	    oldest >= w->engine.fk.bottom)
		return frame;
	parent = (struct fk_frame *)(uintptr_t)load_relaxed(&oldest->word);
	COUNT_ADD(w, unwound, w->engine.fk.bottom - oldest);
	w->engine.fk.bottom = oldest;
	/* The parent is on this stack, or, if it was stolen, on no stack of the worker. */
	while (stacklet && !(parent->top > (char *)stacklet && parent->top <= stacklet->end))
		stacklet = stacklet->prev;
	while (w->engine.top != (stacklet ? stacklet : w->engine.stack))
		strand_pop_stacklet(w);
	w->engine.fk.sp = stacklet ? parent->top : stack_first(w->engine.stack);
	return parent;
}

struct fk_frame *strand_unwind(struct worker *w, struct fk_frame *frame)
{
	frame = strand_drop_chain(w, frame);
	FK_CRASH(unwind_dropped);
	if (!frame->parent)
		return frame; /* the root gives the job its outcome */
	if (frame->steals && !fk_rt_join(&w->engine.fk, frame))
		return NULL; /* the last child comes here again */
	COUNT(w, unwound);
	/* A frame whose body has not begun holds nothing, and its locals are not set. */
	if (frame->task->unwind && fk_site(frame) & FK_SITE_MASK) {
		w->pool->hooks->hang_expect(w->pool);
		frame->task->unwind(frame);
	}
	return fk_rt_finish(&w->engine.fk, frame);
}
