/* SPDX-License-Identifier: MIT */
/* modules/matmul.c, compiled in, with its memory counted. Numbers are small integers, so that every
 * order of addition gives the same result. */
#define CHECK_TIMEOUT 60

#include "tests/support/counted.h"

#include "modules/matmul.c"

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/shipped.h"

struct matmul_args {
	struct job_ref a, b, c;
	int64_t rows, inner, columns;
};

static struct matmul_args args_of(int64_t rows, int64_t inner, int64_t columns)
{
	uint64_t a = (uint64_t)(rows * inner) * 8, b = (uint64_t)(inner * columns) * 8;

	return (struct matmul_args){
		{ 8, a }, { 8 + a, b }, { 16 + a + b, (uint64_t)(rows * columns) * 8 },
		rows,	  inner,	columns,
	};
}

static double *at(struct job_ref ref)
{
	return (double *)(rig.heap + ref.offset);
}

static void fill(const struct matmul_args *args)
{
	uint64_t x = 88172645463325252u;

	for (uint64_t i = 0; i < args->a.size / 8; i++)
		at(args->a)[i] = (double)(xorshift64(&x) % 200) - 100;
	for (uint64_t i = 0; i < args->b.size / 8; i++)
		at(args->b)[i] = (double)(xorshift64(&x) % 200) - 100;
	/* In and around the result: none of it may be used as a sum. */
	memset((char *)at(args->c) - 8, 0xee, args->c.size + 16);
}

static void compare(int64_t rows, int64_t inner, int64_t columns)
{
	struct matmul_args args = args_of(rows, inner, columns);
	const double *a = at(args.a), *b = at(args.b), *c = at(args.c);
	static const uint64_t guard = 0xeeeeeeeeeeeeeeee;
	int wrong = 0;

	fill(&args);
	run("matmul:f64", &args, sizeof(args));
	nothing_is_left();
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++) {
			double sum = 0;

			for (int64_t k = 0; k < inner; k++)
				sum += a[i * inner + k] * b[k * columns + j];
			wrong += c[i * columns + j] != sum;
		}
	ck_assert_msg(wrong == 0, "%d x %d x %d: %d are wrong", (int)rows, (int)inner, (int)columns,
		      wrong);
	ck_assert_mem_eq(c - 1, &guard, 8);
	ck_assert_mem_eq(c + rows * columns, &guard, 8);
}

START_TEST(products_of_every_shape_are_correct_in_every_mode)
{
	static const int64_t shapes[][3] = {
		{ 1, 1, 1 },	{ 2, 3, 4 },	{ 6, 8, 8 },	  { 7, 9, 9 },	    { 5, 600, 7 },
		{ 193, 40, 5 }, { 3, 40, 257 }, { 200, 50, 300 }, { 192, 256, 20 }, { 385, 1, 30 },
		{ 0, 5, 5 },	{ 5, 5, 0 },	{ 5, 0, 5 },	  { 0, 0, 0 },
	};

	for_each_mode (m, &fk_module) {
		for (uint32_t i = 0; i < ARRAY_SIZE(shapes); i++)
			compare(shapes[i][0], shapes[i][1], shapes[i][2]);
	}
}
END_TEST

START_TEST(sizes_that_do_not_fit_are_an_error)
{
	static const int64_t shapes[][3] = {
		{ 3, 4, 6 },	     { 3, 5, 5 },
		{ 4, 4, 5 },	     { -3, -4, -5 },
		{ INT64_MIN, 4, 5 }, { INT64_C(1) << 61, 0, INT64_C(1) << 61 },
		{ 3, INT64_MAX, 5 }, { (INT64_C(1) << 61) + 3, 4, 5 },
	};
	struct matmul_args args;

	start_mode(1, &fk_module);
	for (uint32_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		args = args_of(3, 4, 5);
		args.rows = shapes[i][0];
		args.inner = shapes[i][1];
		args.columns = shapes[i][2];
		refused("matmul:f64", &args, sizeof(args), -EINVAL);
	}
}
END_TEST

/* Also kernels that this machine would not choose. */
START_TEST(every_kernel_gives_the_same_result)
{
	static struct bench bench __attribute__((aligned(ALIGNMENT)));
	static kernel_function *const kernels[] = {
		kernel_128,
#ifdef __x86_64__
		kernel_256,
		kernel_512,
#endif
	};
	const bool runs[] = {
		true,
#ifdef __x86_64__
		__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
		__builtin_cpu_supports("avx512f"),
#endif
	};
	uint64_t x = 88172645463325252u;

	for (int k = 0; k < BLOCK; k++) {
		for (int i = 0; i < KERNEL_ROWS; i++)
			bench.a[0][k][i] = (double)(xorshift64(&x) % 200) - 100;
		for (int j = 0; j < KERNEL_COLUMNS; j++)
			bench.b[0][k][j] = (double)(xorshift64(&x) % 200) - 100;
	}
	for (size_t f = 0; f < ARRAY_SIZE(kernels); f++) {
		if (!runs[f])
			continue;
		kernels[f](bench.c[0], bench.a[0][0], bench.b[0][0], BLOCK - 1);
		for (int i = 0; i < KERNEL_ROWS; i++)
			for (int j = 0; j < KERNEL_COLUMNS; j++) {
				double sum = 0;

				for (int k = 0; k < BLOCK - 1; k++)
					sum += bench.a[0][k][i] * bench.b[0][k][j];
				ck_assert(bench.c[i][j] == sum);
			}
	}
}
END_TEST

CHECK_MAIN("matmul")
