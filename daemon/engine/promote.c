/* SPDX-License-Identifier: MIT */
/*
 * promote.c - fresh frames become frames that other workers can resume
 *
 * Only the site of a fresh frame is in memory (forkd/task.h, THE FAST PATH). Before the paths part,
 * the chain of fresh frames is walked from the base (O4) up. Each header is filled in from the
 * child's data, which NAME__describe returns. A frame that has forked gets its entry in the deque,
 * still private.
 *
 * Threads: a worker whose C activations end here: a frame does not fit into its place, or continues
 * in the loop (worker_thread.c). Its signal handler, while they continue (safepoint.c). So the same
 * frames may be walked twice, which FK_PARTED shows.
 */
#include "daemon/engine/engine_internal.h"

#include <assert.h>

#include "common/relaxed.h"

void strand_promote(struct worker *w, struct fk_frame *frame)
{
	frame->steals = 0;
	frame->stack = NULL;
	frame->top = (char *)frame + frame->task->frame_size;
	frame->job = w->job.row;
	store_relaxed(&frame->joins, 0);
	fk_set_site(frame, (fk_site(frame) & ~FK_DST) | FK_PARTED);
}

bool strand_promote_parent(struct worker *w, struct fk_frame *frame, struct fk_frame *child,
			   bool must)
{
	struct fk_child info;
	bool pushed;

	frame->task->describe(frame, &info);
	if (info.forked && !must && w->engine.fk.bottom == w->engine.fk.end)
		return false;
	if (fk_site(frame) & FK_DST)
		info.dst = frame->stack;
	assert(info.task && info.dst);
	strand_promote(w, frame);
	/* If the deque is full, the child counts as called. */
	pushed = info.forked && strand_push(w, frame);
	child->task = info.task;
	child->slot = (uintptr_t)info.dst | (pushed ? 0 : FK_CALLED);
	child->parent = frame;
	if (pushed) {
		/* Its activation ends only in the loop, and a thief may soon have it. */
		w->engine.base = frame;
		w->engine.fk.sp = frame->top;
		w->engine.fk.child = child->task;
		w->engine.fk.slot = child->slot;
	}
	return true;
}

/* From the base of the strand that the worker runs. */
static bool strand_promote_strand(struct worker *w, struct fk_frame *last, char *sp, bool must)
{
	struct fk_frame *frame = w->engine.base;
	struct fk_frame *at = (struct fk_frame *)(void *)w->engine.fk.sp;

	while (frame != last) {
		struct fk_frame *child = (char *)at == sp ? last : at;

		if (frame == w->engine.base) {
			child->task = w->engine.fk.child;
			child->slot = w->engine.fk.slot;
			child->parent = frame;
		} else if (!(fk_site(frame) & FK_PARTED)) {
			if (!strand_promote_parent(w, frame, child, must))
				return false;
		} else if (child != at) {
			/* Parted by strand_publish_from_signal() before the child had its place. */
			child->task = at->task;
			child->slot = at->slot;
			child->parent = at->parent;
		}
		frame = child;
		at = (struct fk_frame *)(void *)((char *)child + child->task->frame_size);
	}
	return true;
}

/* The C activations of the strand continue: if the deque is full, a frame that has forked stays
 * fresh. */
static void strand_promote_current(struct worker *w, uintptr_t current)
{
	struct fk_frame *frame = (struct fk_frame *)(current & ~FK_IN_CHILD);

	/* The newest frame's child may just be getting its own frame, which then is at this place;
	 * if not, the place is free (FK_SLACK). */
	if (strand_promote_strand(w, frame, NULL, false) && current & FK_IN_CHILD &&
	    frame != w->engine.base && !(fk_site(frame) & FK_PARTED))
		strand_promote_parent(
			w, frame,
			(struct fk_frame *)(void *)((char *)frame + frame->task->frame_size),
			false);
}

/* Lets the worker's base be that of another strand. */
static void strand_swap_base(struct worker *w, struct strand_state *strand)
{
	struct strand_state other = {
		.base = w->engine.base,
		.sp = w->engine.fk.sp,
		.slot = w->engine.fk.slot,
		.child = w->engine.fk.child,
	};

	w->engine.base = strand->base;
	w->engine.fk.sp = strand->sp;
	w->engine.fk.slot = strand->slot;
	w->engine.fk.child = strand->child;
	strand->base = other.base;
	strand->sp = other.sp;
	strand->slot = other.slot;
	strand->child = other.child;
}

/* The frames of the callers of nested calls, oldest first (nested.c, N5). */
static void strand_promote_callers(struct worker *w)
{
	struct nested_call *call = w->engine.nested;

	if (!call || call->promoted)
		return;
	for (call->promoted = true; call->older && !call->older->promoted; call->promoted = true)
		call = call->older;
	for (; call; call = call->newer) {
		struct fk_entry **base =
			call->newer ? &call->newer->caller.job_base : &w->engine.job_base;

		if (call->caller.current) {
			strand_swap_base(w, &call->caller);
			strand_promote_current(w, call->caller.current);
			strand_swap_base(w, &call->caller);
		}
		/* The call has no entries yet. Those of its caller are not its own (N5). After
		 * nested_mark_older() it may be above. */
		*base = max(*base, w->engine.fk.bottom);
	}
}

bool strand_promote_chain(struct worker *w, struct fk_frame *last, char *sp, bool must)
{
	strand_promote_callers(w);
	return strand_promote_strand(w, last, sp, must);
}

void strand_promote_running(struct worker *w, uintptr_t current)
{
	strand_promote_callers(w);
	strand_promote_current(w, current);
}
