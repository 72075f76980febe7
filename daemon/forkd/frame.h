/* SPDX-License-Identifier: MIT */
/*
 * forkd/frame.h - the parts of the macros of forkd/task.h; not for authors
 *
 * Data that a module and the pool share: frames, the start of a worker, exports of a module, the
 * slow paths, and lists of the preprocessor. forkd/task.h, which includes this file, has the essay
 * and the invariants.
 *
 * Threads: tasks, through macros, on workers; the pool (daemon/engine/slow_path.h).
 *
 * If a peer dies: the pool ends with a task that crashes: see daemon/pool/process.c.
 */
#ifndef FORKD_FRAME_H
#define FORKD_FRAME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FK_ABI_VERSION 3u

#define fk_likely(x)   __builtin_expect(!!(x), 1)
#define fk_unlikely(x) __builtin_expect(!!(x), 0)
#define FK_COLD	       __attribute__((cold, noinline, visibility("default")))
#define FK_INLINE      static inline __attribute__((always_inline, unused))

struct fk_frame;
struct fk_stack;
struct fk_worker;

/* Where a task can request to continue. */
enum fk_goal {
	FK_TO_WORKER, /* as forkctl status counts them, from 0 */
	FK_TO_NODE,   /* a NUMA node, by its OS index, as forkctl status shows it */
};

/* The child that runs at a site: the result of NAME__describe. */
struct fk_child {
	const struct fk_task *task; /* NULL: no child runs there */
	void *dst;   /* where its result goes, if that is a fixed place in the frame */
	bool forked; /* or called */
};

/* The runtime's description of every task, exported or not. */
struct fk_task {
	const char *name;
	/* Runs the frame from its site; returns the frame to run next on this worker, or NULL. */
	struct fk_frame *(*resume)(struct fk_worker *w, struct fk_frame *frame);
	/* Returns the child that runs at the frame's site. */
	void (*describe)(struct fk_frame *frame, struct fk_child *ret_child);
	/* Frees the resources of the frame, instead of resuming it after its job failed; or
	 * NULL. */
	void (*unwind)(struct fk_frame *frame);
	uint64_t frame_size; /* bytes, header included */
};

/* The header of a frame, at its start. */
struct fk_frame {
	const struct fk_task *task;
	uintptr_t slot;		 /* where the result goes | FK_CALLED */
	struct fk_frame *parent; /* NULL for a root */
	struct fk_stack *stack;	 /* the stack that this frame is the top of, once given up */
	char *top; /* where its stack continues: the end of the frame, or of its allocations */
	_Atomic uint32_t site; /* where to resume | FK_PARTED ... */
	uint32_t steals;       /* forks of this scope that were stolen; the holder's only */
	_Atomic int32_t joins; /* counted down by children that end after the paths parted */
	uint32_t job;	       /* the row of the job in the ledger */
};

/* Relaxed: only the holder reads it, except FK_PARTED, and that bit stays while the child of the
 * site runs. */
FK_INLINE uint32_t fk_site(const struct fk_frame *frame)
{
	return atomic_load_explicit(&frame->site, memory_order_relaxed);
}

FK_INLINE void fk_set_site(struct fk_frame *frame, uint32_t site)
{
	atomic_store_explicit(&frame->site, site, memory_order_relaxed);
}

/* An entry of a deque: a frame, or a root job's row. */
struct fk_entry {
	_Atomic uint64_t word;
};

/* What the inlined code reads and writes of a worker: the start of the runtime's own struct.
 * Written by the owner and its signal handler, except limit, which any thread may lower to 0 to ask
 * for attention. */
struct fk_worker {
	_Atomic uintptr_t limit;    /* a frame that would end beyond this takes the slow path */
	uintptr_t cstack_limit;	    /* below this, children run from the worker loop */
	volatile uintptr_t current; /* see forkd/task.h, WORK NEVER STAYS HIDDEN */
	struct fk_entry *volatile floor;  /* entries from here on are private */
	struct fk_entry *volatile bottom; /* entries up to here */
	struct fk_entry *end;		  /* there is no room for entries from here on */
	char *sp;		     /* where the children of the frame that was resumed begin */
	uintptr_t slot;		     /* of the child of the frame that was resumed */
	const struct fk_task *child; /* and what it is */
	uint64_t unwinds;	     /* a frame of a task with an FK_UNWIND block may be alive */
};

_Static_assert(sizeof(struct fk_frame) == 56, "the header is part of the ABI");
_Static_assert(sizeof(struct fk_worker) == 80, "the worker is part of the ABI");

#define FK_CALLED    ((uintptr_t)1) /* in slot: called, not forked */
#define FK_IN_CHILD  ((uintptr_t)1) /* in current */
#define FK_PARTED    0x80000000u    /* in site: the header is valid */
#define FK_MOVED     0x40000000u    /* in site: suspended, no child outstanding */
#define FK_STACKED   0x20000000u    /* in site, with FK_MOVED: its stack goes with it */
#define FK_DST	     0x10000000u    /* in site, without FK_PARTED: stack is where the result goes */
#define FK_SITE_MASK 0x0fffffffu

/* FK_SLACK bytes are free after limit. A frame of at most FK_SMALL bytes may start there. The rest
 * has room for a small frame of NAME__inner and the header of a third one. A larger frame must end
 * before limit. */
#define FK_SLACK 1024u
#define FK_SMALL 448u

/* An argument or a result, as clients see it. A list of them ends with one without a type. */
struct fk_item {
	const char *name; /* or NULL */
	const char *type; /* "i64", "f64", "str", "buf" or "iobuf" */
};

/* Letters at most, for what clients see has room for them. */
#define FK_NAME_LETTERS	     31 /* of the name of a module, and of a task */
#define FK_ITEM_LETTERS	     23 /* of the name of an argument, and of a result */
#define FK_SIGNATURE_LETTERS 95 /* of a signature: "n:i64, data:buf -> sum:i64" */

/* A task of a module that clients may call. */
struct fk_export {
	const char *name;
	const struct fk_item *args;
	const struct fk_item *results;
	const char *help; /* one line */
	/* Runs the task as a called child; stores what it returns in result. */
	void (*enter)(struct fk_worker *w, char *sp, void *result, const void *args);
	const struct fk_task *task;
	uint32_t flags;	      /* FK_EXPORT_* */
	uint32_t args_size;   /* bytes */
	uint32_t result_size; /* bytes */
	uint32_t frame_size;  /* bytes */
};

/* The one symbol of a module: fk_module. */
struct fk_module {
	uint32_t abi_version;
	uint32_t frame_header_size;
	const char *name;
	const char *help;
	const struct fk_export *exports;
	const struct fk_export *exports_end;
};

/* A function that does not exist. The compiler proves that nothing calls it, or refuses the module
 * with this text. Compilers without the attribute leave that to the linker. */
#ifndef __has_attribute
#define __has_attribute(attribute) 0
#endif
#if __has_attribute(error)
#define FK_MISTAKE(text) __attribute__((noreturn, error(text)))
#else
#define FK_MISTAKE(text) __attribute__((noreturn, visibility("hidden")))
#endif

/* What the first block of a task returns: FK_LEAF has ended the task, or the body follows. */
struct fk_use_FK_LEAF_not_return {
	bool ended;
};

/* The runtime's slow paths, in the pool (daemon/engine/slow_path.h). Not for authors. */

/* The place for a frame of size bytes, whose caller's sp is sp: there, or on a new stacklet. */
FK_COLD void *fk_rt_place(struct fk_worker *w, char *sp, size_t size);
/* Fresh clone: resumes the frame, whose caller's sp was sp, in the worker loop, at this site. */
FK_COLD __attribute__((noreturn)) void fk_rt_unnest(struct fk_worker *w, struct fk_frame *frame,
						    char *sp, uint32_t site);
/* Fresh clone: a forked child has returned, its result is stored, and the frame has FK_PARTED. */
FK_COLD __attribute__((noreturn)) void fk_rt_returned(struct fk_worker *w, struct fk_frame *frame);
/* Resumed clone, at a fork with the limit lowered: serves the requests. False: the frame was
 * suspended, to resume at this site, or its job has failed. */
FK_COLD bool fk_rt_attend(struct fk_worker *w, struct fk_frame *frame, uint32_t site);
/* Resumed clone, after the frame was pushed: makes entries public if thieves asked. */
FK_COLD void fk_rt_publish(struct fk_worker *w);
/* Resumed clone: a child has returned, and the entry at bottom is not private any more. True: it
 * was taken back. False: it was stolen; *ret_next is what to run next, or NULL. */
FK_COLD bool fk_rt_pop(struct fk_worker *w, struct fk_frame *frame, struct fk_frame **ret_next);
/* Resumed clone: true if all children have ended; otherwise the last of them resumes the frame. */
FK_COLD bool fk_rt_join(struct fk_worker *w, struct fk_frame *frame);
/* Resumed clone: the result is stored. Returns what to run next, or NULL. */
FK_COLD struct fk_frame *fk_rt_finish(struct fk_worker *w, struct fk_frame *frame);
/* The job fails with this code (not 0), unless it has failed already. */
FK_COLD void fk_rt_fail(struct fk_worker *w, int code);
/* Resumed clone: size bytes behind the frame, or NULL with the job failed. */
FK_COLD void *fk_rt_alloc(struct fk_worker *w, struct fk_frame *frame, size_t size);
/* Resumed clone: gives the newest of them back. */
FK_COLD void fk_rt_free(struct fk_worker *w, struct fk_frame *frame, void *memory);
/* Resumed clone: suspends the frame, to resume at this site on a worker or NUMA node. False: it is
 * on its way there. True: it is there already, or there is no such place, and the job has
 * failed. */
FK_COLD bool fk_rt_move(struct fk_worker *w, struct fk_frame *frame, uint32_t site,
			enum fk_goal goal, uint32_t index);
/* Counts a fork. */
FK_COLD void fk_rt_count_fork(struct fk_worker *w);

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
#define FK_EACH_18(F, t, n, ...) F(t, n) FK_EACH_16(F, __VA_ARGS__)
#define FK_EACH_20(F, t, n, ...) F(t, n) FK_EACH_18(F, __VA_ARGS__)
#define FK_EACH_22(F, t, n, ...) F(t, n) FK_EACH_20(F, __VA_ARGS__)
#define FK_EACH_24(F, t, n, ...) F(t, n) FK_EACH_22(F, __VA_ARGS__)
#define FK_EACH_many(F, ...)                                                                       \
	_Static_assert(0, "FK_TASK: a list (type, name, ...) has 12 pairs at most: pass the rest " \
			  "in a struct or a buffer");
#define FK_EACH_odd(F, ...)                                                                        \
	_Static_assert(0, "FK_TASK, FK_EXPORT_RESULTS: a list is (type, name, type, name, ...)");
#define FK_EACH_PICK(_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16,    \
		     _17, _18, _19, _20, _21, _22, _23, _24, _25, _26, _27, _28, _29, _30, _31,    \
		     _32, _33, _34, _35, _36, N, ...)                                              \
	FK_EACH_##N
#define FK_EACH_N(...)                                                                             \
	FK_EACH_PICK(__VA_ARGS__, many, odd, many, odd, many, odd, many, odd, many, odd, many,     \
		     odd, 24, odd, 22, odd, 20, odd, 18, odd, 16, odd, 14, odd, 12, odd, 10, odd,  \
		     8, odd, 6, odd, 4, odd, 2, odd, 0)
#define FK_EACH(F, ...)	     FK_EACH_N(0 __VA_OPT__(, ) __VA_ARGS__)(F __VA_OPT__(, ) __VA_ARGS__)
#define FK_FIELD(type, name) type name;
#define FK_PARAM(type, name) , type name
#define FK_MAYBE(type, name) , type name __attribute__((unused))
#define FK_CONST(type, name) , type const name __attribute__((unused))
#define FK_ARG(type, name)   , fk_args.name
#define FK_STORE(type, name) self->name = name;
#define FK_LOAD(type, name)  , name
#define FK_STRIP(...)	     __VA_ARGS__
#define FK_PASS(F, params)   FK_PASS_(F, FK_STRIP params)
#define FK_PASS_(F, ...)     FK_EACH(F, __VA_ARGS__)

/* What of a frame must not be beyond limit. */
#define fk_reach(sp, size) ((uintptr_t)(sp) + ((size) <= FK_SMALL ? 0 : (size)))

/* The looks on the way of a fork, relaxed: limit may change at any moment, and FK_PARTED is set by
 * this thread alone as long as the activation lives. Compilers make a load, a test and a jump of an
 * atomic load and a comparison; the processor compares in memory. */
#if defined(__x86_64__) && defined(__LP64__)
#define FK_COMPARED(flag, compare, ...)                                                            \
	({                                                                                         \
		bool fk_compared;                                                                  \
		__asm__ volatile(compare : "=@cc" flag(fk_compared) : __VA_ARGS__);                \
		fk_compared;                                                                       \
	})
#endif

/* Would a frame that reaches so far have to take the slow path? */
FK_INLINE bool fk_is_beyond(const struct fk_worker *w, uintptr_t reach)
{
#ifdef FK_COMPARED
	return FK_COMPARED("b", "cmpq %2, %1", "m"(w->limit), "r"(reach));
#else
	return atomic_load_explicit(&w->limit, memory_order_relaxed) < reach;
#endif
}

/* True if there is a request. */
FK_INLINE bool fk_is_asked(const struct fk_worker *w)
{
/* clang 14 arranges what is around it worse. */
#if defined(FK_COMPARED) && !defined(__clang__)
	return FK_COMPARED("z", "cmpq $0, %1", "m"(w->limit));
#else
	return !atomic_load_explicit(&w->limit, memory_order_relaxed);
#endif
}

/* FK_PARTED is the sign of site. */
FK_INLINE bool fk_is_parted(const struct fk_frame *frame)
{
#ifdef FK_COMPARED
	return FK_COMPARED("s", "cmpl $0, %1", "m"(frame->site));
#else
	return fk_site(frame) & FK_PARTED;
#endif
}

#endif
