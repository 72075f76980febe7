/* SPDX-License-Identifier: MIT */
/*
 * modules/array.c - operations on large arrays of numbers: sums, statistics, histograms
 *
 * The algorithms of forkd/algorithm.h on buffers of int64_t and double, in the machine's byte
 * order, in place. Floating point results are the same on any number of workers (algorithm.h, I1).
 *
 * INVARIANTS
 *   I1. The buffers are the client's own memory, and may change at any moment. They determine no
 *       index and no end of a loop, except the bin of a histogram, from a number that is loaded
 *       once. The bin is checked before it is used.
 *   I2. A histogram's tables take at most as many bytes as its data and its counts together. So a
 *       client cannot make a large table with a small buffer.
 */
#include <errno.h>
#include <math.h>

#include <forkd/algorithm.h>

#include "modules/array.h"

#define HISTOGRAM_PART 8192u /* numbers that are counted into one table */
#define BLOCK	       2048  /* real numbers that a leaf adds up */
#define LANES	       16    /* of them at a time */

/* ---------------------------------------------------------------- sums */

static inline int64_t take_i64(int64_t sum, const int64_t *x)
{
	return fk_add_i64(sum, *x);
}

static inline double take_f64(double sum, const double *x)
{
	return sum + *x;
}

/* An addition of floating point numbers waits for the one before it, and compilers may not reorder
 * additions. So a block has LANES sums: sum i adds up the numbers i, i + LANES, and so on. The
 * bounds of a block depend only on the length of the array. */
struct arrays {
	const double *a;
	const double *b; /* NULL: all ones */
	int64_t n;
};

typedef double pair __attribute__((vector_size(16), aligned(8), may_alias));

static inline __attribute__((always_inline)) double sum_block(const double *a, const double *b,
							      int64_t n)
{
	pair sums[LANES / 2] = { 0 };
	double sum = 0;
	int64_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (int k = 0; k < LANES / 2; k++) {
			pair x = *(const pair *)(a + i + 2 * k);

			if (b)
				x *= *(const pair *)(b + i + 2 * k);
			sums[k] += x;
		}
	for (int k = 0; k < LANES / 2; k++)
		sum += sums[k][0] + sums[k][1];
	for (; i < n; i++)
		sum += b ? a[i] * b[i] : a[i];
	return sum;
}

static inline double take_block(double sum, int64_t i, struct arrays x)
{
	int64_t first = i * BLOCK;
	int64_t n = x.n - first < BLOCK ? x.n - first : BLOCK;

	/* Constants, so that the loop does not test them each time. */
	return sum +
	       (x.b ? sum_block(x.a + first, x.b + first, n) : sum_block(x.a + first, NULL, n));
}

static inline int64_t blocks(struct fk_buf data)
{
	return (int64_t)((data.size / 8 + BLOCK - 1) / BLOCK);
}

FK_FOLD(fold_i64, int64_t, int64_t, 0, take_i64, fk_add_i64)
FK_FOLD_RANGE(fold_f64, double, 0.0, take_block, fk_add_f64, struct arrays)
FK_SCAN(scan_i64, int64_t, int64_t, 0, take_i64, fk_add_i64)
FK_SCAN(scan_f64, double, double, 0.0, take_f64, fk_add_f64)

FK_TASK(int64_t, sum_i64, (struct fk_buf, data), int64_t sum;)
{
	if (!array_is_whole(data))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(sum_i64)
{
	FK_CALL(sum, fold_i64, self->data.data, self->data.size / 8, 0);
	FK_RETURN(self->sum);
}
FK_END(sum_i64)

FK_TASK(double, sum_f64, (struct fk_buf, data), double sum;)
{
	if (!array_is_whole(data))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(sum_f64)
{
	FK_CALL(sum, fold_f64, 0, blocks(self->data), 1,
		((struct arrays){ self->data.data, NULL, (int64_t)(self->data.size / 8) }));
	FK_RETURN(self->sum);
}
FK_END(sum_f64)

FK_TASK(int64_t, prefix_i64, (struct fk_iobuf, data), int64_t sum;)
{
	if (!array_is_whole(FK_BUF(data)))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(prefix_i64)
{
	FK_CALL(sum, scan_i64, self->data.data, self->data.data, self->data.size / 8, 0);
	FK_RETURN(self->sum);
}
FK_END(prefix_i64)

FK_TASK(double, prefix_f64, (struct fk_iobuf, data), double sum;)
{
	if (!array_is_whole(FK_BUF(data)))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(prefix_f64)
{
	FK_CALL(sum, scan_f64, self->data.data, self->data.data, self->data.size / 8, 0);
	FK_RETURN(self->sum);
}
FK_END(prefix_f64)

FK_TASK(double, dot_f64, (struct fk_buf, a, struct fk_buf, b), double sum;)
{
	if (!array_is_whole(a) || !array_is_whole(b) || a.size != b.size)
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(dot_f64)
{
	FK_CALL(sum, fold_f64, 0, blocks(self->a), 1,
		((struct arrays){ self->a.data, self->b.data, (int64_t)(self->a.size / 8) }));
	FK_RETURN(self->sum);
}
FK_END(dot_f64)

/* ---------------------------------------------------------------- statistics */

struct extremes {
	int64_t min;
	int64_t max;
};

static inline struct extremes widen(struct extremes seen, const int64_t *x)
{
	return (struct extremes){ fk_min_i64(seen.min, *x), fk_max_i64(seen.max, *x) };
}

static inline struct extremes widest(struct extremes a, struct extremes b)
{
	return (struct extremes){ fk_min_i64(a.min, b.min), fk_max_i64(a.max, b.max) };
}

FK_FOLD(extremes_i64, int64_t, struct extremes, ((struct extremes){ INT64_MAX, INT64_MIN }), widen,
	widest)

FK_TASK(struct extremes, minmax_i64, (struct fk_buf, data), struct extremes seen;)
{
	if (!array_is_whole(data))
		FK_LEAF_FAIL(-EINVAL);
	if (!data.size)
		FK_LEAF_FAIL(-ENODATA);
}
FK_BODY(minmax_i64)
{
	FK_CALL(seen, extremes_i64, self->data.data, self->data.size / 8, 0);
	FK_RETURN_VALUE(self->seen);
}
FK_END(minmax_i64)

struct range {
	double min;
	double max;
};

static inline struct range extend(struct range seen, const double *number)
{
	double x = *number;

	/* NaN is neither. */
	return (struct range){ x < seen.min ? x : seen.min, x > seen.max ? x : seen.max };
}

static inline struct range join(struct range a, struct range b)
{
	return (struct range){ a.min < b.min ? a.min : b.min, a.max > b.max ? a.max : b.max };
}

FK_FOLD(range_f64, double, struct range, ((struct range){ (double)INFINITY, -(double)INFINITY }),
	extend, join)

FK_TASK(struct range, minmax_f64, (struct fk_buf, data), struct range seen;)
{
	if (!array_is_whole(data))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(minmax_f64)
{
	FK_CALL(seen, range_f64, self->data.data, self->data.size / 8, 0);
	if (self->seen.min > self->seen.max)
		FK_FAIL(-ENODATA);
	FK_RETURN_VALUE(self->seen);
}
FK_END(minmax_f64)

/* For n numbers. squares: the sum of the squared distances from the mean. */
struct moments {
	int64_t n;
	double mean;
	double squares;
	double min;
	double max;
};

/* Welford, Note on a method for calculating corrected sums of squares and products, 1962. */
static inline struct moments observe(struct moments m, const double *number)
{
	double x = *number;
	double delta = x - m.mean;

	m.n++;
	m.mean += delta / (double)m.n;
	m.squares += delta * (x - m.mean);
	m.min = x < m.min ? x : m.min;
	m.max = x > m.max ? x : m.max;
	return m;
}

/* Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample
 * variances, 1979. */
static inline struct moments pool(struct moments a, struct moments b)
{
	double delta = b.mean - a.mean;
	double n = (double)a.n + (double)b.n;

	if (!a.n || !b.n)
		return a.n ? a : b;
	return (struct moments){
		.n = a.n + b.n,
		.mean = a.mean + delta * (double)b.n / n,
		.squares = a.squares + b.squares + delta * delta * (double)a.n * (double)b.n / n,
		.min = a.min < b.min ? a.min : b.min,
		.max = a.max > b.max ? a.max : b.max,
	};
}

FK_FOLD(moments_f64, double, struct moments,
	((struct moments){ 0, 0.0, 0.0, (double)INFINITY, -(double)INFINITY }), observe, pool)

struct statistics {
	int64_t n;
	double min;
	double max;
	double mean;
	double sd;
};

FK_TASK(struct statistics, stats_f64, (struct fk_buf, data), struct moments m;)
{
	if (!array_is_whole(data))
		FK_LEAF_FAIL(-EINVAL);
	if (!data.size)
		FK_LEAF_FAIL(-ENODATA);
}
FK_BODY(stats_f64)
{
	/* A step waits for its division. */
	FK_CALL(m, moments_f64, self->data.data, self->data.size / 8, FK_GRAIN(6));
	FK_RETURN(self->m.n, self->m.min, self->m.max, self->m.mean,
		  self->m.n > 1 ? sqrt(self->m.squares / (double)(self->m.n - 1)) : 0.0);
}
FK_END(stats_f64)

/* ---------------------------------------------------------------- in place */

static inline void multiply(double *x, double factor)
{
	*x *= factor;
}

FK_FOR_EACH(multiply_f64, double, multiply, double)

FK_TASK(fk_void, scale_f64, (struct fk_iobuf, data, double, factor), )
{
	if (!array_is_whole(FK_BUF(data)))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(scale_f64)
{
	FK_CALL_VOID(multiply_f64, self->data.data, self->data.size / 8, 0, self->factor);
	FK_RETURN();
}
FK_END(scale_f64)

/* ---------------------------------------------------------------- histogram */

/* Each part of the data has its own table: its bins, and the count of numbers outside of all. */
struct histogram {
	const void *data;
	int64_t *tables;
	int64_t *counts;
	int64_t n;
	int64_t parts;
	int64_t bins;
	double low; /* of real numbers, from low to high */
	double high;
	double scale;  /* bins to a unit */
	int64_t first; /* of integers: their number, from the first one on */
	uint64_t range;
	uint64_t step; /* in a bin */
};

/* Returns the bin of a number that is loaded once, or h->bins if it is in none. */
static inline int64_t bin_of_f64(const struct histogram *h, int64_t i)
{
	double x = ((const volatile double *)h->data)[i];
	double at = (x - h->low) * h->scale;

	if (!(x >= h->low && x < h->high))
		return h->bins;
	/* Rounding can give h->bins; infinite bounds can give NaN. */
	return at < (double)(h->bins - 1) ? (int64_t)at : h->bins - 1;
}

static inline int64_t bin_of_i64(const struct histogram *h, int64_t i)
{
	uint64_t at = (uint64_t)((const volatile int64_t *)h->data)[i] - (uint64_t)h->first;

	return at < h->range ? (int64_t)(at / h->step) : h->bins;
}

static inline __attribute__((always_inline)) void
count_part(int64_t part, const struct histogram *h,
	   int64_t (*bin_of)(const struct histogram *h, int64_t i))
{
	int64_t size = h->n / h->parts + 1;
	int64_t end = h->n - part * size < size ? h->n : (part + 1) * size;
	int64_t *table = h->tables + part * (h->bins + 1);

	for (int64_t i = part * size; i < end; i++)
		table[bin_of(h, i)]++;
}

static void count_part_f64(int64_t part, const struct histogram *h)
{
	count_part(part, h, bin_of_f64);
}

static void count_part_i64(int64_t part, const struct histogram *h)
{
	count_part(part, h, bin_of_i64);
}

/* Returns the count of a bin over all parts; h->bins: of the numbers in none. */
static int64_t sum_bin(const struct histogram *h, int64_t bin)
{
	int64_t sum = 0;

	for (int64_t part = 0; part < h->parts; part++)
		sum += h->tables[part * (h->bins + 1) + bin];
	return sum;
}

static void add_bin(int64_t bin, const struct histogram *h)
{
	h->counts[bin] = sum_bin(h, bin);
}

FK_FOR_RANGE(count_parts_f64, count_part_f64, const struct histogram *)
FK_FOR_RANGE(count_parts_i64, count_part_i64, const struct histogram *)
FK_FOR_RANGE(add_bins, add_bin, const struct histogram *)

static inline struct histogram make_histogram(struct fk_buf data, struct fk_iobuf counts)
{
	struct histogram h = {
		.data = data.data,
		.counts = counts.data,
		.n = (int64_t)(data.size / 8),
		.bins = (int64_t)(counts.size / 8),
	};

	h.parts = h.n / (HISTOGRAM_PART + h.bins) + 1;
	return h;
}

/* Owns the tables, and frees them on every path. */
FK_DECLARE(int64_t, histogram, (struct histogram, h, int64_t, of_integers), int64_t outside;)
FK_UNWIND(histogram)
{
	free(self->h.tables);
}
FK_DEFINE_UNWIND(int64_t, histogram, (struct histogram, h, int64_t, of_integers))
FK_NO_LEAF(histogram)
{
	self->h.tables = calloc((size_t)self->h.parts, (size_t)(self->h.bins + 1) * 8);
	if (!self->h.tables)
		FK_FAIL(-ENOMEM);
	if (self->of_integers)
		FK_CALL_VOID(count_parts_i64, 0, self->h.parts, 1, &self->h);
	else
		FK_CALL_VOID(count_parts_f64, 0, self->h.parts, 1, &self->h);
	FK_CALL_VOID(add_bins, 0, self->h.bins, FK_GRAIN(self->h.parts), &self->h);
	self->outside = sum_bin(&self->h, self->h.bins);
	free(self->h.tables);
	FK_RETURN(self->outside);
}
FK_END(histogram)

FK_TASK(int64_t, histogram_f64,
	(struct fk_buf, data, double, low, double, high, struct fk_iobuf, counts_i64),
	struct histogram h;
	int64_t outside;)
{
	if (!array_is_whole(data) || !array_is_whole(FK_BUF(counts_i64)) || !counts_i64.size ||
	    !(low < high) || !isfinite(low) || !isfinite(high))
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(histogram_f64)
{
	self->h = make_histogram(self->data, self->counts_i64);
	self->h.low = self->low;
	self->h.high = self->high;
	self->h.scale = (double)self->h.bins / (self->high - self->low);
	FK_CALL(outside, histogram, self->h, 0);
	FK_RETURN(self->outside);
}
FK_END(histogram_f64)

FK_TASK(int64_t, histogram_i64,
	(struct fk_buf, data, int64_t, low, int64_t, high, struct fk_iobuf, counts_i64),
	struct histogram h;
	int64_t outside;)
{
	if (!array_is_whole(data) || !array_is_whole(FK_BUF(counts_i64)) || !counts_i64.size ||
	    low >= high)
		FK_LEAF_FAIL(-EINVAL);
}
FK_BODY(histogram_i64)
{
	self->h = make_histogram(self->data, self->counts_i64);
	self->h.first = self->low;
	self->h.range = (uint64_t)self->high - (uint64_t)self->low;
	self->h.step = (self->h.range - 1) / (uint64_t)self->h.bins + 1;
	FK_CALL(outside, histogram, self->h, 1);
	FK_RETURN(self->outside);
}
FK_END(histogram_i64)

FK_EXPORT_RESULTS(sum_i64, (int64_t, sum), FK_EXPORT_IN_PLACE,
		  "The sum of 64-bit integers, modulo 2^64")
FK_EXPORT_RESULTS(sum_f64, (double, sum), FK_EXPORT_IN_PLACE,
		  "The sum of 64-bit floating point numbers")
FK_EXPORT_RESULTS(minmax_i64, (int64_t, min, int64_t, max), FK_EXPORT_IN_PLACE,
		  "The smallest and the largest of 64-bit integers")
FK_EXPORT_RESULTS(minmax_f64, (double, min, double, max), FK_EXPORT_IN_PLACE,
		  "The smallest and the largest of 64-bit floating point numbers, without NaN")
FK_EXPORT_RESULTS(stats_f64, (int64_t, n, double, min, double, max, double, mean, double, sd),
		  FK_EXPORT_IN_PLACE, "Extremes, mean and standard deviation (of a sample)")
FK_EXPORT_RESULTS(prefix_i64, (int64_t, sum), FK_EXPORT_IN_PLACE,
		  "Inclusive scan: each integer is replaced by the sum up to it, modulo 2^64")
FK_EXPORT_RESULTS(prefix_f64, (double, sum), FK_EXPORT_IN_PLACE,
		  "Inclusive scan: each number is replaced by the sum up to it")
FK_EXPORT_RESULTS(dot_f64, (double, sum), FK_EXPORT_IN_PLACE, "The dot product of two arrays")
FK_EXPORT(scale_f64, FK_EXPORT_IN_PLACE, "Multiplies each number by a factor")
FK_EXPORT_RESULTS(histogram_f64, (int64_t, outside), FK_EXPORT_IN_PLACE,
		  "Counts numbers in [low, high) into equal bins, one per integer of counts")
FK_EXPORT_RESULTS(histogram_i64, (int64_t, outside), FK_EXPORT_IN_PLACE,
		  "Counts integers in [low, high) into bins, one per integer of counts")
FK_MODULE(array, "Arrays of numbers: reduce (sums, extremes), scan (prefix sums), histograms")
