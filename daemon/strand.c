/* SPDX-License-Identifier: MIT */
/*
 * daemon/strand.c - what happens when the fast path of a task ends
 *
 * WHAT IT IS
 *   The worker loop, and the fk_rt_* functions that the macros of forkd/task.h call. A strand
 *   begins when the loop resumes a frame or starts a root, and ends when it jumps or returns here.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Workers only.
 *
 * WHO OWNS WHAT
 *   O1. A frame has one holder at a time: the strand that runs it; the deque it stands in; the
 *       frame's own join counter, while it waits; or the child that was called and has parted.
 *       Only the holder writes steals and site.
 *   O2. A stack has one owner: the worker that runs on it (worker->stack), or the frame on its top
 *       (frame->stack). A frame gets its stack back from the worker that ran the child above it,
 *       before that child is counted down, and whoever goes on with the frame takes it over.
 *   O3. steals > 0 of a frame that runs implies that it does not stand on the runner's own stack,
 *       which is empty but for the children of this strand.
 *   O4. The base is the newest frame of the strand that may be in other hands: the one that the
 *       loop resumed last, the root that it started, or the last that strand_part_chain() pushed.
 *       No C activation below it goes on. What is known of its child is in worker->fk; the fresh
 *       frames stand behind worker->fk.sp (forkd/task.h, I1), and are nobody else's.
 *
 * ALL THE CASES, when a child C of P has ended on worker W (E = W's deque has entries)
 *
 *	C ran as         C was    E / reclaim    what happens
 *	---------------- -------- -------------- -------------------------------------------------
 *	1 nested, fresh P forked  not parted     P goes on in the same C activation
 *	2 nested, fresh P called  not looked at  P goes on in the same C activation
 *	3 nested, fresh P forked  parted         fk_rt_returned(): as 7, 8 or 9
 *	4 nested, P resumed  forked  private     P goes on in the same C activation
 *	5 nested, P resumed  forked  taken back  the same, after fk_rt_pop()
 *	6 nested, P resumed  forked  lost        fk_rt_pop(): P's stack goes to P if W stands on it;
 *	                                         joins - 1; the last child takes P over, else none
 *	7 resumed        forked   private        fk_rt_finish(): P is popped and resumed
 *	8 resumed        forked   taken back     the same
 *	9 resumed        forked   lost           as 6
 *	10 resumed or nested called   -          P is resumed, or goes on in the same C activation
 *	11 resumed       of root  -              the root frame is resumed: the job ends
 *	and when P comes to its join
 *	12 fresh         -        -              nothing to do, nothing is compiled
 *	13 resumed       steals 0 -              one branch
 *	14 resumed       steals>0 all have ended fk_rt_join(): takes P's stack over, goes on
 *	15 resumed       steals>0 some have not  fk_rt_join(): the last child resumes P (6 or 9)
 *	and when the job of P has failed
 *	16 P would be resumed, or forks          strand_unwind(): waits for stolen children as 14
 *	                                         and 15 do, gives back what P holds, and ends P as
 *	                                         7 to 11
 *	17 P has private ancestors of the job    the same with the oldest of them at once
 *
 *   Each row has a counter or a pair of them (lost, taken_back, joins_last, joins_waited, unnested,
 *   exposed, moved, unwound), and tests/check_strand.c drives each.
 *
 * MODES THAT CHECK AND MEASURE (pool_set_fork_mode())
 *   force_steals: limit stays 0; each fork is published, and taken off the deque by its own worker
 *   (strand_force()), which goes on with it as a thief when the child has ended.
 *   late_children: the same, and the worker goes on with it at once; a forked child that gets a
 *   frame is set aside first, as if it had moved (strand_delay()).
 *   shaken: some forks are treated as with force_steals, by chance; shake.c disturbs besides.
 *   profile: as force_steals, on one worker; STRAND_PROFILE stands wherever a task's code begins
 *   or ends (profile.c).
 *   None does more than thieves, movers and askers do, in another order or more often.
 *
 * EXPOSING WORK UNDER A RUNNING LEAF
 *   strand_expose() runs in a signal handler on the worker's thread, so it needs no ordering but
 *   the compiler's: it sees what the interrupted code has stored so far. It acts only while
 *   `current` names the newest frame; every function of this file that changes the deque or the
 *   stack is entered with current cleared first (strand_enter()). What it does to the deque is what
 *   the owner does at attention: it pushes at bottom and moves floor up, and the inlined code reads
 *   floor after it has stored bottom (fk_pop()). tests/model/expose.c runs the two together.
 */
#include "daemon/strand.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "daemon/alloc.h"
#include "daemon/join.h"
#include "daemon/policy.h"
#include "daemon/pool.h"
#include "daemon/profile.h"
#include "daemon/root.h"
#include "daemon/verdict.h"
#include "shm/fence.h"

#define STRAND_VAIN                                                                                \
	8u /* frames in a row for which a request stands that finds nothing to publish */

#ifdef WORKER_LIBC_JUMP
#define STRAND_SET(worker)  _setjmp((worker)->jump)
#define STRAND_JUMP(worker) longjmp((worker)->jump, 1)
#else
#define STRAND_SET(worker)  __builtin_setjmp((worker)->jump)
#define STRAND_JUMP(worker) __builtin_longjmp((worker)->jump, 1)
#endif

/* A hook of the profiler (profile.h): a branch, in slow paths only. */
#define STRAND_PROFILE(worker, hook, ...)                                                          \
	do {                                                                                       \
		struct profile *profile_ = (worker)->pool->profile;                                \
		if (fk_unlikely(profile_))                                                         \
			profile_##hook(profile_ __VA_OPT__(, ) __VA_ARGS__);                       \
	} while (0)

/* The limit that asks for nothing, for the stacklet that the worker is on. */
static void strand_set_limit(struct worker *w, struct fk_stack *stacklet)
{
	w->stack_limit = (uintptr_t)stacklet->end - FK_SLACK;
	/* ORDER attend [A1]: acquire, a request that is put back here has been seen; and acq_rel,
	 * by an exchange, so that one which comes in between is not hidden from who takes it. Pairs
	 * with worker_ask(). */
	if (!atomic_exchange_explicit(&w->fk.limit, worker_limit(w), memory_order_acquire))
		atomic_exchange_explicit(&w->fk.limit, 0, memory_order_acq_rel);
}

/* Fills the header of a frame in, but for what its parent's part fills in. Holder only. */
static void strand_part(struct worker *w, struct fk_frame *frame)
{
	frame->steals = 0;
	frame->stack = NULL;
	frame->top = (char *)frame + frame->task->frame_size;
	frame->job = w->job;
	atomic_store_explicit(&frame->joins, 0, memory_order_relaxed);
	fk_set_site(frame, (fk_site(frame) & ~FK_DST) | FK_PARTED);
}

/* Puts a frame that has forked into the deque. False: there is no room. */
static bool strand_push(struct worker *w, struct fk_frame *frame)
{
	struct fk_entry *b = w->fk.bottom;

	if (b == w->fk.end)
		return false;
	/* Relaxed: published later, by a release in deque_publish(). */
	atomic_store_explicit(&b->word, (uintptr_t)frame, memory_order_relaxed);
	w->fk.bottom = b + 1;
	return true;
}

/*
 * Fills in the header of a fresh frame that is within a fork or call, puts it into the deque if
 * that is a fork, and fills in what the header of its child has from it. False: it is a fork, there
 * is no room in the deque, and must is false: nothing was done.
 */
static bool strand_part_parent(struct worker *w, struct fk_frame *frame, struct fk_frame *child,
			       bool must)
{
	struct fk_child info;
	bool pushed;

	frame->task->describe(frame, &info);
	if (info.forked && !must && w->fk.bottom == w->fk.end)
		return false;
	if (fk_site(frame) & FK_DST)
		info.dst = frame->stack;
	assert(info.task && info.dst);
	strand_part(w, frame);
	/* With the deque full it is as if the child had been called. */
	pushed = info.forked && strand_push(w, frame);
	child->task = info.task;
	child->slot = (uintptr_t)info.dst | (pushed ? 0 : FK_CALLED);
	child->parent = frame;
	if (pushed) {
		/* Its activation only ends in the loop, and a thief may have it soon. */
		w->base = frame;
		w->fk.sp = frame->top;
		w->fk.child = child->task;
		w->fk.slot = child->slot;
	}
	return true;
}

/*
 * Does so for the fresh frames between the base and last, without last, whose header gets what its
 * parent knows. sp: the one that last was called with; last stands there, unless it did not fit.
 * False: one has forked, there is no room in the deque, and must is false: it and what is above it
 * stay as they are.
 */
static bool strand_part_chain(struct worker *w, struct fk_frame *last, char *sp, bool must)
{
	struct fk_frame *frame = w->base;
	struct fk_frame *at = (struct fk_frame *)(void *)w->fk.sp;

	while (frame != last) {
		struct fk_frame *child = (char *)at == sp ? last : at;

		if (frame == w->base) {
			child->task = w->fk.child;
			child->slot = w->fk.slot;
			child->parent = frame;
		} else if (!(fk_site(frame) & FK_PARTED)) {
			if (!strand_part_parent(w, frame, child, must))
				return false;
		} else if (child != at) {
			/* Parted by strand_expose() before the child had its place. */
			child->task = at->task;
			child->slot = at->slot;
			child->parent = at->parent;
		}
		frame = child;
		at = (struct fk_frame *)(void *)((char *)child + child->task->frame_size);
	}
	return true;
}

/* Hands the worker's stack to the frame on its top (O2). */
static void strand_give_stack(struct worker *w, struct fk_frame *frame)
{
	if (!stack_give(&w->cache, w->top))
		verdict_fail(w->pool, w->job, -ENOMEM);
	w->stack->top = w->top;
	frame->stack = w->stack;
	w->stack = NULL;
	w->top = NULL;
	w->fk.sp = NULL;
}

/* Takes the stack that the frame is on the top of; the worker's own, if it has one, is empty. */
static void strand_take_stack(struct worker *w, struct fk_frame *frame)
{
	assert(!w->stack || (w->top == w->stack && w->fk.sp == stack_first(w->stack)));
	stack_free(&w->cache, w->stack);
	stack_take(&w->cache);
	w->stack = frame->stack;
	w->top = w->stack->top;
	frame->stack = NULL;
	w->fk.sp = frame->top;
	strand_set_limit(w, w->top);
}

bool strand_own_stack(struct worker *w)
{
	if (!w->stack) {
		w->stack = stack_new(&w->cache);
		if (!w->stack)
			return false;
	} else if (w->top == w->stack && w->fk.sp == stack_first(w->stack)) {
		return true;
	}
	w->top = w->stack;
	w->fk.sp = stack_first(w->stack);
	strand_set_limit(w, w->stack);
	return true;
}

void strand_adopt(struct worker *w, struct fk_frame *frame)
{
	uint32_t flags = fk_site(frame) & (FK_MOVED | FK_STACKED);

	if (w->job != frame->job) {
		worker_set_job(w, frame->job);
		/* ORDER verdict/runs [V3]: full, before the loop looks at the job's verdict. Pairs
		 * with verdict_put(). */
		fence_full();
	}
	fk_set_site(frame, fk_site(frame) & ~flags);
	if (flags & FK_STACKED) {
		strand_take_stack(w, frame);
		return;
	}
	if (!(flags & FK_MOVED))
		frame->steals++;
	/* Its children have no place; what it still waits for has one, and needs none here. */
	if (!strand_own_stack(w))
		verdict_fail(w->pool, w->job, -ENOMEM);
}

/* The deque is empty, its public part too: starts again at its beginning. */
static void strand_reset_deque(struct worker *w)
{
	w->fk.bottom = w->fk.floor = w->moved = w->frames.entries;
	deque_reset(&w->frames);
	if (!w->n_forced)
		aside_clear(&w->asides);
}

/* A child of parent has ended, and the paths have parted. Returns parent if this was the last
 * child. */
static struct fk_frame *strand_child_ended(struct worker *w, struct fk_frame *parent)
{
	COUNT(w, lost);
	if (w->fk.sp == parent->top)
		strand_give_stack(w, parent);
	else
		stack_trim(&w->cache, w->top);
	if (!join_child(&parent->joins))
		return NULL;
	COUNT(w, joins_last);
	parent->steals = 0;
	strand_take_stack(w, parent);
	return parent;
}

bool strand_reclaim(struct worker *w)
{
	uint64_t n = deque_reclaim(&w->frames);

	w->fk.floor -= n;
	COUNT_ADD(w, taken_back, n);
	return n > 0;
}

/* The newest entry of the deque, private or taken back; NULL if there is none. */
static struct fk_frame *strand_newest(struct worker *w)
{
	if (w->fk.bottom <= w->fk.floor && !strand_reclaim(w))
		return NULL;
	return (struct fk_frame *)(uintptr_t)atomic_load_explicit(&w->fk.bottom[-1].word,
								  memory_order_relaxed);
}

struct fk_frame *strand_pop_own(struct worker *w)
{
	struct fk_frame *newest = strand_newest(w);

	if (!newest) {
		strand_reset_deque(w);
		return NULL;
	}
	/* One that was set aside; or, after its child has gone to another worker, stolen by
	 * oneself. */
	w->moved = --w->fk.bottom;
	aside_end(w, newest->job);
	return newest;
}

/* force_steals, and in a pool that is shaken: what it publishes it may take as a thief would. */
static bool strand_steals_itself(const struct worker *w)
{
	return w->pool->force_steals || w->pool->shaken;
}

/* Makes the oldest private entries public, up to D of them. */
static void strand_publish(struct worker *w)
{
	/* Under a signal, within fk_pop(), floor may be above bottom: on its way to fk_rt_pop(). */
	uint64_t private = w->fk.bottom > w->fk.floor ? (uint64_t)(w->fk.bottom - w->fk.floor) : 0;
	uint64_t public = deque_size(&w->frames);
	uint64_t n = strand_steals_itself(w)
			   ? min(private, POLICY_PUBLIC - min(public, POLICY_PUBLIC))
			   : policy_publish(public, private, POLICY_PUBLIC);

	/* A signal between fk_rt_attend() and the push that follows has nothing to publish yet. */
	if (!n)
		return;
	w->publish = false;
	w->fk.floor += n;
	deque_publish(&w->frames, n);
	COUNT_ADD(w, published, n);
}

bool strand_push_stacklet(struct worker *w, char *sp, size_t size)
{
	struct fk_stack *next = stack_push(&w->cache, w->top, sp, size + FK_SLACK);

	if (!next) {
		verdict_fail(w->pool, w->job, -ENOMEM);
		return false;
	}
	w->top = next;
	strand_set_limit(w, next);
	return true;
}

char *strand_pop_stacklet(struct worker *w)
{
	char *below = w->top->below;

	w->top = stack_pop(&w->cache, w->top);
	strand_set_limit(w, w->top);
	return below;
}

/* The frame, which runs, is to go on later, or elsewhere. */
static void strand_set_aside(struct worker *w, struct fk_frame *frame)
{
	COUNT(w, moved);
	fk_set_site(frame, fk_site(frame) | FK_MOVED);
	if (w->fk.sp == frame->top) {
		fk_set_site(frame, fk_site(frame) | FK_STACKED);
		strand_give_stack(w, frame);
	} else {
		stack_trim(&w->cache, w->top);
	}
}

/* What the worker keeps back of its own, to go on with later: a frame, and STRAND_LATE. */
static void strand_keep_back(struct worker *w, uint64_t word)
{
	if (w->n_forced == w->max_forced) {
		w->max_forced = w->max_forced ? 2 * w->max_forced : 1024;
		w->forced = reallocarray(w->forced, w->max_forced, sizeof(*w->forced));
		if (!w->forced)
			abort();
	}
	atomic_store_explicit(&w->forced[w->n_forced++].word, word, memory_order_relaxed);
}

static uint64_t strand_kept_last(const struct worker *w)
{
	return atomic_load_explicit(&w->forced[w->n_forced - 1].word, memory_order_relaxed);
}

/* force_steals, and in a pool that is shaken: the worker is its own thief. What it published is
 * taken off the deque at once, as a thief would, and waits until the child has ended. */
static void strand_force(struct worker *w)
{
	uint64_t word, n;

	while (deque_steal(&w->frames, &word, 1, &n) == DEQUE_STOLEN) {
		strand_keep_back(w, word);
		COUNT(w, steals);
	}
}

void strand_keep_all_back(struct worker *w)
{
	for (struct fk_entry *e = w->fk.floor; e < w->fk.bottom; e++) {
		strand_keep_back(w, atomic_load_explicit(&e->word, memory_order_relaxed));
		COUNT(w, steals);
	}
	strand_reset_deque(w);
}

/*
 * late_children: the worker is its own thief, and quicker than itself. A forked child that has just
 * got its frame is set aside, as for another worker, and its parent, which strand_force() has kept
 * back last, goes on first. False: the child runs first, because it was called, another worker has
 * its parent, or too many wait already.
 */
static bool strand_delay(struct worker *w, struct fk_frame *child)
{
	if (child->slot & FK_CALLED || !w->n_forced || w->n_late >= WORKER_LATE ||
	    strand_kept_last(w) != (uintptr_t)child->parent)
		return false;
	w->n_late++;
	strand_set_aside(w, child);
	w->n_forced--;
	strand_keep_back(w, (uintptr_t)child | STRAND_LATE);
	strand_keep_back(w, (uintptr_t)child->parent);
	return true;
}

/*
 * Somebody has asked. The frame, which runs, is whole, and could go on later. False: it does; it
 * was set aside, or its job has failed.
 */
static bool strand_attend(struct worker *w, struct fk_frame *frame)
{
	uint32_t turn = WORKER_NO_JOB;
	bool asked, mail, preempted;

	worker_take_request(w);
	COUNT(w, attentions);
	if (w->duty) {
		w->duty = false;
		worker_wake_one(w->pool, w);
	}
	if (verdict_get(w->pool, w->job).outcome) {
		w->unwind = frame;
		return false;
	}
	/* A profile is of one job at a time. */
	if (w->pool->profile)
		return true;
	/* What goes first needs a place above the frame that is set aside. */
	if (w->fk.bottom == w->fk.end) {
		if (inbox_any(&w->inbox))
			worker_ask(w); /* the dispatcher knows of all else, and asks again */
		return true;
	}
	asked = pool_take_summons(w);
	mail = inbox_any(&w->inbox);
	preempted = !mail && asked && intake_preempt(w);
	if (!mail && !preempted && !aside_claims(w, asked, &turn))
		return true;
	strand_set_aside(w, frame);
	(void)strand_push(w, frame);
	if (turn != WORKER_NO_JOB)
		aside_bring_up(w, turn);
	w->moved = w->fk.bottom;
	strand_publish(w);
	/* Else what is on the root deque waits: nobody has judged it to go before this frame. */
	w->root_first = preempted;
	return false;
}

void fk_rt_unnest(struct fk_worker *fk, struct fk_frame *frame, char *sp, uint32_t site)
{
	struct worker *w = strand_enter(fk);

	STRAND_PROFILE(w, enter, frame);
	(void)strand_part_chain(w, frame, sp, true);
	fk_set_site(frame, site);
	strand_part(w, frame);
	w->fk.sp = frame->top;
	w->next = frame;
	COUNT(w, unnested);
	if (w->pool->late_children && strand_delay(w, frame))
		w->next = NULL;
	/* It may come to no fork. */
	if (!w->pool->force_steals && !atomic_load_explicit(&w->fk.limit, memory_order_relaxed)) {
		if (!strand_attend(w, frame))
			w->next = NULL;
		strand_publish(w);
		/* What is forked first is to be public; but where nothing forks, the request is
		 * over after some frames. */
		if (!deque_size(&w->frames) && w->vain++ < STRAND_VAIN)
			worker_ask(w);
		else
			w->vain = 0;
	}
	STRAND_JUMP(w);
}

void strand_expose(struct worker *w)
{
	uintptr_t current = w->fk.current;
	struct fk_frame *frame = (struct fk_frame *)(current & ~FK_IN_CHILD);

	if (!current)
		return;
	/* The C activations live on: with the deque full, a frame that has forked stays fresh. The
	 * newest one's child may be on its way to a frame of its own, which is there then; if there
	 * is none, the place is free all the same (FK_SLACK). */
	if (strand_part_chain(w, frame, NULL, false) && current & FK_IN_CHILD && frame != w->base &&
	    !(fk_site(frame) & FK_PARTED))
		strand_part_parent(
			w, frame,
			(struct fk_frame *)(void *)((char *)frame + frame->task->frame_size),
			false);
	COUNT(w, exposed);
	strand_publish(w);
}

/*
 * A forked child of parent has ended in the loop, or left its C activation. Its entry is the
 * newest, or the paths have parted: it was stolen, or the child has gone to another worker. Returns
 * what to run next.
 */
static struct fk_frame *strand_pop_parent(struct worker *w, struct fk_frame *parent)
{
	struct fk_frame *newest = strand_newest(w);

	/* Not that of an older child, which has come back from another worker: that one stood on
	 * parent's stack, or finds parent set aside. */
	if (newest == parent && !(fk_site(parent) & FK_MOVED) &&
	    !(parent->steals && w->fk.sp == parent->top)) {
		w->fk.bottom--;
		return parent;
	}
	if (!newest)
		strand_reset_deque(w);
	return strand_child_ended(w, parent);
}

void *fk_rt_place(struct fk_worker *fk, char *sp, size_t size)
{
	struct worker *w = strand_enter(fk);
	struct fk_frame *parent;

	STRAND_PROFILE(w, stop);
	if (fk_reach(sp, size) <= w->stack_limit)
		return sp;
	if (strand_push_stacklet(w, sp, size))
		return stack_first(w->top);
	/* It is as if the child had ended; its parent ends where it would go on. */
	(void)strand_part_chain(w, &w->nobody, sp, true);
	parent = w->nobody.parent;
	w->fk.sp = sp;
	w->next = w->nobody.slot & FK_CALLED ? parent : strand_pop_parent(w, parent);
	STRAND_JUMP(w);
}

void fk_rt_returned(struct fk_worker *fk, struct fk_frame *frame)
{
	struct worker *w = strand_enter(fk);

	w->fk.sp = frame->top;
	w->next = strand_pop_parent(w, frame);
	STRAND_JUMP(w);
}

bool fk_rt_move(struct fk_worker *fk, struct fk_frame *frame, uint32_t site, enum fk_goal goal,
		uint32_t index)
{
	uintptr_t current = fk->current;
	struct worker *w = strand_enter(fk);
	struct worker *to = goal == FK_TO_WORKER ? pool_worker_at(w->pool, index)
						 : pool_worker_on(w->pool, w, index);

	if (!to)
		verdict_fail(w->pool, w->job, -EINVAL);
	if (!to || to == w) {
		fk_enter(fk, current);
		return true;
	}
	fk_set_site(frame, site | FK_PARTED);
	strand_set_aside(w, frame);
	if (worker_send(w, to, frame) == 0)
		return false;
	verdict_fail(w->pool, w->job, -ENOMEM);
	strand_adopt(w, frame);
	fk_enter(fk, current);
	return true;
}

bool fk_rt_attend(struct fk_worker *fk, struct fk_frame *frame, uint32_t site)
{
	uintptr_t current = fk->current;
	struct worker *w = strand_enter(fk);

	STRAND_PROFILE(w, stop);
	fk_set_site(frame, site | FK_PARTED);
	if (!strand_attend(w, frame))
		return false;
	strand_publish(w);
	w->vain = 0;
	/* There is nothing else than what is pushed next, if this is a fork. */
	w->publish = strand_steals_itself(w) || !deque_size(&w->frames);
	STRAND_PROFILE(w, go, frame);
	fk_enter(fk, current);
	return true;
}

/* Overwrites the C stack below the loop, where dropped activations were. */
static __attribute__((noinline)) void strand_scribble(void)
{
	unsigned char dead[16 << 10];

	memset(dead, 0xa5, sizeof(dead));
	__asm__ volatile("" : : "r"(dead) : "memory");
}

struct fk_frame *strand_pop_forced(struct worker *w)
{
	struct fk_frame *frame;
	uint64_t word;

	if (!w->n_forced)
		return NULL;
	word = strand_kept_last(w);
	frame = (struct fk_frame *)(uintptr_t)(word & ~STRAND_LATE);
	w->n_forced--;
	w->n_late -= word & STRAND_LATE;
	aside_end(w, frame->job);
	return frame;
}

void fk_rt_publish(struct fk_worker *fk)
{
	uintptr_t current = fk->current;
	struct worker *w = strand_enter(fk);

	if (w->pool->profile) {
		profile_stop(w->pool->profile);
		profile_fork(w->pool->profile, strand_newest(w));
	}
	if (w->publish)
		strand_publish(w);
	if (w->pool->force_steals || (w->pool->shaken && worker_random(w) >> 63))
		strand_force(w);
	STRAND_PROFILE(w, go, NULL);
	fk_enter(fk, current);
}

bool fk_rt_pop(struct fk_worker *fk, struct fk_frame *frame, struct fk_frame **ret_next)
{
	uintptr_t current = fk->current;
	struct worker *w = strand_enter(fk);

	STRAND_PROFILE(w, stop);
	STRAND_PROFILE(w, leaf_done);
	assert(w->fk.floor == w->fk.bottom + 1);
	if (strand_reclaim(w)) {
		fk_enter(fk, current);
		return true;
	}
	strand_reset_deque(w);
	*ret_next = strand_child_ended(w, frame);
	return false;
}

bool fk_rt_join(struct fk_worker *fk, struct fk_frame *frame)
{
	struct worker *w = strand_enter(fk);

	STRAND_PROFILE(w, stop);
	assert(w->fk.sp != frame->top); /* O3 */
	stack_trim(&w->cache, w->top);
	if (!join_parent(&frame->joins, frame->steals)) {
		/* The frame may run elsewhere by now. */
		COUNT(w, joins_waited);
		return false;
	}
	frame->steals = 0;
	strand_take_stack(w, frame);
	STRAND_PROFILE(w, join, frame);
	STRAND_PROFILE(w, go, frame);
	return true;
}

void strand_misused(struct worker *w, const struct fk_frame *frame, const char *how)
{
	log_error("task %s: %s; its job fails", frame->task->name, how);
	verdict_fail(w->pool, w->job, -EPROTO);
}

/* Takes a frame that has ended off the worker's stack, whose top it is. */
static void strand_drop(struct worker *w, struct fk_frame *frame)
{
	assert(w->fk.sp == frame->top);
	alloc_end(w, frame);
	w->fk.sp = (char *)frame;
	if (w->fk.sp == stack_first(w->top) && w->top->prev)
		w->fk.sp = strand_pop_stacklet(w);
}

struct fk_frame *fk_rt_finish(struct fk_worker *fk, struct fk_frame *frame)
{
	struct worker *w = strand_enter(fk);
	bool called = frame->slot & FK_CALLED;
	struct fk_frame *parent = frame->parent;

	STRAND_PROFILE(w, stop);
	STRAND_PROFILE(w, done, frame);
	if (frame->steals) {
		strand_misused(w, frame, "it returned with forks that it has not joined");
		/* It ends when they have, and holds nothing: its body is over. */
		fk_set_site(frame, FK_PARTED);
		w->unwind = frame;
		return NULL;
	}
	strand_drop(w, frame);
	return called ? parent : strand_pop_parent(w, parent);
}

/*
 * The job of frame, on top of the worker's stack, has failed, and nothing on the way needs to be
 * told: everything down to the oldest private ancestor goes at once. Returns that one, which is in
 * the deque no more.
 */
static struct fk_frame *strand_drop_chain(struct worker *w, struct fk_frame *frame)
{
	struct fk_entry *oldest = max(w->fk.floor, w->moved);
	struct fk_stack *stacklet = w->top;
	struct fk_frame *parent;

	if (w->fk.unwinds || frame->steals || w->fk.sp != frame->top || oldest >= w->fk.bottom)
		return frame;
	parent = (struct fk_frame *)(uintptr_t)atomic_load_explicit(&oldest->word,
								    memory_order_relaxed);
	COUNT_ADD(w, unwound, w->fk.bottom - oldest);
	w->fk.bottom = oldest;
	/* The parent stands on this stack, or, if it was stolen, on none that is the worker's. */
	while (stacklet && !(parent->top > (char *)stacklet && parent->top <= stacklet->end))
		stacklet = stacklet->prev;
	while (w->top != (stacklet ? stacklet : w->stack))
		strand_pop_stacklet(w);
	w->fk.sp = stacklet ? parent->top : stack_first(w->stack);
	return parent;
}

/*
 * The job of a frame that would go on has failed: the frame ends here, at a fork or a join, on this
 * worker. Returns what to run next.
 */
static struct fk_frame *strand_unwind(struct worker *w, struct fk_frame *frame)
{
	frame = strand_drop_chain(w, frame);
	if (!frame->parent)
		return frame; /* the root gives the job its outcome */
	if (frame->steals && !fk_rt_join(&w->fk, frame))
		return NULL; /* the last child comes here again */
	COUNT(w, unwound);
	/* Before its body has begun it holds nothing, and its locals are not set. */
	if (frame->task->unwind && fk_site(frame) & FK_SITE_MASK)
		frame->task->unwind(frame);
	return fk_rt_finish(&w->fk, frame);
}

void fk_rt_fail(struct fk_worker *fk, int code)
{
	struct worker *w = worker_of(fk);

	verdict_fail(w->pool, w->job, code);
}

void fk_rt_count_fork(struct fk_worker *fk)
{
	struct worker *w = worker_of(fk);

	w->forks++;
}

/* Publishes what the owner keeps in plain fields. */
static void strand_counters(struct worker *w)
{
	atomic_store_explicit(&w->counters->forks, w->forks, memory_order_relaxed);
	atomic_store_explicit(&w->counters->stacklets, w->cache.allocated, memory_order_relaxed);
	atomic_store_explicit(&w->counters->stack_bytes, (uint64_t)w->cache.bytes,
			      memory_order_relaxed);
}

/* In a pool that is shaken each strand has a limit of its own. */
static void strand_shake(struct worker *w)
{
	if (w->pool->shaken && w->top)
		strand_set_limit(w, w->top);
}

void strand_loop(struct worker *worker)
{
	struct worker *w;

	(void)STRAND_SET(worker);
	w = worker_self(); /* registers are gone after a jump */
	for (;;) {
		struct fk_frame *frame = w->unwind ? w->unwind : w->next;
		uint32_t row;

		if (!frame) {
			strand_counters(w);
			if (stack_dirtied(&w->cache))
				pool_wake_dispatcher(w->pool);
			switch (worker_find(w, &row)) {
			case WORKER_STOP:
				return;
			case WORKER_ROOT:
				/* What is in the deque waits for a child that has left, or was set
				 * aside: no ancestor of this one. */
				w->moved = w->fk.bottom;
				aside_start(w);
				COUNT(w, strands);
				COUNT(w, roots);
				strand_shake(w);
				root_run(w, row);
				continue;
			case WORKER_FRAME:
				w->moved = w->fk.bottom;
				frame = w->next;
				break;
			}
		}
		COUNT(w, strands);
		w->next = w->unwind = NULL;
		if (pool_scribbles(w->pool))
			strand_scribble();
		if (frame->parent && verdict_get(w->pool, w->job).outcome) {
			w->next = strand_unwind(w, frame);
			continue;
		}
		w->base = frame;
		strand_shake(w);
		STRAND_PROFILE(w, go, frame);
		w->next = frame->task->resume(&w->fk, frame);
	}
}
