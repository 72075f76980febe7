/* SPDX-License-Identifier: MIT */
/* ref: for any reference of a client, the result is in its heap or NULL. */
#include "shm/ref.h"

#include <stdint.h>

#include "common/util.h"
#include "tests/support/check_unit.h"

#define HEAP_SIZE UINT64_C(4096)

static _Alignas(64) char heap[HEAP_SIZE];

static void *resolve(uint64_t offset, uint64_t size, uint64_t align)
{
	return ref_resolve(heap, HEAP_SIZE, (struct job_ref){ offset, size }, align);
}

/* The expected result of ref_resolve(), with numbers that cannot overflow. */
static int inside(uint64_t heap_size, struct job_ref ref, uint64_t align)
{
	unsigned __int128 end = (unsigned __int128)ref.offset + ref.size;

	return end <= heap_size && ref.offset % align == 0;
}

START_TEST(reference_inside_is_an_address_in_the_heap)
{
	ck_assert_ptr_eq(resolve(0, HEAP_SIZE, 8), heap);
	ck_assert_ptr_eq(resolve(64, 100, 8), heap + 64);
	ck_assert_ptr_eq(resolve(HEAP_SIZE - 1, 1, 1), heap + HEAP_SIZE - 1);
}
END_TEST

START_TEST(one_byte_too_many_is_refused)
{
	ck_assert_ptr_null(resolve(0, HEAP_SIZE + 1, 8));
	ck_assert_ptr_null(resolve(8, HEAP_SIZE - 7, 8));
	ck_assert_ptr_null(resolve(HEAP_SIZE, 1, 8));
}
END_TEST

START_TEST(empty_reference_at_the_end_is_valid_and_beyond_it_is_not)
{
	ck_assert_ptr_eq(resolve(HEAP_SIZE, 0, 8), heap + HEAP_SIZE);
	ck_assert_ptr_null(resolve(HEAP_SIZE + 8, 0, 8));
}
END_TEST

START_TEST(sum_that_wraps_is_refused)
{
	ck_assert_ptr_null(resolve(UINT64_MAX, 1, 1));
	ck_assert_ptr_null(resolve(1, UINT64_MAX, 1));
	ck_assert_ptr_null(resolve(UINT64_MAX - 7, 16, 8));
	ck_assert_ptr_null(resolve(UINT64_MAX, UINT64_MAX, 1));
	ck_assert_ptr_null(resolve(UINT64_C(1) << 63, UINT64_C(1) << 63, 8));
}
END_TEST

START_TEST(misaligned_offset_is_refused)
{
	for (uint64_t offset = 0; offset < 64; offset++)
		for (uint64_t align = 1; align <= 64; align *= 2)
			ck_assert_int_eq(resolve(offset, 8, align) != NULL, offset % align == 0);
}
END_TEST

START_TEST(empty_heap_has_only_empty_references)
{
	ck_assert_ptr_eq(ref_resolve(heap, 0, (struct job_ref){ 0, 0 }, 8), heap);
	ck_assert_ptr_null(ref_resolve(heap, 0, (struct job_ref){ 0, 1 }, 8));
	ck_assert_ptr_null(ref_resolve(heap, 0, (struct job_ref){ 8, 0 }, 8));
}
END_TEST

START_TEST(every_edge_agrees_with_wide_arithmetic)
{
	static const uint64_t centres[] = {
		0, 8, HEAP_SIZE, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX - 8
	};
	static const uint64_t heaps[] = { 0, 1, 8, 9, HEAP_SIZE };
	unsigned int agreed = 0, in = 0;

	for (size_t h = 0; h < ARRAY_SIZE(heaps); h++)
		for (size_t a = 0; a < ARRAY_SIZE(centres); a++)
			for (size_t b = 0; b < ARRAY_SIZE(centres); b++)
				for (unsigned int i = 0; i < 17 * 17 * 4; i++) {
					struct job_ref ref = { centres[a] - 8 + i % 17,
							       centres[b] - 8 + i / 17 % 17 };
					uint64_t align = UINT64_C(1) << (i / 289);
					int expected = inside(heaps[h], ref, align);
					void *p = ref_resolve(heap, heaps[h], ref, align);

					ck_assert_msg((p != NULL) == expected,
						      "heap %ju offset %ju size %ju align %ju",
						      (uintmax_t)heaps[h], (uintmax_t)ref.offset,
						      (uintmax_t)ref.size, (uintmax_t)align);
					agreed++;
					in += expected;
				}
	ck_assert_uint_eq(agreed, 5 * 6 * 6 * 17 * 17 * 4);
	ck_assert_uint_gt(in, 100);
}
END_TEST

CHECK_MAIN("ref")
