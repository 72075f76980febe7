/* SPDX-License-Identifier: MIT */
/*
 * context_switch.c - creation and destruction of contexts, common to all implementations
 *
 * Most of it informs tools. Valgrind must know each stack, or it takes a switch for a large frame.
 * AddressSanitizer must know the bounds of each stack. ThreadSanitizer treats each context as a
 * separate thread.
 *
 * Threads: any thread. At most one thread at a time uses, makes or destroys a context.
 */
#include "daemon/core/context_switch.h"

#include <assert.h>
#include <stdint.h>

#include "common/valgrind.h"

/* Whether the process has a sanitizer that must know of switches. */
static bool switch_is_reported(void)
{
#ifdef FK_SANITIZE_THREAD
	return true;
#else
	return __sanitizer_start_switch_fiber;
#endif
}

static void switch_begin(void *arg)
{
	struct switch_context *ctx = arg;

	switch_arrive(ctx);
	ctx->entry(ctx->arg);
}

void switch_make(struct switch_context *ctx, void *stack_low, size_t size, void (*entry)(void *arg),
		 void *arg)
{
	void *high = (void *)(((uintptr_t)stack_low + size) & ~(uintptr_t)15);

	assert(size >= SWITCH_STACK_LEAST);
	*ctx = (struct switch_context){
		.valgrind = valgrind_request(VALGRIND_STACK_ADD, (uintptr_t)stack_low,
					     (uintptr_t)high - 1),
		.reported = switch_is_reported(),
		.entry = entry,
		.arg = arg,
		.stack_low = stack_low,
		.stack_size = size,
	};
#ifdef FK_SANITIZE_THREAD
	ctx->shadow = __tsan_create_fiber(0);
#endif
	if (ctx->reported) {
		entry = switch_begin;
		arg = ctx;
	}
	ctx->sp = switch_prepare(stack_low, high, entry, arg);
}

void switch_adopt(struct switch_context *ctx)
{
	*ctx = (struct switch_context){ .reported = switch_is_reported(), .adopted = true };
#ifdef FK_SANITIZE_THREAD
	ctx->shadow = __tsan_get_current_fiber();
#endif
}

void switch_destroy(struct switch_context *ctx)
{
	if (!ctx->adopted) {
		(void)valgrind_request(VALGRIND_STACK_REMOVE, ctx->valgrind, 0);
		/* Redzones of functions that never returned are still poisoned. */
		sanitizer_clean(ctx->stack_low, ctx->stack_size);
#ifdef FK_SANITIZE_THREAD
		__tsan_destroy_fiber(ctx->shadow);
#endif
	}
	ctx->sp = NULL;
}
