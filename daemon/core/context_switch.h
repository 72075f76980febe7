/* SPDX-License-Identifier: MIT */
/*
 * context_switch.h - a thread leaves one stack and continues on another
 *
 * A context is a stack and a place on it. switch_to() stores the caller's place in one context and
 * continues where another context was left. The state that the compiler does not save is on the
 * stack that is left, below its last frame; the context holds its address:
 *
 *     stack of a context that waits          struct switch_context
 *     | frames of its functions |
 *    | return address          |
 *     | frame pointer           |
 *     | floating-point modes    |  <-------- sp
 *
 * configure selects (--with-switch) one of three implementations of switch_swap() and
 * switch_prepare(): context_switch_x86_64.S, context_switch_aarch64.S, or context_switch_ucontext.c
 * for other machines. An asm statement that clobbers all registers jumps to the assembly, so the
 * caller saves only live registers.
 *
 * Threads: any thread. A thread enters by switch_adopt() with its own context, and ends in that
 * context. A context may continue on a thread that did not leave it, once the thread that left it
 * has arrived in another context. The threads must order this, as with any data that they pass to
 * each other.
 *
 * WHAT A CONTEXT KEEPS
 *   Callee-saved registers and the floating-point modes that belong to them: rounding, exception
 *   masks, x87 precision (System V x86-64 ABI, 3.2.3; AAPCS64, 6.1.4: FPCR). A new context has the
 *   modes of its creator. Flags of raised exceptions are volatile in both ABIs: a switch may keep
 *   or lose them. The signal mask is the thread's (context_switch_ucontext.c: the context's).
 *
 * THREAD-LOCALS
 *   The compiler assumes that a function runs on one thread from start to end. It may keep the
 *   address of a thread-local, errno included, or the result of pthread_self() across a switch; gcc
 *   12 does. No option or attribute of switch_to() prevents that. So a function that switches, or
 *   calls one that may, uses no thread-local directly: it calls a function made by SWITCH_LOCAL()
 *   each time.
 *
 * SHADOW STACKS (CET SHSTK, aarch64 GCS)
 *   Not supported: the assembly is not marked for them, so the linker does not mark a program that
 *   contains it, and the loader leaves shadow stacks off. Configure refuses flags that force the
 *   mark; use context_switch_ucontext.c then.
 *
 * INVARIANTS
 *   I1. sp of a waiting context is the lowest address in use on its stack.
 *   I2. A context does not move between switch_make() and switch_destroy().
 *   I3. Once a thread has switched away from a context by switch_to() or switch_leave(), it does
 *       not access that context until a switch back. Exception: with AddressSanitizer, the context
 *       that arrives first reads the one that it came from.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/sanitizer.h"
#include "common/util.h"

#if !defined(SWITCH_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define SWITCH_UCONTEXT 1
#endif

#ifdef FK_SANITIZE_THREAD
#include <sanitizer/tsan_interface.h>
#endif

/* Bytes: the saved state, and some space to call functions. With ucontext that is three times a
 * ucontext_t, which is large on some machines (aarch64: 4.5 KiB). */
#define SWITCH_STACK_LEAST 4096u

struct switch_context {
	/* sp of the waiting context, private to the implementation. First member: the assembly
	 * relies on it. */
	void *sp;
	/* This process has a sanitizer that must know of switches. */
	bool reported;
	bool adopted;
	/* For sanitizers, else unused: the first function on a new stack, and the context that last
	 * switched to this one. */
	void (*entry)(void *arg);
	void *arg;
	struct switch_context *from;
	/* The stack; for an adopted context known from its first switch on. */
	const void *stack_low;
	size_t stack_size;
	/* valgrind's id of the stack. */
	uintptr_t valgrind;
	/* AddressSanitizer's fake stack while this context waits; ThreadSanitizer's handle of
	 * it. */
	void *shadow;
};

/* Implementation: leaves context from and continues in context to. */
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

/* Implementation: returns the sp of a new context that begins with entry(arg). Its stack is [low,
 * high); high is a multiple of 16. */
void *switch_prepare(void *low, void *high, void (*entry)(void *arg), void *arg);

/* Makes a context that begins with entry(arg), which must not return. The stack is size bytes from
 * stack_low on, at least SWITCH_STACK_LEAST. The caller keeps ownership of the memory. */
void switch_make(struct switch_context *ctx, void *stack_low, size_t size, void (*entry)(void *arg),
		 void *arg);

/* Makes a context of the calling thread's stack. Only this thread may continue it. */
void switch_adopt(struct switch_context *ctx);

/* Frees what a context holds. No thread may be in it, unless it is adopted, or switch to it
 * again. */
void switch_destroy(struct switch_context *ctx);

/* Always inline: a function called here could start on one stack and return on another, which
 * confuses sanitizers that track calls. */
static inline __attribute__((always_inline)) void
switch_depart(struct switch_context *from, struct switch_context *to, bool for_good)
{
	if (likely(!to->reported))
		return;
	to->from = from;
#ifdef FK_SANITIZE_THREAD
	(void)for_good;
	__tsan_switch_to_fiber(to->shadow, 0);
#else
	__sanitizer_start_switch_fiber(for_good ? NULL : &from->shadow, to->stack_low,
				       to->stack_size);
#endif
}

/* After ctx is entered, for the first time or again. */
static inline __attribute__((always_inline)) void switch_arrive(struct switch_context *ctx)
{
#ifdef FK_SANITIZE_THREAD
	(void)ctx;
#else
	const void *low;
	size_t size;

	if (likely(!ctx->reported))
		return;
	__sanitizer_finish_switch_fiber(ctx->shadow, &low, &size);
	if (ctx->from->adopted) {
		ctx->from->stack_low = low;
		ctx->from->stack_size = size;
	}
#endif
}

/*
 * Leaves context from, which is the caller's, and continues in context to, which must differ.
 * Returns after a switch back to from, maybe on another thread.
 */
static inline __attribute__((always_inline)) void switch_to(struct switch_context *from,
							    struct switch_context *to)
{
	switch_depart(from, to, false);
	switch_swap(from, to);
	switch_arrive(from);
}

/* The same for a context that no thread will switch to again. Not for an adopted one. */
static inline __attribute__((always_inline, noreturn)) void
switch_leave(struct switch_context *from, struct switch_context *to)
{
	switch_depart(from, to, true);
	switch_swap(from, to);
	__builtin_unreachable();
}

/* Defines name_here(), which returns the address of the calling thread's thread-local name. The
 * compiler cannot reuse the address from an earlier call: the function is not inlined, and the
 * empty assembly hides its result. */
#define SWITCH_LOCAL(type, name)                                                                   \
	static __attribute__((noinline)) type *name##_here(void)                                   \
	{                                                                                          \
		type *name##_address = &name;                                                      \
                                                                                                   \
		__asm__ volatile("" : "+r"(name##_address));                                       \
		return name##_address;                                                             \
	}
