/* SPDX-License-Identifier: MIT */
/*
 * fiber.c - how fibers are switched to, leave their stacks and end
 *
 * In deques, chains and inboxes a fiber is represented by its fiber frame. The resume function of
 * its task switches to the fiber's stack. FK_MOVED is in its site, as in a suspended frame without
 * a stack. So the code for frames steals, sends, suspends, charges and counts fibers. The frame has
 * no parent: the loop does not unwind it.
 *
 * Threads: workers: fiber_resume() from the loop, fk_rt_*() from fibers.
 *
 * WHERE A FIBER RUNS
 *   On top of the worker's loop. A fiber stores what the loop must do with it, and switches to the
 *   loop's context, within fiber_resume(), which does it. The worker's own stack of frames is empty
 *   while a fiber runs. `current` is the fiber frame while the fiber's own code runs. It is 0 while
 *   runtime code runs and during switches. So a signal publishes what the fiber has spawned
 *   (strand_publish_from_signal() finds no frame above the base). In addition fiber_resume() and a
 *   fiber that spawns check for steal requests, as frames do.
 *
 * 	loop --> fiber_resume() --switch--> fiber's code ... fiber_leave()
 * 	 ^              |  <-------------switch-----------------'
 * 	 |              v
 * 	 '-- next -- fiber_left(): again | put | parked | called | aside | gone
 *
 * INVARIANTS
 *   I1. No other thread sees a fiber as runnable before it has left its stack. One of these puts it
 *       into a deque or an inbox: the worker that made it, before it runs; fiber_left(), on the
 *       loop's stack, when the fiber's state is in its context; or the waker that has won its park
 *       (park_word.h, I3), after fiber_left(). A thread that finds it in the deque has acquired all
 *       stores made before that.
 *   I2. Only fiber_left() gives its stack back, for the same reason.
 *   I3. worker_self() and head.worker are read again after each fiber_leave(), by a function that
 *       is not inlined: no thread-local address is kept across it.
 *   I4. Entries of fibers are ancestors of no frame: engine.job_base is above each of them.
 */
#include "daemon/fiber/fiber.h"

#include <errno.h>
#include <stdlib.h>

#include "common/relaxed.h"
#include "daemon/core/hooks.h"
#include "daemon/core/mailbox.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/context_switch.h"
#include "daemon/core/job_abort.h"
#include "daemon/core/worker.h"
#include "daemon/engine/preempted.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/fiber/counter.h"
#include "daemon/fiber/create.h"
#include "daemon/fiber/shared_stack.h"
#include "daemon/fiber/blocking_section.h"
#include "daemon/fiber/call_frame.h"
#include "daemon/fiber/scope.h"
#include "daemon/fiber/io.h"
#include "daemon/fiber/slab.h"
#include "daemon/fiber/ready.h"
#include "daemon/fiber/self.h"
#include "daemon/fiber/timer_heap.h"

void fibers_fini(struct pool *pool)
{
	/* Relaxed: there are no other threads. */
	if (load_relaxed(&pool->fibers->error) == FIBERS_LATER)
		return;
	fiber_io_fini(pool);
	blocking_threads_fini(pool);
	fiber_stacks_fini(&pool->fibers->stacks);
	fiber_memory_fini(&pool->fibers->blocks);
	free(pool->fibers->shared_stacks.shared_stacks);
	fiber_times_fini(pool->fibers);
}

/* ------------------------------------------------------------------------ running */

/* In the loop: puts the fiber at the newest end and resumes the oldest entry, as if the worker had
 * stolen it. So all entries take turns. Returns that entry. Fibers of the shared stack are in the
 * inbox, which has every second turn. */
static struct fk_frame *fiber_yield(struct worker *w, struct fiber *f)
{
	enum deque_status status;
	struct fk_frame *oldest;
	uint64_t word, n;
	bool shared;

	COUNT(w, fiber_yields);
	if (w->engine.fk.bottom == w->engine.fk.floor && !deque_size(&w->engine.frames) &&
	    !strand_reclaim(w)) {
		/* A fiber that only yields moves through the deque, to its end. */
		strand_reset_deque(w);
		if (!w->roots.root_first && !w->engine.n_self_stolen && !inbox_any(&w->inbox))
			return &f->head.frame;
		oldest = w->roots.root_first ? NULL : strand_pop_self_stolen(w);
		fiber_ready(w, f);
		if (oldest)
			strand_adopt(w, oldest);
		/* Otherwise the loop takes a root job or mail. */
		return oldest;
	}
	/* The fiber may end after fiber_ready(). */
	shared = f->shared;
	fiber_ready(w, f);
	if (w->roots.root_first || (!shared && inbox_any(&w->inbox) && (w->fiber.turn ^= 1)))
		return NULL;
	if (!deque_size(&w->engine.frames))
		strand_publish(w);
	do
		status = deque_steal_share(&w->engine.frames, DEQUE_ONE, &word, 1, &n);
	while (status == DEQUE_RACE);
	/* Thieves have taken all entries; the loop finds other work. */
	if (status == DEQUE_EMPTY)
		return NULL;
	oldest = (struct fk_frame *)(uintptr_t)word;
	if (oldest->job != w->job.row) {
		preempted_start(w);
		preempted_end(w, oldest->job);
	}
	strand_adopt(w, oldest);
	return oldest;
}

/* In the loop. */
static struct fk_frame *fiber_end(struct worker *w, struct fiber *f)
{
	struct scope *scope = f->scope;
	struct fk_counter *counter = f->counter;

	/* The root's stack also holds the scope. */
	if (f != scope->root)
		fiber_free(w, f);
	if (counter)
		fiber_counter_end(w, counter);
	return scope_leave(w, scope);
}

/* The fiber has left its stack. Returns the frame to run next. */
static struct fk_frame *fiber_left(struct worker *w, struct fiber *f)
{
	if (unlikely(!fiber_stack_intact(f->head.stack)))
		hooks_overflow(w, &f->head);
	if (f->shared && f->after != FIBER_ENDS && unlikely(!shared_stack_keep(w, f))) {
		f->refused = true;
		return &f->head.frame;
	}
	switch ((enum fiber_after)f->after) {
	case FIBER_AGAIN:
		return &f->head.frame;
	case FIBER_YIELDS:
		return fiber_yield(w, f);
	case FIBER_PARKS:
		COUNT(w, fiber_parks);
		/* NULL: it may already run on another worker. */
		return fiber_park_left(&f->park) ? &f->head.frame : NULL;
	case FIBER_CALLS:
		return fiber_call(w, f);
	case FIBER_BLOCKS:
		return fiber_block(w, f);
	case FIBER_ENDS:
		return fiber_end(w, f);
	}
	__builtin_unreachable();
}

/* Takes requests to the worker. False: the fiber was preempted, and is in the deque. */
static bool fiber_safepoint(struct worker *w, struct fiber *f, bool sent)
{
	if (!worker_is_asked(w))
		return true;
	if (fiber_is_over(f)) {
		worker_take_request(w);
		if (w->thief.wake_debt) {
			w->thief.wake_debt = false;
			w->pool->hooks->wake_one(w->pool, w);
		}
		strand_publish(w);
		return true;
	}
	/* A fiber that was sent here has already waited in the inbox. */
	if (!strand_safepoint(w, &f->head.frame, !sent))
		return false;
	strand_publish(w);
	w->engine.empty_polls = 0;
	return true;
}

static struct fk_frame *fiber_resume(struct fk_worker *fk, struct fk_frame *frame)
{
	struct worker *w = worker_of(fk);
	struct fiber *f = fiber_of(frame);
	bool sent = w->roots.mail == frame;
	struct fk_frame *next;

	w->roots.mail = NULL;
	/* A fiber that could not leave its stack continues at once. */
	if (!f->refused &&
	    ((f->shared && !shared_stack_take(w, f)) || !fiber_safepoint(w, f, sent)))
		return NULL;
	if (f->shared && shared_stack_enter(w, f))
		fiber_begin_on(f, f->copy.shared->stack, f->copy.shared->stack->size);
	if (f->head.worker != w) {
		COUNT(w, fiber_migrations);
		f->head.worker = w;
	}
	COUNT(w, fiber_switches);
	w->fiber.self = &f->head;
	/* fiber_main() starts with it set; other code sets it itself. */
	fk_enter(fk, (uintptr_t)frame);
	switch_to(&w->engine.loop->context, &f->context);
	w->fiber.self = NULL;
	next = fiber_left(w, f);
	if (next && next->task != &fiber_task)
		shared_stacks_wait(w);
	return next;
}

const struct fk_task fiber_task = { "(fiber)", fiber_resume, NULL, NULL, sizeof(struct fk_frame) };

/* ------------------------------------------------------------------------ called by fibers */

int fk_rt_fiber_yield(void)
{
	struct fiber *f = fiber_self();
	bool left;

	if (!f)
		return -EPERM;
	/* Also if the job has an outcome: this fiber may wait for one that must end first. */
	left = fiber_leave(f, FIBER_YIELDS);
	if (fiber_is_over(f))
		return -ECANCELED;
	return left ? 0 : -ENOMEM;
}

bool fk_rt_fiber_is_over(void)
{
	struct fiber *f = fiber_self();

	if (!f)
		f = blocking_fiber();
	return f && fiber_is_over(f);
}

int fk_rt_fiber_fail(int code)
{
	struct fiber *f = fiber_self();

	if (!f)
		return -EPERM;
	fk_rt_fail(&f->head.worker->engine.fk, code);
	return 0;
}
