/* SPDX-License-Identifier: MIT */
/* stack arena - where stacklets are allocated and freed: between workers, between the arenas of two
 * nodes, from small ones to large ones and back, and to the kernel; with several threads at once */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/core/stacklet.h"
#include "tests/support/check_unit.h"
#include "tests/support/stack_room.h"

#define PAGE 4096u

START_TEST(one_worker_frees_what_another_allocates_forever)
{
	struct stack_cache other;

	room_begin(1u << 20);
	stack_cache_init(&other, &room_arena);
	/* More than the arena holds: memory that `other` frees must return to room_cache. */
	for (int i = 0; i < 100000; i++) {
		struct fk_stack *stack = stack_new(&room_cache);

		ck_assert_ptr_nonnull(stack);
		stack_free(&other, stack);
	}
	room_end();
}
END_TEST

/* Two arenas of 8 stacklets; room_cache is of the first, other of the second. */
static struct stack_arena two[2];

static void begin_two(struct stack_cache *other)
{
	uint64_t size = 8 * STACK_MIN;

	room_memory = aligned_alloc(STACK_MIN, 2 * size);
	ck_assert_ptr_nonnull(room_memory);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(stack_arena_init(&two[i], room_memory + (uint64_t)i * size,
						  room_memory + (uint64_t)(i + 1) * size),
				 0);
	stack_arena_link(two, 2);
	stack_cache_init(&room_cache, &two[0]);
	stack_cache_init(other, &two[1]);
}

static void end_two(void)
{
	stack_arena_fini(&two[0]);
	stack_arena_fini(&two[1]);
	free(room_memory);
}

START_TEST(full_arena_takes_from_the_next_one)
{
	struct stack_cache other;
	struct fk_stack *stacks[16];

	begin_two(&other);
	for (int i = 0; i < 16; i++) {
		stacks[i] = stack_new(&room_cache);
		ck_assert_ptr_nonnull(stacks[i]);
		ck_assert(((char *)stacks[i] < two[0].end) == (i < 8));
	}
	ck_assert_ptr_null(stack_new(&room_cache));
	ck_assert_ptr_null(stack_new(&other));
	for (int i = 0; i < 16; i++)
		stack_free(&room_cache, stacks[i]);
	/* Each stacklet is back in its arena, whichever worker freed it. */
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

START_TEST(stacklet_returns_to_its_arena)
{
	struct stack_cache other;
	struct fk_stack *stack;

	begin_two(&other);
	/* The thief frees a stolen stack: no memory changes its node. */
	for (int i = 0; i < 1000; i++) {
		stack = stack_new(&room_cache);
		ck_assert((char *)stack < two[0].end);
		stack_free(&other, stack);
		stack = stack_new(&other);
		ck_assert((char *)stack >= two[1].begin);
		stack_free(&other, stack);
	}
	end_two();
}
END_TEST

/* Freed large blocks wait for stack_arena_clean(), and are available in between. */
START_TEST(large_blocks_are_cleaned_or_reused)
{
	struct fk_stack *stack, *top;

	room_begin(4u << 20);
	for (int i = 0; i < 50; i++) {
		stack = stack_new(&room_cache);
		top = stack_push(&room_cache, stack, stack_first(stack), 1500000);
		/* There is room for one of 2 MiB; the second time it is the dirty one. */
		ck_assert_ptr_nonnull(top);
		ck_assert_ptr_null(stack_push(&room_cache, top, stack_first(top), 3000000));
		top = stack_pop(&room_cache, top);
		ck_assert_ptr_eq(top, stack);
		stack_free(&room_cache, stack);
		ck_assert_int_eq(room_cache.bytes, 0);
		ck_assert_uint_eq(atomic_load(&room_arena.dirty), 2u << 20);
		ck_assert(stack_dirtied(&room_cache));
		ck_assert(!stack_dirtied(&room_cache));
		if (i % 2) {
			while (stack_arena_dirty(&room_arena))
				ck_assert(stack_arena_clean(&room_arena));
			ck_assert(!stack_arena_clean(&room_arena));
		}
	}
	room_end();
}
END_TEST

START_TEST(pages_of_large_blocks_are_released)
{
	int fd = room_begin_sparse(8u << 20);
	struct fk_stack *stack, *top;

	stack = stack_new(&room_cache);
	top = stack_push(&room_cache, stack, stack_first(stack), 1500000);
	memset(stack_first(top), 1, 1500000);
	stack_pop(&room_cache, top);
	stack_free(&room_cache, stack);
	ck_assert_uint_ge(room_pages(fd), 1500000);
	while (stack_arena_clean(&room_arena))
		;
	/* The page of the first stacklet, which the worker keeps. */
	ck_assert_uint_eq(room_pages(fd), PAGE);
	room_end_sparse(fd);
}
END_TEST

/* Each call of the cleaner is short, and a block can be taken while it is partly cleaned. */
START_TEST(pages_are_released_piece_by_piece)
{
	const uint64_t size = 32u << 20;
	int fd = room_begin_sparse(2 * size);
	struct fk_stack *stack, *top;
	uint64_t before, after = 0;
	uint32_t calls = 0;

	stack = stack_new(&room_cache);
	for (int round = 0; round < 2; round++) {
		top = stack_push(&room_cache, stack, stack_first(stack), size - 2048);
		ck_assert_ptr_nonnull(top);
		memset(stack_first(top), 1, size - 2048);
		stack_pop(&room_cache, top);
		stack_trim(&room_cache, stack);
		before = room_pages(fd);
		ck_assert_uint_ge(before, size);
		/* The first time it is taken again in the middle. */
		for (calls = 0; stack_arena_clean(&room_arena); calls++) {
			after = room_pages(fd);
			ck_assert_uint_le(before - after, STACK_CLEAN);
			before = after;
			if (round == 0 && calls == 2)
				break;
		}
	}
	ck_assert_uint_eq(calls, size / STACK_CLEAN);
	ck_assert_uint_eq(after, PAGE);
	ck_assert_uint_eq(atomic_load(&room_arena.dirty), 0);
	stack_free(&room_cache, stack);
	room_end_sparse(fd);
}
END_TEST

/* The block is neither waited for nor lost: first it is reused, then it is cleaned. */
START_TEST(pages_of_a_former_pool_are_reused_and_released)
{
	const uint64_t size = 8u << 20;
	const uint64_t left[] = { 0, 1, STACK_MIN, 100001, (3u << 20) + 3 * STACK_MIN, size };

	for (uint32_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
		int fd = room_begin_sparse(size);
		struct fk_stack *stack, *top;

		memset(room_memory, 1, left[i]);
		stack_arena_inherit(&room_arena, left[i]);
		ck_assert_uint_ge(room_pages(fd), left[i]);
		stack = stack_new(&room_cache);
		ck_assert_ptr_nonnull(stack);
		ck_assert_uint_le(room_pages(fd), (left[i] ? left[i] : 1) + STACK_MIN - 1);
		/* Takes all of it again. */
		top = stack_push(&room_cache, stack, stack_first(stack), size / 2 - 2048);
		ck_assert_ptr_nonnull(top);
		stack_pop(&room_cache, top);
		stack_trim(&room_cache, stack);
		while (stack_arena_clean(&room_arena))
			;
		ck_assert_uint_eq(atomic_load(&room_arena.dirty), 0);
		/* Blocks without a free neighbour that are too small to be cleaned. */
		ck_assert_uint_le(room_pages(fd), 2 * STACK_KEEP);
		stack_free(&room_cache, stack);
		room_end_sparse(fd);
	}
}
END_TEST

/* Thousands of small blocks, freed in any order, become a large one, which is cleaned. */
START_TEST(pages_of_many_small_blocks_are_released)
{
	enum { N = 4096 };
	int fd = room_begin_sparse((uint64_t)2 * N * STACK_MIN);
	static struct fk_stack *stacks[N];

	for (uint32_t i = 0; i < N; i++)
		stacks[i] = stack_new(&room_cache);
	ck_assert_uint_ge(room_pages(fd), (uint64_t)N * PAGE);
	for (uint32_t i = 0; i < N; i++)
		stack_free(&room_cache, stacks[i * 1237 % N]);
	while (stack_arena_clean(&room_arena))
		;
	/* 64 blocks that the worker keeps, and blocks whose buddies are not free because of
	 * that. */
	ck_assert_uint_le(room_pages(fd), STACK_KEEP + 64 * STACK_KEEP);
	/* A request for too much memory empties the worker's cache, and all blocks merge. */
	ck_assert_ptr_null(stack_push(&room_cache, stacks[0] = stack_new(&room_cache), NULL,
				      (size_t)4 * N * STACK_MIN));
	stack_free(&room_cache, stacks[0]);
	while (stack_arena_clean(&room_arena))
		;
	/* Except for the part between that stack and the first block larger than STACK_KEEP. */
	ck_assert_uint_le(room_pages(fd), 2 * STACK_KEEP);
	room_end_sparse(fd);
}
END_TEST

START_TEST(small_and_large_blocks_reuse_each_others_memory)
{
	enum { N = 1024 };
	static struct fk_stack *stacks[N];
	struct stack_cache other;
	struct fk_stack *large;

	room_begin((uint64_t)N * STACK_MIN);
	stack_cache_init(&other, &room_arena);
	for (uint32_t round = 0; round < 20; round++) {
		/* Half of the arena; there is no room for another, because of their first
		 * stacklets. */
		large = room_stack(&room_cache, N / 2 * STACK_MIN);
		ck_assert_ptr_nonnull(large);
		ck_assert_ptr_null(room_stack(&room_cache, N / 2 * STACK_MIN));
		stack_free(&other, large);
		/* All of it. */
		for (uint32_t i = 0; i < N; i++) {
			stacks[i] = stack_new(i % 2 ? &room_cache : &other);
			ck_assert_ptr_nonnull(stacks[i]);
		}
		ck_assert_ptr_null(stack_new(&room_cache));
		ck_assert_uint_eq(atomic_load(&room_arena.left), 0);
		/* Two workers keep some of them, at any address. */
		for (uint32_t i = 0; i < N; i++)
			stack_free(i % 3 ? &room_cache : &other, stacks[i * 37 % N]);
		ck_assert_uint_eq(room_cache.n[0], STACK_KEEP / STACK_MIN);
		if (round % 2)
			while (stack_arena_clean(&room_arena))
				;
	}
	room_end();
}
END_TEST

START_TEST(used_memory_is_taken_before_fresh_memory)
{
	struct fk_stack *stack;
	char *next;

	room_begin(ROOM_MAX);
	stack_free(&room_cache, room_stack(&room_cache, 8u << 20));
	next = room_arena.next;
	for (uint64_t bytes = 8u << 20; bytes >= 2 * STACK_MIN; bytes /= 2) {
		stack = room_stack(&room_cache, bytes);
		ck_assert_ptr_nonnull(stack);
		stack_free(&room_cache, stack);
		ck_assert_ptr_eq(room_arena.next, next);
	}
	room_end();
}
END_TEST

/* The upper half is free; its upper quarter was never used. A stack is in the lower half. */
START_TEST(block_whose_end_was_never_used_is_not_refused)
{
	struct fk_stack *stack, *lower, *upper;

	room_begin(32u << 20);
	stack = stack_new(&room_cache);
	lower = room_stack(&room_cache, 8u << 20);
	upper = room_stack(&room_cache, 8u << 20);
	ck_assert_ptr_eq(room_arena.next, room_arena.begin + (24u << 20));
	stack_free(&room_cache, lower);
	stack_free(&room_cache, upper);
	upper = room_stack(&room_cache, 16u << 20);
	ck_assert_ptr_nonnull(upper);
	stack_free(&room_cache, upper);
	stack_free(&room_cache, stack);
	room_end();
}
END_TEST

/* ------------------------------------------------------------------------ several threads */

#define RUNNERS 3u
#define PLACES	16u

static struct stack_cache caches[RUNNERS];
static struct fk_stack *_Atomic places[PLACES]; /* stacks that any thread may free */
static _Atomic uint32_t running;
static _Atomic uint32_t refusals;

/* Writes and checks a stacklet that the thread owns, from its first byte to its last. */
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

		stack = room_stack(mine, UINT64_C(8192) << room_random(&seed, 10));
		if (stack) {
			own(stack);
			own(stack->spare);
		}
		old = atomic_exchange(&places[room_random(&seed, PLACES)], stack);
		if (!old)
			continue;
		owned(old);
		owned(old->spare);
		stack_free(mine, old);
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
	int fd = room_begin_sparse(32u << 20);
	pthread_t threads[RUNNERS], dispatcher;
	struct fk_stack *stack;

	atomic_store(&running, 1);
	ck_assert_int_eq(pthread_create(&dispatcher, NULL, cleaner, &room_arena), 0);
	for (uint32_t i = 0; i < RUNNERS; i++)
		stack_cache_init(&caches[i], &room_arena);
	for (uint32_t i = 0; i < RUNNERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, runner, &caches[i]), 0);
	for (uint32_t i = 0; i < RUNNERS; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t i = 0; i < PLACES; i++)
		stack_free(&room_cache, atomic_exchange(&places[i], NULL));
	/* Refused, and therefore all blocks have merged: half of the arena is available and
	 * clean. */
	ck_assert_ptr_null(room_stack(&room_cache, 32u << 20));
	stack = room_stack(&room_cache, 16u << 20);
	ck_assert_ptr_nonnull(stack);
	stack_free(&room_cache, stack);
	atomic_store(&running, 0);
	pthread_join(dispatcher, NULL);
	ck_assert_uint_eq(atomic_load(&room_arena.dirty), 0);
	ck_assert_uint_eq(atomic_load(&room_arena.left), (32u << 20) - STACK_MIN);
	ck_assert_uint_le(room_pages(fd), 2 * STACK_KEEP);
	room_end_sparse(fd);
}
END_TEST

/* Returns true if a dirty block of this size is in its list. */
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
		struct fk_stack *stack = room_stack(mine, 2u << 20);

		if (!stack)
			atomic_fetch_add(&refusals, 1);
		else /* so that the cleaner has work for some time */
			for (char *at = stack_first(stack->spare); at < stack->spare->end;
			     at += STACK_MIN)
				*at = 1;
		stack_free(mine, stack);
		/* Until the cleaner takes it, or has taken it. */
		while (i % 2 && arena_lists(&room_arena, 2u << 20))
			sched_yield();
	}
	return NULL;
}

/* P1: the only block that is large enough is always being cleaned, and always allocated. */
START_TEST(block_being_cleaned_is_not_refused)
{
	int fd = room_begin_sparse(4u << 20);
	pthread_t thread, dispatcher;

	atomic_store(&running, 1);
	atomic_store(&refusals, 0);
	ck_assert_int_eq(pthread_create(&dispatcher, NULL, cleaner, &room_arena), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, taker, &room_cache), 0);
	pthread_join(thread, NULL);
	atomic_store(&running, 0);
	pthread_join(dispatcher, NULL);
	ck_assert_uint_eq(atomic_load(&refusals), 0);
	room_end_sparse(fd);
}
END_TEST

CHECK_MAIN("stack_arena")
