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
 *
 * ALL THE CASES, when a child C of P has ended on worker W (E = W's deque has entries)
 *
 *	C ran as         C was    E / reclaim    what happens
 *	---------------- -------- -------------- -------------------------------------------------
 *	1 nested, fresh P forked  not looked at  P goes on in the same C activation
 *	2 nested, fresh P called  not looked at  P goes on in the same C activation
 *	3 nested, P resumed  forked  private     P goes on in the same C activation
 *	4 nested, P resumed  forked  taken back  the same, after fk_rt_pop()
 *	5 nested, P resumed  forked  lost        fk_rt_pop(): P's stack goes to P if W stands on it;
 *	                                         joins - 1; the last child takes P over, else none
 *	6 nested, P resumed  called  -           P goes on in the same C activation
 *	7 resumed        forked   private        fk_rt_finish(): P is popped and resumed
 *	8 resumed        forked   taken back     the same
 *	9 resumed        forked   lost           as 5
 *	10 resumed       called   -              fk_rt_finish(): P is resumed
 *	11 resumed       of root  -              the root frame is resumed: the job ends
 *	and when P comes to its join
 *	12 fresh         -        -              nothing to do, nothing is compiled
 *	13 resumed       steals 0 -              one branch
 *	14 resumed       steals>0 all have ended fk_rt_join(): takes P's stack over, goes on
 *	15 resumed       steals>0 some have not  fk_rt_join(): the last child resumes P (5 or 9)
 *
 *   Each row has a counter or a pair of them (lost, taken_back, joins_last, joins_waited, unnested,
 *   moved), and tests/check_strand.c drives each.
 */
#include "daemon/strand.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "daemon/join.h"
#include "daemon/pool.h"
#include "daemon/root.h"

#ifdef WORKER_LIBC_JUMP
#define STRAND_SET(worker)  _setjmp((worker)->jump)
#define STRAND_JUMP(worker) longjmp((worker)->jump, 1)
#else
#define STRAND_SET(worker)  __builtin_setjmp((worker)->jump)
#define STRAND_JUMP(worker) __builtin_longjmp((worker)->jump, 1)
#endif

/* Fills in what a fresh activation leaves out of its header (task.h, I3). Holder only. */
static void strand_part(struct worker *w, struct fk_frame *frame)
{
	if (frame->site & FK_PARTED)
		return;
	frame->steals = 0;
	frame->stack = NULL;
	frame->job = w->job;
	atomic_store_explicit(&frame->joins, 0, memory_order_relaxed);
	frame->site |= FK_PARTED;
}

/* Hands the worker's stack to the frame on its top (O2). */
static void strand_give_stack(struct worker *w, struct fk_frame *frame)
{
	w->stack->top = w->top;
	frame->stack = w->stack;
	w->stack = NULL;
	w->top = NULL;
}

/* Takes the stack that the frame is on the top of; the worker's own, if it has one, is empty. */
static void strand_take_stack(struct worker *w, struct fk_frame *frame)
{
	assert(!w->stack || (w->top == w->stack && w->fk.sp == stack_first(w->stack)));
	stack_free(&w->cache, w->stack);
	w->stack = frame->stack;
	w->top = w->stack->top;
	frame->stack = NULL;
	w->fk.sp = (char *)(frame + 1);
	w->fk.stack_limit = w->top->end;
}

bool strand_own_stack(struct worker *w, struct fk_frame *parent)
{
	if (!w->stack) {
		w->stack = stack_new(&w->cache);
		if (!w->stack)
			return false;
	}
	w->top = w->stack;
	w->stack->stub.slot = (uintptr_t)parent;
	w->fk.sp = stack_first(w->stack);
	w->fk.stack_limit = w->stack->end;
	return true;
}

void strand_adopt(struct worker *w, struct fk_frame *frame)
{
	uint32_t flags = frame->site & (FK_MOVED | FK_STACKED);

	worker_set_job(w, frame->job);
	frame->site &= ~flags;
	if (flags & FK_STACKED) {
		strand_take_stack(w, frame);
		return;
	}
	if (!(flags & FK_MOVED))
		frame->steals++;
	if (!strand_own_stack(w, frame))
		abort(); /* who looks for work made sure that there is a stack */
}

/* The deque is empty, its public part too: starts again at its beginning. */
static void strand_reset_deque(struct worker *w)
{
	w->fk.bottom = w->fk.floor = w->frames.entries;
	deque_reset(&w->frames);
}

/* A child of parent has ended, and parent was stolen, with all that was older in the deque.
 * Returns parent if this was the last child. */
static struct fk_frame *strand_child_ended(struct worker *w, struct fk_frame *parent)
{
	COUNT(w, lost);
	strand_reset_deque(w);
	if (w->fk.sp == (char *)(parent + 1))
		strand_give_stack(w, parent);
	if (!join_child(&parent->joins))
		return NULL;
	COUNT(w, joins_last);
	parent->steals = 0;
	strand_take_stack(w, parent);
	return parent;
}

/* Takes back what is public. True if there was something. */
static bool strand_reclaim(struct worker *w)
{
	uint64_t n = deque_reclaim(&w->frames);

	w->fk.floor -= n;
	COUNT_ADD(w, taken_back, n);
	return n > 0;
}

struct fk_frame *strand_pop_own(struct worker *w)
{
	struct fk_frame *frame;

	if (w->fk.bottom <= w->fk.floor && !strand_reclaim(w)) {
		strand_reset_deque(w);
		return NULL;
	}
	w->fk.bottom--;
	frame = (struct fk_frame *)(uintptr_t)atomic_load_explicit(&w->fk.bottom->word,
								   memory_order_relaxed);
	assert(frame->site & FK_MOVED); /* task.h, I2 */
	return frame;
}

/* Makes the oldest private entries public, up to D of them. */
static void strand_publish(struct worker *w, struct fk_entry *bottom)
{
	uint64_t private = (uint64_t)(bottom - w->fk.floor);
	uint64_t public = deque_size(&w->frames);
	uint64_t n = public < WORKER_PUBLIC ? min(WORKER_PUBLIC - public, private) : 0;

	w->publish = false;
	if (!n)
		return;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t word = atomic_load_explicit(&w->fk.floor[i].word, memory_order_relaxed);

		strand_part(w, (struct fk_frame *)(uintptr_t)word);
	}
	w->fk.floor += n;
	deque_publish(&w->frames, n);
	COUNT_ADD(w, published, n);
}

void fk_rt_unnest(struct fk_worker *fk, struct fk_entry *b, struct fk_frame *frame, uint32_t site)
{
	struct worker *w = worker_of(fk);

	frame->site = site;
	strand_part(w, frame);
	w->fk.bottom = b;
	w->fk.sp = (char *)(frame + 1);
	w->next = frame;
	COUNT(w, unnested);
	STRAND_JUMP(w);
}

bool fk_rt_attend(struct fk_worker *fk, struct fk_frame *frame, uint32_t site)
{
	struct worker *w = worker_of(fk);

	worker_take_request(w);
	COUNT(w, attentions);
	if (w->duty) {
		w->duty = false;
		worker_wake_one(w->pool, w);
	}
	/* What goes first needs a place above the frame that is set aside. */
	if (w->fk.bottom + 1 < w->frames.entries + w->frames.capacity && pool_take_summons(w)) {
		COUNT(w, moved);
		frame->site = site | FK_PARTED | FK_MOVED;
		if (w->fk.sp == (char *)(frame + 1)) {
			frame->site |= FK_STACKED;
			strand_give_stack(w, frame);
		}
		atomic_store_explicit(&w->fk.bottom->word, (uintptr_t)frame, memory_order_relaxed);
		w->fk.bottom++;
		strand_publish(w, w->fk.bottom);
		w->root_first = true;
		return false;
	}
	w->publish = true;
	return true;
}

/* force_steals: the worker is its own thief. What it published is taken off the deque at once, as
 * a thief would, and waits until the child has ended. */
static void strand_force(struct worker *w)
{
	uint64_t word, n;

	while (deque_steal(&w->frames, &word, 1, &n) == DEQUE_STOLEN) {
		if (w->n_forced == w->max_forced) {
			w->max_forced = w->max_forced ? 2 * w->max_forced : 1024;
			w->forced = reallocarray(w->forced, w->max_forced, sizeof(*w->forced));
			if (!w->forced)
				abort();
		}
		w->forced[w->n_forced++] = (struct fk_frame *)(uintptr_t)word;
		COUNT(w, steals);
	}
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
	if (!w->n_forced)
		return NULL;
	return w->forced[--w->n_forced];
}

struct fk_entry *fk_rt_publish(struct fk_worker *fk, struct fk_entry *b, struct fk_frame *frame)
{
	struct worker *w = worker_of(fk);

	(void)frame;
	/* The last place is kept for a frame that is set aside. */
	if (b + 2 > w->frames.entries + w->frames.capacity)
		return b;
	if (w->publish)
		strand_publish(w, b + 1);
	if (w->pool->force_steals)
		strand_force(w);
	return b + 1;
}

bool fk_rt_pop(struct fk_worker *fk, struct fk_entry *b, struct fk_frame *frame,
	       struct fk_frame **ret_next)
{
	struct worker *w = worker_of(fk);

	assert(w->fk.floor == b + 1);
	if (strand_reclaim(w))
		return true;
	*ret_next = strand_child_ended(w, frame);
	return false;
}

bool fk_rt_join(struct fk_worker *fk, struct fk_frame *frame)
{
	struct worker *w = worker_of(fk);

	assert(w->fk.sp != (char *)(frame + 1)); /* O3 */
	if (!join_parent(&frame->joins, frame->steals)) {
		/* The frame may run elsewhere by now. */
		COUNT(w, joins_waited);
		return false;
	}
	frame->steals = 0;
	strand_take_stack(w, frame);
	return true;
}

struct fk_frame *fk_rt_finish(struct fk_worker *fk, struct fk_frame *frame)
{
	struct worker *w = worker_of(fk);
	bool called = frame->slot & FK_CALLED;
	char *start = (char *)(frame + 1) - frame->task->frame_size;
	struct fk_frame *parent = stack_parent(start);

	if (frame->steals) {
		log_error("task %s returned with forks that it has not joined", frame->task->name);
		abort();
	}
	assert(w->fk.sp == (char *)(frame + 1));
	w->fk.sp = start;
	if (start == stack_first(w->top) && w->top->prev) {
		w->fk.sp = w->top->below;
		w->top = stack_pop(&w->cache, w->top);
		w->fk.stack_limit = w->top->end;
	}
	if (called) {
		strand_part(w, parent);
		return parent;
	}
	if (w->fk.bottom > w->fk.floor || strand_reclaim(w)) {
		w->fk.bottom--;
		assert(atomic_load_explicit(&w->fk.bottom->word, memory_order_relaxed) ==
		       (uintptr_t)parent);
		strand_part(w, parent);
		return parent;
	}
	return strand_child_ended(w, parent);
}

char *fk_rt_grow(struct fk_worker *fk, char *sp, size_t size)
{
	struct worker *w = worker_of(fk);
	struct fk_stack *next = stack_push(&w->cache, w->top, sp, size);

	if (!next) {
		log_error("the arena is full: a job needs more stack than arena-max leaves it");
		abort();
	}
	w->top = next;
	w->fk.stack_limit = next->end;
	return stack_first(next);
}

void fk_rt_shrink(struct fk_worker *fk)
{
	struct worker *w = worker_of(fk);

	w->top = stack_pop(&w->cache, w->top);
	w->fk.stack_limit = w->top->end;
}

void fk_rt_fail(struct fk_worker *fk, int code)
{
	struct worker *w = worker_of(fk);

	root_fail(w->pool, w->job, code);
}

/* Publishes what the owner keeps in plain fields. */
static void strand_counters(struct worker *w)
{
	atomic_store_explicit(&w->counters->forks, w->fk.forks, memory_order_relaxed);
	atomic_store_explicit(&w->counters->stacklets, w->cache.allocated, memory_order_relaxed);
	atomic_store_explicit(&w->counters->stack_bytes, (uint64_t)w->cache.bytes,
			      memory_order_relaxed);
}

void strand_loop(struct worker *worker)
{
	struct worker *w;

	(void)STRAND_SET(worker);
	w = worker_self(); /* registers are gone after a jump */
	for (;;) {
		struct fk_frame *frame = w->next;
		uint32_t row;

		if (!frame) {
			strand_counters(w);
			switch (worker_find(w, &row)) {
			case WORKER_STOP:
				return;
			case WORKER_ROOT:
				COUNT(w, strands);
				COUNT(w, roots);
				root_run(w, row);
				continue;
			case WORKER_FRAME:
				frame = w->next;
				break;
			}
		}
		COUNT(w, strands);
		w->next = NULL;
		if (w->pool->force_steals)
			strand_scribble();
		w->next = frame->task->resume(&w->fk, frame);
	}
}
