/* SPDX-License-Identifier: MIT */
/*
 * modules/matmul.c - the product of two matrices of doubles
 *
 * c = a b, all row by row. The result is divided into tiles. A tile is summed up in blocks of the
 * inner side, each of which is a leaf. A leaf copies its parts of a and b into the order of their
 * use, so that they stay in the cache. Then it multiplies them with a kernel that holds 6 by 8
 * numbers in registers. (Goto and van de Geijn, Anatomy of high-performance matrix multiplication,
 * 2008.) The compiler makes the kernel for three generations of processors.
 *
 * Why no BLAS of Debian: without memory OpenBLAS (0.3.21) retries forever, and BLIS (0.9) ends the
 * process; here only the job fails. On one CPU this code takes a third longer than OpenBLAS.
 *
 * INVARIANTS
 *   I1. The buffers are the client's own memory, and may change at any moment. All addresses follow
 *       from the sizes, which are arguments.
 *   I2. Products are added in the order of the inner side. So results are the same on any number of
 *       workers; between processors they differ in rounding.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/algorithm.h>

#include "modules/spare.h"

/* The rows and columns of a kernel, in registers. */
#define KERNEL_ROWS    6
#define KERNEL_COLUMNS 8

/* The size of a tile, and of a block of the inner side: a leaf of a millisecond or two. */
#define TILE_ROWS    192
#define TILE_COLUMNS 256
#define BLOCK	     256

/* c = a b: n columns of a, each of KERNEL_ROWS numbers, and n rows of b of KERNEL_COLUMNS; for
 * processors with registers of `lanes` numbers. b and c are aligned to them. */
#define KERNEL(name, lanes)                                                                        \
	static void name(double *restrict c, const double *restrict a, const double *restrict b,   \
			 int64_t n)                                                                \
	{                                                                                          \
		typedef double vector __attribute__((vector_size((lanes) * sizeof(double))));      \
		enum { PARTS = KERNEL_COLUMNS / (lanes) };                                         \
		vector sums[KERNEL_ROWS][PARTS] = { 0 };                                           \
                                                                                                   \
		for (int64_t k = 0; k < n; k++, a += KERNEL_ROWS, b += KERNEL_COLUMNS)             \
			for (int i = 0; i < KERNEL_ROWS; i++)                                      \
				for (int j = 0; j < PARTS; j++)                                    \
					sums[i][j] += a[i] * ((const vector *)(const void *)b)[j]; \
		memcpy(c, sums, sizeof(sums));                                                     \
	}

#ifdef __x86_64__
__attribute__((target("avx512f"))) KERNEL(kernel_512, 8) __attribute__((target("avx2,fma")))
KERNEL(kernel_256, 4)
#endif
	KERNEL(kernel_128, 2)

		typedef void kernel_function(double *restrict c, const double *restrict a,
					     const double *restrict b, int64_t n);

static kernel_function *choose_kernel(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512f"))
		return kernel_512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return kernel_256;
#endif
	return kernel_128;
}

struct product {
	const double *a;
	const double *b;
	double *c;
	int64_t rows;
	int64_t inner;
	int64_t columns;
	int64_t across; /* tiles side by side */
	kernel_function *kernel;
	struct spare benches;
};

/* Parts of a and b in the order in which the kernel reads them, and its result. */
struct bench {
	double b[TILE_COLUMNS / KERNEL_COLUMNS][BLOCK][KERNEL_COLUMNS];
	double c[KERNEL_ROWS][KERNEL_COLUMNS];
	double a[TILE_ROWS / KERNEL_ROWS][BLOCK][KERNEL_ROWS];
};

#define ALIGNMENT 64 /* of a register */
_Static_assert(sizeof(((struct bench *)0)->b) % ALIGNMENT == 0, "c is aligned");
_Static_assert(sizeof(struct bench) % ALIGNMENT == 0, "aligned_alloc() wants this");

static int64_t lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Missing rows are 0. */
static void pack_a(const struct product *p, struct bench *bench, int64_t row, int64_t rows,
		   int64_t k, int64_t n)
{
	static const double zeros[BLOCK];

	for (int64_t i = 0; i < rows; i += KERNEL_ROWS) {
		const double *from[KERNEL_ROWS];

		for (int r = 0; r < KERNEL_ROWS; r++)
			from[r] = i + r < rows ? p->a + (row + i + r) * p->inner + k : zeros;
		for (int64_t j = 0; j < n; j++)
			for (int r = 0; r < KERNEL_ROWS; r++)
				bench->a[i / KERNEL_ROWS][j][r] = from[r][j];
	}
}

/* Missing columns have any values: their sums are not used. */
static void pack_b(const struct product *p, struct bench *bench, int64_t column, int64_t columns,
		   int64_t k, int64_t n)
{
	for (int64_t i = 0; i < columns; i += KERNEL_COLUMNS) {
		const double *from = p->b + k * p->columns + column + i;
		double(*to)[KERNEL_COLUMNS] = bench->b[i / KERNEL_COLUMNS];

		if (columns - i >= KERNEL_COLUMNS)
			for (int64_t j = 0; j < n; j++)
				memcpy(to[j], from + j * p->columns, sizeof(to[j]));
		else
			for (int64_t j = 0; j < n; j++)
				memcpy(to[j], from + j * p->columns,
				       (size_t)(columns - i) * sizeof(double));
	}
}

/* Adds the first rows and columns of a kernel's result to c; the first block stores them. */
static inline __attribute__((always_inline)) void add_sums(double *c, int64_t stride,
							   const double (*sums)[KERNEL_COLUMNS],
							   int64_t rows, int64_t columns,
							   bool first)
{
	for (int64_t i = 0; i < rows; i++, c += stride)
		for (int64_t j = 0; j < columns; j++)
			c[j] = first ? sums[i][j] : c[j] + sums[i][j];
}

/* Adds a block of the inner side, from k on, to tile i; the first block initializes it. */
static int add_block(struct product *p, int64_t i, int64_t k)
{
	int64_t row = i / p->across * TILE_ROWS;
	int64_t column = i % p->across * TILE_COLUMNS;
	int64_t rows = lesser(TILE_ROWS, p->rows - row);
	int64_t columns = lesser(TILE_COLUMNS, p->columns - column);
	int64_t n = lesser(BLOCK, p->inner - k);
	struct bench *bench = spare_take(&p->benches);
	double *c;

	if (!bench)
		bench = aligned_alloc(ALIGNMENT, sizeof(*bench));
	if (!bench)
		return -ENOMEM;
	pack_a(p, bench, row, rows, k, n);
	pack_b(p, bench, column, columns, k, n);
	for (int64_t x = 0; x < columns; x += KERNEL_COLUMNS)
		for (int64_t y = 0; y < rows; y += KERNEL_ROWS) {
			p->kernel(bench->c[0], bench->a[y / KERNEL_ROWS][0],
				  bench->b[x / KERNEL_COLUMNS][0], n);
			c = p->c + (row + y) * p->columns + column + x;
			if (rows - y >= KERNEL_ROWS && columns - x >= KERNEL_COLUMNS)
				add_sums(c, p->columns, bench->c, KERNEL_ROWS, KERNEL_COLUMNS, !k);
			else
				add_sums(c, p->columns, bench->c, lesser(KERNEL_ROWS, rows - y),
					 lesser(KERNEL_COLUMNS, columns - x), !k);
		}
	if (!spare_give(&p->benches, bench))
		free(bench);
	return 0;
}

FK_LEAF_TASK(fk_void, block, (struct product *, p, int64_t, i, int64_t, k))
{
	int err = add_block(p, i, k);

	if (err)
		FK_LEAF_FAIL(err);
}

/* Tiles from one on to before another. */
FK_TASK(fk_void, tiles, (struct product *, p, int64_t, from, int64_t, to), int64_t k;)
{
	if (from == to)
		FK_LEAF();
}
FK_BODY(tiles)
{
	if (self->to - self->from > 1) {
		FK_INVOKE((void, tiles, self->p, self->from, (self->from + self->to) / 2),
			  (void, tiles, self->p, (self->from + self->to) / 2, self->to));
		FK_RETURN();
	}
	self->k = 0;
	do {
		FK_CALL_VOID(block, self->p, self->from, self->k);
		self->k += BLOCK;
	} while (self->k < self->p->inner);
	FK_RETURN();
}
FK_END(tiles)

static bool is_matrix(struct fk_buf data, int64_t rows, int64_t columns)
{
	uint64_t size;

	return rows >= 0 && columns >= 0 && !__builtin_mul_overflow(rows, columns, &size) &&
	       size <= UINT64_MAX / 8 && data.size == 8 * size;
}

static void product_fini(struct product *p)
{
	for (uint32_t i = 0; i < SPARE_MAX; i++)
		free(spare_take(&p->benches));
}

FK_DECLARE(fk_void, f64,
	   (struct fk_buf, a, struct fk_buf, b, struct fk_iobuf, c, int64_t, rows, int64_t, inner,
	    int64_t, columns),
	   struct product p;)
FK_UNWIND(f64)
{
	product_fini(&self->p);
}
FK_DEFINE_UNWIND(fk_void, f64,
		 (struct fk_buf, a, struct fk_buf, b, struct fk_iobuf, c, int64_t, rows, int64_t,
		  inner, int64_t, columns))
{
	if (!is_matrix(a, rows, inner) || !is_matrix(b, inner, columns) ||
	    !is_matrix(FK_BUF(c), rows, columns))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(f64)
{
	self->p = (struct product){
		.a = self->a.data,
		.b = self->b.data,
		.c = self->c.data,
		.rows = self->rows,
		.inner = self->inner,
		.columns = self->columns,
		.kernel = choose_kernel(),
		.across = (self->columns + TILE_COLUMNS - 1) / TILE_COLUMNS,
	};
	FK_CALL_VOID(tiles, &self->p, 0, (self->rows + TILE_ROWS - 1) / TILE_ROWS * self->p.across);
	product_fini(&self->p);
	FK_RETURN();
}
FK_END(f64)

FK_EXPORT(f64, FK_EXPORT_IN_PLACE, "c = a b: rows times inner numbers, and inner times columns")
FK_MODULE(matmul, "The product of two matrices")
