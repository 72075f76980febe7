/* SPDX-License-Identifier: MIT */
/*
 * frame_bridge.c - fibers run frames
 *
 * A fiber that calls a task of frames leaves its stack; the task runs from the loop, as a job's
 * first one does, with a frame of the fiber's record as its parent: the bridge. When the task has
 * ended, by a C return or because the loop resumes the bridge, on whatever worker, the fiber goes
 * on there.
 */
#include "daemon/fiber/frame_bridge.h"

#include <errno.h>
#include <string.h>

#include "daemon/core/pool_state.h"
#include "daemon/core/hooks.h"
#include "daemon/core/worker.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/fiber/shared_stack.h"
#include "daemon/fiber/slab.h"
#include "daemon/fiber/fiber_types.h"
#include "daemon/fiber/self.h"

static struct fk_frame *fiber_bridge_resume(struct fk_worker *fk, struct fk_frame *bridge)
{
	struct worker *w = worker_of(fk);
	struct fiber *f = container_of(bridge, struct fiber, calls.bridge);

	stack_trim(&w->engine.cache, w->engine.top);
	return &f->head.face;
}

static const struct fk_task fiber_bridge = { "(fiber's call)", fiber_bridge_resume, NULL, NULL,
					     sizeof(struct fk_frame) };

struct fk_frame *fiber_call(struct worker *w, struct fiber *f)
{
	struct fiber_calls *calls = &f->calls;
	struct fk_frame *bridge = &calls->bridge;

	/* Without memory for its frames, the job has failed (strand_adopt()). */
	if (!strand_own_stack(w)) {
		worker_fail(w, -ENOMEM);
		return &f->head.face;
	}
	shared_stacks_wait(w);
	*bridge = (struct fk_frame){ .task = &fiber_bridge, .job = f->head.face.job };
	bridge->top = w->engine.fk.sp;
	fk_set_site(bridge, FK_PARTED);
	w->engine.base = bridge;
	w->engine.fk.slot = (uintptr_t)calls->result | FK_CALLED;
	w->engine.fk.child = calls->task;
	fk_enter(&w->engine.fk, (uintptr_t)bridge);
	calls->enter(&w->engine.fk, w->engine.fk.sp, calls->result, calls->args);
	/* Here the strand was never left: the same worker, the same stack. */
	fk_enter(&w->engine.fk, 0);
	return fiber_bridge_resume(&w->engine.fk, bridge);
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
	/* Who ends the task writes there while others are on this stack. The arguments are taken
	 * off it before anything else is run. */
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
