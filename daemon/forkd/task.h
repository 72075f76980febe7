/* SPDX-License-Identifier: MIT */
/*
 * forkd/task.h - macros for fork-join tasks
 *
 * A module's author writes tasks in plain C with these macros. The file also has the part of the
 * runtime that is inlined into tasks. A task has two blocks:
 *
 * 	FK_TASK(int64_t, fib, (int64_t, n), int64_t x; int64_t y;)
 * 	{
 * 		if (n < 2)
 * 			FK_LEAF(n);
 * 	}
 * 	FK_BODY(fib)
 * 	{
 * 		FK_FORK(x, fib, self->n - 1);
 * 		FK_CALL(y, fib, self->n - 2);
 * 		FK_JOIN();
 * 		FK_RETURN(self->x + self->y);
 * 	}
 * 	FK_END(fib)
 *
 * The first block runs in registers, before any frame exists, and may end the task with FK_LEAF().
 * The arguments are constants there. The second block runs on a frame, `self`, which has the
 * arguments and the locals that are named last in FK_TASK. A value that must survive an FK_FORK,
 * FK_CALL or FK_JOIN must be a member of it. The arguments are not in scope in the second block. An
 * ordinary local variable loses its value when the continuation is stolen.
 *
 * A task that never forks is FK_LEAF_TASK: the body of a C function, with `return value;`.
 *
 * FK_FORK(member, task, args...)  the child may run in parallel with the code that follows; read
 *                                 its result in self->member after FK_JOIN(), not before
 * FK_CALL(member, task, args...)  the child runs first, then the code that follows
 * FK_JOIN()                       waits for all forked children
 * FK_RETURN(value)                ends the task; every fork must have been joined
 * FK_FAIL(code)                   ends the task, and makes its job fail
 * FK_ALLOC(member, size)          memory on the worker's stack, until FK_FREE(member) or the end
 * FK_GO_TO_WORKER(k)              continues on another worker; FK_GO_TO_NODE(n): on a NUMA node
 * FK_FORK_VOID, FK_CALL_VOID      the same for a child of type fk_void
 *
 * Do not use these macros inside a `switch` statement, and do not keep a variable with a cleanup
 * attribute alive across one of them. Loops and conditions are allowed. Arguments of a fork are
 * evaluated once, before the child starts and before a thief can steal the parent. The task may be
 * resumed at a fork, so its arguments must come from `self`, not from ordinary local variables.
 *
 * Threads: workers of the pool only, each on its own struct fk_worker.
 *
 * COARSE AND FINE
 *   FK_TASK defines an ordinary task. It may run for any time between two forks; thieves find its
 *   forked work all the same. FK_FINE_TASK defines a fine-grained task of a few instructions. Its
 *   author promises that the first block, and the code between two forks, take at most some
 *   microseconds. A fork then costs about as much as a call. (A broken promise costs parallelism,
 *   but never gives a wrong result.)
 *
 * MISTAKES
 *   Each block is a function whose result only the macros make, so a plain `return` is an error
 *   that names the macro. Where a block must not end, the author's code is followed by a call of a
 *   function that does not exist (FK_MISTAKE). The compiler removes the call if control cannot
 *   reach it, and refuses the module otherwise. Each macro uses a constant that only its block
 *   declares. tests/support/mistakes.def lists the mistakes, contrib/guide/module.md the messages.
 *
 * HOW A TASK IS COMPILED
 *   One body, several clones (Cilk-5 has two: Frigo, Leiserson, Randall, PLDI 1998).
 *   NAME__leaf is the first block, or the function of an FK_LEAF_TASK. That of a fine-grained task
 *   is inlined into its callers. That of an ordinary task is a separate function, whose loops are
 *   compiled as those of any function. (Inlined, they would count as rare: gcc guesses that a nest
 *   of loops around forks, after the switch of a resumed body, hardly ever reaches its innermost
 *   code.)
 *   NAME__framed is an ordinary C function. It gets its arguments in registers, builds the frame
 *   and returns its result in a register. Its body is compiled with the resume label 0, so that no
 *   switch is left. No join is left either: as long as this activation lives, no thief stole its
 *   continuation.
 *   NAME__inner is the same for a fine-grained child of a fresh parent, without the checks. Small
 *   bodies are inlined into their parent's there, one level deep.
 *   NAME__resume enters the same body through the switch. The worker loop calls it for a
 *   continuation that was stolen or whose C stack had to be dropped. NAME__describe also jumps to
 *   one label of the body. It returns the child that runs there, and the place of its result.
 *
 * THE FAST PATH
 *   A fork of a fresh activation is one store and a call:
 *
 * 	self->site = SITE;  x = child(sp, ...);  if (self->site & PARTED) leave;
 *
 *   The fork writes nothing else to memory: not the rest of the frame's header, and no entry of the
 *   deque. A thread sends a request by lowering limit, which every new frame is compared with.
 *   After that, or when a stack ends, the worker reconstructs the rest from the sites.
 *   fk_rt_unnest() walks from the frame that the worker loop resumed last (the base) to the newest
 *   one. At each frame NAME__describe returns the child's task and thereby the size of the next
 *   frame. The walk fills in the headers, puts the forked frames into the deque, and drops the C
 *   stack. The worker loop then resumes clones. So no fresh frame is ever public, and each public
 *   frame is filled in.
 *
 * WORK NEVER STAYS HIDDEN
 *   A worker in a long leaf reaches no new frame. Thieves whose requests were not answered send a
 *   signal to its thread. The handler (strand_publish_from_signal()) does the same walk, under the
 *   running leaf, and publishes the oldest entries. It must know the newest frame, and whether a
 *   child of it runs. Ordinary tasks keep `current` up to date for this:
 * 	self       the newest frame is self. It runs its own code, or fine-grained children, or has
 * 		   just ended; the handler publishes the older frames. Before the first task of a
 * 		   job has a frame: the root's, and all waiting frames are in the deque
 * 	self | 1   the newest frame is self, and the first block of a child of it runs
 * 	0          not known: the handler does nothing; a fork is near (or the runtime runs)
 *   The activation finds FK_PARTED in its site when the child returns, and leaves its C stack.
 *   A pool in a program's own process may have no signal. Then entries under a leaf stay hidden
 *   until the leaf ends, and the next fork or return publishes them (daemon/pool/worker_signal.h).
 *
 * INVARIANTS
 *   I1. A frame starts with its struct fk_frame. The frames of fresh activations are adjacent on
 *       one stacklet, the first at sp, each the child of the one before.
 *   I2. The entries of a worker's deque are ancestors of the frame that it runs, oldest first.
 *       Suspended frames (FK_MOVED) are the exception: they are above their ancestors and below the
 *       frames that ran instead. Thieves take the oldest entry first: if an entry was stolen, so
 *       were all entries below it.
 *   I3. The header of a frame with FK_PARTED set in its site is filled in, and so are task, slot
 *       and parent of its child. Of any other frame only site is valid, and stack if the site has
 *       FK_DST. Fresh activations store sites without FK_PARTED.
 *   I4. A fresh activation that runs on after a child did not get FK_PARTED while that child ran:
 *       it checks after every fork, and leaves otherwise. So it has no entry in any deque, needs no
 *       join, and returns to its parent by a C return.
 *   I5. Each strict ancestor of the newest frame up to the base is within a fork or call, and its
 *       site says which: the site is stored before the child starts.
 *   I6. Arguments and site are written before the frame can be stolen, never after.
 */
#ifndef FORKD_TASK_H
#define FORKD_TASK_H

#ifdef __cplusplus
#error "forkd/task.h is for C: write the tasks in a C file that calls extern \"C\" functions of C++"
#endif

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <forkd/frame.h>

/* A local that is not in the frame is used across a fork: gcc warns by -Wall if it optimizes, clang
 * by this alone. */
#ifdef __clang__
#pragma clang diagnostic warning "-Wconditional-uninitialized"
#endif

/* The type of the result of a task that has none: FK_LEAF() and FK_RETURN() take no value there.
 * Other tasks run it by FK_FORK_VOID() or FK_CALL_VOID(). */
typedef struct {
} __attribute__((aligned(2))) fk_void;

/*
 * Arguments of a task that refer to a client's memory.
 *	struct fk_str    text; a NUL byte follows it
 *	struct fk_buf    bytes that the task reads
 *	struct fk_iobuf  bytes that the task reads and writes: the client gets them back
 * FK_BUF() makes a struct fk_buf of any of them, to hand it to another task.
 */
struct fk_str {
	const char *data;
	uint64_t size; /* bytes, without the NUL byte of a text */
};

struct fk_buf {
	const void *data;
	uint64_t size; /* bytes */
};

struct fk_iobuf {
	void *data;
	uint64_t size; /* bytes */
};

#define FK_BUF(reference) ((struct fk_buf){ (reference).data, (reference).size })

/* Errors in all code of a module: a write where a task only reads, a function without a result. */
#pragma GCC diagnostic error "-Wreturn-type"
#ifdef __clang__
#pragma clang diagnostic error "-Wincompatible-pointer-types-discards-qualifiers"
#else
#pragma GCC diagnostic error "-Wdiscarded-qualifiers"
#endif

/* Flag of FK_EXPORT() and similar macros: the task uses buffers in place, without a copy. It must
 * stay in bounds even if the client changes their bytes while it runs. */
#define FK_EXPORT_IN_PLACE 1u
/* The compiler was called with -DFK_DEBUG_STEALS: the macros set it. */
#define FK_EXPORT_DEBUG_STEALS 2u

/* Sites are switch labels that no type of 64 bits holds. So a fork inside an author's own switch is
 * an error, and not a label of that switch. */
#define FK_LABEL_BASE  ((unsigned __int128)1 << 64)
#define FK_LABEL(site) (FK_LABEL_BASE + (site))
#ifdef __clang__
#define FK_LABELS_BEGIN                                                                            \
	_Pragma("GCC diagnostic error \"-Wswitch\"")                                               \
		_Pragma("GCC diagnostic ignored \"-Wunreachable-code\"")
#else
#define FK_LABELS_BEGIN _Pragma("GCC diagnostic error \"-Woverflow\"")
#endif
/* Around the two blocks of a task: these warnings are errors. */
#define FK_BLOCKS_BEGIN                                                                            \
	_Pragma("GCC diagnostic push")                                                             \
		FK_LABELS_BEGIN _Pragma("GCC diagnostic error \"-Wincompatible-pointer-types\"")   \
			_Pragma("GCC diagnostic error \"-Wint-conversion\"")
#define FK_BLOCKS_END _Pragma("GCC diagnostic pop")

/* The clones of a body. */
#define FK_FRESH    0 /* NAME__framed */
#define FK_INNER    1 /* NAME__inner */
#define FK_RESUMED  2
#define FK_DESCRIBE 3
#define FK_IS_FRESH (fk_mode == FK_FRESH || fk_mode == FK_INNER)

/*
 * With FK_DEBUG_STEALS defined, for all files of a module, no local variable of a body survives a
 * fork, call or join, in any run: the worker loop resumes the frame at each of these, and
 * overwrites the C stack before it does so. The compiler keeps each variable on that stack, because
 * it does not optimize the bodies. The pool treats every fork of its modules as stolen
 * (pool_set_debug_steals()).
 */
#ifndef FK_DEBUG_STEALS
#define FK_BODY_CODE	FK_INLINE
#define FK_LEAVE(site)	(void)0
#define FK_EXPORT_DEBUG 0u
#else
#ifdef __clang__
#define FK_BODY_CODE static __attribute__((noinline, optnone, unused))
#else
#define FK_BODY_CODE static __attribute__((noinline, optimize("O0"), unused))
#endif
#define FK_LEAVE(site)                                                                             \
	do {                                                                                       \
		if (fk_mode == FK_RESUMED) {                                                       \
			fk_enter(fk_w, 0);                                                         \
			fk_set_site(&self->fk, (site) | FK_PARTED);                                \
			*fk_next = &self->fk;                                                      \
			return (fk_ended){};                                                       \
		}                                                                                  \
	} while (0)
#define FK_EXPORT_DEBUG FK_EXPORT_DEBUG_STEALS
#endif

/* Where a body is resumed, in addition to where control reaches it. */
#define FK_RESUMES_AT(site)                                                                        \
	FK_LEAVE(site);                                                                            \
	__attribute__((fallthrough));                                                              \
	case FK_LABEL(site):

/*
 * Declares a task that FK_DEFINE() defines further down, so that others can fork it.
 * FK_FINE_DECLARE() declares a fine-grained task (FK_FINE_TASK()).
 * ret: type of its result, of an alignment of at least 2, or fk_void.
 * NAME: name of the task. Names of up to 31 letters can be exported.
 * params: (type, name, type, name ...): the arguments, twelve at most, of an alignment of 8 at
 * most. () for none.
 * locals: members of the frame for all other values that must survive a fork, such as
 * int64_t x; int64_t y; with an alignment of 8 at most. The list may be empty.
 */
#define FK_DECLARE(ret, NAME, params, ...)	FK_DECLARE_(0, 0, ret, NAME, params, __VA_ARGS__)
#define FK_FINE_DECLARE(ret, NAME, params, ...) FK_DECLARE_(1, 0, ret, NAME, params, __VA_ARGS__)

/* By fine: HOW A TASK IS COMPILED, above. */
#define FK_LEAF_IS_0 __attribute__((noinline))
#define FK_LEAF_IS_1 inline
/* By only: what NAME__leaf returns if a body may follow, and what an FK_LEAF_TASK returns. */
#define FK_LEAF_TYPE_0(ret)	  struct fk_use_FK_LEAF_not_return
#define FK_LEAF_TYPE_1(ret)	  FK_RETURN_TYPE(ret)
#define FK_LEAF_ENDS_0(ret, call) (call).ended
#define FK_LEAF_ENDS_1(ret, call) (fk_result = FK_VALUE_OF(ret, call), true)

/* A C function with a task's result: it returns void for fk_void. */
#define FK_UNLESS_VOID(ret, value)                                                                 \
	__builtin_choose_expr(__builtin_types_compatible_p(ret, fk_void), (void)0, value)
#define FK_RETURN_TYPE(ret) __typeof__(FK_UNLESS_VOID(ret, *(ret *)0))
#define FK_VALUE_OF(ret, call)                                                                     \
	__builtin_choose_expr(__builtin_types_compatible_p(ret, fk_void),                          \
			      ((void)(call), ((ret[1]){})[0]), call)

#define FK_DECLARE_(fine, only, ret, NAME, params, ...)                                            \
	typedef ret NAME##__ret;                                                                   \
	struct NAME##__args {                                                                      \
		FK_PASS(FK_FIELD, params)                                                          \
	};                                                                                         \
	struct NAME##__frame {                                                                     \
		struct fk_frame fk;                                                                \
		FK_PASS(FK_FIELD, params)                                                          \
		__VA_ARGS__                                                                        \
	};                                                                                         \
	enum {                                                                                     \
		NAME##__fine = fine,                                                               \
		NAME##__unfit = 0 FK_PASS(FK_COUNT_UNFIT, params),                                 \
		NAME##__long = 0 FK_PASS(FK_COUNT_LONG, params),                                   \
		NAME##__letters = 0 FK_PASS(FK_COUNT_LETTERS, params)                              \
	};                                                                                         \
	static const struct fk_item NAME##__items[]                                                \
		__attribute__((unused)) = { FK_PASS(FK_ITEM, params){ NULL, NULL } };              \
	_Static_assert(_Alignof(struct NAME##__frame) == 8,                                        \
		       #NAME ": arguments and locals of an alignment above 8 are not supported");  \
	_Static_assert(sizeof(ret) == 0 || _Alignof(ret) >= 2,                                     \
		       #NAME ": a result needs an alignment of at least 2 (use int)");             \
	static const struct fk_task NAME##__task;                                                  \
	static FK_LEAF_IS_##fine FK_LEAF_TYPE_##only(ret)                                          \
		NAME##__leaf(struct fk_worker *fk_w, ret *fk_result FK_PASS(FK_PARAM, params));    \
	static ret NAME##__framed(struct fk_worker *fk_w, char *fk_sp FK_PASS(FK_PARAM, params));  \
	static inline ret NAME##__inner(struct fk_worker *fk_w,                                    \
					char *fk_sp FK_PASS(FK_PARAM, params));                    \
	/* Runs a child: fk_inside while its first block runs, fk_after when it has ended. */      \
	FK_INLINE ret NAME##__spawn(struct fk_worker *fk_w, char *fk_sp, const int fk_mode,        \
				    uintptr_t fk_inside, uintptr_t fk_after, bool *ret_leaf,       \
				    struct NAME##__args fk_args)                                   \
	{                                                                                          \
		ret fk_result = ((ret[1]){})[0];                                                   \
		(void)fk_args;                                                                     \
		*ret_leaf = false;                                                                 \
		if (!NAME##__fine)                                                                 \
			fk_enter(fk_w, fk_inside);                                                 \
		if (FK_LEAF_ENDS_##only(ret,                                                       \
					NAME##__leaf(fk_w, &fk_result FK_PASS(FK_ARG, params)))) { \
			*ret_leaf = true;                                                          \
			if (!NAME##__fine)                                                         \
				fk_enter(fk_w, fk_after);                                          \
			return fk_result;                                                          \
		}                                                                                  \
		if (NAME##__fine && fk_mode == FK_FRESH &&                                         \
		    sizeof(struct NAME##__frame) <= FK_SMALL)                                      \
			fk_result = NAME##__inner(fk_w, fk_sp FK_PASS(FK_ARG, params));            \
		else                                                                               \
			fk_result = NAME##__framed(fk_w, fk_sp FK_PASS(FK_ARG, params));           \
		/* Until then a coarse child that has ended seems to run, which does no harm. */   \
		if (!NAME##__fine || fk_after)                                                     \
			fk_enter(fk_w, fk_after);                                                  \
		return fk_result;                                                                  \
	}                                                                                          \
	/* As a called child, without a frame: of a root, a fiber. */                              \
	static __attribute__((unused)) void NAME##__enter(struct fk_worker *fk_w, char *fk_sp,     \
							  void *fk_result, const void *fk_args)    \
	{                                                                                          \
		bool fk_leaf;                                                                      \
		*(ret *)fk_result =                                                                \
			NAME##__spawn(fk_w, fk_sp, FK_RESUMED, fk_w->current, 0, &fk_leaf,         \
				      *(const struct NAME##__args *)fk_args);                      \
	}

/*
 * Defines a task. The block that follows, the first block, runs in registers, before the task has a
 * frame, and may end the task with FK_LEAF(). The arguments are constants there. FK_BODY() opens
 * the second block, and FK_END() ends the task.
 * FK_FINE_TASK() defines a fine-grained task: the first block, and the code between two forks, take
 * some microseconds at most. A fork then costs about as much as a call.
 * ret, NAME, params, locals: as in FK_DECLARE().
 */
#define FK_TASK(ret, NAME, params, ...)                                                            \
	FK_DECLARE(ret, NAME, params, __VA_ARGS__)                                                 \
	FK_DEFINE(ret, NAME, params)
#define FK_FINE_TASK(ret, NAME, params, ...)                                                       \
	FK_FINE_DECLARE(ret, NAME, params, __VA_ARGS__)                                            \
	FK_DEFINE(ret, NAME, params)

/*
 * Defines a task that was declared by FK_DECLARE() or FK_FINE_DECLARE(), as FK_TASK() does.
 * FK_DEFINE_UNWIND() is for a task with a block of FK_UNWIND(), which precedes it.
 * ret, NAME, params: as in the declaration.
 */
#define FK_DEFINE(ret, NAME, params)	    FK_DEFINE_(0, NULL, ret, NAME, params)
#define FK_DEFINE_UNWIND(ret, NAME, params) FK_DEFINE_(1, NAME##__unwind, ret, NAME, params)

/*
 * Opens a block that releases the resources of a task, such as memory and files, when its job has
 * failed, was cancelled or has expired. If the second block of the task has begun, this block runs
 * instead of the rest of it. FK_DEFINE_UNWIND() must define the task.
 * NAME: a task that was declared. The frame is self, as in the second block.
 * The block must use only members that the task sets before its first fork, call or join. They must
 * also be set before its first FK_ALLOC(), FK_FREE(), FK_GO_TO_WORKER() or FK_GO_TO_NODE(). The
 * block must not fork.
 */
#define FK_UNWIND(NAME)                                                                            \
	static void NAME##__give_back(struct NAME##__frame *self);                                 \
	static void NAME##__unwind(struct fk_frame *fk_frame)                                      \
	{                                                                                          \
		NAME##__give_back((struct NAME##__frame *)fk_frame);                               \
	}                                                                                          \
	static void NAME##__give_back(struct NAME##__frame *self)

#define FK_DEFINE_(unwinds_, unwind_, ret, NAME, params)                                           \
	FK_DEFINE_FRAMED_(unwinds_, unwind_, ret, NAME, params)                                    \
	static struct fk_use_FK_LEAF_not_return NAME##__leaf(                                      \
		struct fk_worker *fk_w, ret *fk_result FK_PASS(FK_CONST, params))                  \
	{                                                                                          \
		typedef ret fk_ret __attribute__((unused));                                        \
		enum { FK_LEAF_NAME };                                                             \
		const struct fk_use_FK_LEAF_not_return fk_failed[1] = { { true } };                \
		(void)fk_failed;                                                                   \
		(void)fk_result;                                                                   \
		(void)fk_w;

/* All but the first block and the body. */
#define FK_DEFINE_FRAMED_(unwinds_, unwind_, ret, NAME, params)                                      \
	void NAME##__ends_without_FK_RETURN(void)                                                    \
		FK_MISTAKE(#NAME ": the body ends without FK_RETURN on some path");                  \
	typedef struct {                                                                             \
		ret fk_value;                                                                        \
	} NAME##__use_FK_RETURN_not_return;                                                          \
	FK_BODY_CODE NAME##__use_FK_RETURN_not_return NAME##__body(                                  \
		struct fk_worker *fk_w, char *fk_sp, struct NAME##__frame *self,                     \
		const int fk_mode, unsigned __int128 fk_label, struct fk_frame **fk_next,            \
		struct fk_child *fk_child);                                                          \
	static struct fk_frame *NAME##__resume(struct fk_worker *fk_w, struct fk_frame *fk_frame)    \
	{                                                                                            \
		struct NAME##__frame *self = (struct NAME##__frame *)fk_frame;                       \
		struct fk_frame *fk_next = NULL;                                                     \
		if (!NAME##__fine)                                                                   \
			fk_enter(fk_w, (uintptr_t)self);                                             \
		NAME##__body(fk_w, fk_w->sp, self, FK_RESUMED,                                       \
			     FK_LABEL(fk_site(fk_frame) & FK_SITE_MASK), &fk_next, NULL);            \
		return fk_next;                                                                      \
	}                                                                                            \
	static __attribute__((cold)) void NAME##__describe(struct fk_frame *fk_frame,                \
							   struct fk_child *ret_child)               \
	{                                                                                            \
		struct NAME##__frame *self = (struct NAME##__frame *)fk_frame;                       \
		NAME##__body(NULL, NULL, self, FK_DESCRIBE,                                          \
			     FK_LABEL(fk_site(fk_frame) & FK_SITE_MASK), NULL, ret_child);           \
	}                                                                                            \
	static const struct fk_task NAME##__task = { #NAME, NAME##__resume, NAME##__describe,        \
						     unwind_, sizeof(struct NAME##__frame) };        \
	/* No room, or a request, or the C stack is long: builds the frame, and continues in \
	 * the worker loop. */       \
	static __attribute__((cold, noinline, noreturn)) void NAME##__slow(                          \
		struct fk_worker *fk_w, char *fk_sp FK_PASS(FK_PARAM, params))                       \
	{                                                                                            \
		struct NAME##__frame *self =                                                         \
			fk_rt_place(fk_w, fk_sp, sizeof(struct NAME##__frame));                      \
		FK_PASS(FK_STORE, params)                                                            \
		if (unwinds_)                                                                        \
			fk_w->unwinds = 1;                                                           \
		fk_rt_unnest(fk_w, &self->fk, fk_sp, 0);                                             \
	}                                                                                            \
	static __attribute__((noinline))                                                             \
	ret NAME##__framed(struct fk_worker *fk_w, char *fk_sp FK_PASS(FK_PARAM, params))            \
	{                                                                                            \
		struct NAME##__frame *self = (struct NAME##__frame *)fk_sp;                          \
		/* ORDER attend [A1]: relaxed: a hint, taken by the exchange in                    \
		 * worker_take_request(). */ \
		if (fk_unlikely(                                                                     \
			    fk_is_beyond(fk_w, fk_reach(fk_sp, sizeof(struct NAME##__frame)))) ||    \
		    fk_unlikely(fk_stack_pointer < fk_w->cstack_limit))                              \
			NAME##__slow(fk_w, fk_sp FK_PASS(FK_LOAD, params));                          \
		FK_PASS(FK_STORE, params)                                                            \
		if (!NAME##__fine)                                                                   \
			fk_enter(fk_w, (uintptr_t)self);                                             \
		if (unwinds_)                                                                        \
			fk_w->unwinds = 1;                                                           \
		return NAME##__body(fk_w, (char *)(self + 1), self, FK_FRESH, FK_LABEL(0), NULL,     \
				    NULL)                                                            \
			.fk_value;                                                                   \
	}                                                                                            \
	static inline ret NAME##__inner(struct fk_worker *fk_w,                                      \
					char *fk_sp FK_PASS(FK_PARAM, params))                       \
	{                                                                                            \
		struct NAME##__frame *self = (struct NAME##__frame *)fk_sp;                          \
		FK_PASS(FK_STORE, params)                                                            \
		if (unwinds_)                                                                        \
			fk_w->unwinds = 1;                                                           \
		return NAME##__body(fk_w, (char *)(self + 1), self, FK_INNER, FK_LABEL(0), NULL,     \
				    NULL)                                                            \
			.fk_value;                                                                   \
	}                                                                                            \
                                                                                                     \
	FK_BLOCKS_BEGIN

/* Ends the task in its first block. The arguments are the result: a number, the members of a
 * struct, or none for fk_void. FK_LEAF_VALUE() takes the struct itself. Costs no more than a
 * function that returns. */
#define FK_LEAF(...) FK_LEAF_VALUE(((fk_ret){ __VA_ARGS__ }))
#define FK_LEAF_VALUE(value)                                                                       \
	do {                                                                                       \
		(void)FK_LEAF_NAME;                                                                \
		*fk_result = (value);                                                              \
		return (struct fk_use_FK_LEAF_not_return){ true };                                 \
	} while (0)

/*
 * Ends the task in its first block, or an FK_LEAF_TASK(), and makes its job fail. FK_FAIL() is for
 * the second block.
 * code: a negative errno, or a number of the task, not 0. The first code of a job counts. The
 * client gets it from fk_result() and fk_call().
 */
#define FK_LEAF_FAIL(code)                                                                         \
	do {                                                                                       \
		_Static_assert(!__builtin_types_compatible_p(__typeof__(fk_failed), int),          \
			       "FK_LEAF_FAIL is for the first block: use FK_FAIL in the body");    \
		fk_rt_fail(fk_w, code);                                                            \
		return FK_UNLESS_VOID(__typeof__(*fk_failed), *fk_failed);                         \
	} while (0)

/*
 * Opens the second block of a task, which runs on the frame, and may fork.
 * NAME: the task. The frame is self. It has the arguments and the locals of FK_TASK() as members.
 * The arguments themselves are not in scope. The block must end with FK_RETURN() or FK_FAIL() on
 * every path. FK_END() follows it.
 */
#define FK_BODY(NAME)                                                                              \
	return (struct fk_use_FK_LEAF_not_return){ false };                                        \
	}                                                                                          \
	FK_BODY_(NAME)
#define FK_BODY_(NAME)                                                                             \
	FK_BODY_CODE NAME##__use_FK_RETURN_not_return NAME##__body(                                \
		struct fk_worker *fk_w, char *fk_sp, struct NAME##__frame *self,                   \
		const int fk_mode, unsigned __int128 fk_label, struct fk_frame **fk_next,          \
		struct fk_child *fk_child)                                                         \
	{                                                                                          \
		typedef NAME##__ret fk_ret __attribute__((unused));                                \
		typedef NAME##__use_FK_RETURN_not_return fk_ended __attribute__((unused));         \
		enum { fk_fine = NAME##__fine, FK_BODY_NAMES };                                    \
		(void)fk_w;                                                                        \
		(void)fk_sp;                                                                       \
		(void)self;                                                                        \
		(void)fk_child;                                                                    \
		(void)fk_next;                                                                     \
		switch (fk_label) {                                                                \
		default:                                                                           \
			__builtin_unreachable();                                                   \
		case FK_LABEL(0):                                                                  \
			FK_NOT_DESCRIBED();

/* Ends the definition of a task, after its second block. NAME: the task of FK_TASK() or
 * FK_DEFINE(). */
#define FK_END(NAME)                                                                               \
	}                                                                                          \
	NAME##__ends_without_FK_RETURN();                                                          \
	}                                                                                          \
	FK_BLOCKS_END

/* Replaces the first block of a task and FK_BODY(), if the task has nothing to do before its frame
 * exists. NAME: the task. */
#define FK_NO_LEAF(NAME)                                                                           \
	{                                                                                          \
	}                                                                                          \
	FK_BODY(NAME)

/*
 * Defines a task that never forks. The block that follows is the body of a C function, with a
 * return statement for the result, or without a value for fk_void. It may use FK_LEAF_FAIL().
 * FK_FINE_LEAF_TASK() defines a fine-grained task (FK_FINE_TASK()).
 * ret, NAME, params: as in FK_DECLARE().
 */
#define FK_LEAF_TASK(ret, NAME, params)	     FK_LEAF_TASK_(0, ret, NAME, params)
#define FK_FINE_LEAF_TASK(ret, NAME, params) FK_LEAF_TASK_(1, ret, NAME, params)
#define FK_LEAF_TASK_(fine, ret, NAME, params)                                                     \
	FK_DECLARE_(fine, 1, ret, NAME, params, )                                                  \
	FK_DEFINE_FRAMED_(0, NULL, ret, NAME, params)                                              \
	FK_BODY_(NAME)                                                                             \
	__builtin_unreachable();                                                                   \
	FK_END(NAME)                                                                               \
	static FK_RETURN_TYPE(ret)                                                                 \
		NAME##__leaf(struct fk_worker *fk_w __attribute__((unused)),                       \
			     ret *fk_failed __attribute__((unused)) FK_PASS(FK_MAYBE, params))

/*
 * Job-local data. A static variable with the initializer FK_JOB_LOCAL(type, end) is a key, with
 * which fk_job_local() finds the value of a job.
 * type: of the value; at most 16-byte alignment.
 * end: NULL, or void (*)(void *), called once with the value when the job ends with any outcome,
 * before the value is freed. All tasks and fibers of the job have ended by then. It counts as part
 * of the job, and runs on any worker. After a crash of the pool no end function runs, and the job
 * starts with new values if it runs again.
 */
struct fk_job_key {
	size_t fk_size;
	void (*fk_end)(void *value);
};

#define FK_JOB_LOCAL(type, end)                                                                    \
	{                                                                                          \
		.fk_size = sizeof(struct {                                                         \
			_Static_assert(_Alignof(type) <= 16,                                       \
				       "FK_JOB_LOCAL: an alignment above 16 is not supported");    \
			__typeof__(type) fk_value;                                                 \
		}),                                                                                \
		.fk_end = (end)                                                                    \
	}

/* The runtime, in the pool (daemon/jobs/job_local.c). Not for authors. */
FK_COLD void *fk_rt_job_local(const struct fk_job_key *key);

/*
 * Returns the value of the calling task's job: all tasks and fibers of the job get the same one.
 * The memory is zero after the first call of the job. It counts for module-memory-max.
 * Threads: any task, in both blocks, and any fiber outside of a blocking section. Tasks that run in
 * parallel synchronize their accesses to the value themselves, for example by atomic operations.
 * The time of a call grows with the number of keys that the job has used.
 * Returns NULL if there is no memory, in a blocking section, or outside of a task.
 */
static inline void *fk_job_local(const struct fk_job_key *key)
{
	return fk_rt_job_local(key);
}

/* Names that are not declared where their macro must not be used: the message is this name. */
#define FK_LEAF_NAME   FK_LEAF_is_for_the_first_block_FK_RETURN_for_the_body_return_for_FK_LEAF_TASK
#define FK_RETURN_NAME FK_RETURN_is_for_the_body_FK_LEAF_for_the_first_block_return_for_FK_LEAF_TASK

/* The result of a task that fails. */
#define FK_NOTHING ((fk_ret[1]){})[0]

/* Resumed clone: the frame is in other hands, and the worker loop looks for something else. */
#define FK_HAND_OVER()                                                                             \
	do {                                                                                       \
		*fk_next = NULL;                                                                   \
		return (fk_ended){};                                                               \
	} while (0)

/*
 * Says what runs from here on, for the signal handler of this thread.
 * ORDER leaf/expose [E1]: the compiler's alone, nothing moves across. Pairs with
 * strand_publish_from_signal().
 */
FK_INLINE void fk_enter(struct fk_worker *w, uintptr_t current)
{
	atomic_signal_fence(memory_order_seq_cst);
	w->current = current;
	atomic_signal_fence(memory_order_seq_cst);
}

/*
 * Runs a child task from the second block of a task. After FK_FORK() the child may run in parallel
 * with the code that follows. After FK_CALL() the code that follows runs when the child has ended.
 * FK_FORK_VOID() and FK_CALL_VOID() are for a child of type fk_void.
 * member: member of self that gets the result, of the result type of the child. After FK_FORK()
 * read it after FK_JOIN(), not before.
 * task: name of the child, which is declared or defined above in the same file.
 * args: arguments of the child. They are evaluated once, before the child starts. They must be made
 * of self, not of local variables.
 * Local variables lose their values. These macros must not be used within a switch statement.
 */
#define FK_FORK(member, task, ...)                                                                 \
	FK_FORK_(__COUNTER__ + 1, FK_TAKES_RESULT(FK_FORK, member, task), self->member, task,      \
		 __VA_ARGS__)
#define FK_CALL(member, task, ...)                                                                 \
	FK_CALL_(__COUNTER__ + 1, FK_TAKES_RESULT(FK_CALL, member, task), self->member, task,      \
		 __VA_ARGS__)
#define FK_FORK_VOID(task, ...)                                                                    \
	FK_FORK_(__COUNTER__ + 1, FK_HAS_NO_RESULT(FK_FORK_VOID, FK_FORK, task), *(fk_void *)self, \
		 task, __VA_ARGS__)
#define FK_CALL_VOID(task, ...)                                                                    \
	FK_CALL_(__COUNTER__ + 1, FK_HAS_NO_RESULT(FK_CALL_VOID, FK_CALL, task), *(fk_void *)self, \
		 task, __VA_ARGS__)
#define FK_TAKES_RESULT(macro, member, task_)                                                      \
	FK_ONLY_IN_BODY(macro);                                                                    \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&self->member), task_##__ret *),    \
		       #macro ": declare the member " #member " with the result type of " #task_)
#define FK_HAS_NO_RESULT(macro, with_result, task_)                                                \
	FK_ONLY_IN_BODY(macro);                                                                    \
	_Static_assert(__builtin_types_compatible_p(fk_void, task_##__ret),                        \
		       #macro ": " #task_ " has a result, use " #with_result)
/* Too few or too many arguments are an error here; nothing is evaluated. */
#define FK_CHECK_ARGS(task_, ...)                                                                  \
	(void)sizeof((task_##__leaf((struct fk_worker *)0,                                         \
				    (task_##__ret *)0 __VA_OPT__(, ) __VA_ARGS__),                 \
		      0))
/* An error outside of a body, whose message is this name. */
#define FK_ONLY_IN_BODY(macro) (void)macro##_is_for_the_body
#define FK_BODY_NAMES                                                                              \
	FK_FORK_is_for_the_body, FK_CALL_is_for_the_body, FK_FORK_VOID_is_for_the_body,            \
		FK_CALL_VOID_is_for_the_body, FK_JOIN_is_for_the_body, FK_ALLOC_is_for_the_body,   \
		FK_FREE_is_for_the_body, FK_GO_TO_WORKER_is_for_the_body,                          \
		FK_GO_TO_NODE_is_for_the_body, FK_RETURN_NAME,                                     \
		FK_FAIL_is_for_the_body_FK_LEAF_FAIL_for_the_first_block, fk_failed

/* Counting costs a tenth of a fork, so only a module compiled for it counts. */
#ifdef FK_COUNT_FORKS
#define FK_COUNT_FORK() fk_rt_count_fork(fk_w)
#else
#define FK_COUNT_FORK() (void)0
#endif

/* A description begins at the label of a fork or call that has been made, and ends there. */
#define FK_NOT_DESCRIBED()                                                                         \
	do {                                                                                       \
		if (fk_mode == FK_DESCRIBE)                                                        \
			__builtin_unreachable();                                                   \
	} while (0)
#define FK_DESCRIBED(task_, dst_, forked_)                                                         \
	do {                                                                                       \
		if (fk_mode == FK_DESCRIBE) {                                                      \
			fk_child->task = &task_##__task;                                           \
			fk_child->forked = (forked_);                                              \
			/* What is not fixed may have effects, and was kept when it was made. */   \
			fk_child->dst = FK_IS_FIXED(dst_) ? (void *)&(dst_) : NULL;                \
			return (fk_ended){};                                                       \
		}                                                                                  \
	} while (0)
/* Is this member at a fixed place in the frame? Nothing is evaluated, and nothing is known of what
 * the frame holds: all clones have to say the same. */
#define FK_IS_FIXED(dst_)                                                                          \
	__extension__({                                                                            \
		__typeof__(self) fk_self = self;                                                   \
		__typeof__(fk_self) self = fk_self;                                                \
		__asm__("" : "+r"(self));                                                          \
		__builtin_constant_p((uintptr_t) & (dst_) - (uintptr_t)self);                      \
	})

/* Stores the site of a child that is about to run, and where its result goes. */
#define FK_SET_SITE(label, task_, dst_, fixed_, called)                                            \
	do {                                                                                       \
		if (fk_mode == FK_RESUMED) {                                                       \
			/* The site may be another by the time that the child is asked for. */     \
			fk_w->slot = (uintptr_t)(dst_) | (called);                                 \
			fk_w->child = &task_##__task;                                              \
			fk_set_site(&self->fk, (label) | FK_PARTED);                               \
		} else if (fixed_) {                                                               \
			fk_set_site(&self->fk, label);                                             \
		} else {                                                                           \
			self->fk.stack = (struct fk_stack *)(void *)(dst_);                        \
			fk_set_site(&self->fk, (label) | FK_DST);                                  \
		}                                                                                  \
	} while (0)

#define FK_SPAWN(task_, args)                                                                      \
	task_##__spawn(fk_w, fk_sp, fk_mode, (uintptr_t)self | FK_IN_CHILD,                        \
		       fk_fine ? 0 : (uintptr_t)self, &fk_leaf, args)

#define FK_FORK_(n, checks, dst_, task_, ...)                                                        \
	do {                                                                                         \
		checks;                                                                              \
	case FK_LABEL(2 * (n)):;                                                                     \
		FK_NOT_DESCRIBED();                                                                  \
		/* ORDER attend [A1]: relaxed: a hint, taken by the exchange in                    \
		 * worker_take_request(). */ \
		const bool fk_asked = fk_mode == FK_RESUMED &&                                       \
				      !atomic_load_explicit(&fk_w->limit, memory_order_relaxed);     \
		if (fk_unlikely(fk_asked) && !fk_rt_attend(fk_w, &self->fk, 2 * (n)))                \
			FK_HAND_OVER();                                                              \
		FK_COUNT_FORK();                                                                     \
		FK_CHECK_ARGS(task_, __VA_ARGS__);                                                   \
		task_##__ret *const fk_dst = &(dst_);                                                \
		struct task_##__args fk_child_args = { __VA_ARGS__ };                                \
		bool fk_leaf __attribute__((unused));                                                \
		FK_SET_SITE(2 * (n) + 1, task_, fk_dst, FK_IS_FIXED(dst_), 0);                       \
		if (fk_mode == FK_RESUMED) {                                                         \
			const bool fk_pushed = fk_push(fk_w, &self->fk);                             \
			if (fk_unlikely(fk_asked))                                                   \
				fk_rt_publish(fk_w);                                                 \
			*fk_dst = FK_SPAWN(task_, fk_child_args);                                    \
			if (fk_unlikely(fk_pop(fk_w, fk_pushed)) &&                                  \
			    !fk_rt_pop(fk_w, &self->fk, fk_next))                                    \
				return (fk_ended){};                                                 \
		} else {                                                                             \
			*fk_dst = FK_SPAWN(task_, fk_child_args);                                    \
			if (!(task_##__fine && fk_leaf) && fk_unlikely(fk_is_parted(&self->fk)))     \
				fk_rt_returned(fk_w, &self->fk);                                     \
			/* A child with a frame has looked. */                                       \
			if (fk_leaf && fk_unlikely(fk_is_asked(fk_w)))                               \
				fk_rt_unnest(fk_w, &self->fk, (char *)self, 2 * (n) + 1);            \
		}                                                                                    \
		FK_RESUMES_AT(2 * (n) + 1);                                                          \
		FK_DESCRIBED(task_, dst_, true);                                                     \
	} while (0)

/* Resumed clone: puts the frame into the deque. False: it is full, and the child is like called. */
FK_INLINE bool fk_push(struct fk_worker *w, struct fk_frame *frame)
{
	struct fk_entry *b = w->bottom;

	if (fk_unlikely(b == w->end)) {
		w->slot |= FK_CALLED;
		return false;
	}
	/* Relaxed: published later, by a release in deque_publish(). */
	atomic_store_explicit(&b->word, (uintptr_t)frame, memory_order_relaxed);
	/* ORDER leaf/expose [E1]: the compiler's alone, the entry before bottom, up to which
	 * strand_publish_from_signal() publishes. */
	atomic_signal_fence(memory_order_seq_cst);
	w->bottom = b + 1;
	return true;
}

/* Resumed clone: takes the newest entry off. True: it is not private any more. */
FK_INLINE bool fk_pop(struct fk_worker *w, bool pushed)
{
	struct fk_entry *b;

	if (fk_unlikely(!pushed))
		return false;
	b = w->bottom - 1;
	w->bottom = b;
	/* ORDER leaf/expose [E1]: the compiler's alone, bottom before the look at floor, which
	 * strand_publish_from_signal() moves up to bottom at most. */
	atomic_signal_fence(memory_order_seq_cst);
	return b < w->floor;
}

#define FK_CALL_(n, checks, dst_, task_, ...)                                                      \
	do {                                                                                       \
		checks;                                                                            \
		FK_NOT_DESCRIBED();                                                                \
		FK_CHECK_ARGS(task_, __VA_ARGS__);                                                 \
		task_##__ret *const fk_dst = &(dst_);                                              \
		struct task_##__args fk_child_args = { __VA_ARGS__ };                              \
		bool fk_leaf __attribute__((unused));                                              \
		FK_SET_SITE(2 * (n), task_, fk_dst, FK_IS_FIXED(dst_), FK_CALLED);                 \
		*fk_dst = FK_SPAWN(task_, fk_child_args);                                          \
		/* A loop of calls is a place to be asked at, too. */                              \
		const bool fk_asked = !fk_fine && fk_leaf &&                                       \
				      !atomic_load_explicit(&fk_w->limit, memory_order_relaxed);   \
		if (fk_unlikely(fk_asked) && FK_IS_FRESH)                                          \
			fk_rt_unnest(fk_w, &self->fk, (char *)self, 2 * (n));                      \
		if (fk_unlikely(fk_asked) && fk_mode == FK_RESUMED &&                              \
		    !fk_rt_attend(fk_w, &self->fk, 2 * (n)))                                       \
			FK_HAND_OVER();                                                            \
		FK_RESUMES_AT(2 * (n));                                                            \
		FK_DESCRIBED(task_, dst_, false);                                                  \
	} while (0)

/* Waits for all children that the task has forked. For the second block. The worker runs other work
 * in the meantime. Local variables lose their values. */
#define FK_JOIN() FK_JOIN_(__COUNTER__ + 1)
#define FK_JOIN_(n)                                                                                \
	do {                                                                                       \
		FK_ONLY_IN_BODY(FK_JOIN);                                                          \
		FK_NOT_DESCRIBED();                                                                \
		if (fk_mode == FK_RESUMED && self->fk.steals) {                                    \
			fk_set_site(&self->fk, (2 * (n)) | FK_PARTED);                             \
			if (!fk_rt_join(fk_w, &self->fk))                                          \
				FK_HAND_OVER();                                                    \
			fk_sp = fk_w->sp;                                                          \
			if (!fk_fine)                                                              \
				fk_enter(fk_w, (uintptr_t)self);                                   \
		}                                                                                  \
		FK_RESUMES_AT(2 * (n));                                                            \
		FK_NOT_DESCRIBED();                                                                \
	} while (0)

/*
 * Takes temporary memory from the worker's segmented stack. It lives until FK_FREE() or the end of
 * the task, across forks and joins, and children may use it.
 * member: a pointer in self. It becomes the address of the memory, aligned to 16 bytes; or NULL if
 * there is no more memory. The job has failed then, and the task should end.
 * size: bytes.
 * FK_FREE() must be used in reverse order of the allocations. Use both only when no fork is
 * outstanding: before the first fork, or after FK_JOIN(). Otherwise the job fails with -EPROTO.
 * Local variables lose their values.
 */
#define FK_ALLOC(member, size)                                                                     \
	FK_IN_LOOP_(__COUNTER__ + 1, FK_ALLOC, self->member = fk_rt_alloc(fk_w, &self->fk, (size)))
#define FK_FREE(member)                                                                            \
	FK_IN_LOOP_(__COUNTER__ + 1, FK_FREE, fk_rt_free(fk_w, &self->fk, self->member))

/* What only a resumed clone can do: a fresh one leaves its C stack first. */
#define FK_IN_LOOP_(n, macro, statement)                                                           \
	do {                                                                                       \
		FK_ONLY_IN_BODY(macro);                                                            \
		FK_NOT_DESCRIBED();                                                                \
		if (FK_IS_FRESH)                                                                   \
			fk_rt_unnest(fk_w, &self->fk, (char *)self, 2 * (n));                      \
		FK_RESUMES_AT(2 * (n));                                                            \
		FK_NOT_DESCRIBED();                                                                \
		if (fk_mode == FK_RESUMED) {                                                       \
			statement;                                                                 \
			fk_sp = fk_w->sp;                                                          \
		}                                                                                  \
	} while (0)

/*
 * Moves the task to a worker, or to a worker of a NUMA node. Its children stay near it until they
 * are stolen. For the second block.
 * index: number of a worker, counted from 0, or the system's number of a node. If there is no such
 * worker or node, the job fails with -EINVAL.
 * Local variables lose their values.
 */
#define FK_GO_TO_WORKER(index) FK_GO_TO_(__COUNTER__ + 1, FK_GO_TO_WORKER, FK_TO_WORKER, index)
#define FK_GO_TO_NODE(index)   FK_GO_TO_(__COUNTER__ + 1, FK_GO_TO_NODE, FK_TO_NODE, index)
#define FK_GO_TO_(n, macro, kind, index)                                                           \
	do {                                                                                       \
		FK_ONLY_IN_BODY(macro);                                                            \
		FK_NOT_DESCRIBED();                                                                \
		if (FK_IS_FRESH)                                                                   \
			fk_rt_unnest(fk_w, &self->fk, (char *)self, 2 * (n));                      \
		FK_RESUMES_AT(2 * (n));                                                            \
		FK_NOT_DESCRIBED();                                                                \
		if (fk_mode == FK_RESUMED &&                                                       \
		    !fk_rt_move(fk_w, &self->fk, 2 * (n) + 1, kind, index))                        \
			FK_HAND_OVER();                                                            \
		FK_RESUMES_AT(2 * (n) + 1);                                                        \
		FK_NOT_DESCRIBED();                                                                \
	} while (0)

/*
 * Ends the task in its second block. The arguments are the result: a number, the members of a
 * struct, or none for fk_void. FK_RETURN_VALUE() takes the struct itself.
 * Every fork must have been joined. Otherwise the job fails with -EPROTO.
 */
#define FK_RETURN(...) FK_RETURN_VALUE(((fk_ret){ __VA_ARGS__ }))
#define FK_RETURN_VALUE(value)                                                                     \
	do {                                                                                       \
		(void)FK_RETURN_NAME;                                                              \
		FK_NOT_DESCRIBED();                                                                \
		fk_ret fk_value = (value);                                                         \
		if (FK_IS_FRESH)                                                                   \
			return (fk_ended){ fk_value };                                             \
		*(fk_ret *)(self->fk.slot & ~FK_CALLED) = fk_value;                                \
		*fk_next = fk_rt_finish(fk_w, &self->fk);                                          \
		return (fk_ended){};                                                               \
	} while (0)

/*
 * Ends the task in its second block, and makes its job fail. FK_LEAF_FAIL() is for the first block.
 * code: a negative errno, or a number of the task, not 0. The first code of a job counts. The
 * client gets it from fk_result() and fk_call(). Every fork must have been joined.
 */
#define FK_FAIL(code)                                                                              \
	do {                                                                                       \
		(void)FK_FAIL_is_for_the_body_FK_LEAF_FAIL_for_the_first_block;                    \
		FK_NOT_DESCRIBED();                                                                \
		fk_rt_fail(fk_w, code);                                                            \
		FK_RETURN_VALUE(FK_NOTHING);                                                       \
	} while (0)

/*
 * Lets clients call a task of this module, as MODULE:NAME. The compiler makes the signature from
 * the names and types of the arguments and the type of the result:
 *	int64_t          i64
 *	double           f64
 *	struct fk_str    str, an argument only
 *	struct fk_buf    buf, an argument only
 *	struct fk_iobuf  iobuf, an argument only
 *	fk_void          no result
 * Other types are an error of the compiler. A name of an argument has 23 letters at most, and the
 * signature 95.
 * NAME: the task, which is defined above. flags: 0 or FK_EXPORT_IN_PLACE. help: one line, of which
 * forkctl tasks shows 79 bytes.
 */
#define FK_EXPORT(NAME, flags, help)                                                               \
	_Static_assert(sizeof(NAME##__ret) == 0 || FK_IS_NUMBER(NAME##__ret),                      \
		       "FK_EXPORT(" #NAME                                                          \
		       "): its result is no int64_t, double or fk_void: export a "                 \
		       "struct of int64_t and double by FK_EXPORT_RESULTS(" #NAME                  \
		       ", (type, member, ...), flags, help), or change the type");                 \
	FK_EXPORT_("FK_EXPORT(" #NAME ")", NAME, ({ NULL, FK_WORD(NAME##__ret, NULL) }, ),         \
		   sizeof(FK_WORD(NAME##__ret, "")) - 1, flags, help)

/*
 * Lets clients call a task of this module whose result is a struct of up to eight int64_t and
 * double. Otherwise it is FK_EXPORT().
 * results: all members of the struct in their order: (type, member, ...). One pair gives a name to
 * the result of a task that returns a number: (int64_t, sum).
 * NAME, flags, help: as in FK_EXPORT().
 */
#define FK_EXPORT_RESULTS(NAME, results, flags, help)                                              \
	_Static_assert(0 FK_PASS(FK_COUNT_ONE, results) <= 8,                                      \
		       "FK_EXPORT_RESULTS(" #NAME                                                  \
		       "): a task has 8 results at most: write the rest into an fk_iobuf");        \
	struct NAME##__named {                                                                     \
		FK_PASS(FK_FIELD, results)                                                         \
	};                                                                                         \
	static inline __attribute__((unused)) void NAME##__check_results(void)                     \
	{                                                                                          \
		typedef struct NAME##__named fk_named;                                             \
		typedef __typeof__(_Generic(*(NAME##__ret *)0, int64_t                             \
					    : *(fk_named *)0, double                               \
					    : *(fk_named *)0, default                              \
					    : *(NAME##__ret *)0)) fk_result;                       \
		FK_PASS(FK_CHECK_RESULT, results)                                                  \
		_Static_assert(                                                                    \
			sizeof(NAME##__ret) == sizeof(fk_named) &&                                 \
				(!FK_IS_NUMBER(NAME##__ret) ||                                     \
				 FK_IS_NUMBER(NAME##__ret) == 0 FK_PASS(FK_ADD_NUMBER, results)),  \
			"FK_EXPORT_RESULTS(" #NAME                                                 \
			"): the list is not the result: list all members of the struct, or one "   \
			"pair of the type of the result");                                         \
	}                                                                                          \
	FK_EXPORT_("FK_EXPORT_RESULTS(" #NAME ")", NAME, (FK_PASS(FK_ITEM, results)),              \
		   0 FK_PASS(FK_COUNT_LETTERS, results) - 2, flags, help)

/* The word of a type in a signature; other: the type is not for clients. */
#define FK_WORD(type, other)                                                                       \
	_Generic(*(type *)0, int64_t                                                               \
		 : "i64", double                                                                   \
		 : "f64", struct fk_str                                                            \
		 : "str", struct fk_buf                                                            \
		 : "buf", struct fk_iobuf                                                          \
		 : "iobuf", default                                                                \
		 : other)
#define FK_IS_NUMBER(type) _Generic(*(type *)0, int64_t : 1, double : 2, default : 0)

/* For each (type, name) of a list. */
#define FK_ITEM(type, name)	   { #name, FK_WORD(type, NULL) },
#define FK_COUNT_ONE(type, name)   +1
#define FK_COUNT_UNFIT(type, name) +(sizeof(FK_WORD(type, "")) == 1)
#define FK_COUNT_LONG(type, name)  +(sizeof(#name) - 1 > FK_ITEM_LETTERS)
/* Of "name:type, ". */
#define FK_COUNT_LETTERS(type, name) +sizeof(#name) + sizeof(FK_WORD(type, "")) + 1
#define FK_ADD_NUMBER(type, name)    +FK_IS_NUMBER(type)
#define FK_CHECK_RESULT(type, name)                                                                \
	_Static_assert(FK_IS_NUMBER(type), "FK_EXPORT_RESULTS: " #name " is a " #type              \
					   ": change it to int64_t or double");                    \
	_Static_assert(_Generic(((fk_result *)0)->name, type : 1, default : 0) &&                  \
			       offsetof(fk_result, name) == offsetof(fk_named, name),              \
		       "FK_EXPORT_RESULTS: the result of the task has no " #type " " #name         \
		       " at this place: list the members as they are in the struct");              \
	FK_AT_MOST("FK_EXPORT_RESULTS: the name " #name, sizeof(#name) - 1, FK_ITEM_LETTERS)

/* The message of the second assertion has both numbers in it. */
#define FK_AT_MOST(what, n, most)                                                                  \
	_Static_assert((n) <= (most),                                                              \
		       what " has more than " FK_DIGITS(most) " letters: make it shorter");        \
	_Static_assert(sizeof((char(*)[(n) <= (most) ? (most) : (n)])8 - (char(*)[most])8), "");
#define FK_DIGITS(number)  FK_DIGITS_(number)
#define FK_DIGITS_(number) #number

#define FK_EXPORT_(who, NAME, results_, letters, flags_, help_)                                    \
	_Static_assert(!NAME##__unfit, who ": an argument is no int64_t, double, struct fk_str, "  \
					   "fk_buf or fk_iobuf: give it one of these types");      \
	_Static_assert(!NAME##__long, who ": the name of an argument has more than " FK_DIGITS(    \
					      FK_ITEM_LETTERS) " letters: make it shorter");       \
	FK_AT_MOST(who ": the name", sizeof(#NAME) - 1, FK_NAME_LETTERS)                           \
	/* With " -> " in place of the last ", " of the arguments. */                              \
	FK_AT_MOST(who ": the signature, of the names and types of arguments and results,",        \
		   NAME##__letters + (NAME##__letters ? 2 : 3) + letters, FK_SIGNATURE_LETTERS)    \
	static const struct fk_item NAME##__results[] = { FK_STRIP results_{ NULL, NULL } };       \
	static const struct fk_export NAME##__export                                               \
		__attribute__((used, section("fk_exports"), aligned(8))) = {                       \
			.name = #NAME,                                                             \
			.args = NAME##__items,                                                     \
			.results = NAME##__results,                                                \
			.help = help_,                                                             \
			.enter = NAME##__enter,                                                    \
			.task = &NAME##__task,                                                     \
			.flags = (flags_) | FK_EXPORT_DEBUG,                                       \
			.args_size = sizeof(struct NAME##__args),                                  \
			.result_size = sizeof(NAME##__ret),                                        \
			.frame_size = sizeof(struct NAME##__frame),                                \
		};

/* Defines the module. Each module has exactly one FK_MODULE(). NAME: of up to 31 letters; clients
 * call tasks as NAME:TASK. help: one line. */
#define FK_MODULE(NAME, help)                                                                      \
	FK_AT_MOST("FK_MODULE(" #NAME "): the name", sizeof(#NAME) - 1, FK_NAME_LETTERS)           \
	extern const struct fk_export __start_fk_exports[] __attribute__((visibility("hidden")));  \
	extern const struct fk_export __stop_fk_exports[] __attribute__((visibility("hidden")));   \
	extern const struct fk_module fk_module;                                                   \
	__attribute__((visibility("default"))) const struct fk_module fk_module = {                \
		FK_ABI_VERSION, sizeof(struct fk_frame), #NAME,                                    \
		help,		__start_fk_exports,	 __stop_fk_exports                         \
	};

/* forkctl check --tsan */
#ifdef FK_RACES
#include <forkd/races.h>
#endif

#endif
