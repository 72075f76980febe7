/* SPDX-License-Identifier: MIT */
/*
 * nested.c - C functions that tasks call run tasks again
 *
 * A plain function, called by the code of a task, calls a parallel function: a nested call. The
 * caller's C activations must survive, although the loop has to run other work while the call
 * waits. So a worker has several C stacks. One is running. Each other one is idle (a loop waits at
 * its top, without a strand), or holds a nested call.
 *
 * 	fast	caller's activations | nested_run() | the task's activations
 * 	helped	caller's activations | nested_run() | strands of the call, one at a time
 * 	held	caller's activations | nested_run()		       another stack: the loop
 *
 *   The task is a called child of a frame in struct nested_call, on the caller's C stack. Its
 *   frames are on a new segmented stack. If it is not stolen from and serves no request, it ends by
 *   a C return (fast). A strand of it that leaves its activations jumps to nested_run() instead of
 *   the loop. That resumes what the strand says, as long as there is something (helped). Then it
 *   leaves the C stack to an idle loop (held). A call also begins held if its C stack is long; so
 *   all functions that tasks call have the same room on the C stack.
 *   The last child of the call resumes the call's frame, on any worker. Its resume function sends
 *   it to its own worker, through the inbox, like a fiber. That worker's loop, on any of its
 *   stacks, switches back to the caller, and is idle then.
 *
 * Threads: the call's own worker; nested_resume() on any worker.
 *
 * INVARIANTS
 *   N1. A C stack stays with its worker's thread. Exactly one, engine.loop, runs. engine.nested is
 *       the newest call on it, engine.jump its innermost STRAND_SET().
 *   N2. A call begins only if a stack is idle. That one is used by calls on the running stack
 *       alone, of which only the newest can become held, once; then the worker runs on that stack,
 *       which has no call. So a call that has begun can always become held, and there is no wait
 *       for a stack. A worker has at most NESTED_LOOPS stacks; then calls fail with -ENOMEM.
 *   N3. A loop waits at its top only: it has no strand. So held calls may end in any order. A call
 *       waits for its own strands alone, and for other work only until that forks.
 *   N4. The strand of the caller keeps its segmented stack: it is the call's (O2). Nothing runs on
 *       it, so activations, known or not, keep their frames. The stack of the call's frames is
 *       charged to the job. It is kept above that of the caller for the next call.
 *   N5. Before a frame of the call enters the deque, the caller's frames do, as far as they are
 *       known (forkd/task.h, current), and oldest first: strand_promote_chain(). They find
 *       FK_PARTED later and leave, as after strand_publish_from_signal(). If a fine-grained task
 *       has called, its fresh frames stay hidden until the call returns. The call's own frames are
 *       never hidden. The caller's entries are below job_base then: an unwind ends only frames of
 *       the call at once (strand_drop_chain()).
 *   N6. While a call is held, its worker's deque changes. Then the caller's activation must not
 *       take an entry as its own by its place: with was_held all entries are public, so fk_pop()
 *       fails, and fk_rt_pop() leaves the C activation and compares as the loop does
 *       (strand_pop_parent()). This holds until another strand begins: each return of a call makes
 *       all entries public again. Fresh activations never look at entries (forkd/task.h, I4).
 *       The same is true of the callers of all older calls on that C stack, held or not: their
 *       entries are below (nested_mark_older()).
 *   N7. The loop never unwinds the call's frame, which has no parent. The frames of the call
 *       unwind when the job has an outcome, as all do, so a call ends, too.
 *
 *   The result is right: the call ends once its frame is resumed, that is, when the task, its
 *   called child, has ended (slow_path.c, rows 10 and 11). nested_finish() restores all of
 *   engine that the caller's activations use: current, base, sp, child, slot, stack, job_base,
 *   jump. The deque has the entries of before, without those that were stolen or that another loop
 *   of this worker has resumed; for the caller that is the same (N6).
 *
 * MODES
 *   force_steals, late_children, fuzz_seed, no_steals and FK_DEBUG_STEALS: no difference to other
 *   frames. A profile follows parents, which the call's frame has not: -ENOTSUP. Preemption: frames
 *   of the call are suspended like others, and the call is held. With NESTED_LOOPS / 2 held calls a
 *   worker is not preempted within another one (strand_safepoint()). The job is charged only while
 *   its frames run. A crash names the newest task of the call.
 *
 * If the kernel has no memory for the pages of a C stack, the process ends, as with all stacks.
 */
#include "daemon/engine/nested.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/options.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/context_switch.h"
#include "daemon/core/deque.h"
#include "daemon/core/hooks.h"
#include "daemon/core/job_abort.h"
#include "daemon/core/mailbox.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/stacklet.h"
#include "daemon/core/trace.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/engine/slow_path.h"

#define NESTED_KEEP 2u /* idle stacks that a worker keeps */

/* ------------------------------------------------------------------------ C stacks */

/* From now on this is the running stack, at the top of its loop. The caller then switches. */
static void nested_run_on(struct worker *w, struct loop_stack *loop)
{
	w->engine.loop = loop;
	w->engine.jump = &loop->jump;
	w->engine.fk.cstack_limit = loop->cstack_limit;
}

static void nested_put_idle(struct worker *w, struct loop_stack *loop)
{
	loop->next = w->engine.idle;
	w->engine.idle = loop;
	w->engine.n_idle++;
}

/* The newest idle stack, or with first the thread's own, which must be idle. */
static struct loop_stack *nested_take_idle(struct worker *w, bool first)
{
	struct loop_stack **at = &w->engine.idle, *loop;

	while (first && *at != &w->engine.first_loop)
		at = &(*at)->next;
	loop = *at;
	*at = loop->next;
	w->engine.n_idle--;
	return loop;
}

static void nested_free_stack(struct worker *w, struct loop_stack *loop)
{
	switch_destroy(&loop->context);
	(void)munmap(loop->memory, loop->size);
	w->engine.n_loops--;
}

/* Frees the newest idle stacks, up to this number of them. */
static void nested_trim(struct worker *w, uint32_t keep)
{
	while (w->engine.n_idle > keep && w->engine.idle != &w->engine.first_loop)
		nested_free_stack(w, nested_take_idle(w, false));
}

static void nested_main(void *arg)
{
	struct worker *w = arg;

	w->pool->hooks->loop(w);
	__builtin_unreachable(); /* it ends on the thread's own stack: nested_may_stop() */
}

/* Makes sure that a stack is idle (N2). False: there is no memory, or there are too many. */
static bool nested_reserve(struct worker *w)
{
	struct loop_stack *loop;
	size_t page, size;
	char *memory;

	if (likely(w->engine.idle))
		return true;
	if (w->engine.n_loops == NESTED_LOOPS)
		return false;
	page = (size_t)sysconf(_SC_PAGESIZE);
	size = align_up(w->pool->options->worker_stack, page) + page;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	if (mprotect(memory, page, PROT_NONE) < 0) {
		(void)munmap(memory, size);
		return false;
	}
	loop = (struct loop_stack *)(void *)(memory + size) - 1;
	loop->memory = memory;
	loop->size = size;
	loop->cstack_limit = (uintptr_t)loop - WORKER_STACK_NEST;
	switch_make(&loop->context, memory + page, (size_t)((char *)loop - (memory + page)),
		    nested_main, w);
	w->engine.n_loops++;
	nested_put_idle(w, loop);
	return true;
}

void nested_begin(struct worker *w, void *here)
{
	w->engine.first_loop.cstack_limit = (uintptr_t)here - WORKER_STACK_NEST;
	switch_adopt(&w->engine.first_loop.context);
	nested_run_on(w, &w->engine.first_loop);
}

void nested_end(struct worker *w)
{
	nested_trim(w, 0);
	switch_destroy(&w->engine.first_loop.context);
}

bool nested_may_stop(struct worker *w)
{
	struct loop_stack *own = w->engine.loop;

	if (w->engine.n_held) {
		sched_yield();
		return false;
	}
	if (own == &w->engine.first_loop)
		return true;
	nested_put_idle(w, own);
	nested_run_on(w, nested_take_idle(w, true));
	switch_to(&own->context, &w->engine.loop->context);
	/* The loop of that stack has found work after all. */
	return false;
}

/* ------------------------------------------------------------------------ waiting */

/* Leaves the C stack to another loop, which runs engine.next, if that is set. Returns when the call
 * has ended. */
static void nested_hold(struct worker *w, struct nested_call *call)
{
	COUNT(w, nested_waits);
	call->held = true;
	w->engine.n_held++;
	w->engine.nested = NULL;
	nested_run_on(w, nested_take_idle(w, false));
	switch_to(&call->loop->context, &w->engine.loop->context);
}

/* Continues the call, which is held, on this worker. Returns when the running loop, idle until
 * then, is needed again. */
static void nested_continue(struct worker *w, struct nested_call *call)
{
	struct loop_stack *own = w->engine.loop;

	w->engine.n_held--;
	w->engine.nested = call;
	nested_put_idle(w, own);
	nested_run_on(w, call->loop);
	w->engine.jump = &call->jump;
	switch_to(&own->context, &w->engine.loop->context);
	trace_strand(w);
}

static void nested_send(struct nested_call *call)
{
	struct worker *to = call->worker;

	fk_set_site(&call->frame, FK_PARTED | FK_MOVED | 1);
	/* The call may end from here on. */
	inbox_put(&to->inbox, &call->frame);
	to->pool->hooks->wake(to->pool, to->index, worker_self());
	worker_ask(to);
}

/* Runs the task on the present C stack. Returns if its activation does: the strand was never
 * left. */
static void nested_enter(struct worker *w, struct nested_call *call)
{
	call->begun = true;
	w->engine.base = &call->frame;
	w->engine.fk.slot = (uintptr_t)call->result | FK_CALLED;
	w->engine.fk.child = call->task;
	fk_enter(&w->engine.fk, (uintptr_t)&call->frame);
	call->enter(&w->engine.fk, w->engine.fk.sp, call->result, call->args);
	fk_enter(&w->engine.fk, 0);
}

/* The task has ended, or is to begin held. */
static struct fk_frame *nested_resume(struct fk_worker *fk, struct fk_frame *frame)
{
	struct worker *w = worker_of(fk);
	struct nested_call *call = container_of(frame, struct nested_call, frame);

	if (!call->begun)
		nested_enter(w, call);
	stack_trim(&w->engine.cache, w->engine.top);
	if (call->worker != w) {
		nested_send(call);
		return NULL;
	}
	call->ended = true;
	if (!call->held)
		return NULL;
	nested_continue(w, call);
	return w->engine.next;
}

static const struct fk_task nested_task = { "(nested call)", nested_resume, NULL, NULL,
					    sizeof(struct fk_frame) };

/* A strand of the call has left its activations. Returns when the call has ended. */
static void nested_help(struct worker *w, struct nested_call *call)
{
	while (!call->ended) {
		struct fk_frame *frame = w->engine.unwind ? w->engine.unwind : w->engine.next;

		/* A frame without parent may be of other work: a fiber that yields returns such. */
		if (frame && (frame->parent || frame == &call->frame))
			strand_run(w, frame);
		else
			nested_hold(w, call);
	}
	if (!call->held)
		trace_strand(w);
}

static __attribute__((noinline)) void nested_strands(struct worker *caller)
{
	bool jumped = STRAND_SET(caller);
	struct worker *w;

	if (!jumped && fk_stack_pointer >= caller->engine.fk.cstack_limit) {
		nested_enter(caller, caller->engine.nested);
		return;
	}
	w = worker_self(); /* registers are lost after a jump */
	trace_strand_end(w);
	if (!jumped) {
		w->engine.next = &w->engine.nested->frame;
		nested_hold(w, w->engine.nested);
	}
	nested_help(w, w->engine.nested);
}

/* ------------------------------------------------------------------------ the caller */

static struct strand_state nested_save(struct worker *w, uintptr_t current)
{
	return (struct strand_state){
		.current = current,
		.base = w->engine.base,
		.sp = w->engine.fk.sp,
		.slot = w->engine.fk.slot,
		.child = w->engine.fk.child,
		.stack = w->engine.stack,
		.top = w->engine.top,
		.job_base = w->engine.job_base,
		.jump = w->engine.jump,
		.was_held = w->engine.was_held,
	};
}

static void nested_restore(struct worker *w, const struct strand_state *caller)
{
	w->engine.base = caller->base;
	w->engine.fk.sp = caller->sp;
	w->engine.fk.slot = caller->slot;
	w->engine.fk.child = caller->child;
	w->engine.stack = caller->stack;
	w->engine.top = caller->top;
	w->engine.job_base = min(caller->job_base, w->engine.fk.bottom);
	w->engine.jump = caller->jump;
	w->engine.was_held = caller->was_held;
	strand_set_limit(w, caller->top);
}

/* Gives the call a stack for its frames. The caller's strand is saved. */
static int nested_prepare(struct worker *w, struct nested_call *call)
{
	struct fk_stack *stack;

	if (!nested_reserve(w))
		return -ENOMEM;
	stack = stack_nest(&w->engine.cache, w->engine.top);
	if (!stack)
		return -ENOMEM;
	w->engine.stack = w->engine.top = stack;
	w->engine.fk.sp = stack_first(stack);
	strand_set_limit(w, stack);
	call->frame.top = w->engine.fk.sp;
	call->older = w->engine.nested;
	if (call->older)
		call->older->newer = call;
	w->engine.nested = call;
	w->engine.jump = &call->jump;
	w->engine.job_base = w->engine.fk.bottom;
	w->engine.was_held = false;
	return 0;
}

/* Makes all entries public (N6). */
static void nested_publish(struct worker *w)
{
	uint64_t n = (uint64_t)(w->engine.fk.bottom - w->engine.fk.floor);

	if (!n)
		return;
	w->engine.fk.floor += n;
	deque_publish(&w->engine.frames, n);
	COUNT_ADD(w, published, n);
}

/* The call was held: the deque has changed for the callers of older calls as well (N6). */
static void nested_mark_older(struct worker *w, const struct nested_call *call)
{
	for (struct nested_call *older = call->older; older; older = older->older) {
		older->caller.was_held = true;
		older->caller.job_base = w->engine.fk.end;
	}
}

/* The caller's strand continues. */
static void nested_finish(struct worker *w, struct nested_call *call)
{
	stack_unnest(&w->engine.cache, call->caller.top, w->engine.stack);
	nested_restore(w, &call->caller);
	w->engine.fk.unwinds |= call->unwinds;
	if (call->held) {
		w->engine.job_base = w->engine.fk.bottom;
		w->engine.was_held = true;
		nested_mark_older(w, call);
		nested_trim(w, NESTED_KEEP);
	}
	if (w->engine.was_held)
		nested_publish(w);
}

int nested_run(struct worker *w,
	       void (*enter)(struct fk_worker *fk, char *sp, void *result, const void *args),
	       const struct fk_task *task, void *result, const void *args)
{
	uintptr_t current = w->engine.fk.current;
	struct nested_call call;
	int r;

	if (w->job.row == WORKER_NO_JOB)
		return -EPERM;
	if (w->pool->mode.profile)
		return -ENOTSUP;
	if (abort_get(w->pool, w->job.row).outcome)
		return -ECANCELED;
	fk_enter(&w->engine.fk, 0);
	call.frame = (struct fk_frame){ .task = &nested_task, .job = w->job.row };
	fk_set_site(&call.frame, FK_PARTED);
	call.worker = w;
	call.loop = w->engine.loop;
	call.newer = NULL;
	call.caller = nested_save(w, current);
	call.unwinds = w->engine.fk.unwinds;
	call.enter = enter;
	call.task = task;
	call.result = result;
	call.args = args;
	call.begun = call.promoted = call.held = call.ended = false;
	r = nested_prepare(w, &call);
	if (r == 0) {
		nested_strands(w);
		w->engine.nested = call.older;
		if (call.older)
			call.older->newer = NULL;
		if (abort_get(w->pool, w->job.row).outcome) {
			r = -ECANCELED;
			/* The call has taken the request that the caller's strand waits for. */
			worker_ask(w);
		}
		nested_finish(w, &call);
	}
	fk_enter(&w->engine.fk, current);
	return r;
}
