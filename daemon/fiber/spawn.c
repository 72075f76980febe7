/* SPDX-License-Identifier: MIT */
/*
 * spawn.c - begins fibers: those that a fiber spawns, and the root of a scope
 *
 * A frame that runs a fiber (FK_FIBER_TASK) is suspended, like one that moves to another worker. It
 * continues when the last fiber of the scope has ended.
 */
#include <errno.h>

#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/hooks.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/fiber/counter.h"
#include "daemon/fiber/create.h"
#include "daemon/fiber/fiber.h"
#include "daemon/fiber/scope.h"
#include "daemon/fiber/ready.h"
#include "daemon/fiber/self.h"

int fk_rt_fiber_spawn(void (*fn)(void *), void *arg, struct fk_counter *counter, uint32_t kind,
		      size_t stack, const char *name)
{
	struct fiber_plan plan = {
		.task = &fiber_task,
		.fn = fn,
		.arg = arg,
		.name = name,
		.kind = kind,
		.stack = stack,
	};
	struct fiber *self = fiber_self(), *f = NULL;
	struct worker *w;
	bool asked;
	int r;

	if (!self)
		return -EPERM;
	if (fiber_on_shared_stack(self, arg, 1) ||
	    (counter && fiber_on_shared_stack(self, counter, sizeof(*counter))))
		return -EINVAL;
	w = strand_enter(&self->head.worker->engine.fk);
	r = fiber_is_over(self) ? -ECANCELED : 0;
	if (r == 0)
		r = fiber_new(w, self->scope, &plan, &f);
	if (r == 0 && counter) {
		f->counter = counter;
		r = fiber_counter_begin(counter);
		if (r < 0)
			fiber_free(w, f);
	}
	if (r < 0) {
		fk_enter(&w->engine.fk, (uintptr_t)&self->head.frame);
		return r;
	}
	f->depth = self->depth + 1;
	/* Relaxed: the caller is counted, so live is above 0. */
	add_relaxed(&self->scope->live, 1);
	fiber_put(w, f);
	asked = !load_relaxed(&w->engine.fk.limit);
	fk_enter(&w->engine.fk, (uintptr_t)&self->head.frame);
	if (asked)
		(void)fiber_leave(self, FIBER_AGAIN);
	return 0;
}

struct fk_frame *fk_rt_fiber_run(struct fk_worker *fk, struct fk_frame *frame, uint32_t site,
				 void (*fn)(void *), size_t stack, const char *name)
{
	uintptr_t current = fk->current;
	struct worker *w = strand_enter(fk);
	const struct fiber_plan plan = {
		.task = &fiber_task,
		.fn = fn,
		.arg = frame,
		.name = name,
		.kind = FK_STACK_GUARDED,
		.stack = stack,
		.room = sizeof(struct scope),
	};
	struct scope *scope;
	int r = scope_new(w, frame, &plan, &scope);

	STRAND_PROFILE(w, stop);
	if (r < 0) {
		worker_fail(w, r);
		fk_enter(fk, current);
		return NULL;
	}
	fk_set_site(frame, site | FK_PARTED);
	strand_set_aside(w, frame);
	if (!strand_own_stack(w))
		worker_fail(w, -ENOMEM);
	/* The owner frame's ancestors are not ancestors of tasks that its fibers call. */
	w->engine.job_base = w->engine.fk.bottom;
	return &scope->root->head.frame;
}
