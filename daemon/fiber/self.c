/* SPDX-License-Identifier: MIT */
/* self.c - the calling fiber, and the memory that its job holds */
#include "daemon/fiber/self.h"

#include "common/relaxed.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/context_switch.h"
#include "daemon/core/job_abort.h"
#include "daemon/core/worker.h"

struct fiber *fiber_self(void)
{
	struct worker *w = worker_self();

	return w && w->fiber.self ? fiber_of(&w->fiber.self->frame) : NULL;
}

bool fiber_is_over(const struct fiber *f)
{
	return abort_get(f->head.worker->pool, f->head.frame.job).outcome;
}

bool fiber_reserve(struct worker *w, uint64_t bytes)
{
	_Atomic uint64_t *held = &w->pool->rows.stack_bytes[w->job.row];

	/* Relaxed: a sum, as in stacklet.c. */
	if (add_relaxed(held, bytes) + bytes <= w->engine.cache.max) {
		COUNT_ADD(w, fiber_bytes, bytes);
		return true;
	}
	sub_relaxed(held, bytes);
	return false;
}

void fiber_release(struct worker *w, uint32_t job, uint64_t bytes)
{
	sub_relaxed(&w->pool->rows.stack_bytes[job], bytes);
	COUNT_ADD(w, fiber_bytes, -bytes);
}

/* Not inlined: the stack depth must be the same at each call from one function. */
__attribute__((noinline)) bool fiber_leave(struct fiber *f, enum fiber_after after)
{
	struct worker *w = f->head.worker;

	fk_enter(&w->engine.fk, 0);
	f->after = (uint8_t)after;
	f->refused = false;
	switch_to(&f->context, &w->engine.loop->context);
	/* The fiber is back, maybe on another worker: f->head.worker. */
	fk_enter(&f->head.worker->engine.fk, (uintptr_t)&f->head.frame);
	return !f->refused;
}

bool fiber_rest(struct fiber *f)
{
	do {
		if (fiber_leave(f, FIBER_PARKS))
			return true;
		/* If stay fails, a waker is about to deliver. */
	} while (!fiber_park_stay(&f->park));
	return fiber_park_reason(&f->park) != FIBER_STAYED;
}
