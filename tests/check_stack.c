/* SPDX-License-Identifier: MIT */
#include "daemon/stack.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check_unit.h"

#define MEMORY (64u << 20)

static char *memory;
static struct stack_arena arena;
static struct stack_cache cache;

static void begin(uint64_t size)
{
	memory = aligned_alloc(STACK_MIN, MEMORY);
	ck_assert_ptr_nonnull(memory);
	ck_assert_int_eq(stack_arena_init(&arena, memory, memory + size, -1, memory), 0);
	memset(&cache, 0, sizeof(cache));
	cache.arena = &arena;
}

static void end(void)
{
	stack_arena_fini(&arena);
	free(memory);
}

START_TEST(stacklets_at_least_double)
{
	struct fk_stack *stack, *top;
	char *sp;

	begin(MEMORY);
	stack = top = stack_new(&cache);
	sp = stack_first(stack);
	for (uint64_t size = 2 * STACK_MIN; size <= 1u << 20; size *= 2) {
		top = stack_push(&cache, top, sp, 64);
		ck_assert_ptr_nonnull(top);
		ck_assert_uint_eq(UINT64_C(1) << top->size_log, size);
		sp = stack_first(top);
	}
	while (top->prev)
		top = stack_pop(&cache, top);
	ck_assert_ptr_eq(top, stack);
	stack_free(&cache, stack);
	ck_assert_int_eq(cache.bytes, 0);
	end();
}
END_TEST

START_TEST(frame_larger_than_double_gets_a_stacklet_that_holds_it)
{
	struct fk_stack *stack, *top;

	begin(MEMORY);
	stack = stack_new(&cache);
	top = stack_push(&cache, stack, stack_first(stack), 100000);
	ck_assert_ptr_nonnull(top);
	ck_assert_uint_ge((uint64_t)(top->end - stack_first(top)), 100000);
	stack_pop(&cache, top);
	stack_free(&cache, stack);
	end();
}
END_TEST

START_TEST(stub_leads_to_the_parent_across_stacklets)
{
	struct fk_stack *stack, *top;
	struct fk_frame parent = { .task = NULL }, *on_stack;
	static const struct fk_task task = { "t", NULL, 64 };

	begin(MEMORY);
	stack = stack_new(&cache);
	stack->stub.slot = (uintptr_t)&parent;
	ck_assert_ptr_eq(stack_parent(stack_first(stack)), &parent);
	/* A frame on the first stacklet, then one on the second. */
	on_stack = (struct fk_frame *)(stack_first(stack) + 64) - 1;
	on_stack->task = &task;
	top = stack_push(&cache, stack, (char *)(on_stack + 1), 64);
	ck_assert_ptr_eq(stack_parent(stack_first(top)), on_stack);
	/* With nothing on the first, the stub of the second leads to the same parent. */
	stack_pop(&cache, top);
	top = stack_push(&cache, stack, stack_first(stack), 64);
	ck_assert_ptr_eq(stack_parent(stack_first(top)), &parent);
	stack_pop(&cache, top);
	stack_free(&cache, stack);
	end();
}
END_TEST

START_TEST(boundary_does_not_allocate_again_and_again)
{
	struct fk_stack *stack, *top;
	uint64_t allocated;

	begin(MEMORY);
	stack = stack_new(&cache);
	top = stack_push(&cache, stack, stack_first(stack), 64);
	stack_pop(&cache, top);
	allocated = cache.allocated;
	for (int i = 0; i < 1000; i++) {
		top = stack_push(&cache, stack, stack_first(stack), 64);
		stack_pop(&cache, top);
	}
	ck_assert_uint_eq(cache.allocated, allocated);
	stack_free(&cache, stack);
	end();
}
END_TEST

START_TEST(full_arena_gives_null_and_loses_nothing)
{
	struct fk_stack *stacks[16];

	begin(8 * STACK_MIN);
	for (int i = 0; i < 8; i++) {
		stacks[i] = stack_new(&cache);
		ck_assert_ptr_nonnull(stacks[i]);
	}
	ck_assert_ptr_null(stack_new(&cache));
	for (int i = 0; i < 8; i++)
		stack_free(&cache, stacks[i]);
	for (int i = 0; i < 8; i++) {
		stacks[i] = stack_new(&cache);
		ck_assert_ptr_nonnull(stacks[i]);
	}
	for (int i = 0; i < 8; i++)
		stack_free(&cache, stacks[i]);
	end();
}
END_TEST

START_TEST(one_worker_frees_what_another_allocates_for_ever)
{
	struct stack_cache other = { .arena = &arena };

	begin(1u << 20);
	/* More than the arena holds: what other frees has to come back to cache. */
	for (int i = 0; i < 100000; i++) {
		struct fk_stack *stack = stack_new(&cache);

		ck_assert_ptr_nonnull(stack);
		stack_free(&other, stack);
	}
	end();
}
END_TEST

CHECK_MAIN("stack", stacklets_at_least_double,
	   frame_larger_than_double_gets_a_stacklet_that_holds_it,
	   stub_leads_to_the_parent_across_stacklets, boundary_does_not_allocate_again_and_again,
	   full_arena_gives_null_and_loses_nothing,
	   one_worker_frees_what_another_allocates_for_ever)
