/* SPDX-License-Identifier: MIT */
/*
 * context_switch.h - a thread leaves one stack and goes on with another
 *
 * A context is a stack and a place on it. switch_to() stores the caller's place in one context, and
 * continues where another one was left. What no compiler saves lies on the stack that is left,
 * below its last frame; the context itself has the address of it:
 *
 *     stack of a context that waits          struct switch_context
 *     | frames of its functions |
 *     | where to go on          |
 *     | frame pointer           |
 *     | floating-point modes    |  <-------- sp
 *
 * Three implementations of switch_swap() and switch_prepare(), of which configure takes one
 * (--with-switch): context_switch_x86_64.S, context_switch_aarch64.S, and context_switch_ucontext.c
 * for other machines. The assembly is jumped to from a statement that says to the compiler that it
 * changes all registers: so the caller saves the live ones, and no others.
 *
 * Threads: any thread. It enters by a context of its own (switch_adopt()), and ends there. A
 * context may continue on a thread that did not leave it; the threads see to the order of that, as
 * with anything they hand over: a context may continue once the thread that left it has arrived
 * elsewhere.
 *
 * WHAT A CONTEXT KEEPS
 *   Callee-saved registers, and the floating-point modes that belong to them: rounding, masks of
 *   exceptions, x87 precision (System V x86-64 ABI, 3.2.3; AAPCS64, 6.1.4: FPCR). A new context has
 *   those of its maker. Flags of exceptions that were raised are volatile in both ABIs: they may
 *   come along or not. The mask of signals is the thread's (context_switch_ucontext.c: the
 *   context's).
 *
 * THREAD-LOCALS
 *   To the compiler a thread stays the same for a whole function, so it may keep the address of a
 *   thread-local over a switch, that of errno included, and what pthread_self() said; gcc 12 does.
 *   No option and no attribute of switch_to() keeps it from that. So a function that switches, or
 *   calls what may, has none of these in it: each time it asks a function that SWITCH_LOCAL() made.
 *
 * SHADOW STACKS (CET SHSTK, aarch64 GCS)
 *   Not supported: the assembly has no mark for them, so the linker marks no program that has it,
 *   and the loader leaves shadow stacks off. Configure refuses flags that force the mark; use
 *   context_switch_ucontext.c then.
 *
 * INVARIANTS
 *   I1. sp of a context that waits is the lowest address in use on its stack.
 *   I2. A context does not move while it lives: switch_make() to switch_destroy().
 *   I3. Between switch_to() and its return, and from switch_leave() on, nothing of the context that
 *       was left is read or written by the thread that left it, once it stands in the other one;
 *       but for a build with AddressSanitizer, where the one that arrives looks at the one that
 *       it came from before anything else.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#if !defined(SWITCH_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define SWITCH_UCONTEXT 1
#endif

#if defined(FK_SANITIZE_ADDRESS)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(FK_SANITIZE_THREAD)
#include <sanitizer/tsan_interface.h>
#endif

/* Bytes: what waits there, and something to call functions with. By ucontext that is three times a
 * ucontext_t, which some machines have large ones of: aarch64 4.5 KiB. */
#define SWITCH_STACK_LEAST 4096u

struct switch_context {
	/* Where it waits; the implementation's own. First: assembly knows that. */
	void *sp;
	/* 1 + what valgrind calls its stack; 0: it knows of none. */
	unsigned int valgrind;
#ifdef FK_SANITIZE
	/* What runs first on a new stack. */
	void (*entry)(void *arg);
	void *arg;
	/* The context that switched here last. */
	struct switch_context *from;
	/* The stack; of an adopted context from its first switch on. */
	const void *stack_low;
	size_t stack_size;
	/* AddressSanitizer's other stack while this one waits; ThreadSanitizer's idea of it. */
	void *fake_stack;
	void *fiber;
	bool adopted;
#endif
};

/* Implementation: leaves from, goes on in to. */
#if defined(SWITCH_UCONTEXT)
void switch_swap(struct switch_context *from, struct switch_context *to);
#elif defined(__x86_64__)
#ifdef __AVX512F__
#define SWITCH_CLOBBERS_AVX512                                                                     \
	, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24",         \
		"xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2",   \
		"k3", "k4", "k5", "k6", "k7"
#else
#define SWITCH_CLOBBERS_AVX512
#endif
static inline __attribute__((always_inline)) void switch_swap(struct switch_context *from,
							      struct switch_context *to)
{
	__asm__ volatile("leaq 1f(%%rip), %%rdx\n\t"
			 "jmp switch_stacks\n"
			 "1:"
			 : "+D"(from), "+S"(to)
			 :
			 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13",
			   "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
			   "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
			   "xmm15", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)",
			   "st(7)", "cc", "memory" SWITCH_CLOBBERS_AVX512);
}
#else
#ifdef __ARM_FEATURE_SVE
#define SWITCH_CLOBBERS_SVE                                                                        \
	, "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13",  \
		"p14", "p15", "ffr"
#else
#define SWITCH_CLOBBERS_SVE
#endif
static inline __attribute__((always_inline)) void switch_swap(struct switch_context *from,
							      struct switch_context *to)
{
	register struct switch_context *x0 __asm__("x0") = from;
	register struct switch_context *x1 __asm__("x1") = to;

	__asm__ volatile("adr x30, 1f\n\t"
			 "b switch_stacks\n"
			 "1:"
			 : "+r"(x0), "+r"(x1)
			 :
			 : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
			   "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22",
			   "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3",
			   "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
			   "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",
			   "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc",
			   "memory" SWITCH_CLOBBERS_SVE);
}
#endif

/* Implementation: the sp of a context that begins with entry(arg) and has its stack from low up to
 * high, which is a multiple of 16. */
void *switch_prepare(void *low, void *high, void (*entry)(void *arg), void *arg);

/*
 * Makes a context that begins with entry(arg), which does not return, on the stack of so many bytes
 * from stack_low on, SWITCH_STACK_LEAST at least. The memory stays the caller's.
 */
void switch_make(struct switch_context *ctx, void *stack_low, size_t size, void (*entry)(void *arg),
		 void *arg);

/* Makes one of the stack that the calling thread stands on. It can go on only on this thread. */
void switch_adopt(struct switch_context *ctx);

/* No thread will switch to this context again, and none stands in it, unless it is adopted. */
void switch_destroy(struct switch_context *ctx);

#ifdef FK_SANITIZE
/* Always inline: what is called here may be on one stack when it starts and on another when it
 * returns, of which a sanitizer that looks at the calls themselves must not hear. */
static inline __attribute__((always_inline)) void
switch_depart(struct switch_context *from, struct switch_context *to, bool for_good)
{
	to->from = from;
	(void)for_good;
#ifdef FK_SANITIZE_ADDRESS
	__sanitizer_start_switch_fiber(for_good ? NULL : &from->fake_stack, to->stack_low,
				       to->stack_size);
#endif
#ifdef FK_SANITIZE_THREAD
	__tsan_switch_to_fiber(to->fiber, 0);
#endif
}

/* ctx stands here, again or for the first time. */
static inline __attribute__((always_inline)) void switch_arrive(struct switch_context *ctx)
{
#ifdef FK_SANITIZE_ADDRESS
	const void *low;
	size_t size;

	__sanitizer_finish_switch_fiber(ctx->fake_stack, &low, &size);
	if (ctx->from->adopted) {
		ctx->from->stack_low = low;
		ctx->from->stack_size = size;
	}
#else
	(void)ctx;
#endif
}
#else
static inline void switch_depart(struct switch_context *from, struct switch_context *to,
				 bool for_good)
{
	(void)from;
	(void)to;
	(void)for_good;
}

static inline void switch_arrive(struct switch_context *ctx)
{
	(void)ctx;
}
#endif

/*
 * The caller stands in from, and goes on in to, which is another one. Returns after a switch to
 * from, maybe on another thread.
 */
static inline __attribute__((always_inline)) void switch_to(struct switch_context *from,
							    struct switch_context *to)
{
	switch_depart(from, to, false);
	switch_swap(from, to);
	switch_arrive(from);
}

/* The same of a context that is done: no switch to it follows. Not of an adopted one. */
static inline __attribute__((always_inline, noreturn)) void
switch_leave(struct switch_context *from, struct switch_context *to)
{
	switch_depart(from, to, true);
	switch_swap(from, to);
	__builtin_unreachable();
}

/*
 * Defines name_here(): the address of the thread-local name, of this type, of the thread that calls
 * it. No compiler takes the address of an earlier call for it: the function is not inlined, and
 * what the empty assembly does is unknown, so that two calls are never one.
 */
#define SWITCH_LOCAL(type, name)                                                                   \
	static __attribute__((noinline)) type *name##_here(void)                                   \
	{                                                                                          \
		type *name##_address = &name;                                                      \
                                                                                                   \
		__asm__ volatile("" : "+r"(name##_address));                                       \
		return name##_address;                                                             \
	}
