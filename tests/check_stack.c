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
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check_unit.h"
#include "tests/quiet.h"

#define MEMORY (64u << 20)

static char *memory;
static struct stack_arena arena;
static struct stack_cache cache;

static void begin(uint64_t size)
{
	memory = aligned_alloc(STACK_MIN, MEMORY);
	ck_assert_ptr_nonnull(memory);
	ck_assert_int_eq(stack_arena_init(&arena, memory, memory + size, -1, memory), 0);
	stack_cache_init(&cache, &arena);
}

static void end(void)
{
	stack_cache_fini(&cache);
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
	struct stack_cache other;

	begin(1u << 20);
	stack_cache_init(&other, &arena);
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
	stack_cache_init(&cache, &two[0]);
	stack_cache_init(other, &two[1]);
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
		ck_assert_uint_eq(atomic_load(&arena.dirty), 2u << 20);
		if (i % 2) {
			ck_assert(stack_arena_clean(&arena));
			ck_assert_uint_eq(atomic_load(&arena.dirty), 0);
			ck_assert(!stack_arena_clean(&arena));
		}
	}
	end();
}
END_TEST

/* The arena as it is in a pool: sparse, on a memfd. */
static int begin_sparse(uint64_t size)
{
	int fd = memfd_create("stack", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(memory != MAP_FAILED);
	ck_assert_int_eq(stack_arena_init(&arena, memory, memory + size, fd, memory), 0);
	stack_cache_init(&cache, &arena);
	return fd;
}

static void end_sparse(int fd)
{
	munmap(memory, (size_t)(arena.end - arena.begin));
	close(fd);
	stack_cache_fini(&cache);
	stack_arena_fini(&arena);
}

static uint64_t pages_of(int fd)
{
	struct stat status;

	ck_assert_int_eq(fstat(fd, &status), 0);
	return (uint64_t)status.st_blocks * 512;
}

START_TEST(pages_of_large_ones_go_back)
{
	int fd = begin_sparse(8u << 20);
	struct fk_stack *stack, *top;

	stack = stack_new(&cache);
	top = stack_push(&cache, stack, stack_first(stack), 1500000);
	memset(stack_first(top), 1, 1500000);
	stack_pop(&cache, top);
	stack_free(&cache, stack);
	ck_assert_uint_ge(pages_of(fd), 1500000);
	while (stack_arena_clean(&arena))
		;
	/* The first stacklet, which the worker keeps. */
	ck_assert_uint_eq(pages_of(fd), STACK_MIN);
	end_sparse(fd);
}
END_TEST

/* The dispatcher is never away for long; and what it has begun can be taken all the while. */
START_TEST(pages_go_back_piece_by_piece)
{
	const uint64_t size = 32u << 20;
	int fd = begin_sparse(2 * size);
	struct fk_stack *stack, *top;
	uint64_t before, after = 0;
	uint32_t calls = 0;

	stack = stack_new(&cache);
	for (int round = 0; round < 2; round++) {
		top = stack_push(&cache, stack, stack_first(stack), size - 2048);
		ck_assert_ptr_nonnull(top);
		memset(stack_first(top), 1, size - 2048);
		stack_pop(&cache, top);
		stack_trim(&cache, stack);
		before = pages_of(fd);
		ck_assert_uint_ge(before, size);
		/* The first time it is taken again in the middle. */
		for (calls = 0; stack_arena_clean(&arena); calls++) {
			after = pages_of(fd);
			ck_assert_uint_le(before - after, STACK_CLEAN);
			before = after;
			if (round == 0 && calls == 2)
				break;
		}
	}
	ck_assert_uint_eq(calls, size / STACK_CLEAN);
	ck_assert_uint_eq(after, STACK_MIN);
	ck_assert_uint_eq(atomic_load(&arena.dirty), 0);
	stack_free(&cache, stack);
	end_sparse(fd);
}
END_TEST

/* Thousands of small ones, freed in any order, are one that is large, and is cleaned. */
START_TEST(pages_of_many_small_ones_go_back)
{
	enum { N = 4096 };
	int fd = begin_sparse((uint64_t)2 * N * STACK_MIN);
	static struct fk_stack *stacks[N];

	for (uint32_t i = 0; i < N; i++)
		stacks[i] = stack_new(&cache);
	ck_assert_uint_ge(pages_of(fd), (uint64_t)N * STACK_MIN);
	for (uint32_t i = 0; i < N; i++)
		stack_free(&cache, stacks[i * 1237 % N]);
	while (stack_arena_clean(&arena))
		;
	/* What the worker keeps, 64 of them, and what has no other half for that. */
	ck_assert_uint_le(pages_of(fd), STACK_KEEP + 64 * STACK_KEEP);
	/* Somebody asks for too much: the worker keeps nothing, and all is one. */
	ck_assert_ptr_null(
		stack_push(&cache, stacks[0] = stack_new(&cache), NULL, (size_t)4 * N * STACK_MIN));
	stack_free(&cache, stacks[0]);
	while (stack_arena_clean(&arena))
		;
	/* But for what stands between that stack and the first block of more than STACK_KEEP. */
	ck_assert_uint_le(pages_of(fd), 2 * STACK_KEEP);
	end_sparse(fd);
}
END_TEST

/* ------------------------------------------------------------------------ any size out of any */

/* A stack with one more stacklet, of so many bytes. */
static struct fk_stack *stack_of(struct stack_cache *from, uint64_t bytes)
{
	struct fk_stack *stack = stack_new(from);

	if (!stack || stack_push(from, stack, stack_first(stack), bytes - sizeof(*stack)))
		return stack;
	stack_free(from, stack);
	return NULL;
}

/* Frees it: the stacklet is still on it, as a spare. */
static void stack_of_free(struct stack_cache *to, struct fk_stack *stack)
{
	stack_free(to, stack);
}

START_TEST(small_ones_are_had_where_a_large_one_was_and_the_other_way_round)
{
	enum { N = 1024 };
	static struct fk_stack *stacks[N];
	struct stack_cache other;
	struct fk_stack *large;

	begin((uint64_t)N * STACK_MIN);
	stack_cache_init(&other, &arena);
	for (uint32_t round = 0; round < 20; round++) {
		/* Half of the arena; there is no room for more of them, beside their first ones. */
		large = stack_of(&cache, N / 2 * STACK_MIN);
		ck_assert_ptr_nonnull(large);
		ck_assert_ptr_null(stack_of(&cache, N / 2 * STACK_MIN));
		stack_of_free(&other, large);
		/* All of it. */
		for (uint32_t i = 0; i < N; i++) {
			stacks[i] = stack_new(i % 2 ? &cache : &other);
			ck_assert_ptr_nonnull(stacks[i]);
		}
		ck_assert_ptr_null(stack_new(&cache));
		ck_assert_uint_eq(atomic_load(&arena.left), 0);
		/* Two workers keep some of them, anywhere. */
		for (uint32_t i = 0; i < N; i++)
			stack_free(i % 3 ? &cache : &other, stacks[i * 37 % N]);
		ck_assert_uint_eq(cache.n[0], STACK_KEEP / STACK_MIN);
		if (round % 2)
			while (stack_arena_clean(&arena))
				;
	}
	end();
}
END_TEST

START_TEST(memory_that_was_used_is_taken_before_fresh_one)
{
	struct fk_stack *stack;
	char *next;

	begin(MEMORY);
	stack_of_free(&cache, stack_of(&cache, 8u << 20));
	next = arena.next;
	for (uint64_t bytes = 8u << 20; bytes >= 2 * STACK_MIN; bytes /= 2) {
		stack = stack_of(&cache, bytes);
		ck_assert_ptr_nonnull(stack);
		stack_of_free(&cache, stack);
		ck_assert_ptr_eq(arena.next, next);
	}
	end();
}
END_TEST

/* The arena is nearly full; twice is not to be had, but what is left is enough. */
START_TEST(deep_stack_uses_what_is_left_in_smaller_pieces)
{
	struct fk_stack *stack, *top, *next;
	uint64_t bytes = 0;

	begin(4u << 20);
	stack = top = stack_new(&cache);
	while ((next = stack_push(&cache, top, stack_first(top), 64))) {
		bytes += UINT64_C(1) << next->size_log;
		top = next;
	}
	ck_assert_uint_eq(bytes, (4u << 20) - STACK_MIN);
	while (top->prev)
		top = stack_pop(&cache, top);
	stack_free(&cache, stack);
	end();
}
END_TEST

START_TEST(sizes_that_do_not_exist_are_refused)
{
	static const size_t sizes[] = { SIZE_MAX,
					SIZE_MAX - sizeof(struct fk_stack),
					SIZE_MAX - sizeof(struct fk_stack) + 1,
					(size_t)1 << 63,
					((size_t)1 << 62) + 1,
					(size_t)STACK_MIN << (STACK_ORDERS - 1),
					((size_t)STACK_MIN << (STACK_ORDERS - 1)) + 1,
					(size_t)4 << 20 };
	struct fk_stack *stack;

	begin(4u << 20);
	stack = stack_new(&cache);
	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		ck_assert_ptr_null(stack_push(&cache, stack, stack_first(stack), sizes[i]));
	stack_free(&cache, stack);
	end();
}
END_TEST

/* ------------------------------------------------------------------------ accounts */

static _Atomic uint64_t account;

static void bill(struct stack_cache *from, uint64_t max)
{
	atomic_store(&account, 0);
	stack_bill(from, &account, max);
}

static uint64_t stack_size(struct fk_stack *top, bool first)
{
	uint64_t bytes = top->spare ? UINT64_C(1) << top->spare->size_log : 0;

	for (; top->prev; top = top->prev)
		bytes += UINT64_C(1) << top->size_log;
	return bytes + (first ? STACK_MIN : 0);
}

/* I3 of stack.h, in any order of pushes, pops and hand-overs. */
START_TEST(account_is_what_the_stacks_of_a_job_are_of)
{
	enum { N = 8 };
	const uint64_t max = 3u << 20;
	struct fk_stack *tops[N];
	uint64_t seed = 1, refused = 0, most = 0;
	uint32_t on = 0; /* the one that the worker runs on */

	begin(MEMORY);
	bill(&cache, max);
	for (uint32_t i = 0; i < N; i++) {
		tops[i] = stack_new(&cache);
		ck_assert(i == on || stack_give(&cache, tops[i]));
	}
	for (uint32_t step = 0; step < 100000; step++) {
		uint64_t sum = 0, before = atomic_load(&account);
		uint32_t what = (uint32_t)pile_random(&seed, 8);
		struct fk_stack *next;

		if (what < 4) {
			next = stack_push(&cache, tops[on], stack_first(tops[on]),
					  pile_random(&seed, 1000) ? 64
								   : pile_random(&seed, 1 << 20));
			/* Its spare may have gone for it. */
			ck_assert(next || atomic_load(&account) <= before);
			refused += !next;
			tops[on] = next ? next : tops[on];
		} else if (what < 7) {
			if (tops[on]->prev)
				tops[on] = stack_pop(&cache, tops[on]);
		} else {
			ck_assert(stack_give(&cache, tops[on]) || atomic_load(&account) > max);
			on = (uint32_t)pile_random(&seed, N);
			stack_take(&cache);
		}
		for (uint32_t i = 0; i < N; i++)
			sum += stack_size(tops[i], i != on);
		ck_assert_uint_eq(atomic_load(&account), sum);
		ck_assert_uint_le(sum, max + STACK_MIN);
		most = sum > most ? sum : most;
	}
	ck_assert_uint_gt(refused, 0);
	ck_assert_uint_gt(most, max - 4 * STACK_MIN);
	for (uint32_t i = 0; i < N; i++) {
		while (tops[i]->prev)
			tops[i] = stack_pop(&cache, tops[i]);
		if (i != on)
			stack_take(&cache);
		stack_free(&cache, tops[i]);
	}
	ck_assert_uint_eq(atomic_load(&account), 0);
	ck_assert_int_eq(cache.bytes, 0);
	end();
}
END_TEST

START_TEST(what_a_job_may_not_have_is_never_taken)
{
	struct fk_stack *stack;
	uint64_t allocated;
	char *next;

	begin(MEMORY);
	bill(&cache, 1u << 20);
	stack = stack_new(&cache);
	next = arena.next;
	allocated = cache.allocated;
	ck_assert_ptr_null(stack_push(&cache, stack, stack_first(stack), 1u << 20));
	ck_assert_ptr_eq(arena.next, next);
	ck_assert_uint_eq(cache.allocated, allocated);
	ck_assert_uint_eq(atomic_load(&account), 0);
	/* A stack that is handed to a frame is the job's. */
	for (uint32_t i = 0; i < 256; i++) {
		ck_assert(stack_give(&cache, stack));
		stack = stack_new(&cache);
	}
	ck_assert(!stack_give(&cache, stack));
	end();
}
END_TEST

START_TEST(job_that_takes_all_leaves_some_for_small_ones_and_for_workers)
{
	_Atomic uint64_t small = 0;
	uint64_t deep = 0;
	struct stack_cache other;
	struct fk_stack *stack, *top, *next;
	uint32_t n = 0;

	begin(MEMORY);
	stack_cache_init(&other, &arena);
	bill(&cache, UINT64_MAX);
	stack = top = stack_new(&cache);
	while ((next = stack_push(&cache, top, stack_first(top), 64)))
		top = next;
	deep = atomic_load(&account);
	ck_assert_uint_le(deep, MEMORY - MEMORY / 16);
	ck_assert_uint_ge(deep, MEMORY - MEMORY / 16 - 2 * STACK_MIN);
	/* Nor by many stacks. */
	ck_assert(!stack_give(&cache, top));
	stack_take(&cache);
	/* Small ones: as large as that goes, until only the workers' share is left. */
	for (;;) {
		struct fk_stack *at;

		atomic_store(&small, 0);
		stack_bill(&other, &small, UINT64_MAX);
		at = stack_new(&other);
		ck_assert_ptr_nonnull(at);
		while ((next = stack_push(&other, at, stack_first(at), 64)))
			at = next;
		if (atomic_load(&arena.left) < MEMORY / 64 + STACK_SMALL / 2)
			break;
		ck_assert_uint_ge(atomic_load(&small), STACK_SMALL / 2 - STACK_MIN);
		ck_assert_uint_le(atomic_load(&small), STACK_SMALL);
		n++;
	}
	ck_assert_uint_ge(n, (MEMORY / 16 - MEMORY / 64) / STACK_SMALL - 1);
	/* And workers get their own all the same. */
	for (uint64_t left = atomic_load(&arena.left); left; left -= STACK_MIN)
		ck_assert_ptr_nonnull(stack_new(&other));
	ck_assert_ptr_null(stack_new(&other));
	/* The deep one goes, and everybody has room. */
	while (top->prev)
		top = stack_pop(&cache, top);
	stack_free(&cache, stack);
	ck_assert_uint_eq(atomic_load(&account), 0);
	ck_assert_uint_ge(atomic_load(&arena.left), deep - 8 * STACK_KEEP);
	ck_assert_ptr_nonnull(stack_of(&other, 16u << 20));
	end();
}
END_TEST

/* ------------------------------------------------------------------------ several threads */

#define RUNNERS 3u
#define PLACES	16u

static struct stack_cache caches[RUNNERS];
static struct fk_stack *_Atomic places[PLACES]; /* stacks that any of them may free */
static _Atomic uint32_t running;
static _Atomic uint32_t refusals;

/* A stacklet is one's own, from its first byte to its last. */
static void own(struct fk_stack *stacklet)
{
	uint64_t *first = (uint64_t *)(void *)stack_first(stacklet);
	uint64_t *last = (uint64_t *)(void *)stacklet->end - 1;

	*first = *last = (uintptr_t)stacklet;
}

static void owned(struct fk_stack *stacklet)
{
	ck_assert_uint_eq(*(uint64_t *)(void *)stack_first(stacklet), (uintptr_t)stacklet);
	ck_assert_uint_eq(((uint64_t *)(void *)stacklet->end)[-1], (uintptr_t)stacklet);
}

static void *runner(void *arg)
{
	struct stack_cache *mine = arg;
	uint64_t seed = (uint64_t)(mine - caches) + 1;

	for (uint32_t i = 0; i < 4000; i++) {
		struct fk_stack *stack, *old;

		stack = stack_of(mine, UINT64_C(8192) << pile_random(&seed, 10));
		if (stack) {
			own(stack);
			own(stack->spare);
		}
		old = atomic_exchange(&places[pile_random(&seed, PLACES)], stack);
		if (!old)
			continue;
		owned(old);
		owned(old->spare);
		stack_of_free(mine, old);
	}
	return NULL;
}

static void *cleaner(void *arg)
{
	while (atomic_load(&running))
		if (!stack_arena_clean(arg))
			sched_yield();
	while (stack_arena_clean(arg))
		;
	return NULL;
}

START_TEST(workers_and_cleaner_share_the_arena)
{
	int fd = begin_sparse(32u << 20);
	pthread_t threads[RUNNERS], dispatcher;
	struct fk_stack *stack;

	atomic_store(&running, 1);
	ck_assert_int_eq(pthread_create(&dispatcher, NULL, cleaner, &arena), 0);
	for (uint32_t i = 0; i < RUNNERS; i++) {
		stack_cache_init(&caches[i], &arena);
		ck_assert_int_eq(pthread_create(&threads[i], NULL, runner, &caches[i]), 0);
	}
	for (uint32_t i = 0; i < RUNNERS; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t i = 0; i < PLACES; i++)
		stack_of_free(&cache, atomic_exchange(&places[i], NULL));
	/* Refused, and so all is in one piece: half of it is to be had, and all of it is clean. */
	ck_assert_ptr_null(stack_of(&cache, 32u << 20));
	stack = stack_of(&cache, 16u << 20);
	ck_assert_ptr_nonnull(stack);
	stack_of_free(&cache, stack);
	atomic_store(&running, 0);
	pthread_join(dispatcher, NULL);
	ck_assert_uint_eq(atomic_load(&arena.dirty), 0);
	ck_assert_uint_eq(atomic_load(&arena.left), (32u << 20) - STACK_MIN);
	ck_assert_uint_le(pages_of(fd), 2 * STACK_KEEP);
	end_sparse(fd);
}
END_TEST

/* A dirty block of this size is in its list. */
static bool arena_lists(struct stack_arena *of, uint64_t bytes)
{
	uint32_t order = 0;
	bool any;

	while ((uint64_t)STACK_MIN << order < bytes)
		order++;
	pthread_mutex_lock(&of->lock);
	any = of->free[order][true] != NULL;
	pthread_mutex_unlock(&of->lock);
	return any;
}

static void *taker(void *arg)
{
	struct stack_cache *mine = arg;

	for (uint32_t i = 0; i < 500; i++) {
		struct fk_stack *stack = stack_of(mine, 2u << 20);

		if (!stack)
			atomic_fetch_add(&refusals, 1);
		else /* so that there is something to clean, for a while */
			for (char *at = stack_first(stack->spare); at < stack->spare->end;
			     at += STACK_MIN)
				*at = 1;
		stack_of_free(mine, stack);
		/* Until the cleaner has it, or has had it. */
		while (i % 2 && arena_lists(&arena, 2u << 20))
			sched_yield();
	}
	return NULL;
}

/* P1: the only block that is large enough is always out to be cleaned, and always had. */
START_TEST(nobody_is_refused_what_is_being_cleaned)
{
	int fd = begin_sparse(4u << 20);
	pthread_t thread, dispatcher;

	atomic_store(&running, 1);
	atomic_store(&refusals, 0);
	ck_assert_int_eq(pthread_create(&dispatcher, NULL, cleaner, &arena), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, taker, &cache), 0);
	pthread_join(thread, NULL);
	atomic_store(&running, 0);
	pthread_join(dispatcher, NULL);
	ck_assert_uint_eq(atomic_load(&refusals), 0);
	end_sparse(fd);
}
END_TEST

/* ------------------------------------------------------------------------ in a pool */

FK_TASK(int64_t, child, (int64_t, n), int64_t x;)
{
	if (n < 0)
		FK_LEAF(0);
}
FK_BODY(child)
{
	FK_CALL(x, child, -1);
	FK_RETURN(self->n + self->x);
}
FK_END(child)

FK_TASK(int64_t, wide, (int64_t, n), int64_t i; int64_t x[1024];)
{
	if (n < 0)
		FK_LEAF(0);
}
FK_BODY(wide)
{
	for (self->i = 0; self->i < self->n; self->i++)
		FK_FORK(x[self->i], child, 1);
	FK_JOIN();
	for (self->i = 1; self->i < self->n; self->i++)
		self->x[0] += self->x[self->i];
	FK_RETURN(self->x[0]);
}
FK_END(wide)

FK_TASK(int64_t, blocks, (int64_t, n), unsigned char *memory;)
{
	if (n < 0)
		FK_LEAF(-1);
}
FK_BODY(blocks)
{
	FK_ALLOC(memory, (size_t)self->n);
	if (!self->memory)
		FK_RETURN(-2);
	memset(self->memory, 1, (size_t)self->n);
	FK_RETURN(self->n);
}
FK_END(blocks)

FK_EXPORT(wide, "n:i64 -> i64", 0, "forks beside each other")
FK_EXPORT(blocks, "n:i64 -> i64", 0, "a block")
FK_MODULE(t, "test tasks")

static struct rig rig;

static void late(struct pool *pool)
{
	pool->late_children = true;
}

/* Each child waits on a stack of its own, of one small stacklet, until its parent is at
 * its join. */
START_TEST(job_of_many_small_stacks_has_what_it_may_and_no_more)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 4) {
		int64_t n = 1000;

		rig_prepare = late;
		rig_start(&rig, workers, &fk_module, true);
		for (int i = 0; i < 3; i++) {
			rig.options.stack_max = (uint64_t)n * STACK_MIN / 4;
			ck_assert_int_eq(rig_call(&rig, "t:wide", n / 8), n / 8);
			quiet(&rig);
			rig_submit(&rig, 1, "t:wide", &n, sizeof(n));
			ck_assert_uint_eq(rig_wait(&rig, 1), JOB_FAILED);
			ck_assert_int_eq(atomic_load(&rig.jobs[1].code), -ENOMEM);
			quiet(&rig);
			rig.options.stack_max = (uint64_t)n * STACK_MIN * 2;
			ck_assert_int_eq(rig_call(&rig, "t:wide", n), n);
			quiet(&rig);
		}
		rig_stop(&rig);
	}
}
END_TEST

/* The same record again, at once: nothing of the one before is on its account. */
START_TEST(account_is_closed_before_the_job_has_its_outcome)
{
	const int64_t half = 1 << 20;

	for (uint32_t workers = 1; workers <= 4; workers *= 4)
		for (int forced = 0; forced < 2; forced++) {
			rig_start(&rig, workers, &fk_module, forced);
			/* Room for one block with its stacklet, and not for another. */
			rig.options.stack_max = 2 * half + 65536;
			for (int i = 0; i < 500; i++)
				ck_assert_int_eq(rig_call(&rig, "t:blocks", half), half);
			/* All is cleaned by the dispatcher. */
			quiet(&rig);
			rig_stop(&rig);
		}
}
END_TEST

CHECK_MAIN("stack", stacklets_at_least_double,
	   frame_larger_than_double_gets_a_stacklet_that_holds_it,
	   boundary_does_not_allocate_again_and_again, full_arena_gives_null_and_loses_nothing,
	   one_worker_frees_what_another_allocates_for_ever, full_arena_takes_from_the_next_one,
	   stacklet_of_another_arena_goes_home,
	   stack_is_larger_than_its_frames_by_a_constant_factor,
	   bound_holds_for_frames_that_just_do_not_fit, large_ones_are_cleaned_or_taken_again,
	   pages_of_large_ones_go_back, pages_go_back_piece_by_piece,
	   pages_of_many_small_ones_go_back,
	   small_ones_are_had_where_a_large_one_was_and_the_other_way_round,
	   memory_that_was_used_is_taken_before_fresh_one,
	   deep_stack_uses_what_is_left_in_smaller_pieces, sizes_that_do_not_exist_are_refused,
	   account_is_what_the_stacks_of_a_job_are_of, what_a_job_may_not_have_is_never_taken,
	   job_that_takes_all_leaves_some_for_small_ones_and_for_workers,
	   workers_and_cleaner_share_the_arena, nobody_is_refused_what_is_being_cleaned,
	   job_of_many_small_stacks_has_what_it_may_and_no_more,
	   account_is_closed_before_the_job_has_its_outcome)
