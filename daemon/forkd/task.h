/* SPDX-License-Identifier: MIT */
/*
 * forkd/task.h - how a task is written
 *
 * WHAT IT IS
 *   The macros with which a module's author writes fork-join tasks in plain C, and the part of the
 *   runtime that has to be inlined into them. A task stands in two pieces:
 *
 *	FK_TASK(int64_t, fib, (int64_t, n), int64_t x; int64_t y;)
 *	{
 *		if (n < 2)
 *			FK_LEAF(n);
 *	}
 *	FK_BODY(fib)
 *	{
 *		FK_FORK(x, fib, self->n - 1);
 *		FK_CALL(y, fib, self->n - 2);
 *		FK_JOIN();
 *		FK_RETURN(self->x + self->y);
 *	}
 *	FK_END(fib)
 *
 *   The first block runs in registers, before any frame exists, and may end the task with
 *   FK_LEAF(). The second runs on a frame, `self`, which holds the arguments and the locals that
 *   are named in the third argument of FK_TASK. Whatever has to survive an FK_FORK, FK_CALL or
 *   FK_JOIN must be in it: arguments are not even in scope in the body, and an ordinary local
 *   variable loses its value whenever the continuation is stolen.
 *
 *   FK_FORK(member, task, args...)  the child may run beside what follows; its result goes to
 *                                   self->member, to be read after FK_JOIN() and not before
 *   FK_CALL(member, task, args...)  the child runs first, then what follows
 *   FK_JOIN()                       waits for every child that was forked
 *   FK_RETURN(value)                ends the task; every fork must have been joined
 *   FK_FORK_VOID, FK_CALL_VOID      the same for a child of type fk_void
 *
 *   None of these may stand inside a `switch` of the author's own, and no variable with a cleanup
 *   attribute may be alive across one of them. Loops and conditions are fine. Arguments of a fork
 *   are evaluated once, before the child starts and before anybody can steal the parent; but the
 *   fork is a place where the task may be resumed, so they are made from `self`, not from ordinary
 *   locals.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Workers of the pool only, each on its own struct fk_worker.
 *
 * HOW A TASK IS COMPILED
 *   One body, two clones (the two clones of Cilk-5: Frigo, Leiserson, Randall, PLDI 1998).
 *   NAME__leaf is the first block, inlined where the task is forked or called. NAME__framed is an
 *   ordinary C function that gets its arguments in registers, builds the frame and returns its
 *   result in a register; its body is compiled with the resume label 0, so that no switch is left,
 *   and no join either: as long as this activation lives, nobody stole its continuation.
 *   NAME__resume enters the same body through the switch, from the worker loop, for a continuation
 *   that was stolen or whose C stack had to be dropped.
 *
 * THE FAST PATH
 *   A fork stores the parent in the deque and calls the child:
 *
 *	if (b + 1 > limit) unnest;  deque[b] = self;  x = child(b + 1, ...);
 *
 *   b, the bottom of the deque, and sp, the top of the stacklet, are passed by value from parent to
 *   child like a second stack pointer, so that nothing has to be put back when the child returns.
 *   The entry stays private while the activation lives. A thief that finds nothing public lowers
 *   the limit; the owner, at its next fork, drops the C stack (fk_rt_unnest) and goes on in the
 *   worker loop with the resumed clone, and only then are entries made public. So a fresh clone
 *   whose child has returned was not stolen, and checks nothing: neither after the child nor at the
 *   join. The activations that were dropped go on through the switch when their turn comes, which
 *   costs each of them once what a resume costs.
 *
 * INVARIANTS
 *   I1. A frame ends with its struct fk_frame; the header of the parent is just below the first
 *       byte of the frame, or a stub (task == NULL) is there whose slot points to it.
 *   I2. The entries of a worker's deque are ancestors of what it runs, oldest first, but for frames
 *       set aside (FK_MOVED), which stand above the ancestors of theirs and below what was run
 *       instead. Thieves take the oldest first: if an entry was stolen, so was everything below it.
 *   I3. steals, joins, job and stack of a header are valid once FK_PARTED is set in its site. Only
 *       fresh activations leave it unset; whoever parts the paths fills the rest in.
 *   I4. Arguments and site are written before the frame can be stolen, never after.
 */
#ifndef FORKD_TASK_H
#define FORKD_TASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FK_ABI_VERSION 1u

/* The result of a task that has none. */
typedef struct {
} fk_void;

/* A buffer or a string argument. A string is followed by a NUL byte that size does not count. */
struct fk_buf {
	void *data;
	uint64_t size; /* bytes */
};

struct fk_frame;
struct fk_stack;
struct fk_worker;

/* What the runtime knows of every task, exported or not. */
struct fk_task {
	const char *name;
	/* Runs the frame from its site; returns the frame to run next on this worker, or NULL. */
	struct fk_frame *(*resume)(struct fk_worker *w, struct fk_frame *frame);
	uint64_t frame_size; /* bytes, header included */
};

/* The header of a frame, at its end. */
struct fk_frame {
	const struct fk_task *task; /* NULL: a stub, slot is the parent's header */
	uintptr_t slot;		    /* where the result goes | FK_CALLED */
	struct fk_stack *stack;	    /* the stack that this frame is the top of, once given up */
	uint32_t site;		    /* where to go on | FK_PARTED | FK_MOVED */
	uint32_t steals;	    /* forks of this scope that were stolen; the holder's only */
	_Atomic int32_t joins;	    /* counted down by children that end after the paths parted */
	uint32_t job;		    /* the row of the job in the ledger */
};

/* An entry of a deque: a frame, or a root job's row. */
struct fk_entry {
	_Atomic uint64_t word;
};

/*
 * What the inlined code reads and writes of a worker: the first cache line of the runtime's own
 * struct. Written by the owner, but for limit, which anybody may lower to ask for attention.
 */
struct fk_worker {
	_Atomic uintptr_t limit; /* a bottom beyond this makes a fork attend */
	struct fk_entry *floor;	 /* entries from here on are private */
	char *stack_limit;	 /* end of the current stacklet */
	uintptr_t cstack_limit;	 /* below this, children run from the worker loop */
	uint64_t forks;		 /* forks, of modules compiled with FK_COUNT_FORKS */
	struct fk_entry *bottom; /* valid in the worker loop only, like sp */
	char *sp;
	uint64_t reserved;
};

_Static_assert(sizeof(struct fk_frame) == 40, "the header is part of the ABI");
_Static_assert(sizeof(struct fk_worker) == 64, "the worker is part of the ABI");

#define FK_CALLED    ((uintptr_t)1) /* in slot: called, not forked */
#define FK_PARTED    0x80000000u    /* in site: steals, joins, job, stack are valid */
#define FK_MOVED     0x40000000u    /* in site: set aside, no child outstanding */
#define FK_STACKED   0x20000000u    /* in site, with FK_MOVED: its stack goes with it */
#define FK_SITE_MASK 0x1fffffffu

/* A task of a module that clients may call. */
struct fk_export {
	const char *name;
	const char *signature; /* "n:i64, data:buf -> sum:i64" */
	const char *help;      /* one line */
	/* Runs the task as the child of a root frame; stores what it returns in result. */
	void (*enter)(struct fk_worker *w, struct fk_entry *b, char *sp, void *result,
		      const void *args);
	uint32_t flags;	      /* FK_EXPORT_* */
	uint32_t args_size;   /* bytes */
	uint32_t result_size; /* bytes */
	uint32_t frame_size;  /* bytes */
};

/* The task stays in bounds whatever its buffers' bytes change to while it runs: no copy is made. */
#define FK_EXPORT_CHANGING_BUFFERS 1u

/* The one symbol of a module: fk_module. */
struct fk_module {
	uint32_t abi_version;
	uint32_t frame_header_size;
	const char *name;
	const char *help;
	const struct fk_export *exports;
	const struct fk_export *exports_end;
};

#define fk_likely(x)   __builtin_expect(!!(x), 1)
#define fk_unlikely(x) __builtin_expect(!!(x), 0)
#define FK_COLD	       __attribute__((cold, noinline, visibility("default")))
#define FK_INLINE      static inline __attribute__((always_inline, unused))

/* The runtime's slow paths, in the pool (daemon/strand.c). Not for authors. */

/* Fresh clone: goes on with the frame in the worker loop, at this site. */
FK_COLD __attribute__((noreturn)) void fk_rt_unnest(struct fk_worker *w, struct fk_entry *b,
						    struct fk_frame *frame, uint32_t site);
/* Resumed clone, at a fork with the limit passed: serves whoever asked for attention. False: the
 * frame was set aside, to go on at this site. */
FK_COLD bool fk_rt_attend(struct fk_worker *w, struct fk_frame *frame, uint32_t site);
/* Resumed clone, after the frame was stored at b: makes entries public if thieves asked. Returns
 * the bottom for the child: b itself if the deque is full, and the child is called, not forked. */
FK_COLD struct fk_entry *fk_rt_publish(struct fk_worker *w, struct fk_entry *b,
				       struct fk_frame *frame);
/* Resumed clone: a child has returned, and the entry at b is not private any more. True: it was
 * taken back. False: it was stolen; *ret_next is what to run next, or NULL. */
FK_COLD bool fk_rt_pop(struct fk_worker *w, struct fk_entry *b, struct fk_frame *frame,
		       struct fk_frame **ret_next);
/* Resumed clone: true if all children have ended; otherwise the last of them resumes the frame. */
FK_COLD bool fk_rt_join(struct fk_worker *w, struct fk_frame *frame);
/* Resumed clone: the result is stored. Returns what to run next, or NULL. */
FK_COLD struct fk_frame *fk_rt_finish(struct fk_worker *w, struct fk_frame *frame);
/* A frame of size bytes does not fit behind sp: the top of a new stacklet that it fits in. */
FK_COLD char *fk_rt_grow(struct fk_worker *w, char *sp, size_t size);
/* The job fails with this code (not 0), unless it has failed already. */
FK_COLD void fk_rt_fail(struct fk_worker *w, int code);
/* Undoes the last fk_rt_grow() of this stack. */
FK_COLD void fk_rt_shrink(struct fk_worker *w);

#if defined(__x86_64__)
register uintptr_t fk_stack_pointer __asm__("rsp");
#elif defined(__aarch64__)
register uintptr_t fk_stack_pointer __asm__("sp");
#else
#define fk_stack_pointer ((uintptr_t)__builtin_frame_address(0))
#endif

/* (type, name, type, name, ...) -> F(type, name) F(type, name) ... */
#define FK_EACH_0(F)
#define FK_EACH_2(F, t, n)	 F(t, n)
#define FK_EACH_4(F, t, n, ...)	 F(t, n) FK_EACH_2(F, __VA_ARGS__)
#define FK_EACH_6(F, t, n, ...)	 F(t, n) FK_EACH_4(F, __VA_ARGS__)
#define FK_EACH_8(F, t, n, ...)	 F(t, n) FK_EACH_6(F, __VA_ARGS__)
#define FK_EACH_10(F, t, n, ...) F(t, n) FK_EACH_8(F, __VA_ARGS__)
#define FK_EACH_12(F, t, n, ...) F(t, n) FK_EACH_10(F, __VA_ARGS__)
#define FK_EACH_14(F, t, n, ...) F(t, n) FK_EACH_12(F, __VA_ARGS__)
#define FK_EACH_16(F, t, n, ...) F(t, n) FK_EACH_14(F, __VA_ARGS__)
#define FK_EACH_PICK(_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, N, \
		     ...)                                                                          \
	FK_EACH_##N
#define FK_EACH_N(...)                                                                             \
	FK_EACH_PICK(__VA_ARGS__, 16, odd, 14, odd, 12, odd, 10, odd, 8, odd, 6, odd, 4, odd, 2,   \
		     odd, 0)
#define FK_EACH(F, ...)	     FK_EACH_N(0 __VA_OPT__(, ) __VA_ARGS__)(F __VA_OPT__(, ) __VA_ARGS__)
#define FK_FIELD(type, name) type name;
#define FK_PARAM(type, name) , type name
#define FK_MAYBE(type, name) , type name __attribute__((unused))
#define FK_ARG(type, name)   , fk_args.name
#define FK_STORE(type, name) self->name = name;
#define FK_LOAD(type, name)  , name
#define FK_STRIP(...)	     __VA_ARGS__
#define FK_PASS(F, params)   FK_PASS_(F, FK_STRIP params)
#define FK_PASS_(F, ...)     FK_EACH(F, __VA_ARGS__)

/* Sites are switch labels that no type of 64 bits holds, so that a fork inside an author's own
 * switch is an error and not a label of that switch. */
#define FK_LABEL_BASE  ((unsigned __int128)1 << 64)
#define FK_LABEL(site) (FK_LABEL_BASE + (site))
#ifdef __clang__
#pragma clang diagnostic error "-Wswitch"
#pragma clang diagnostic ignored "-Wunreachable-code"
#else
#pragma GCC diagnostic error "-Woverflow"
#endif

/*
 * Declares a task that is defined further down, so that others can fork it.
 * ret: its result, of an alignment of at least 2, or fk_void. params: (type, name, type, name ...),
 * eight pairs at most. locals: what else must survive a fork; alignment 8 at most.
 */
#define FK_DECLARE(ret, NAME, params, ...)                                                         \
	typedef ret NAME##__ret;                                                                   \
	struct NAME##__args {                                                                      \
		FK_PASS(FK_FIELD, params)                                                          \
	};                                                                                         \
	struct NAME##__frame {                                                                     \
		FK_PASS(FK_FIELD, params)                                                          \
		__VA_ARGS__                                                                        \
		struct fk_frame fk;                                                                \
	};                                                                                         \
	_Static_assert(_Alignof(struct NAME##__frame) == 8,                                        \
		       #NAME ": arguments and locals of an alignment above 8 are not supported");  \
	_Static_assert(sizeof(ret) == 0 || _Alignof(ret) >= 2,                                     \
		       #NAME ": a result needs an alignment of at least 2 (use int)");             \
	static bool NAME##__leaf(struct fk_worker *fk_w,                                           \
				 ret *fk_result FK_PASS(FK_PARAM, params));                        \
	static ret NAME##__framed(struct fk_worker *fk_w, struct fk_entry *fk_b, char *fk_sp,      \
				  uintptr_t fk_slot FK_PASS(FK_PARAM, params));                    \
	FK_INLINE ret NAME##__spawn(struct fk_worker *fk_w, struct fk_entry *fk_b, char *fk_sp,    \
				    uintptr_t fk_slot, struct NAME##__args fk_args)                \
	{                                                                                          \
		ret fk_result;                                                                     \
		(void)fk_args;                                                                     \
		if (NAME##__leaf(fk_w, &fk_result FK_PASS(FK_ARG, params)))                        \
			return fk_result;                                                          \
		return NAME##__framed(fk_w, fk_b, fk_sp, fk_slot FK_PASS(FK_ARG, params));         \
	}

/* Defines a task: the block that follows is what runs before it has a frame. */
#define FK_TASK(ret, NAME, params, ...)                                                            \
	FK_DECLARE(ret, NAME, params, __VA_ARGS__)                                                 \
	FK_DEFINE(ret, NAME, params)

/* Defines a task that was declared. */
#define FK_DEFINE(ret, NAME, params)                                                               \
	FK_INLINE ret NAME##__body(struct fk_worker *fk_w, struct fk_entry *fk_b, char *fk_sp,     \
				   struct NAME##__frame *self, const bool fk_fresh,                \
				   unsigned __int128 fk_label, struct fk_frame **fk_next);         \
	static struct fk_frame *NAME##__resume(struct fk_worker *fk_w, struct fk_frame *fk_frame)  \
	{                                                                                          \
		struct NAME##__frame *self = fk_container(fk_frame, struct NAME##__frame, fk);     \
		struct fk_frame *fk_next = NULL;                                                   \
		NAME##__body(fk_w, fk_w->bottom, fk_w->sp, self, false,                            \
			     FK_LABEL(fk_frame->site &FK_SITE_MASK), &fk_next);                    \
		return fk_next;                                                                    \
	}                                                                                          \
	static const struct fk_task NAME##__task = { #NAME, NAME##__resume,                        \
						     sizeof(struct NAME##__frame) };               \
	/* On a new stacklet, which goes when the task returns. */                                 \
	static __attribute__((cold, noinline))                                                     \
	ret NAME##__grown(struct fk_worker *fk_w, struct fk_entry *fk_b, char *fk_sp,              \
			  uintptr_t fk_slot FK_PASS(FK_PARAM, params))                             \
	{                                                                                          \
		fk_sp = fk_rt_grow(fk_w, fk_sp, sizeof(struct NAME##__frame));                     \
		ret fk_result =                                                                    \
			NAME##__framed(fk_w, fk_b, fk_sp, fk_slot FK_PASS(FK_LOAD, params));       \
		fk_rt_shrink(fk_w);                                                                \
		return fk_result;                                                                  \
	}                                                                                          \
	static __attribute__((noinline))                                                           \
	ret NAME##__framed(struct fk_worker *fk_w, struct fk_entry *fk_b, char *fk_sp,             \
			   uintptr_t fk_slot FK_PASS(FK_PARAM, params))                            \
	{                                                                                          \
		struct NAME##__frame *self = (struct NAME##__frame *)fk_sp;                        \
		if (fk_unlikely(fk_opaque((char *)(self + 1)) > fk_w->stack_limit))                \
			return NAME##__grown(fk_w, fk_b, fk_sp, fk_slot FK_PASS(FK_LOAD, params)); \
		self->fk.task = &NAME##__task;                                                     \
		self->fk.slot = fk_slot;                                                           \
		FK_PASS(FK_STORE, params)                                                          \
		if (fk_unlikely(fk_stack_pointer < fk_w->cstack_limit))                            \
			fk_rt_unnest(fk_w, fk_b, &self->fk, 0);                                    \
		return NAME##__body(fk_w, fk_b, (char *)(self + 1), self, true, FK_LABEL(0),       \
				    NULL);                                                         \
	}                                                                                          \
                                                                                                   \
	static inline bool NAME##__leaf(struct fk_worker *fk_w,                                    \
					ret *fk_result FK_PASS(FK_MAYBE, params))                  \
	{                                                                                          \
		typedef ret fk_ret __attribute__((unused));                                        \
		(void)fk_result;                                                                   \
		(void)fk_w;

/* In the first block: ends the task with this result (none for fk_void). */
#define FK_LEAF(...)                                                                               \
	do {                                                                                       \
		*fk_result = (fk_ret){ __VA_ARGS__ };                                              \
		return true;                                                                       \
	} while (0)

/* In the first block: ends the task, and makes the job fail with this code: a negative errno or a
 * number of the task's own, not 0. The first code of a job wins. */
#define FK_LEAF_FAIL(code)                                                                         \
	do {                                                                                       \
		fk_rt_fail(fk_w, code);                                                            \
		*fk_result = FK_NOTHING;                                                           \
		return true;                                                                       \
	} while (0)

/* Ends the first block; the block that follows is what runs on the frame. */
#define FK_BODY(NAME)                                                                              \
	return false;                                                                              \
	}                                                                                          \
	FK_INLINE NAME##__ret NAME##__body(struct fk_worker *fk_w, struct fk_entry *fk_b,          \
					   char *fk_sp, struct NAME##__frame *self,                \
					   const bool fk_fresh, unsigned __int128 fk_label,        \
					   struct fk_frame **fk_next)                              \
	{                                                                                          \
		typedef NAME##__ret fk_ret __attribute__((unused));                                \
		(void)fk_b;                                                                        \
		(void)fk_sp;                                                                       \
		switch (fk_label) {                                                                \
		case FK_LABEL(0):

/* Ends a task. */
#define FK_END(NAME)                                                                               \
	}                                                                                          \
	__builtin_unreachable();                                                                   \
	}

/* A task without a first block. */
#define FK_NO_LEAF(NAME)                                                                           \
	{                                                                                          \
	}                                                                                          \
	FK_BODY(NAME)

/* The body of a task that always ends in its first block. */
#define FK_NO_BODY(NAME)                                                                           \
	FK_BODY(NAME)                                                                              \
	{                                                                                          \
		(void)fk_w;                                                                        \
		(void)self;                                                                        \
		(void)fk_fresh;                                                                    \
		(void)fk_next;                                                                     \
		__builtin_unreachable();                                                           \
	}

#define fk_container(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* What a clone returns that handed its frame back to the worker loop. */
#define FK_NOTHING ((fk_ret[1]){})[0]

/* A value whose origin the compiler forgets, so that it keeps no register for it. */
#define fk_opaque(p)                                                                               \
	({                                                                                         \
		__typeof__(p) fk_p = (p);                                                          \
		__asm__("" : "+r"(fk_p));                                                          \
		fk_p;                                                                              \
	})

/* Sites of the fresh clone leave FK_PARTED unset: whoever parts the paths fills the header in. */
#define FK_SITE(n) ((uint32_t)(n) | (fk_fresh ? 0 : FK_PARTED))

#define FK_FORK(member, task, ...) FK_FORK_(__COUNTER__ + 1, self->member, task, __VA_ARGS__)
#define FK_CALL(member, task, ...) FK_CALL_(__COUNTER__ + 1, self->member, task, __VA_ARGS__)
#define FK_FORK_VOID(task, ...)	   FK_FORK_(__COUNTER__ + 1, *(fk_void *)self, task, __VA_ARGS__)
#define FK_CALL_VOID(task, ...)	   FK_CALL_(__COUNTER__ + 1, *(fk_void *)self, task, __VA_ARGS__)

#define FK_FORK_(n, dst, task_, ...)                                                               \
	do {                                                                                       \
	case FK_LABEL(2 * (n)):;                                                                   \
		/* ORDER attend [A1]: relaxed: a hint, taken by an exchange in strand_attention(). \
		 */                                                                                \
		const bool fk_asked = (uintptr_t)(fk_b + 1) >                                      \
				      atomic_load_explicit(&fk_w->limit, memory_order_relaxed);    \
		if (fk_unlikely(fk_asked)) {                                                       \
			if (fk_fresh)                                                              \
				fk_rt_unnest(fk_w, fk_b, &self->fk, 2 * (n));                      \
			if (!fk_rt_attend(fk_w, &self->fk, 2 * (n)))                               \
				return FK_NOTHING;                                                 \
		}                                                                                  \
		FK_COUNT_FORK();                                                                   \
		struct fk_entry *fk_child_b = fk_b + 1;                                            \
		/* Too few or too many arguments are an error here; nothing is evaluated. */       \
		(void)sizeof(task_##__leaf(fk_w, (task_##__ret *)0 __VA_OPT__(, ) __VA_ARGS__));   \
		task_##__ret *const fk_dst = &(dst);                                               \
		uintptr_t fk_child_slot = (uintptr_t)fk_dst;                                       \
		struct task_##__args fk_child_args = { __VA_ARGS__ };                              \
		self->fk.site = FK_SITE(2 * (n) + 1);                                              \
		atomic_store_explicit(&fk_b->word, (uintptr_t)&self->fk, memory_order_relaxed);    \
		if (!fk_fresh && fk_asked) {                                                       \
			fk_child_b = fk_rt_publish(fk_w, fk_b, &self->fk);                         \
			if (fk_child_b == fk_b)                                                    \
				fk_child_slot |= FK_CALLED;                                        \
		}                                                                                  \
		*fk_dst = task_##__spawn(fk_w, fk_child_b, fk_sp, fk_child_slot, fk_child_args);   \
		if (!fk_fresh && fk_b < fk_w->floor && !fk_rt_pop(fk_w, fk_b, &self->fk, fk_next)) \
			return FK_NOTHING;                                                         \
		__attribute__((fallthrough));                                                      \
	case FK_LABEL(2 * (n) + 1):;                                                               \
	} while (0)

/* Counting costs a tenth of a fork, so only a module compiled for it counts. */
#ifdef FK_COUNT_FORKS
#define FK_COUNT_FORK() fk_w->forks++
#else
#define FK_COUNT_FORK() (void)0
#endif

#define FK_CALL_(n, dst, task_, ...)                                                               \
	do {                                                                                       \
		/* Too few or too many arguments are an error here; nothing is evaluated. */       \
		(void)sizeof(task_##__leaf(fk_w, (task_##__ret *)0 __VA_OPT__(, ) __VA_ARGS__));   \
		task_##__ret *fk_dst = &(dst);                                                     \
		self->fk.site = FK_SITE(2 * (n));                                                  \
		*fk_dst = task_##__spawn(fk_w, fk_b, fk_sp, (uintptr_t)fk_dst | FK_CALLED,         \
					 (struct task_##__args){ __VA_ARGS__ });                   \
		__attribute__((fallthrough));                                                      \
	case FK_LABEL(2 * (n)):;                                                                   \
	} while (0)

#define FK_JOIN() FK_JOIN_(__COUNTER__ + 1)
#define FK_JOIN_(n)                                                                                \
	do {                                                                                       \
		if (!fk_fresh && self->fk.steals) {                                                \
			self->fk.site = FK_SITE(2 * (n));                                          \
			if (!fk_rt_join(fk_w, &self->fk))                                          \
				return FK_NOTHING;                                                 \
			fk_sp = fk_w->sp;                                                          \
		}                                                                                  \
		__attribute__((fallthrough));                                                      \
	case FK_LABEL(2 * (n)):;                                                                   \
	} while (0)

#define FK_RETURN(...)                                                                             \
	do {                                                                                       \
		fk_ret fk_value = { __VA_ARGS__ };                                                 \
		if (fk_fresh)                                                                      \
			return fk_value;                                                           \
		*(fk_ret *)(self->fk.slot & ~FK_CALLED) = fk_value;                                \
		*fk_next = fk_rt_finish(fk_w, &self->fk);                                          \
		return FK_NOTHING;                                                                 \
	} while (0)

/* Like FK_LEAF_FAIL, in the body. Every fork must have been joined. */
#define FK_FAIL(code)                                                                              \
	do {                                                                                       \
		fk_rt_fail(fk_w, code);                                                            \
		fk_ret fk_none = FK_NOTHING;                                                       \
		if (fk_fresh)                                                                      \
			return fk_none;                                                            \
		*(fk_ret *)(self->fk.slot & ~FK_CALLED) = fk_none;                                 \
		*fk_next = fk_rt_finish(fk_w, &self->fk);                                          \
		return fk_none;                                                                    \
	} while (0)

/*
 * Lets clients call a task of this module, as MODULE:NAME.
 * signature: "name:type, ... -> name:type, ..." with the types i64, f64 (int64_t, double), str, buf
 * (struct fk_buf, read only) and iobuf (struct fk_buf, changed in place); results are i64 and f64.
 * flags: FK_EXPORT_* or 0. help: one line.
 */
#define FK_EXPORT(NAME, signature, flags, help)                                                    \
	static void NAME##__enter(struct fk_worker *w, struct fk_entry *b, char *sp, void *result, \
				  const void *args)                                                \
	{                                                                                          \
		*(NAME##__ret *)result = NAME##__spawn(w, b, sp, (uintptr_t)result | FK_CALLED,    \
						       *(const struct NAME##__args *)args);        \
	}                                                                                          \
	static const struct fk_export NAME##__export __attribute__((                               \
		used, section("fk_exports"), aligned(8))) = { #NAME,                               \
							      signature,                           \
							      help,                                \
							      NAME##__enter,                       \
							      flags,                               \
							      sizeof(struct NAME##__args),         \
							      sizeof(NAME##__ret),                 \
							      sizeof(struct NAME##__frame) };

/* Stands once in a module: its name and one line of help. */
#define FK_MODULE(NAME, help)                                                                      \
	extern const struct fk_export __start_fk_exports[] __attribute__((visibility("hidden")));  \
	extern const struct fk_export __stop_fk_exports[] __attribute__((visibility("hidden")));   \
	extern const struct fk_module fk_module;                                                   \
	__attribute__((visibility("default"))) const struct fk_module fk_module = {                \
		FK_ABI_VERSION, sizeof(struct fk_frame), #NAME,                                    \
		help,		__start_fk_exports,	 __stop_fk_exports                         \
	};

#endif
