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

bool strand_promote_chain(struct worker *w, struct fk_frame *last, char *sp, bool must)
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
