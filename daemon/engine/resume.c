/* SPDX-License-Identifier: MIT */
/* resume.c - resumes a frame, or unwinds it if its job has failed */
#include "daemon/engine/slow_path.h"

#include <string.h>

#include "daemon/core/fork_mode.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/work_span.h"
#include "daemon/core/trace.h"
#include "daemon/core/job_abort.h"
#include "daemon/core/worker.h"
#include "daemon/engine/engine_internal.h"

/* Overwrites the C stack below the loop, where dropped activations were. */
static __attribute__((noinline)) void strand_scribble(void)
{
	unsigned char dead[16 << 10];

	memset(dead, 0xa5, sizeof(dead));
	__asm__ volatile("" : : "r"(dead) : "memory");
}

void strand_fuzz_limit(struct worker *w)
{
	if (w->pool->mode.fuzz_seed && w->engine.top)
		strand_set_limit(w, w->engine.top);
}

void strand_run(struct worker *w, struct fk_frame *frame)
{
	COUNT(w, strands);
	trace_strand(w);
	w->engine.next = w->engine.unwind = NULL;
	if (pool_scribbles(w->pool))
		strand_scribble();
	if (frame->parent && abort_get(w->pool, w->job.row).outcome) {
		w->engine.next = strand_unwind(w, frame);
		trace_strand_end(w);
		return;
	}
	w->engine.base = frame;
	strand_fuzz_limit(w);
	STRAND_PROFILE(w, go, frame);
	w->engine.next = frame->task->resume(&w->engine.fk, frame);
	trace_strand_end(w);
}
