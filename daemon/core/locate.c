/* SPDX-License-Identifier: MIT */
/*
 * locate.c - where a thread was when its task ended the pool
 *
 * CODE
 *   The unwinder of libgcc, with the tables that every compiler writes (.eh_frame). It allocates
 *   nothing. glibc from 2.35 on finds the tables without a lock (_dl_find_object()). If it needs
 *   the loader's lock, other threads hold that only briefly.
 *
 * TASK
 *   A fresh frame has no header (forkd/task.h, THE FAST PATH). So the frames are walked from the
 *   base to the newest one, as strand_promote_chain() does, but nothing is written. Fine-grained
 *   tasks do not record which frame is the newest. But each task has its own functions, such as
 *   NAME__framed. The newest such function on the C stack names the running task, unless
 *   - a first block runs, which may be inlined into the parent's function, or
 *   - the walk has passed that task: then the compiler has inlined its child.
 *   A module without .symtab has no such names. A fine-grained child that is inlined into its
 *   parent is reported as the parent.
 */
#include "daemon/core/locate.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <unwind.h>

#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker_state.h"
#include "shm/backtrace.h"
#include "daemon/host/symbols.h"

#define LOCATE_DEPTH 10000u /* maximum number of task frames that are walked */

/* ------------------------------------------------------------------------ code */

#if defined(__x86_64__)

static uintptr_t locate_pc(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
}

/* As if the called function had returned at once. */
static void locate_return(ucontext_t *context)
{
	greg_t *registers = context->uc_mcontext.gregs;

	registers[REG_RIP] = *(const greg_t *)(uintptr_t)registers[REG_RSP];
	registers[REG_RSP] += 8;
}

#elif defined(__aarch64__)

static uintptr_t locate_pc(const ucontext_t *context)
{
	return context->uc_mcontext.pc;
}

static void locate_return(ucontext_t *context)
{
	context->uc_mcontext.pc = context->uc_mcontext.regs[30];
}

#else

static uintptr_t locate_pc(const ucontext_t *context)
{
	(void)context;
	return 0;
}

static void locate_return(ucontext_t *context)
{
	(void)context;
}

#endif

/* Finds the object and function of a code address. False, with the address itself: it is in no
 * loaded code. In objects that are not in the table of symbols.h, such as those loaded by a task,
 * data addresses are found too. */
static bool locate_find(uintptr_t address, struct backtrace_place *ret_place)
{
	bool found = symbols_find(address, ret_place);
#ifdef DLFO_STRUCT_HAS_EH_DBASE /* as in dlfcn.h of glibc 2.35 and later */
	void *at = (void *)address;
	struct dl_find_object object;

	if (!found && !symbols_contain(at, 1) && _dl_find_object(at, &object) == 0) {
		strcpy(ret_place->object, SYMBOLS_UNKNOWN);
		found = true;
	}
#endif
	return found;
}

struct locate_walk {
	struct backtrace *trace;
	uintptr_t pc;	/* first place; 0: the first one outside of forkd */
	bool is_return; /* pc is a return address */
	bool begun;
	bool left; /* has reached other objects than forkd */
};

/* True if there is room for more. */
static bool locate_add(struct backtrace *trace, const struct backtrace_place *place)
{
	uint32_t n = backtrace_count(trace);

	if (n >= BACKTRACE_PLACES)
		return false;
	trace->places[n] = *place;
	/* Relaxed: the manager reads it when this process has ended. */
	store_relaxed(&trace->n, n + 1);
	return n + 1 < BACKTRACE_PLACES;
}

static _Unwind_Reason_Code locate_step(struct _Unwind_Context *context, void *argument)
{
	struct locate_walk *walk = argument;
	struct backtrace_place place;
	int is_exact = 0;
	uintptr_t at = _Unwind_GetIPInfo(context, &is_exact);
	bool is_first = !walk->begun && at == walk->pc, is_own;

	if (!at)
		return _URC_END_OF_STACK;
	/* For a caller look up the call instruction, not the one after it. */
	(void)locate_find(is_exact && !(is_first && walk->is_return) ? at : at - 1, &place);
	is_own = !strcmp(place.object, SYMBOLS_OWN);
	walk->begun |= walk->pc ? is_first : place.object[0] && !is_own;
	if (!walk->begun)
		return _URC_NO_REASON;
	/* Callers of the oldest task are not reported. */
	if (is_own && walk->left)
		return _URC_END_OF_STACK;
	walk->left |= !is_own;
	return locate_add(walk->trace, &place) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

bool locate_is_own(const ucontext_t *context)
{
	struct backtrace_place place;

	return locate_find(locate_pc(context), &place) && !strcmp(place.object, SYMBOLS_OWN);
}

void locate_code(struct backtrace *trace, ucontext_t *context)
{
	struct locate_walk walk = { .trace = trace };
	struct backtrace_place place;
	ucontext_t before;

	if (!context) {
		(void)_Unwind_Backtrace(locate_step, &walk);
		return;
	}
	walk.pc = locate_pc(context);
	if (locate_find(walk.pc, &place)) {
		(void)_Unwind_Backtrace(locate_step, &walk);
		/* Without unwind tables for it the unwinder has not reported this place. */
		if (!backtrace_count(trace))
			(void)locate_add(trace, &place);
		return;
	}
	/* A call through an invalid pointer. The return address is in the caller. The unwinder
	 * takes the registers from the context. */
	(void)locate_add(trace, &place);
	before = *context;
	locate_return(context);
	walk.pc = locate_pc(context);
	walk.is_return = true;
	if (locate_find(walk.pc - 1, &place))
		(void)_Unwind_Backtrace(locate_step, &walk);
	*context = before;
}

/* ------------------------------------------------------------------------ task */

/* True if the address is a possible frame. */
static bool locate_is_frame(const struct worker *w, const void *frame)
{
	const char *arena = (const char *)w->pool->arena;
	uint64_t offset = (uint64_t)((const char *)frame - arena);

	return (uintptr_t)frame % _Alignof(struct fk_frame) == 0 &&
	       offset < w->pool->arena_size - sizeof(struct fk_frame);
}

/* True if it is the table of a task in a module. */
static bool locate_is_task(const struct fk_task *task)
{
	return symbols_contain(task, sizeof(*task)) && symbols_contain(task->name, 1) &&
	       symbols_contain((const void *)(uintptr_t)task->describe, 1) &&
	       task->frame_size >= sizeof(struct fk_frame);
}

/* A frame, and the place of the next one. */
struct locate_frame {
	struct fk_frame *frame;
	const struct fk_task *task; /* NULL: not a task of a module, as for a root */
	struct fk_frame *above;
};

/* Moves from a frame, which is within a fork or call, to the place of its child's frame. False:
 * unknown. */
static bool locate_ascend(const struct worker *w, struct locate_frame *f)
{
	struct fk_child child = { NULL, NULL, false };

	if (f->frame == w->engine.base) {
		child.task = w->engine.fk.child;
	} else if (!f->task || !locate_is_frame(w, f->frame)) {
		return false;
	} else if (fk_site(f->frame) & FK_PARTED) {
		child.task = locate_is_frame(w, f->above) ? f->above->task : NULL;
	} else {
		f->task->describe(f->frame, &child);
	}
	if (!locate_is_task(child.task))
		return false;
	f->frame = f->above;
	f->task = child.task;
	f->above = (struct fk_frame *)(void *)((char *)f->frame + child.task->frame_size);
	return true;
}

struct locate_newest {
	const struct fk_task *task; /* NULL: unknown */
	bool in_first_block;	    /* which may have no function of its own */
	bool passed;		    /* an older frame is of the function's task */
};

static struct locate_newest locate_find_newest(const struct worker *w, const char *function)
{
	uintptr_t current = w->engine.fk.current;
	const struct fk_frame *last = (const struct fk_frame *)(current & ~FK_IN_CHILD);
	struct locate_newest newest = { NULL, current & FK_IN_CHILD, false };
	struct locate_frame f = { w->engine.base, NULL,
				  (struct fk_frame *)(void *)w->engine.fk.sp };

	if (last && locate_is_frame(w, f.frame) && locate_is_task(f.frame->task))
		f.task = f.frame->task;
	for (uint32_t depth = 0; last && depth < LOCATE_DEPTH; depth++) {
		bool is_last = f.frame == last;

		if (is_last && f.task && !newest.in_first_block) {
			newest.task = f.task;
			break;
		}
		newest.passed |= f.task && !strcmp(f.task->name, function);
		if (!locate_ascend(w, &f))
			break;
		/* Until a job's first task has a frame, the root's is the newest. */
		if (is_last) {
			newest.task = f.task;
			break;
		}
	}
	return newest;
}

/* Stores the task of the newest function that a macro of forkd/task.h has made; empty: none. */
static void locate_find_function(const struct backtrace *trace, char *ret_name, size_t size)
{
	static const char *const endings[] = { "__leaf", "__framed", "__inner", "__resume",
					       "__enter" };

	for (uint32_t i = 0; i < backtrace_count(trace); i++) {
		const char *name = trace->places[i].function;

		for (uint32_t k = 0; k < ARRAY_SIZE(endings); k++) {
			const char *end = strstr(name, endings[k]);
			const char *rest = end ? end + strlen(endings[k]) : "-";

			/* Compilers append suffixes after a dot. */
			if (*rest && *rest != '.')
				continue;
			strncpy(ret_name, name, min(size - 1, (size_t)(end - name)));
			return;
		}
	}
}

void locate_task(const struct worker *w, const struct backtrace *trace, char *ret_name,
		 uint32_t size)
{
	char function[sizeof(trace->places[0].function)] = "";
	struct locate_newest newest;

	locate_find_function(trace, function, sizeof(function));
	newest = locate_find_newest(w, function);
	if (newest.task && (!function[0] || newest.in_first_block || newest.passed))
		strncpy(ret_name, newest.task->name, size - 1);
	else
		strncpy(ret_name, function, size - 1);
	ret_name[size - 1] = '\0';
}
