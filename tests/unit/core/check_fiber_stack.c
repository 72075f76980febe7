/* SPDX-License-Identifier: MIT */
/* fiber stack - a stack belongs to one owner; free stacks are kept, released and reused; with
 * failing calls and with several threads. Guards and canaries are in check_fiber_stack_guard.c. */
#include "daemon/core/fiber_stack.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/check_unit.h"
#include "tests/support/fiber_stack_rig.h"

#define MANY 1000u

/* ------------------------------------------------------------------------ what is got */

START_TEST(stack_is_of_the_smallest_class_that_has_the_size)
{
	begin(1, 2 * FIBER_STACK_SHAPES, 0, 0, false);
	for (uint32_t k = 0; k < 2; k++) {
		size_t less = kinds[k] == FIBER_STACK_SLAB ? CANARY : 0;

		for (size_t size = FIBER_STACK_MIN; size <= FIBER_STACK_MAX; size *= 2) {
			const size_t asked[] = { size, size - 1, size / 2 + 1 };

			for (size_t i = 0; i < 3; i++) {
				struct fiber_stack *stack = get(asked[i], kinds[k]);

				ck_assert_uint_eq(stack->size, size - less);
				ck_assert_uint_eq(stack->kind, kinds[k]);
				ck_assert_uint_eq(FIBER_STACK_MIN << stack->class, size);
				ck_assert_uint_eq((uintptr_t)stack->low % PAGE, 0);
				ck_assert_uint_eq(count().used, size);
				ck_assert_uint_eq(count().n_used, 1);
				put(stack);
			}
		}
		put(get(0, kinds[k]));
	}
	end();
}
END_TEST

START_TEST(invalid_size_worker_or_kind_is_refused)
{
	struct fiber_stack *none = (struct fiber_stack *)&stacks;
	const size_t sizes[] = { FIBER_STACK_MAX + 1, (size_t)1 << 63, SIZE_MAX };

	begin(2, 1, 0, 0, false);
	for (size_t i = 0; i < 3; i++)
		ck_assert_int_eq(fiber_stack_get(&stacks, 0, sizes[i], FIBER_STACK_SLAB, &none),
				 -EINVAL);
	ck_assert_int_eq(fiber_stack_get(&stacks, 2, 1, FIBER_STACK_SLAB, &none), -EINVAL);
	ck_assert_int_eq(fiber_stack_get(&stacks, 0, 1, (enum fiber_stack_kind)2, &none), -EINVAL);
	ck_assert_ptr_eq(none, (struct fiber_stack *)&stacks);
	ck_assert_uint_eq(count().made, 0);
	put(NULL);
	end();
}
END_TEST

/* Each stack is written from its first byte to its last, and no other stack changes. */
START_TEST(writes_to_a_stack_change_no_other_stack)
{
	struct fiber_stack *all[FIBER_STACK_SHAPES * 3];
	size_t n = 0;

	begin(1, FIBER_STACK_SHAPES, 0, 0, false);
	for (uint32_t k = 0; k < 2; k++)
		for (size_t size = FIBER_STACK_MIN; size <= FIBER_STACK_MAX; size *= 2)
			for (size_t i = 0; i < 3; i++)
				all[n++] = get(size, kinds[k]);
	for (size_t i = 0; i < n; i++)
		memset(all[i]->low, (int)i + 1, all[i]->size);
	for (size_t i = 0; i < n; i++) {
		ck_assert(fiber_stack_intact(all[i]));
		for (size_t at = 0; at < all[i]->size; at++)
			if (all[i]->low[at] != (char)(i + 1))
				ck_abort_msg("stack %zu has another's byte at %zu", i, at);
		put(all[i]);
	}
	end();
}
END_TEST

START_TEST(stack_that_parks_at_shallow_depth_costs_one_page)
{
	static struct fiber_stack *all[MANY];

	begin(1, 8, 0, 0, false);
	for (size_t i = 0; i < MANY; i++) {
		all[i] = get(FIBER_STACK_MIN, FIBER_STACK_SLAB);
		touch(all[i]);
	}
	/* And one page for each chunk, with the canary of its lowest stack. */
	for (size_t i = 0; i < MANY; i++)
		ck_assert(fiber_stack_intact(all[i]));
	ck_assert_uint_eq(resident(), MANY + count().mapped / CHUNK);
	ck_assert_uint_eq(count().made, MANY);
	for (size_t i = 0; i < MANY; i++)
		put(all[i]);
	end();
}
END_TEST

/* ------------------------------------------------------------------------ what is free */

START_TEST(stack_put_last_is_reused_first)
{
	for (uint32_t k = 0; k < 2; k++) {
		struct fiber_stack *all[8];

		begin(1, 2, CHUNK, 0, false);
		for (size_t i = 0; i < 8; i++)
			all[i] = get(65536, kinds[k]);
		for (size_t i = 0; i < 8; i++)
			put(all[i * 5 % 8]);
		ck_assert_uint_eq(count().cached, 8 * 65536);
		ck_assert_uint_eq(count().n_cached, 8);
		/* It is not used for another size. */
		put(get(32768, kinds[k]));
		ck_assert_uint_eq(count().reused, 0);
		for (size_t i = 8; i-- > 0;) {
			ck_assert_ptr_eq(get(65536, kinds[k]), all[i * 5 % 8]);
			ck_assert(!all[i * 5 % 8]->fresh);
		}
		ck_assert_uint_eq(count().reused, 8);
		ck_assert_uint_eq(count().made, 9);
		for (size_t i = 0; i < 8; i++)
			put(all[i]);
		end();
	}
}
END_TEST

START_TEST(stack_returns_to_its_node)
{
	begin(3, 1, CHUNK, 0, false);
	for (uint32_t node = 0; node < 3; node++) {
		struct fiber_stack *stack = get_on(node, 1, FIBER_STACK_SLAB), *other;
		size_t size;
		char *part = fiber_stacks_part(&stacks, node, &size);

		ck_assert_uint_eq(stack->node, node);
		ck_assert_uint_eq(size, CHUNK);
		ck_assert(stack->low > part && stack->low < part + size);
		put(stack);
		other = get_on((node + 1) % 3, 1, FIBER_STACK_SLAB);
		ck_assert_ptr_ne(other, stack);
		ck_assert_ptr_eq(get_on(node, 1, FIBER_STACK_SLAB), stack);
		put(other);
		put(stack);
	}
	end();
}
END_TEST

START_TEST(full_node_takes_from_the_next)
{
	struct fiber_stack *all[8];
	int r;

	begin(2, 1, 0, 0, false);
	/* Three to a chunk. */
	ck_assert_uint_eq(get_all(FIBER_STACK_MAX, FIBER_STACK_SLAB, all, 8, &r), 6);
	ck_assert_int_eq(r, -ENOMEM);
	ck_assert_uint_eq(count().refused, 1);
	for (size_t i = 0; i < 6; i++) {
		ck_assert_uint_eq(all[i]->node, i / 3);
		touch(all[i]);
	}
	/* Each stack that comes back is reused. */
	for (size_t i = 0; i < 6; i++) {
		put(all[i]);
		ck_assert_ptr_eq(get(FIBER_STACK_MAX, FIBER_STACK_SLAB), all[i]);
	}
	for (size_t i = 0; i < 6; i++)
		put(all[i]);
	ck_assert_uint_eq(resident(), 0);
	end();
}
END_TEST

START_TEST(kept_stacks_stay_within_the_limit)
{
	static struct fiber_stack *all[MANY];

	for (uint32_t k = 0; k < 2; k++) {
		const uint64_t keep = 100 * FIBER_STACK_MIN;
		size_t pages;

		begin(1, 8, keep, 0, false);
		for (size_t i = 0; i < MANY; i++) {
			all[i] = get(FIBER_STACK_MIN, kinds[k]);
			memset(all[i]->low, 1, all[i]->size);
		}
		pages = resident();
		ck_assert_uint_ge(pages, MANY * FIBER_STACK_MIN / PAGE);
		for (size_t i = 0; i < MANY; i++) {
			put(all[i * 37 % MANY]);
			ck_assert_uint_le(count().cached, keep);
			ck_assert_uint_eq(count().cached, count().n_cached * FIBER_STACK_MIN);
		}
		ck_assert_uint_ge(count().returned, MANY - 100);
		ck_assert_uint_eq(count().returned + count().n_cached, MANY);
		/* For slabs, one more page for each stack that is kept, with its canary. */
		ck_assert_uint_le(resident(),
				  keep / PAGE + k * count().n_cached + count().mapped / CHUNK);
		/* Kept stacks are used first. */
		for (size_t i = 0, kept = count().n_cached; i < MANY; i++) {
			all[i] = get(FIBER_STACK_MIN, kinds[k]);
			ck_assert_uint_eq(all[i]->fresh, i >= kept);
		}
		for (size_t i = 0; i < MANY; i++)
			put(all[i]);
		end();
	}
}
END_TEST

/* Every second stack, so that no chunk is free. Their pages are released all the same, and are zero
 * then. */
START_TEST(free_pages_next_to_used_stacks_are_released)
{
	static struct fiber_stack *all[MANY];

	for (uint32_t k = 0; k < 2; k++) {
		begin(1, 8, 0, 0, false);
		for (size_t i = 0; i < MANY; i++) {
			all[i] = get(FIBER_STACK_MIN, kinds[k]);
			memset(all[i]->low, 1, all[i]->size);
		}
		for (size_t i = 0; i < MANY; i += 2)
			put(all[i]);
		ck_assert_uint_eq(count().cached, 0);
		/* P1: for slabs, all pages except the one with the canary of the next stack. */
		ck_assert_uint_le(resident(), MANY / 2 * (FIBER_STACK_MIN / PAGE + k) + 8);
		for (size_t i = 1; i < MANY; i += 2)
			ck_assert(fiber_stack_intact(all[i]));
		for (size_t i = 0; i < MANY; i += 2) {
			all[i] = get(FIBER_STACK_MIN, kinds[k]);
			ck_assert(all[i]->fresh);
			for (size_t at = 0; at < all[i]->size; at++)
				if (all[i]->low[at])
					ck_abort_msg("stack %zu has a byte at %zu", i, at);
		}
		ck_assert_uint_eq(count().made, MANY);
		ck_assert_uint_eq(count().reused, MANY / 2);
		for (size_t i = 0; i < MANY; i++)
			put(all[i]);
		ck_assert_uint_eq(resident(), 0);
		ck_assert_uint_eq(count().mapped, 0);
		end();
	}
}
END_TEST

/* Neighbours that are freed one after the other: no page of them is left. */
START_TEST(page_between_two_free_stacks_is_released_with_the_second)
{
	struct fiber_stack *all[8];

	begin(1, 1, 0, 0, false);
	for (size_t i = 0; i < 8; i++) {
		all[i] = get(FIBER_STACK_MIN, FIBER_STACK_SLAB);
		touch(all[i]);
	}
	ck_assert_uint_eq(resident(), 8 + 1);
	put(all[3]);
	ck_assert_uint_eq(resident(), 8 + 1); /* with the canary of 4 */
	put(all[4]);
	ck_assert_uint_eq(resident(), 7 + 1); /* with the canary of 5 */
	put(all[6]);
	put(all[5]);
	ck_assert_uint_eq(resident(), 5 + 1);
	put(all[7]); /* its own page stays: it does not know that there is no eighth stack */
	put(all[0]);
	put(all[1]);
	put(all[2]);
	ck_assert_uint_eq(resident(), 0);
	end();
}
END_TEST

static void chunk_serves_any_shape(bool protect)
{
	static struct fiber_stack *all[512];

	begin(1, 1, CHUNK, 0, protect);
	for (uint32_t round = 0; round < 3; round++)
		for (uint32_t k = 0; k < 2; k++)
			for (size_t size = FIBER_STACK_MIN; size <= FIBER_STACK_MAX; size *= 2) {
				int r;
				size_t n = get_all(size, kinds[k], all, 512, &r);

				ck_assert_int_eq(r, -ENOMEM);
				ck_assert_uint_ge(n, (CHUNK - size) / (size + PAGE));
				ck_assert_uint_eq(count().mapped, CHUNK);
				/* No guard is left where one was. */
				for (size_t i = 0; i < n; i++) {
					memset(all[i]->low, 1, all[i]->size);
					put(all[i]);
				}
				ck_assert_uint_eq(count().n_cached, n);
			}
	end();
}

START_TEST(free_chunk_is_cut_into_any_class)
{
	chunk_serves_any_shape(false);
	chunk_serves_any_shape(true);
}
END_TEST

/* ------------------------------------------------------------------------ high water */

START_TEST(high_water_is_the_deepest_write)
{
	begin(1, 2 * FIBER_STACK_SHAPES, 0, 0, false);
	for (int blind = 0; blind < 2; blind++) {
		fail_mincore = blind;
		for (uint32_t k = 0; k < 2; k++)
			for (size_t size = FIBER_STACK_MIN; size <= FIBER_STACK_MAX; size *= 4) {
				const size_t depths[] = { 8,	    64,	      PAGE - 64,    PAGE,
							  PAGE + 8, size / 2, size - CANARY };

				for (size_t i = 0; i < 7; i++) {
					struct fiber_stack *stack = get(size, kinds[k]);
					size_t pages = resident(), depth = depths[i];

					ck_assert(stack->fresh);
					ck_assert_uint_eq(fiber_stack_high_water(stack), 0);
					/* Reading the high water mark creates no pages. */
					if (!blind)
						ck_assert_uint_eq(resident(), pages);
					stack->low[stack->size - depth] = 1;
					ck_assert_uint_eq(fiber_stack_high_water(stack), depth);
					/* A read does not count as use. */
					ck_assert_int_eq(*(volatile char *)stack->low,
							 depth == stack->size);
					ck_assert_uint_eq(fiber_stack_high_water(stack), depth);
					stack->low[stack->size - 1] = 1;
					ck_assert_uint_eq(fiber_stack_high_water(stack), depth);
					put(stack);
				}
			}
	}
	end();
}
END_TEST

/* ------------------------------------------------------------------------ errors */

START_TEST(pages_that_cannot_be_released_stay)
{
	for (uint32_t k = 0; k < 2; k++) {
		struct fiber_stack *one, *two;

		begin(1, 1, 0, 0, false);
		one = get(1, kinds[k]);
		two = get(1, kinds[k]);
		touch(one);
		touch(two);
		fail_advice = MADV_DONTNEED;
		fail_errno = EINVAL;
		atomic_store(&n_advised, 0);
		put(one);
		ck_assert_uint_eq(atomic_load(&n_advised), 1);
		put(two);
		ck_assert_uint_eq(atomic_load(&n_advised), 3); /* the chunk, and then its stacks */
		fail_advice = 0;
		ck_assert_uint_eq(count().mapped, CHUNK);
		/* The stack that was put first has not been used since then, but it is not zero. */
		one = get(1, kinds[k]);
		two = get(1, kinds[k]);
		ck_assert(!one->fresh && !two->fresh);
		ck_assert_int_eq(one->low[one->size - 1], 1);
		ck_assert_int_eq(two->low[two->size - 1], 1);
		if (kinds[k] == FIBER_STACK_GUARDED)
			ck_assert(faults(one->low - 1) && faults(two->low - 1));
		put(one);
		put(two);
		/* This time madvise() succeeds. */
		ck_assert_uint_eq(count().mapped, 0);
		ck_assert_uint_eq(resident(), 0);
		end();
	}
}
END_TEST

START_TEST(failed_init_leaves_nothing)
{
	const struct fiber_stacks_options options = { .space = 2 * CHUNK },
					  little = { .space = CHUNK - 1 };

	fail_protect = -1;
	fail_map = -1;
	ck_assert_int_eq(fiber_stacks_init(&stacks, 0, &options), -EINVAL);
	ck_assert_int_eq(fiber_stacks_init(&stacks, 3, &options), -EINVAL);
	ck_assert_int_eq(fiber_stacks_init(&stacks, 1, &little), -EINVAL);
	fail_pages = true;
	ck_assert_int_eq(fiber_stacks_init(&stacks, 1, &options), -ENOTSUP);
	fail_pages = false;
	for (int i = 0; i < 3; i++) {
		fail_map = i;
		ck_assert_int_eq(fiber_stacks_init(&stacks, 2, &options), -ENOMEM);
		ck_assert_ptr_null(stacks.base);
		ck_assert_ptr_null(stacks.stacks);
		ck_assert_ptr_null(stacks.chunks);
		ck_assert_ptr_null(stacks.nodes);
	}
	fail_map = -1;
	ck_assert_int_eq(fiber_stacks_init(&stacks, 2, &options), 0);
	put(get_on(1, 1, FIBER_STACK_GUARDED));
	end();
}
END_TEST

/* ------------------------------------------------------------------------ several threads */

#define RUNNERS 4u
#define PLACES	16u

#ifdef FK_SANITIZE
#define TURNS 2000u
#else
#define TURNS 20000u
#endif

static struct fiber_stack *_Atomic places[PLACES]; /* any thread may put them back */
static _Atomic uint32_t refusals;

/* Writes and checks both ends of a stack that the thread owns. */
static void own(struct fiber_stack *stack)
{
	*(uint64_t *)(void *)stack->low = (uintptr_t)stack;
	*(uint64_t *)(void *)(stack->low + stack->size - 8) = (uintptr_t)stack;
}

static void owned(struct fiber_stack *stack)
{
	ck_assert(fiber_stack_intact(stack));
	ck_assert_uint_eq(*(uint64_t *)(void *)stack->low, (uintptr_t)stack);
	ck_assert_uint_eq(*(uint64_t *)(void *)(stack->low + stack->size - 8), (uintptr_t)stack);
}

static void *runner(void *arg)
{
	uint64_t seed = (uintptr_t)arg + 1;

	for (uint32_t i = 0; i < TURNS; i++) {
		uint64_t r = xorshift64(&seed);
		struct fiber_stack *stack = NULL, *old;

		if (fiber_stack_get(&stacks, r % 2, FIBER_STACK_MIN << r / 2 % 3, r / 8 % 2,
				    &stack) == 0)
			own(stack);
		else
			atomic_fetch_add(&refusals, 1);
		old = atomic_exchange(&places[r / 16 % PLACES], stack);
		if (!old)
			continue;
		owned(old);
		put(old);
	}
	return NULL;
}

static void run(void *(*call)(void *), uint32_t n)
{
	pthread_t threads[RUNNERS];

	for (uintptr_t i = 0; i < n; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, call, (void *)i), 0);
	for (uint32_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* Any thread puts back stacks of any thread, with a cache that is always too small. */
START_TEST(workers_share_the_stacks)
{
	static struct fiber_stack *all[2 * 12 * 3];
	int r;

	for (int protect = 0; protect < 2; protect++) {
		begin(2, 12, 4 * FIBER_STACK_MIN, 0, protect);
		atomic_store(&refusals, 0);
		run(runner, RUNNERS);
		for (uint32_t i = 0; i < PLACES; i++)
			put(atomic_exchange(&places[i], NULL));
		ck_assert_uint_eq(atomic_load(&refusals), 0);
		ck_assert_uint_gt(count().reused, RUNNERS * TURNS / 2);
		ck_assert_uint_le(count().cached, 2 * 4 * FIBER_STACK_MIN);
		ck_assert_uint_gt(count().returned, 0);
		/* No chunk was lost: all of them can be cut into three again. */
		ck_assert_uint_eq(get_all(FIBER_STACK_MAX, FIBER_STACK_SLAB, all, 2 * 12 * 3, &r),
				  2 * 12 * 3);
		for (uint32_t i = 0; i < 2 * 12 * 3; i++)
			put(all[i]);
		end();
	}
}
END_TEST

static void *taker(void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < TURNS / 4; i++) {
		struct fiber_stack *stack;

		if (fiber_stack_get(&stacks, 0, FIBER_STACK_MAX, FIBER_STACK_SLAB, &stack)) {
			atomic_fetch_add(&refusals, 1);
			continue;
		}
		touch(stack);
		put(stack);
	}
	return NULL;
}

/* P2: each of three threads finds a stack, if one that is being released counts as available. */
START_TEST(stack_being_released_is_not_refused)
{
	begin(1, 1, 0, 0, false);
	atomic_store(&refusals, 0);
	atomic_store(&advised, YIELD);
	run(taker, 3);
	ck_assert_uint_eq(atomic_load(&refusals), 0);
	end();
}
END_TEST

static void *putter(void *arg)
{
	put(arg);
	return NULL;
}

/* One thread releases a part of a chunk while another puts the rest: the last one releases the
 * whole chunk. */
START_TEST(chunk_released_by_two_threads_is_released_whole)
{
	for (uint32_t k = 0; k < 2; k++) {
		struct fiber_stack *one, *two;
		pthread_t thread;

		begin(1, 1, 0, 0, false);
		one = get(FIBER_STACK_MIN, kinds[k]);
		two = get(FIBER_STACK_MIN, kinds[k]);
		touch(one);
		touch(two);
		atomic_store(&advised, HOLD);
		ck_assert_int_eq(pthread_create(&thread, NULL, putter, one), 0);
		while (atomic_load(&advised) != HELD)
			sched_yield();
		put(two);
		ck_assert_uint_eq(count().mapped, CHUNK);
		ck_assert_uint_eq(count().n_used, 0);
		atomic_store(&advised, GOES_ON);
		pthread_join(thread, NULL);
		ck_assert_uint_eq(count().mapped, 0);
		ck_assert_uint_eq(resident(), 0);
		end();
	}
}
END_TEST

CHECK_MAIN("fiber_stack")
