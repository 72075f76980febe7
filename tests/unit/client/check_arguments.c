/* SPDX-License-Identifier: MIT */
/* check_arguments.c - arguments by a signature */
#include <errno.h>
#include <string.h>

#include "client/lib/client.h"
#include "tests/support/check_unit.h"

#define SIZE 65536u

static _Alignas(64) char memory[SIZE];
static struct heap heap;
static struct signature signature;
static uint8_t args[LIMIT_ARGS];

static void prepare(const char *text, uint64_t size)
{
	ck_assert_int_eq(heap_init(&heap, memory, size), 0);
	ck_assert_int_eq(signature_parse(text, &signature, NULL), 0);
	memset(args, 0xee, sizeof(args));
}

START_TEST(every_type_stands_at_its_offset)
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
	ck_assert_int_eq(args_pack(&heap, &signature, values, 5, args, &strings), 0);
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

START_TEST(strings_share_a_block_that_one_free_gives_back)
{
	union fk_value values[3] = { { .str = "one" }, { .str = "" }, { .str = "three" } };
	struct job_ref refs[3];
	void *strings;

	prepare("a:str, b:str, c:str ->", SIZE);
	ck_assert_int_eq(args_pack(&heap, &signature, values, 3, args, &strings), 0);
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

START_TEST(bad_values_are_refused_and_leave_nothing)
{
	union fk_value values[2] = { { .str = "text" }, { .buf = { memory, SIZE + 1 } } };
	char elsewhere[8];
	void *strings = &strings;

	prepare("a:str, b:buf ->", SIZE);
	ck_assert_int_eq(args_pack(&heap, &signature, values, 1, args, &strings), -EINVAL);
	ck_assert_int_eq(args_pack(&heap, &signature, values, 3, args, &strings), -EINVAL);
	ck_assert_int_eq(args_pack(&heap, &signature, values, 2, args, &strings), -EFAULT);
	values[1].buf = (struct fk_buffer){ elsewhere, 8 };
	ck_assert_int_eq(args_pack(&heap, &signature, values, 2, args, &strings), -EFAULT);
	values[1].buf = (struct fk_buffer){ memory + 64, 8 };
	values[0].str = NULL;
	ck_assert_int_eq(args_pack(&heap, &signature, values, 2, args, &strings), -EINVAL);
	ck_assert_ptr_eq(strings, &strings);
	ck_assert_uint_eq(heap_used(&heap), 0);
	heap_fini(&heap);
}
END_TEST

/* Tasks read numbers in them, and the pool refuses others (job_input.c). */
START_TEST(a_buffer_starts_at_a_multiple_of_eight)
{
	union fk_value values[2] = { { .str = "text" } };
	void *strings = &strings;
	struct fk_ref ref = { 1, 1 };

	prepare("a:str, b:iobuf ->", SIZE);
	for (size_t i = 0; i < 64; i++) {
		struct fk_buffer buffer = { memory + 128 + i, 8 };
		int err = i % 8 ? -EFAULT : 0;

		values[1].buf = buffer;
		ck_assert_int_eq(args_pack(&heap, &signature, values, 2, args, &strings), err);
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

START_TEST(an_empty_buffer_may_be_nowhere)
{
	union fk_value value = { .buf = { NULL, 0 } };
	struct job_ref ref;
	void *strings;

	prepare("b:buf ->", SIZE - 64);
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, args, &strings), 0);
	memcpy(&ref, args, sizeof(ref));
	ck_assert_uint_eq(ref.size, 0);
	/* Where the pool takes it. */
	ck_assert_uint_eq(ref.offset % 8, 0);
	ck_assert_uint_le(ref.offset, heap.size);
	value.buf.size = 1;
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, args, &strings), -EFAULT);
	value.buf = (struct fk_buffer){ memory + SIZE - 64, 0 };
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, args, &strings), 0);
	value.buf = (struct fk_buffer){ memory + SIZE - 56, 0 };
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, args, &strings), -EFAULT);
	heap_fini(&heap);
}
END_TEST

START_TEST(a_string_that_does_not_fit_is_no_memory)
{
	static char text[1000];
	union fk_value value = { .str = text };
	void *strings;

	prepare("a:str ->", 640);
	memset(text, 'x', sizeof(text) - 1);
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, args, &strings), -ENOMEM);
	text[639] = '\0';
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, args, &strings), 0);
	ck_assert_int_eq(args_pack(&heap, &signature, &value, 1, args, &strings), -ENOMEM);
	heap_fini(&heap);
}
END_TEST

CHECK_MAIN("arguments")
