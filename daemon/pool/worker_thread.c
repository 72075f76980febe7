/* SPDX-License-Identifier: MIT */
/*
 * worker_thread.c - the life of a worker's thread: what it runs, one after the other
 *
 * A strand begins when the loop starts a job or resumes a frame. It ends when it returns here, or
 * when a function of the engine jumps here (STRAND_JUMP).
 */
#include "daemon/pool/worker_thread.h"

#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "daemon/core/halt.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/stack.h"
#include "daemon/core/trace.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/engine/aside.h"
#include "daemon/engine/strand.h"
#include "daemon/jobs/intake.h"
#include "daemon/jobs/root.h"
#include "shm/board.h"

/* Publishes what the owner keeps in plain fields. */
static void worker_counters(struct worker *w)
{
	store_relaxed(&w->counters->forks, w->engine.forks);
	store_relaxed(&w->counters->stacklets, w->engine.cache.allocated);
	store_relaxed(&w->counters->stack_bytes, (uint64_t)w->engine.cache.bytes);
}

static void worker_run_root(struct worker *w, uint32_t row)
{
	if (halt_declines(&w->pool->halt) && intake_decline(w, row)) {
		w->roots.next_ns = 0;
		return;
	}
	/* What is in the deque waits for a child that has left, or was set aside: no ancestor of
	 * this one. */
	w->engine.moved = w->engine.fk.bottom;
	aside_start(w);
	COUNT(w, strands);
	strand_shake(w);
	root_run(w, row);
	trace_strand_end(w);
}

void worker_loop(struct worker *worker)
{
	bool jumped = STRAND_SET(worker);
	struct worker *w = worker_self(); /* registers are gone after a jump */

	if (jumped)
		trace_strand_end(w);
	for (;;) {
		struct fk_frame *frame = w->engine.unwind ? w->engine.unwind : w->engine.next;
		uint32_t row;

		if (frame) {
			strand_run(w, frame);
			continue;
		}
		worker_counters(w);
		if (stack_dirtied(&w->engine.cache))
			pool_wake_dispatcher(w->pool);
		switch (worker_find(w, &row)) {
		case WORKER_STOP:
			return;
		case WORKER_ROOT:
			worker_run_root(w, row);
			break;
		case WORKER_FRAME:
			w->engine.moved = w->engine.fk.bottom;
			strand_run(w, w->engine.next);
			break;
		}
	}
}
