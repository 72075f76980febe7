/* SPDX-License-Identifier: MIT */
/* resume.c - resumes a frame, or unwinds it if its job has failed */
#include "daemon/engine/slow_path.h"

#include <alloca.h>
#include <string.h>

#include "common/relaxed.h"
#include "daemon/core/fork_mode.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/work_span.h"
#include "daemon/core/trace.h"
#include "daemon/core/job_abort.h"
#include "daemon/core/worker.h"
#include "daemon/engine/engine_internal.h"

#define STRAND_DEPTHS 4u
#define STRAND_DEPTH  4096u

/* Overwrites the C stack below the loop, where dropped activations were. */
static __attribute__((noinline)) void strand_scribble(void)
{
	unsigned char dead[32 << 10];

	memset(dead, 0xa5, sizeof(dead));
	__asm__ volatile("" : : "r"(dead) : "memory");
}

/*
 * Resumes a frame after its C stack was overwritten, at another depth than the last frames. If one
 * of these has passed the address of a local variable to this one, the address is unused now: it is
 * not within the variables of this one.
 */
static __attribute__((noinline)) struct fk_frame *strand_resume_deeper(struct worker *w,
								       struct fk_frame *frame)
{
	char *unused = alloca(load_relaxed(&w->counters->strands) % STRAND_DEPTHS * STRAND_DEPTH);

	__asm__ volatile("" : : "r"(unused) : "memory");
	return frame->task->resume(&w->engine.fk, frame);
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
	if (frame->parent && abort_get(w->pool, w->job.row).outcome) {
		w->engine.next = strand_unwind(w, frame);
		trace_strand_end(w);
		return;
	}
	w->engine.base = frame;
	w->engine.was_held = false;
	strand_fuzz_limit(w);
	STRAND_PROFILE(w, go, frame);
	if (pool_scribbles(w->pool)) {
		strand_scribble();
		w->engine.next = strand_resume_deeper(w, frame);
	} else {
		w->engine.next = frame->task->resume(&w->engine.fk, frame);
	}
	trace_strand_end(w);
}
