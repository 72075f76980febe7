/* SPDX-License-Identifier: MIT */
/*
 * engine_internal.h - holders of frames, owners of stacks; shared by the parts of strand
 *
 * THE PARTS
 *   slow_path.c     the table of all cases; fork, pop, join and end of a task
 *   promote.c       gives fresh frames headers and entries, which others need to resume them
 *   ownership.c     transfers frames, entries and stacks
 *   safepoint.c     serves requests: publishes entries, suspends the running frame
 *   resume.c        the loop resumes a frame
 *   unwind.c        unwinds jobs that have failed
 *   task_failure.c  a task fails its job
 *   nested.c        C functions that tasks call run tasks again
 *   self_steal.c    the check modes: a worker steals from itself
 *
 * Threads: these files, on workers. Functions for other units are in slow_path.h, functions for
 * tasks in forkd/frame.h.
 *
 * OWNERSHIP
 *   O1. A frame has one holder at a time: the strand that runs it; the deque that contains it; the
 *       frame's own join counter, while it waits; or a called child that has parted. Only the
 *       holder writes steals and site.
 *   O2. A stack has one owner: the worker that runs on it (worker->stack), the nested call above it
 *       (nested.c, N4), or the frame on its top (frame->stack). The worker that ran the child above
 *       a frame returns the frame's stack before it counts that child down. The worker that resumes
 *       the frame takes the stack over.
 *   O3. If steals > 0, a running frame is not on the runner's own stack, which has only the
 *       children of this strand.
 *   O4. The base is the newest frame of the strand that other workers may have: the one that the
 *       loop resumed last, the root that it started, or the last that strand_promote_chain()
 *       pushed. No C activation below the base continues. Data about its child are in worker->fk.
 *       The fresh frames start at worker->fk.sp (forkd/task.h, I1) and belong to its worker alone.
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

/* What of a worker belongs to the strand that it runs. */
struct strand_state {
	uintptr_t current;
	struct fk_frame *base;
	char *sp;
	uintptr_t slot;
	const struct fk_task *child;
	struct fk_stack *stack, *top;
	struct fk_entry *job_base;
	struct strand_jump *jump;
	bool was_held;
};

/* A call of a task by a C function, on whose stack this is: nested.c. */
struct nested_call {
	struct fk_frame frame; /* the parent of the task */
	struct worker *worker;
	struct loop_stack *loop;	   /* the stack that it is on */
	struct nested_call *older, *newer; /* on that stack */
	struct strand_state caller;
	uint64_t unwinds; /* of the caller */
	void (*enter)(struct fk_worker *w, char *sp, void *result, const void *args);
	const struct fk_task *task;
	void *result;
	const void *args;
	bool begun;    /* the task */
	bool promoted; /* the caller's frames, as far as they are known */
	bool held;     /* it has left its stack */
	bool ended;    /* the task, and all that it has forked */
	struct strand_jump jump;
};

/* promote.c */

/* Fills in the header of a frame, except the fields that depend on its parent. Holder only. */
void strand_promote(struct worker *worker, struct fk_frame *frame);

/* Fills in the header of a fresh frame that is within a fork or call. Puts it into the deque if
 * that is a fork, and fills in the fields of its child's header that come from it. False: it is a
 * fork, the deque is full, and must is false; nothing was done. */
bool strand_promote_parent(struct worker *worker, struct fk_frame *frame, struct fk_frame *child,
			   bool must);

/* Does so for the fresh frames from the base to last, which itself only gets the fields from its
 * parent; before that for the callers of nested calls. sp: the one that last was called with; last
 * is there, unless it did not fit. False: one has forked, the deque is full, and must is false; it
 * and the frames above it are unchanged. */
bool strand_promote_chain(struct worker *worker, struct fk_frame *last, char *sp, bool must);

/* Does so for all frames below the code that runs, whose C activations continue. current: see
 * struct fk_worker; not 0. */
void strand_promote_running(struct worker *worker, uintptr_t current);

/* ownership.c */

/* Sets the limit without a request for the stacklet that the worker is on. */
void strand_set_limit(struct worker *worker, struct fk_stack *stacklet);

/* Passes the worker's stack to the frame on its top (O2). */
void strand_give_stack(struct worker *worker, struct fk_frame *frame);

/* Takes over the stack whose top the frame is; the worker's own stack, if any, must be empty. */
void strand_take_stack(struct worker *worker, struct fk_frame *frame);

/* Suspends the running frame, which continues later or on another worker. */
void strand_set_aside(struct worker *worker, struct fk_frame *frame);

/* Puts a frame that has forked into the deque. False: the deque is full. */
bool strand_push(struct worker *worker, struct fk_frame *frame);

/* Returns the newest entry of the deque, private or taken back; NULL if there is none. */
static inline struct fk_frame *strand_newest(struct worker *w)
{
	if (w->engine.fk.bottom <= w->engine.fk.floor && !strand_reclaim(w))
		return NULL;
	return (struct fk_frame *)(uintptr_t)load_relaxed(&w->engine.fk.bottom[-1].word);
}

/* Starts again at the deque's beginning; private and public parts must be empty. */
static inline void strand_reset_deque(struct worker *w)
{
	w->engine.fk.bottom = w->engine.fk.floor = w->engine.job_base = w->engine.frames.entries;
	deque_reset(&w->engine.frames);
	if (!w->engine.n_self_stolen)
		preempted_clear(&w->roots.preempted_jobs);
}

/* safepoint.c */

/* Publishes the oldest private entries, up to D of them. */
void strand_publish(struct worker *worker);

/* Takes requests. The running frame must be complete. False: it was suspended, or its job has
 * failed. mail: frames in the worker's inbox run first. */
bool strand_safepoint(struct worker *worker, struct fk_frame *frame, bool mail);

/* unwind.c */

/*
 * Ends a frame whose job has failed instead of resuming it, at a fork or a join, on this worker.
 * Returns the frame to run next.
 */
struct fk_frame *strand_unwind(struct worker *worker, struct fk_frame *frame);

/* self_steal.c */

/* True if the worker steals from itself, always or at random. */
static inline bool strand_steals_itself(const struct worker *w)
{
	return w->pool->mode.force_steals || w->pool->mode.fuzz_seed;
}

/* Takes published entries off the worker's own deque at once, as a thief would. They are kept until
 * the child has ended. */
void strand_self_steal(struct worker *worker);

/* late_children: the worker steals from itself, and resumes the stolen frame at once. A forked
 * child that has just got its frame is suspended, as if for another worker, and its parent, the
 * newest of self_stolen, continues first. False: the child runs first: it was called, another
 * worker has its parent, or too many are delayed already. */
bool strand_delay(struct worker *worker, struct fk_frame *child);
