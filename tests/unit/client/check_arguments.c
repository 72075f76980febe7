/* SPDX-License-Identifier: MIT */
/* check_arguments.c - arguments by a signature */
#include <errno.h>
#include <string.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "tests/support/check_unit.h"

#define SIZE 65536u

static _Alignas(64) char memory[SIZE];
static struct heap heap;
static struct signature signature;
static uint8_t args[LIMIT_ARGS];

static void prepare(const char *text, uint64_t size)
{
	heap_init(&heap, memory, size, size);
	ck_assert_int_eq(signature_parse(text, &signature, NULL), 0);
	memset(args, 0xee, sizeof(args));
}

START_TEST(each_type_is_stored_at_its_offset)
{
	union fk_value values[5] = { { .i64 = -7 }, { .str = "T1" }, { .f64 = 0.5 } };
	void *strings;
	void *data;
	struct job_ref ref;
	int64_t i;
	double x;

	prepare("n:i64, t:str, x:f64, d:buf, io:iobuf ->", SIZE);
	ck_assert_int_eq(heap_alloc(&heap, 100, &data), 0);
	values[3].buf = (struct fk_buffer){ data, 100 };
	values[4].buf = (struct fk_buffer){ (char *)data + 8, 10 };
	ck_assert_int_eq(args_pack(&heap, &signature, values, 5, 0, args, &strings), 0);
	memcpy(&i, args, 8);
	ck_assert_int_eq(i, -7);
	memcpy(&ref, args + 8, 16);
	ck_assert_uint_eq(ref.size, 2);
	ck_assert_str_eq(heap.base + ref.offset, "T1");
	ck_assert_ptr_eq(heap.base + ref.offset, strings);
	memcpy(&x, args + 24, 8);
	ck_assert_double_eq(x, 0.5);
	memcpy(&ref, args + 32, 16);
	ck_assert_ptr_eq(heap.base + ref.offset, data);
	ck_assert_uint_eq(ref.size, 100);
	memcpy(&ref, args + 48, 16);
	ck_assert_ptr_eq(heap.base + ref.offset, (char *)data + 8);
	ck_assert_uint_eq(ref.size, 10);
	ck_assert_uint_eq(args[64], 0xee);
	heap_fini(&heap);
}
END_TEST

START_TEST(strings_share_a_block_that_one_free_releases)
{
	union fk_value values[3] = { { .str = "one" }, { .str = "" }, { .str = "three" } };
	struct job_ref refs[3];
	void *strings;

	prepare("a:str, b:str, c:str ->", SIZE);
	ck_assert_int_eq(args_pack(&heap, &signature, values, 3, 0, args, &strings), 0);
	memcpy(refs, args, sizeof(refs));
	ck_assert_uint_eq(refs[1].offset, refs[0].offset + 4);
	ck_assert_uint_eq(refs[1].size, 0);
	ck_assert_str_eq(heap.base + refs[2].offset, "three");
	ck_assert_uint_eq(heap_used(&heap), 64);
	ck_assert_int_eq(heap_free(&heap, strings), 0);
	ck_assert_uint_eq(heap_used(&heap), 0);
	heap_fini(&heap);
}
END_TEST

START_TEST(invalid_values_are_refused_and_leave_nothing)
{
	union fk_value values[2] = { { .str = "text" }, { .buf = { memory, SIZE + 1 } } };
	char elsewhere[8];
	void *strings = &strings;

	prepare("a:str, b:buf ->", SIZE);
	ck_assert_int_eq(args_pack(&heap, &signature, values, 1, 0, args, &strings),
			 -FK_E_SIGNATURE);
	ck_assert_int_eq(args_pack(&heap, &signature, values, 3, 0, args, &strings),
			 -FK_E_SIGNATURE);
	ck_assert_int_eq(args_pack(&heap, &signature, values, 2, 0, args, &strings),
			 -FK_E_BUFFER_PARTLY);
	values[1].buf = (struct fk_buffer){ elsewhere, 8 };
	ck_assert_int_eq(args_pack(&heap, &signature, values, 2, 0, args, &strings),
			 -FK_E_BUFFER_OUTSIDE);
	values[1].buf = (struct fk_buffer){ memory + 64, 8 };
	values[0].str = NULL;
	ck_assert_int_eq(args_pack(&heap, &signature, values, 2, 0, args, &strings), -FK_E_NULL);
	ck_assert_ptr_eq(strings, &strings);
	ck_assert_uint_eq(heap_used(&heap), 0);
	heap_fini(&heap);
}
END_TEST

/* Tasks read numbers in buffers, and the pool refuses other alignments (job_input.c). */
START_TEST(buffer_starts_at_a_multiple_of_eight)
{
	union fk_value values[2] = { { .str = "text" } };
	void *strings = &strings;
	struct fk_ref ref = { 1, 1 };

	prepare("a:str, b:iobuf ->", SIZE);
	for (size_t i = 0; i < 64; i++) {
		struct fk_buffer buffer = { memory + 128 + i, 8 };
		int err = i % 8 ? -FK_E_BUFFER_ALIGN : 0;

		values[1].buf = buffer;
		ck_assert_int_eq(args_pack(&heap, &signature, values, 2, 0, args, &strings), err);
		if (err)
			ck_assert_uint_eq(heap_used(&heap), 0);
		else
			ck_assert_int_eq(heap_free(&heap, strings), 0);
		ref = (struct fk_ref){ 1, 1 };
		ck_assert_int_eq(args_buffer(&heap, buffer, &ref), err);
		ck_assert_uint_eq(ref.offset, err ? 1 : 128 + i);
		ck_assert_uint_eq(ref.size, err ? 1 : 8);
	}
	heap_fini(&heap);
}
END_TEST

START_TEST(empty_buffer_needs_no_valid_address)
{
	union fk_value value = { .buf = { NULL, 0 } };
	struct job_ref ref;
	void *strings;

	prepare("b:buf ->", SIZE - 64);
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, 0, args, &strings), 0);
	memcpy(&ref, args, sizeof(ref));
	ck_assert_uint_eq(ref.size, 0);
	/* An offset that the pool accepts. */
	ck_assert_uint_eq(ref.offset % 8, 0);
	ck_assert_uint_le(ref.offset, heap.size);
	value.buf.size = 1;
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, 0, args, &strings),
			 -FK_E_BUFFER_NULL);
	value.buf = (struct fk_buffer){ memory + SIZE - 64, 0 };
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, 0, args, &strings), 0);
	value.buf = (struct fk_buffer){ memory + SIZE - 56, 0 };
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, 0, args, &strings),
			 -FK_E_BUFFER_OUTSIDE);
	heap_fini(&heap);
}
END_TEST

START_TEST(string_that_does_not_fit_is_refused)
{
	static char text[1000];
	union fk_value value = { .str = text };
	void *strings;

	prepare("a:str ->", 640);
	memset(text, 'x', sizeof(text) - 1);
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, 0, args, &strings),
			 -FK_E_HEAP_FULL);
	text[639] = '\0';
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, 0, args, &strings), 0);
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, 0, args, &strings),
			 -FK_E_HEAP_FULL);
	heap_fini(&heap);
}
END_TEST

static void fill(char *data, size_t size, char first)
{
	for (size_t i = 0; i < size; i++)
		data[i] = (char)(first + (char)i);
}

static char *resolve(const struct fk_ref *ref)
{
	return heap.base + ref->offset;
}

START_TEST(copies_share_a_block_with_the_strings)
{
	char in[100], io[7], in_before[100], io_before[7];
	union fk_value values[3] = { { .str = "text" },
				     { .buf = { in, 100 } },
				     { .buf = { io, 7 } } };
	struct fk_ref refs[3];
	void *copied;

	prepare("a:str, b:buf, c:iobuf ->", SIZE);
	fill(in, sizeof(in), 'a');
	fill(io, sizeof(io), 'A');
	memcpy(in_before, in, sizeof(in));
	memcpy(io_before, io, sizeof(io));
	ck_assert_int_eq(args_pack(&heap, &signature, values, 3, 1, args, &copied), 0);
	memcpy(refs, args, sizeof(refs));
	ck_assert_str_eq(resolve(&refs[0]), "text");
	ck_assert_uint_eq(refs[1].size, 100);
	ck_assert_uint_eq(refs[1].offset % 64, 0);
	ck_assert_int_eq(memcmp(resolve(&refs[1]), in, 100), 0);
	ck_assert_uint_eq(refs[2].size, 7);
	ck_assert_uint_eq(refs[2].offset % 64, 0);
	ck_assert_int_eq(memcmp(resolve(&refs[2]), io, 7), 0);
	/* 5, to 64, 100, to 192, 7. */
	ck_assert_uint_eq(heap_used(&heap), 256);

	/* A task writes to all of the block, and only the iobuf is copied back. */
	memset(resolve(&refs[0]), 'x', 199);
	ck_assert_int_eq(memcmp(io, io_before, 7), 0);
	args_copy_back(&heap, copied);
	ck_assert_int_eq(memcmp(io, "xxxxxxx", 7), 0);
	ck_assert_int_eq(memcmp(in, in_before, 100), 0);
	args_free(&heap, copied);
	ck_assert_uint_eq(heap_used(&heap), 0);
	heap_fini(&heap);
}
END_TEST

START_TEST(memory_without_iobufs_does_not_outlive_its_record)
{
	char outside[16] = "abc";
	union fk_value values[2] = { { .str = "text" }, { .buf = { outside, 16 } } };
	void *copied;

	prepare("a:str, b:buf ->", SIZE);
	ck_assert_int_eq(args_pack(&heap, &signature, values, 2, 1, args, &copied), 0);
	ck_assert_uint_eq(heap_used(&heap), 128);
	ck_assert_ptr_null(args_keep(&heap, copied));
	ck_assert_uint_eq(heap_used(&heap), 0);
	ck_assert_ptr_null(args_keep(&heap, NULL));
	args_free(&heap, NULL);
	args_copy_back(&heap, NULL);

	ck_assert_int_eq(signature_parse("a:str, b:iobuf ->", &signature, NULL), 0);
	ck_assert_int_eq(args_pack(&heap, &signature, values, 2, 1, args, &copied), 0);
	ck_assert_ptr_eq(args_keep(&heap, copied), copied);
	ck_assert_uint_eq(heap_used(&heap), 128);
	args_copy_back(&heap, copied);
	ck_assert_str_eq(outside, "abc");
	args_free(&heap, copied);
	ck_assert_uint_eq(heap_used(&heap), 0);
	heap_fini(&heap);
}
END_TEST

START_TEST(buffers_in_the_heap_are_copied_only_if_misaligned)
{
	union fk_value value = { .buf = { memory + 128, 8 } };
	struct fk_ref ref;
	void *copied = &value;
	void *data;

	prepare("b:iobuf ->", SIZE);
	ck_assert_int_eq(heap_alloc(&heap, 256, &data), 0);
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, 1, args, &copied), 0);
	ck_assert_ptr_null(copied);
	memcpy(&ref, args, sizeof(ref));
	ck_assert_uint_eq(ref.offset, 128);

	value.buf.data = memory + 129;
	fill(memory + 129, 8, '1');
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, 1, args, &copied), 0);
	memcpy(&ref, args, sizeof(ref));
	ck_assert_uint_eq(ref.offset, 256);
	ck_assert_int_eq(memcmp(resolve(&ref), "12345678", 8), 0);
	resolve(&ref)[7] = '9';
	args_copy_back(&heap, copied);
	ck_assert_int_eq(memcmp(memory + 129, "12345679", 8), 0);
	args_free(&heap, copied);
	ck_assert_uint_eq(heap_used(&heap), 256);
	heap_fini(&heap);
}
END_TEST

START_TEST(buffers_that_cannot_be_copied_are_refused_and_leave_nothing)
{
	/* The heap is in the middle. */
	static _Alignas(64) char all[3 * 1024];
	char small[8];
	const struct {
		struct fk_buffer buffer;
		int err;
	} bad[] = {
		{ { NULL, 1 }, -FK_E_BUFFER_NULL },
		{ { all + 1023, 2 }, -FK_E_BUFFER_PARTLY },
		{ { all, sizeof(all) }, -FK_E_BUFFER_PARTLY },
		{ { all + 2047, 2 }, -FK_E_BUFFER_PARTLY },
		{ { all + 1024, SIZE_MAX }, -FK_E_BUFFER_PARTLY },
		{ { all + 2048, SIZE_MAX }, -FK_E_HEAP_FULL },
		{ { all, SIZE_MAX }, -FK_E_BUFFER_PARTLY },
		{ { all + 2048, 1024 }, -FK_E_HEAP_FULL },
	};
	union fk_value values[3] = { { .buf = { small, 8 } }, { .str = "text" } };
	void *copied = &values;

	prepare("a:iobuf, b:str, c:iobuf ->", SIZE);
	heap_fini(&heap);
	heap_init(&heap, all + 1024, 1024, 1024);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		values[2].buf = bad[i].buffer;
		ck_assert_int_eq(args_pack(&heap, &signature, values, 3, 1, args, &copied),
				 bad[i].err);
		ck_assert_uint_eq(heap_used(&heap), 0);
		ck_assert_ptr_eq(copied, &values);
	}
	/* The neighbours of the heap are not part of it. */
	values[2].buf = (struct fk_buffer){ all + 1000, 24 };
	ck_assert_int_eq(args_pack(&heap, &signature, values, 3, 1, args, &copied), 0);
	args_free(&heap, copied);
	values[2].buf = (struct fk_buffer){ all + 2048, 24 };
	ck_assert_int_eq(args_pack(&heap, &signature, values, 3, 1, args, &copied), 0);
	args_free(&heap, copied);
	heap_fini(&heap);
}
END_TEST

START_TEST(empty_buffer_outside_the_heap_needs_no_copy)
{
	char outside[8];
	union fk_value value = { .buf = { outside, 0 } };
	struct fk_ref ref;
	void *copied = &value;

	prepare("b:iobuf ->", SIZE);
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, 1, args, &copied), 0);
	ck_assert_ptr_null(copied);
	memcpy(&ref, args, sizeof(ref));
	ck_assert_uint_eq(ref.size, 0);
	ck_assert_uint_eq(ref.offset, 0);
	heap_fini(&heap);
}
END_TEST

CHECK_MAIN("arguments")
