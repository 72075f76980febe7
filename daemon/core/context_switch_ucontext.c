/* SPDX-License-Identifier: MIT */
/*
 * context_switch_ucontext.c - context_switch.h by the C library's makecontext() and swapcontext()
 *
 * For machines without our assembly, and for forced shadow stacks, which the C library supports.
 * Each switch is at least one system call, because the signal mask changes along with the context.
 *
 * A ucontext_t is stored on its own stack, so the sp of a waiting context is the address of one:
 *
 *     a new stack                         one that waits
 *     | struct new_stack: ucontext, |     | frames of its functions       |
 *     |   entry, arg                | <-- | switch_swap(): a ucontext_t   | <-- sp
 *     | nothing yet                 |
 *
 * Threads: as in context_switch.h.
 */
#ifndef SWITCH_UCONTEXT
#define SWITCH_UCONTEXT 1 /* a test compiles it in addition to another implementation */
#endif
#include "daemon/core/context_switch.h"

#include <assert.h>
#include <stdint.h>
#include <ucontext.h>

/* At the upper end of an unused stack. */
struct new_stack {
	_Alignas(16) ucontext_t ucontext; /* first: its address is sp */
	void (*entry)(void *arg);
	void *arg;
};

/* makecontext() passes ints: the two halves of an address. */
static void switch_start(unsigned int upper, unsigned int lower)
{
	uint64_t address = (uint64_t)upper << 32 | lower;
	struct new_stack *stack = (struct new_stack *)(uintptr_t)address;

	stack->entry(stack->arg);
	__builtin_trap();
}

void *switch_prepare(void *low, void *high, void (*entry)(void *arg), void *arg)
{
	struct new_stack *stack = (struct new_stack *)high - 1;
	uint64_t address = (uintptr_t)stack;
	int r;

	/* This one, another in switch_swap(), and as much again for functions. */
	assert((size_t)((char *)high - (char *)low) >= 3 * sizeof(*stack));
	r = getcontext(&stack->ucontext);
	assert(r == 0);
	stack->entry = entry;
	stack->arg = arg;
	stack->ucontext.uc_link = NULL;
	stack->ucontext.uc_stack.ss_sp = low;
	stack->ucontext.uc_stack.ss_size = (size_t)((char *)stack - (char *)low);
	makecontext(&stack->ucontext, (void (*)(void))switch_start, 2,
		    (unsigned int)(address >> 32), (unsigned int)address);
	return stack;
}

void switch_swap(struct switch_context *from, struct switch_context *to)
{
	ucontext_t here;
	int r;

	/* Sanitizers read these fields in each context that is switched to. */
	here.uc_stack.ss_sp = NULL;
	here.uc_stack.ss_size = 0;
	from->sp = &here;
	r = swapcontext(&here, to->sp);
	assert(r == 0);
}
