/* SPDX-License-Identifier: MIT */
/*
 * stack - the stacklets of a stack, and how many bytes of them a stack of frames needs
 *
 * THE BOUND
 *   After Williams and Elliott, "Libfork: portable continuation-stealing with stackless coroutines"
 *   (2024), Theorem 1: a stack whose stacklets grow geometrically is larger than what it holds by a
 *   constant factor only. For ours: let M be the bytes of the frames on it, S those of the largest
 *   frame that it ever held, and O = sizeof(struct fk_stack) + FK_SLACK what a stacklet of b(i)
 *   bytes cannot be used for. Let stacklets 0 to t be in use, t > 0.
 *
 *	B1  b(i+1) >= 2 b(i): the stacklets below the top have less than 2 b(t-1) together.
 *	B2  The first frame of stacklet t, of s bytes, did not fit on the one below, which held u
 *	    bytes; both are there still: b(t-1) < u + s + O <= M + O.
 *	B3  The top was made twice as large as the one below, or as the least power of two for its
 *	    first frame, or, as a spare, for an earlier one: b(t) <= max(2 (M + O), 2 (S + O)).
 *	B4  So those in use have less than 2 (M + O) + b(t); or STACK_MIN if t = 0.
 *	B5  One spare is kept above the top, made in the same way: it has at most
 *	    max(4 (M + O), 4 (S + O)); or max(2 STACK_MIN, 2 (S + O)) if t = 0.
 *
 *   In all at most 8 (M + O) + 6 (S + O) + 3 STACK_MIN, at any time, in any order of pushes and
 *   pops; and B1 makes for at most log2 of that many stacklets.
 */
#include "daemon/stack.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Two arenas of 8 stacklets; cache is of the first, other of the second. */
static struct stack_arena two[2];

static void begin_two(struct stack_cache *other)
{
	uint64_t size = 8 * STACK_MIN;

	memory = aligned_alloc(STACK_MIN, 2 * size);
	ck_assert_ptr_nonnull(memory);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(stack_arena_init(&two[i], memory + (uint64_t)i * size,
						  memory + (uint64_t)(i + 1) * size, -1, memory),
				 0);
	stack_arena_link(two, 2);
	memset(&cache, 0, sizeof(cache));
	memset(other, 0, sizeof(*other));
	cache.arena = &two[0];
	other->arena = &two[1];
}

static void end_two(void)
{
	stack_arena_fini(&two[0]);
	stack_arena_fini(&two[1]);
	free(memory);
}

START_TEST(full_arena_takes_from_the_next_one)
{
	struct stack_cache other;
	struct fk_stack *stacks[16];

	begin_two(&other);
	for (int i = 0; i < 16; i++) {
		stacks[i] = stack_new(&cache);
		ck_assert_ptr_nonnull(stacks[i]);
		ck_assert(((char *)stacks[i] < two[0].end) == (i < 8));
	}
	ck_assert_ptr_null(stack_new(&cache));
	ck_assert_ptr_null(stack_new(&other));
	for (int i = 0; i < 16; i++)
		stack_free(&cache, stacks[i]);
	/* Each is back where it is from, whoever freed it. */
	for (int i = 0; i < 8; i++) {
		stacks[i] = stack_new(&other);
		ck_assert_ptr_nonnull(stacks[i]);
		ck_assert((char *)stacks[i] >= two[1].begin);
	}
	for (int i = 0; i < 8; i++)
		stack_free(&other, stacks[i]);
	end_two();
}
END_TEST

START_TEST(stacklet_of_another_arena_goes_home)
{
	struct stack_cache other;
	struct fk_stack *stack;

	begin_two(&other);
	/* A stack that was stolen, so its thief frees it: no memory changes its node. */
	for (int i = 0; i < 1000; i++) {
		stack = stack_new(&cache);
		ck_assert((char *)stack < two[0].end);
		stack_free(&other, stack);
		stack = stack_new(&other);
		ck_assert((char *)stack >= two[1].begin);
		stack_free(&other, stack);
	}
	end_two();
}
END_TEST

/* Frames as strand.c puts them on a stack. */
#define FRAMES 200000u
#define HEAD   (sizeof(struct fk_stack) + FK_SLACK)

static struct {
	char *at, *end;
} frames[FRAMES];

struct pile {
	struct fk_stack *stack, *top;
	char *sp;
	uint32_t n;
	uint64_t held, largest;
	uint64_t worst; /* the stack's bytes beyond the bound's constant, per byte held, times 100 */
};

static void pile_push(struct pile *pile, uint64_t size)
{
	char *at = pile->sp;

	if (at + size > pile->top->end - FK_SLACK) {
		pile->top = stack_push(&cache, pile->top, at, size + FK_SLACK);
		ck_assert_ptr_nonnull(pile->top);
		at = stack_first(pile->top);
	}
	frames[pile->n].at = at;
	frames[pile->n++].end = pile->sp = at + size;
	pile->held += size;
	if (size > pile->largest)
		pile->largest = size;
}

static void pile_pop(struct pile *pile)
{
	pile->n--;
	pile->held -= (uint64_t)(frames[pile->n].end - frames[pile->n].at);
	pile->sp = frames[pile->n].at;
	if (pile->sp == stack_first(pile->top) && pile->top->prev) {
		pile->sp = pile->top->below;
		pile->top = stack_pop(&cache, pile->top);
	}
	ck_assert_ptr_eq(pile->sp, pile->n ? frames[pile->n - 1].end : stack_first(pile->stack));
}

static void pile_look(struct pile *pile)
{
	uint64_t bytes = (uint64_t)cache.bytes, n = 0;
	uint64_t constant = 6 * (pile->largest + HEAD) + 3 * STACK_MIN;

	ck_assert_uint_ge(bytes, pile->held);
	ck_assert_msg(bytes <= 8 * (pile->held + HEAD) + constant,
		      "%llu bytes for frames of %llu, the largest was %llu",
		      (unsigned long long)bytes, (unsigned long long)pile->held,
		      (unsigned long long)pile->largest);
	for (struct fk_stack *at = pile->top; at; at = at->prev)
		n++;
	ck_assert_uint_le(UINT64_C(1) << n, bytes);
	if (bytes > constant && 100 * (bytes - constant) / (pile->held + HEAD) > pile->worst)
		pile->worst = 100 * (bytes - constant) / (pile->held + HEAD);
}

static uint64_t pile_random(uint64_t *seed, uint64_t n)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (*seed >> 33) % n;
}

/* max: of a frame. drift: of 100 steps, how many push, on the way up. */
static uint64_t pile_walk(uint64_t seed, uint64_t max, uint64_t drift, uint64_t limit)
{
	struct pile pile = { .n = 0 };
	bool up = true;

	pile.stack = pile.top = stack_new(&cache);
	pile.sp = stack_first(pile.stack);
	for (uint32_t i = 0; i < 20000; i++) {
		uint64_t of = up ? drift : 100 - drift;

		if (pile.n < FRAMES && (!pile.n || pile_random(&seed, 100) < of))
			pile_push(&pile, 56 + 8 * pile_random(&seed, max / 8));
		else
			pile_pop(&pile);
		pile_look(&pile);
		/* As the dispatcher does. */
		(void)stack_arena_clean(&arena);
		if (pile.held > limit)
			up = false;
		else if (!pile.n)
			up = true;
	}
	while (pile.n)
		pile_pop(&pile);
	ck_assert_ptr_eq(pile.top, pile.stack);
	stack_free(&cache, pile.stack);
	ck_assert_int_eq(cache.bytes, 0);
	return pile.worst;
}

START_TEST(stack_is_larger_than_its_frames_by_a_constant_factor)
{
	static const uint64_t sizes[] = { 16, 100, 600, 5000, 100000 };
	uint64_t worst = 0;

	begin(MEMORY);
	for (uint64_t seed = 1; seed <= 2; seed++)
		for (uint32_t i = 0; i < 5; i++)
			for (uint64_t drift = 52; drift <= 90; drift += 19) {
				uint64_t factor = pile_walk(seed, sizes[i], drift, 1 << 20);

				worst = factor > worst ? factor : worst;
			}
	/* The bound is one that is come near to: half of what it allows. */
	ck_assert_uint_ge(worst, 200);
	printf("at most %llu.%02llu bytes for a byte\n", (unsigned long long)worst / 100,
	       (unsigned long long)worst % 100);
	end();
}
END_TEST

/* The worst there is: each stacklet holds one frame that is just too large for the one before. */
START_TEST(bound_holds_for_frames_that_just_do_not_fit)
{
	struct pile pile = { .n = 0 };

	begin(MEMORY);
	pile.stack = pile.top = stack_new(&cache);
	pile.sp = stack_first(pile.stack);
	pile_push(&pile, 56);
	for (uint32_t i = 0; i < 11; i++) {
		pile_push(&pile, (uint64_t)(pile.top->end - FK_SLACK - pile.sp) / 8 * 8 + 8);
		pile_look(&pile);
		ck_assert_ptr_eq(frames[pile.n - 1].at, stack_first(pile.top));
	}
	while (pile.n) {
		pile_pop(&pile);
		pile_look(&pile);
	}
	stack_free(&cache, pile.stack);
	ck_assert_int_eq(cache.bytes, 0);
	end();
}
END_TEST

/* What was freed and is large waits for stack_arena_clean(), and is not lost in between. */
START_TEST(large_ones_are_cleaned_or_taken_again)
{
	struct fk_stack *stack, *top;

	begin(4u << 20);
	for (int i = 0; i < 50; i++) {
		stack = stack_new(&cache);
		top = stack_push(&cache, stack, stack_first(stack), 1500000);
		/* There is room for one of 2 MiB; the second time it is the dirty one. */
		ck_assert_ptr_nonnull(top);
		ck_assert_ptr_null(stack_push(&cache, top, stack_first(top), 3000000));
		top = stack_pop(&cache, top);
		ck_assert_ptr_eq(top, stack);
		stack_free(&cache, stack);
		ck_assert_int_eq(cache.bytes, 0);
		ck_assert_ptr_nonnull(atomic_load(&arena.dirty));
		if (i % 2) {
			ck_assert(stack_arena_clean(&arena));
			ck_assert_ptr_null(atomic_load(&arena.dirty));
			ck_assert(!stack_arena_clean(&arena));
		}
	}
	end();
}
END_TEST

START_TEST(pages_of_large_ones_go_back)
{
	const uint64_t size = 8u << 20;
	int fd = memfd_create("stack", MFD_CLOEXEC);
	struct fk_stack *stack, *top;
	struct stat before, after;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(memory != MAP_FAILED);
	ck_assert_int_eq(stack_arena_init(&arena, memory, memory + size, fd, memory), 0);
	memset(&cache, 0, sizeof(cache));
	cache.arena = &arena;
	stack = stack_new(&cache);
	top = stack_push(&cache, stack, stack_first(stack), 1500000);
	memset(stack_first(top), 1, 1500000);
	stack_pop(&cache, top);
	stack_free(&cache, stack);
	ck_assert_int_eq(fstat(fd, &before), 0);
	while (stack_arena_clean(&arena))
		;
	ck_assert_int_eq(fstat(fd, &after), 0);
	ck_assert_int_ge(before.st_blocks * 512, 1500000);
	ck_assert_int_le(after.st_blocks * 512, 4 * (int64_t)STACK_MIN);
	munmap(memory, size);
	close(fd);
	stack_arena_fini(&arena);
}
END_TEST

CHECK_MAIN("stack", stacklets_at_least_double,
	   frame_larger_than_double_gets_a_stacklet_that_holds_it,
	   boundary_does_not_allocate_again_and_again, full_arena_gives_null_and_loses_nothing,
	   one_worker_frees_what_another_allocates_for_ever, full_arena_takes_from_the_next_one,
	   stacklet_of_another_arena_goes_home,
	   stack_is_larger_than_its_frames_by_a_constant_factor,
	   bound_holds_for_frames_that_just_do_not_fit, large_ones_are_cleaned_or_taken_again,
	   pages_of_large_ones_go_back)
