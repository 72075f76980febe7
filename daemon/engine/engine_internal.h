/* SPDX-License-Identifier: MIT */
/*
 * engine_internal.h - holders of frames, owners of stacks; what the parts of strand share
 *
 * THE PARTS
 *   slow_path.c     the table of all cases; fork, pop, join and end of a task
 *   promote.c       fresh frames get headers and entries, by which others can go on with them
 *   ownership.c     frames, entries and stacks change hands
 *   safepoint.c     others ask: entries become public, the running frame makes way
 *   resume.c        the loop resumes a frame
 *   unwind.c        jobs that have failed wind down
 *   task_failure.c  a task fails its job
 *   self_steal.c    the modes that check: a worker steals from itself
 *
 * Threads: these files, on workers. What others call is in slow_path.h, and what tasks call in
 * forkd/frame.h.
 *
 * WHO OWNS WHAT
 *   O1. A frame has one holder at a time: the strand that runs it; the deque it stands in; the
 *       frame's own join counter, while it waits; or the child that was called and has parted.
 *       Only the holder writes steals and site.
 *   O2. A stack has one owner: the worker that runs on it (worker->stack), or the frame on its top
 *       (frame->stack). A frame gets its stack back from the worker that ran the child above it,
 *       before that child is counted down, and the worker that resumes the frame takes it over.
 *   O3. steals > 0 of a frame that runs implies that it does not stand on the runner's own stack,
 *       which is empty but for the children of this strand.
 *   O4. The base is the newest frame of the strand that may be in other hands: the one that the
 *       loop resumed last, the root that it started, or the last that strand_promote_chain()
 *       pushed. No C activation below it goes on. What is known of its child is in worker->fk; the
 *       fresh frames stand behind worker->fk.sp (forkd/task.h, I1), and are its worker's alone.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/relaxed.h"
#include "daemon/core/deque.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker_state.h"
#include "daemon/core/work_span.h"
#include "daemon/engine/slow_path.h"
#include "daemon/engine/preempted.h"

/* A hook of the profiler (work_span.h): a branch, in slow paths only. */
#define STRAND_PROFILE(worker, hook, ...)                                                          \
	do {                                                                                       \
		struct profile *profile_ = (worker)->pool->mode.profile;                           \
		if (fk_unlikely(profile_))                                                         \
			profile_##hook(profile_ __VA_OPT__(, ) __VA_ARGS__);                       \
	} while (0)

/* promote.c */

/* Fills the header of a frame in, but for what its parent's part fills in. Holder only. */
void strand_promote(struct worker *worker, struct fk_frame *frame);

/*
 * Fills in the header of a fresh frame that is within a fork or call, puts it into the deque if
 * that is a fork, and fills in what the header of its child has from it. False: it is a fork, there
 * is no room in the deque, and must is false: nothing was done.
 */
bool strand_promote_parent(struct worker *worker, struct fk_frame *frame, struct fk_frame *child,
			   bool must);

/*
 * Does so for the fresh frames between the base and last, without last, whose header gets what its
 * parent knows. sp: the one that last was called with; last stands there, unless it did not fit.
 * False: one has forked, there is no room in the deque, and must is false: it and what is above it
 * stay as they are.
 */
bool strand_promote_chain(struct worker *worker, struct fk_frame *last, char *sp, bool must);

/* ownership.c */

/* The limit that asks for nothing, for the stacklet that the worker is on. */
void strand_set_limit(struct worker *worker, struct fk_stack *stacklet);

/* Hands the worker's stack to the frame on its top (O2). */
void strand_give_stack(struct worker *worker, struct fk_frame *frame);

/* Takes the stack that the frame is on the top of; the worker's own, if it has one, is empty. */
void strand_take_stack(struct worker *worker, struct fk_frame *frame);

/* The frame, which runs, is to go on later, or elsewhere. */
void strand_set_aside(struct worker *worker, struct fk_frame *frame);

/* Puts a frame that has forked into the deque. False: there is no room. */
bool strand_push(struct worker *worker, struct fk_frame *frame);

/* The newest entry of the deque, private or taken back; NULL if there is none. */
static inline struct fk_frame *strand_newest(struct worker *w)
{
	if (w->engine.fk.bottom <= w->engine.fk.floor && !strand_reclaim(w))
		return NULL;
	return (struct fk_frame *)(uintptr_t)load_relaxed(&w->engine.fk.bottom[-1].word);
}

/* The deque is empty, its public part too: starts again at its beginning. */
static inline void strand_reset_deque(struct worker *w)
{
	w->engine.fk.bottom = w->engine.fk.floor = w->engine.job_base = w->engine.frames.entries;
	deque_reset(&w->engine.frames);
	if (!w->engine.n_self_stolen)
		preempted_clear(&w->roots.preempted_jobs);
}

/* safepoint.c */

/* Makes the oldest private entries public, up to D of them. */
void strand_publish(struct worker *worker);

/*
 * Takes requests. The frame, which runs, is whole. False: it was set aside, or its job has failed.
 * mail: what was sent to the worker goes first.
 */
bool strand_safepoint(struct worker *worker, struct fk_frame *frame, bool mail);

/* unwind.c */

/*
 * The job of a frame that would go on has failed: the frame ends here, at a fork or a join, on this
 * worker. Returns what to run next.
 */
struct fk_frame *strand_unwind(struct worker *worker, struct fk_frame *frame);

/* self_steal.c */

/* True if the worker is its own thief, always or by chance. */
static inline bool strand_steals_itself(const struct worker *w)
{
	return w->pool->mode.force_steals || w->pool->mode.fuzz_seed;
}

/* The worker takes what it published off its deque at once, as a thief would, until the child has
 * ended. */
void strand_self_steal(struct worker *worker);

/*
 * late_children: the worker is its own thief, and quicker than itself. A forked child that has just
 * got its frame is set aside, as for another worker, and its parent, the newest of self_stolen,
 * goes on first. False: the child runs first, because it was called, another worker has its parent,
 * or too many wait already.
 */
bool strand_delay(struct worker *worker, struct fk_frame *child);
