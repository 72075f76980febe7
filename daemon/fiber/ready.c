/* SPDX-License-Identifier: MIT */
/*
 * ready.c - passes runnable fibers to workers
 *
 * A woken fiber goes into the deque of the worker that has woken it, if that worker runs a fiber or
 * no frame. Otherwise it goes into the inbox of a worker: code of frames owns the newest entry of
 * the deque, and other threads have no deque.
 */
#include "daemon/fiber/ready.h"

#include "daemon/core/hooks.h"
#include "daemon/core/mailbox.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker.h"
#include "daemon/engine/engine_internal.h"
#include "shm/board.h"
#include "shm/wake.h"

struct worker *shared_stack_holder(const struct worker *w, const struct shared_stack *shared)
{
	/* ORDER shared_stack/holder [B7]: acquire, the shared stack as the last holder has left it.
	 * Pairs with shared_stack_take(). */
	return &w->pool->workers[atomic_load_explicit(&shared->holder, memory_order_acquire)];
}

/* Returns the worker for a fiber that no worker has woken: the holder of its shared stack, if it
 * has one; otherwise its last worker, unless that one is busy and another is not. */
static struct worker *fiber_host(struct fiber *f)
{
	struct pool *pool = f->head.worker->pool;
	struct worker *busy = NULL;

	if (f->copy.shared)
		return shared_stack_holder(f->head.worker, f->copy.shared);
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct worker *w = &pool->workers[(f->head.worker->index + i) % pool->n_workers];

		if (worker_is_parked(w))
			continue;
		if (wake_state(wake_load(&w->board->wake)) != WAKE_BUSY)
			return w;
		busy = busy ? busy : w;
	}
	return busy ? busy : f->head.worker;
}

bool fiber_goes_anywhere(const struct fk_frame *frame)
{
	/* Frames of nested calls have a site, and go to their own worker. */
	return !(fk_site(frame) & FK_SITE_MASK) &&
	       !container_of(frame, struct fiber, head.frame)->copy.shared;
}

void fiber_send(struct worker *to, struct fiber *f)
{
	fk_set_site(&f->head.frame, FK_PARTED | FK_MOVED);
	inbox_put(&to->inbox, &f->head.frame);
}

void fiber_rouse(struct worker *to)
{
	to->pool->hooks->wake(to->pool, to->index, NULL);
	worker_ask(to);
}

void fiber_put(struct worker *w, struct fiber *f)
{
	fk_set_site(&f->head.frame, FK_PARTED | FK_MOVED);
	if (!strand_push(w, &f->head.frame)) {
		fiber_send(w, f);
		worker_ask(w);
		return;
	}
	w->engine.job_base = w->engine.fk.bottom;
}

void fiber_ready(struct worker *w, struct fiber *f)
{
	struct worker *to;

	if (w && !f->copy.shared) {
		fiber_put(w, f);
		return;
	}
	to = fiber_host(f);
	fiber_send(to, f);
	/* A worker checks its own inbox anyway. */
	if (to != w)
		fiber_rouse(to);
}

void fiber_ready_one(struct fiber_batch *batch, struct fiber *f)
{
	struct worker *to = fiber_host(f);

	fiber_send(to, f);
	batch->workers[to->index / 64] |= UINT64_C(1) << to->index % 64;
}

void fiber_ready_all(struct pool *pool, const struct fiber_batch *batch)
{
	for (uint32_t i = 0; i < pool->n_workers; i++)
		if (batch->workers[i / 64] >> i % 64 & 1)
			fiber_rouse(&pool->workers[i]);
}
