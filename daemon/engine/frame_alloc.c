/* SPDX-License-Identifier: MIT */
/*
 * frame_alloc.c - temporary memory for tasks: FK_ALLOC and FK_FREE
 *
 * Memory on the worker's segmented stack, after the frame of the task. Each allocation is followed
 * by a struct alloc_block, which ends at frame->top and stores where the frame ended before it. So
 * any worker that runs the frame finds the newest allocation from the frame alone.
 *
 * Threads: tasks, on the worker that runs them, in the resumed clone; slow_path.c when a frame
 * ends.
 *
 * INVARIANTS
 *   I1. Both are called only when no fork is outstanding and no child runs. Then the frame is on
 *       the top of the worker's own stack, and memory is freed in reverse order of allocation.
 *   I2. Memory that a task has not freed is freed with its frame.
 */
#include "daemon/engine/frame_alloc.h"

#include "common/util.h"
#include "daemon/engine/slow_path.h"

/* Follows each allocation. */
struct alloc_block {
	char *top;   /* frame->top before the allocation */
	void *start; /* the result of FK_ALLOC */
};

static char *alloc_frame_end(const struct fk_frame *frame)
{
	return (char *)frame + frame->task->frame_size;
}

/* Frees the newest allocation of the frame on top of the worker's stack. */
static void alloc_free_newest(struct worker *w, struct fk_frame *frame)
{
	struct alloc_block *block = (struct alloc_block *)(void *)frame->top - 1;
	char *start = block->start;

	frame->top = block->top;
	w->engine.fk.sp = frame->top;
	if (start == (char *)align_up((uintptr_t)stack_first(w->engine.top), 16) &&
	    w->engine.top->prev && w->engine.top->below == frame->top)
		w->engine.fk.sp = strand_pop_stacklet(w);
}

void *fk_rt_alloc(struct fk_worker *fk, struct fk_frame *frame, size_t size)
{
	uintptr_t current = fk->current;
	struct worker *w = strand_enter(fk);
	char *start, *end;

	if (w->engine.fk.sp != frame->top || frame->steals) {
		strand_misused(w, frame->task,
			       "FK_ALLOC where a fork is outstanding; join it first");
		fk_enter(fk, current);
		return NULL;
	}
	size = min(size, (size_t)1 << 42); /* never available, and no sum overflows */
	start = (char *)align_up((uintptr_t)w->engine.fk.sp, 16);
	end = start + align_up(size, 16) + sizeof(struct alloc_block);
	if (end > w->engine.top->end - FK_SLACK) {
		if (!strand_push_stacklet(w, w->engine.fk.sp,
					  align_up(size, 16) + sizeof(struct alloc_block) + 16)) {
			fk_enter(fk, current);
			return NULL;
		}
		start = (char *)align_up((uintptr_t)stack_first(w->engine.top), 16);
		end = start + align_up(size, 16) + sizeof(struct alloc_block);
	}
	((struct alloc_block *)(void *)end)[-1] = (struct alloc_block){ frame->top, start };
	frame->top = end;
	w->engine.fk.sp = end;
	fk_enter(fk, current);
	return start;
}

void fk_rt_free(struct fk_worker *fk, struct fk_frame *frame, void *memory)
{
	uintptr_t current = fk->current;
	struct alloc_block *block = (struct alloc_block *)(void *)frame->top - 1;
	struct worker *w;

	if (!memory)
		return;
	w = strand_enter(fk);
	/* Memory that is not freed here is freed at the end of the task. */
	if (w->engine.fk.sp != frame->top || frame->steals ||
	    frame->top == alloc_frame_end(frame) || block->start != memory)
		strand_misused(w, frame->task,
			       "FK_FREE of what is not its newest FK_ALLOC, or where a "
			       "fork is outstanding");
	else
		alloc_free_newest(w, frame);
	fk_enter(fk, current);
}

void alloc_end(struct worker *w, struct fk_frame *frame)
{
	while (frame->top != alloc_frame_end(frame))
		alloc_free_newest(w, frame);
}
