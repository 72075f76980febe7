/* SPDX-License-Identifier: MIT */
/* check_heap.c - the allocator of the shared heap, compared with a plain model */
#define CHECK_SETUP    begin
#define CHECK_TEARDOWN end

#include "client/lib/heap.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/client.h>

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/threads.h"

#define SIZE (1u << 20)

/* With memory on both sides that is not part of the heap. */
static _Alignas(64) char space[64 + SIZE + 64];
static char *const memory = space + 64;

static struct heap heap;

static void begin(void)
{
	heap_init(&heap, memory, SIZE, SIZE);
}

static void end(void)
{
	heap_fini(&heap);
}

START_TEST(blocks_are_aligned_disjoint_and_inside)
{
	char *blocks[64];

	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
		void *data;

		ck_assert_int_eq(heap_alloc(&heap, i * 37, &data), 0);
		ck_assert_uint_eq((uintptr_t)data % HEAP_ALIGN, 0);
		ck_assert(heap_contains(&heap, data, i * 37));
		blocks[i] = data;
		memset(blocks[i], (int)i, i * 37);
	}
	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
		for (size_t j = 0; j < i * 37; j++)
			ck_assert_int_eq(blocks[i][j], (char)i);
	}
}
END_TEST

START_TEST(all_blocks_merge_after_all_are_freed)
{
	void *blocks[256];
	void *all;

	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++)
		ck_assert_int_eq(heap_alloc(&heap, SIZE / 256, &blocks[i]), 0);
	ck_assert_int_eq(heap_alloc(&heap, 1, &all), -FK_E_HEAP_FULL);
	/* Every kind of merge: none, with the previous block, with the next, with both. */
	for (size_t i = 0; i < ARRAY_SIZE(blocks); i += 2)
		ck_assert_int_eq(heap_free(&heap, blocks[i]), 0);
	for (size_t i = 1; i < ARRAY_SIZE(blocks); i += 2)
		ck_assert_int_eq(heap_free(&heap, blocks[i]), 0);
	ck_assert_uint_eq(heap_used(&heap), 0);
	ck_assert_int_eq(heap_alloc(&heap, SIZE, &all), 0);
	ck_assert_ptr_eq(all, memory);
}
END_TEST

START_TEST(free_of_an_unused_block_is_refused)
{
	void *a;
	void *b;
	void *c;

	/* The granule after a's last one is a separate block, so that the sizes alone would fit. */
	ck_assert_int_eq(heap_alloc(&heap, 3 * 64, &a), 0);
	ck_assert_int_eq(heap_alloc(&heap, 64, &b), 0);
	ck_assert_int_eq(heap_alloc(&heap, 3 * 64, &c), 0);
	for (int i = 1; i < 3 * 64; i++)
		ck_assert_int_eq(heap_free(&heap, (char *)a + i), -FK_E_NOT_ALLOCATED);
	ck_assert_int_eq(heap_free(&heap, memory - 64), -FK_E_NOT_ALLOCATED);
	ck_assert_int_eq(heap_free(&heap, memory + SIZE), -FK_E_NOT_ALLOCATED);
	ck_assert_int_eq(heap_free(&heap, &heap), -FK_E_NOT_ALLOCATED);
	ck_assert_int_eq(heap_free(&heap, b), 0);
	ck_assert_int_eq(heap_free(&heap, b), -FK_E_NOT_ALLOCATED);
	ck_assert_int_eq(heap_free(&heap, a), 0);
	ck_assert_int_eq(heap_free(&heap, b), -FK_E_NOT_ALLOCATED);
	ck_assert_int_eq(heap_free(&heap, a), -FK_E_NOT_ALLOCATED);
	ck_assert_int_eq(heap_free(&heap, c), 0);
}
END_TEST

START_TEST(impossible_sizes_fail_without_an_effect)
{
	void *data = &heap;

	ck_assert_int_eq(heap_alloc(&heap, SIZE + 1, &data), -FK_E_HEAP_FULL);
	ck_assert_int_eq(heap_alloc(&heap, SIZE_MAX, &data), -FK_E_HEAP_FULL);
	ck_assert_ptr_eq(data, &heap);
	ck_assert_int_eq(heap_alloc(&heap, SIZE, &data), 0);
	heap_fini(&heap);

	/* Less than a granule: an empty heap. */
	heap_init(&heap, memory, 63, 63);
	ck_assert_int_eq(heap_alloc(&heap, 1, &data), -FK_E_HEAP_FULL);
	ck_assert_int_eq(heap_free(&heap, memory), -FK_E_NOT_ALLOCATED);
}
END_TEST

START_TEST(contains_does_not_overflow)
{
	ck_assert(heap_contains(&heap, memory, SIZE));
	ck_assert(heap_contains(&heap, memory + SIZE, 0));
	ck_assert(!heap_contains(&heap, memory + SIZE, 1));
	ck_assert(!heap_contains(&heap, memory + 1, SIZE));
	ck_assert(!heap_contains(&heap, memory + 64, SIZE_MAX - 32));
	ck_assert(!heap_contains(&heap, memory - 1, 1));
	ck_assert(!heap_contains(&heap, NULL, 1));
}
END_TEST

/* Random operations, compared with a map of the owner of each byte. */
START_TEST(random_operations_keep_blocks_disjoint)
{
	static unsigned char owner[SIZE / 64];
	struct {
		char *data;
		size_t granules;
	} held[200] = { { 0 } };
	uint32_t random = 12345;
	uint64_t used = 0;

	for (int step = 0; step < 50000; step++) {
		size_t i;

		random = random * 1664525u + 1013904223u;
		i = (random >> 8) % ARRAY_SIZE(held);
		if (held[i].data) {
			size_t at = (size_t)(held[i].data - memory) / 64;

			memset(owner + at, 0, held[i].granules);
			if (heap_free(&heap, held[i].data))
				ck_abort_msg("not freed");
			used -= held[i].granules * 64;
			held[i].data = NULL;
		} else {
			size_t size = (random >> 16) % 20000 + 1;
			void *data;

			if (heap_alloc(&heap, size, &data))
				continue;
			held[i].data = data;
			held[i].granules = (size + 63) / 64;
			used += held[i].granules * 64;
			for (size_t g = 0; g < held[i].granules; g++) {
				size_t at = (size_t)(held[i].data - memory) / 64 + g;

				if (at >= SIZE / 64 || owner[at]++)
					ck_abort_msg("granule %zu was not free", at);
			}
		}
		if (heap_used(&heap) != used)
			ck_abort_msg("%zu in use", (size_t)heap_used(&heap));
	}
}
END_TEST

static void *alloc_and_free(void *number)
{
	for (int i = 0; i < 20000; i++) {
		size_t size = (size_t)(i % 97) * 64 + 8;
		uint64_t mine = (uintptr_t)&size ^ (uint64_t)i;
		void *data;

		if (heap_alloc(&heap, size, &data))
			return number;
		memcpy(data, &mine, sizeof(mine));
		memcpy((char *)data + size - 8, &mine, sizeof(mine));
		if (memcmp(data, &mine, sizeof(mine)) || heap_free(&heap, data))
			return number;
	}
	return NULL;
}

START_TEST(threads_may_share_a_heap)
{
	pthread_t threads[4];

	threads_start(threads, ARRAY_SIZE(threads), alloc_and_free);
	threads_join(threads, ARRAY_SIZE(threads));
	ck_assert_uint_eq(heap_used(&heap), 0);
}
END_TEST

/* heap_init() with a quarter of the memory, and grow() that gives a quarter more each time. */
static int grows;

static int grow_by_a_quarter(struct heap *growing, size_t size)
{
	grows++;
	if (heap_needs(growing, size) > growing->max)
		return -FK_E_USER_MEMORY;
	heap_extend(growing, growing->size + SIZE / 4);
	return 0;
}

static void begin_small(void)
{
	heap_fini(&heap);
	heap_init(&heap, memory, SIZE / 4, SIZE);
	heap.grow = grow_by_a_quarter;
	grows = 0;
}

START_TEST(a_heap_grows_until_a_block_fits)
{
	void *a, *b, *none = &heap;

	begin_small();
	ck_assert_int_eq(heap_alloc(&heap, SIZE / 8, &a), 0);
	ck_assert_int_eq(grows, 0);
	ck_assert(!heap_contains(&heap, memory + SIZE / 4, 1));
	/* The free end of the heap is a part of the block. */
	ck_assert_uint_eq(heap_needs(&heap, SIZE / 2), SIZE / 8 + SIZE / 2);
	ck_assert_int_eq(heap_alloc(&heap, SIZE / 2, &b), 0);
	ck_assert_int_eq(grows, 2);
	ck_assert_ptr_eq(b, memory + SIZE / 8);
	ck_assert(heap_contains(&heap, b, SIZE / 2));
	ck_assert(!heap_contains(&heap, memory + 3 * (SIZE / 4), 1));
	/* The error of grow(). */
	ck_assert_int_eq(heap_alloc(&heap, SIZE / 2, &none), -FK_E_USER_MEMORY);
	ck_assert_int_eq(heap_alloc(&heap, SIZE + 1, &none), -FK_E_HEAP_FULL);
	ck_assert_ptr_eq(none, &heap);
	ck_assert_int_eq(grows, 3);
	ck_assert_int_eq(heap_free(&heap, a), 0);
	ck_assert_int_eq(heap_free(&heap, b), 0);
	ck_assert_int_eq(heap_alloc(&heap, SIZE, &a), 0);
	ck_assert_ptr_eq(a, memory);
	ck_assert_uint_eq(heap_used(&heap), SIZE);
}
END_TEST

START_TEST(a_full_heap_grows_by_whole_blocks)
{
	void *blocks[4];

	begin_small();
	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
		ck_assert_int_eq(heap_alloc(&heap, SIZE / 4, &blocks[i]), 0);
		ck_assert_ptr_eq(blocks[i], memory + i * (SIZE / 4));
	}
	ck_assert_int_eq(grows, 3);
	/* Freed in another order, they are one block again. */
	ck_assert_int_eq(heap_free(&heap, blocks[1]), 0);
	ck_assert_int_eq(heap_free(&heap, blocks[3]), 0);
	ck_assert_int_eq(heap_free(&heap, blocks[0]), 0);
	ck_assert_int_eq(heap_free(&heap, blocks[2]), 0);
	ck_assert_int_eq(heap_alloc(&heap, SIZE, &blocks[0]), 0);
}
END_TEST

START_TEST(a_heap_never_grows_beyond_its_maximum_or_shrinks)
{
	begin_small();
	heap_extend(&heap, SIZE / 2 + 63);
	ck_assert_uint_eq(heap.size, SIZE / 2);
	heap_extend(&heap, SIZE / 4);
	ck_assert_uint_eq(heap.size, SIZE / 2);
	heap_extend(&heap, UINT64_MAX);
	ck_assert_uint_eq(heap.size, SIZE);
	ck_assert_uint_eq(heap_needs(&heap, SIZE), SIZE);
	ck_assert_uint_gt(heap_needs(&heap, SIZE + 1), SIZE);
	ck_assert_uint_gt(heap_needs(&heap, SIZE_MAX), SIZE);
}
END_TEST

START_TEST(an_empty_heap_may_grow)
{
	void *data;

	heap_fini(&heap);
	heap_init(&heap, memory, 0, SIZE);
	ck_assert_int_eq(heap_alloc(&heap, 1, &data), -FK_E_HEAP_FULL);
	heap_extend(&heap, SIZE);
	ck_assert_int_eq(heap_alloc(&heap, SIZE, &data), 0);
}
END_TEST

START_TEST(threads_may_share_a_heap_that_grows)
{
	pthread_t threads[4];

	begin_small();
	threads_start(threads, ARRAY_SIZE(threads), alloc_and_free);
	threads_join(threads, ARRAY_SIZE(threads));
	ck_assert_uint_eq(heap_used(&heap), 0);
}
END_TEST

CHECK_MAIN("heap")
