/* SPDX-License-Identifier: MIT */
/*
 * call_frame.c - fibers call tasks that have frames
 *
 * The fiber leaves its stack. The task runs from the loop, like a job's first task, with a call
 * frame in the fiber's record as its parent. The task ends by a C return, or the loop resumes the
 * call frame, on any worker. The fiber continues there.
 */
#include "daemon/fiber/call_frame.h"

#include <errno.h>
#include <string.h>

#include "daemon/core/pool_state.h"
#include "daemon/core/hooks.h"
#include "daemon/core/job_abort.h"
#include "daemon/core/worker.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/engine/nested.h"
#include "daemon/fiber/shared_stack.h"
#include "daemon/fiber/slab.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/fiber/self.h"

static struct fk_frame *fiber_call_resume(struct fk_worker *fk, struct fk_frame *frame)
{
	struct worker *w = worker_of(fk);
	struct fiber *f = container_of(frame, struct fiber, calls.frame);

	stack_trim(&w->engine.cache, w->engine.top);
	return &f->head.frame;
}

static const struct fk_task fiber_call_task = { "(fiber's call)", fiber_call_resume, NULL, NULL,
						sizeof(struct fk_frame) };

struct fk_frame *fiber_call(struct worker *w, struct fiber *f)
{
	struct fiber_calls *calls = &f->calls;
	struct fk_frame *frame = &calls->frame;

	if (!strand_own_stack(w)) {
		worker_fail(w, -ENOMEM);
		return &f->head.frame;
	}
	shared_stacks_wait(w);
	*frame = (struct fk_frame){ .task = &fiber_call_task, .job = f->head.frame.job };
	frame->top = w->engine.fk.sp;
	fk_set_site(frame, FK_PARTED);
	w->engine.base = frame;
	w->engine.fk.slot = (uintptr_t)calls->result | FK_CALLED;
	w->engine.fk.child = calls->task;
	fk_enter(&w->engine.fk, (uintptr_t)frame);
	calls->enter(&w->engine.fk, w->engine.fk.sp, calls->result, calls->args);
	/* The strand was never left. */
	fk_enter(&w->engine.fk, 0);
	return fiber_call_resume(&w->engine.fk, frame);
}

int nested_call(struct worker *w,
		void (*enter)(struct fk_worker *fk, char *sp, void *result, const void *args),
		const struct fk_task *task, void *result, size_t size, const void *args)
{
	if (!w)
		return -EPERM;
	return w->fiber.self ? fk_rt_fiber_call(enter, task, result, size, args)
			     : nested_run(w, enter, task, result, args);
}

bool nested_shares_stack(const struct worker *w, const void *args, size_t size)
{
	const char *word;

	for (size_t at = 0; w->fiber.self && at + sizeof(word) <= size; at += sizeof(word)) {
		memcpy(&word, (const char *)args + at, sizeof(word));
		if (fiber_on_shared_stack(fiber_of(&w->fiber.self->frame), word, 1))
			return true;
	}
	return false;
}

bool nested_is_over(struct worker *w)
{
	return abort_get(w->pool, w->job.row).outcome;
}

bool nested_is_alone(struct worker *w)
{
	return w && w->pool->n_workers == 1 && !w->fiber.self && w->job.row != WORKER_NO_JOB &&
	       !w->pool->mode.profile && !worker_is_asked(w) && !nested_is_over(w) &&
	       fk_stack_pointer >= w->engine.fk.cstack_limit;
}

int fk_rt_fiber_call(void (*enter)(struct fk_worker *w, char *sp, void *result, const void *args),
		     const struct fk_task *task, void *result, size_t size, const void *args)
{
	struct fiber *f = fiber_self();
	void *place = result;
	int r = 0;

	if (!f)
		return -EPERM;
	if (fiber_is_over(f))
		return -ECANCELED;
	/* The result is written while another fiber may be on this stack. The arguments are read
	 * before. */
	if (fiber_on_shared_stack(f, result, size)) {
		place = fiber_memory_get(&f->head.worker->pool->fibers->blocks,
					 f->head.worker->index, size);
		if (!place)
			return -ENOMEM;
		memcpy(place, result, size);
	}
	f->calls.enter = enter;
	f->calls.task = task;
	f->calls.result = place;
	f->calls.args = args;
	if (!fiber_leave(f, FIBER_CALLS))
		r = -ENOMEM;
	else if (fiber_is_over(f))
		r = -ECANCELED;
	if (place != result) {
		memcpy(result, place, size);
		fiber_memory_put(&f->head.worker->pool->fibers->blocks, place);
	}
	return r;
}
