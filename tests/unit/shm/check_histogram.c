/* SPDX-License-Identifier: MIT */
#include "shm/histogram.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "shm/board.h"
#include "tests/support/check_unit.h"

#define LAST (HISTOGRAM_BUCKETS - 1)
#define N    20000u

START_TEST(each_bucket_begins_where_the_one_before_it_ends)
{
	ck_assert_uint_eq(histogram_from(0), 0);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t from = histogram_from(i), until = histogram_from(i + 1);

		ck_assert_uint_lt(from, until);
		ck_assert_uint_eq(histogram_bucket(from), i);
		ck_assert_uint_eq(histogram_bucket(until - 1), i);
		ck_assert_uint_eq(histogram_bucket(from + (until - from) / 2), i);
	}
}
END_TEST

START_TEST(width_of_a_bucket_is_at_most_a_quarter_of_its_start)
{
	for (uint32_t i = 1u << HISTOGRAM_PARTS; i < LAST; i++)
		ck_assert_uint_le(histogram_from(i + 1) - histogram_from(i), histogram_from(i) / 4);
	/* From less than any job takes to hours. */
	ck_assert_uint_eq(histogram_from(1), 32);
	ck_assert_uint_ge(histogram_from(LAST), 2 * 3600 * NSEC_PER_SEC);
}
END_TEST

START_TEST(buckets_are_monotonic)
{
	uint64_t at = 1, before = 0;

	for (uint32_t i = 0; i < N; i++) {
		/* Steps of 0.1 %, and the numbers around each power of two. */
		at += at / 1000 + 1;
		ck_assert_uint_ge(histogram_bucket(at), histogram_bucket(before));
		before = at;
	}
	for (uint32_t k = 1; k < 64; k++) {
		uint64_t power = UINT64_C(1) << k;

		ck_assert_uint_le(histogram_bucket(power - 1), histogram_bucket(power));
		ck_assert_uint_le(histogram_bucket(power), histogram_bucket(power + 1));
	}
}
END_TEST

START_TEST(each_number_has_a_bucket)
{
	ck_assert_uint_eq(histogram_bucket(0), 0);
	ck_assert_uint_eq(histogram_bucket(31), 0);
	ck_assert_uint_eq(histogram_bucket(32), 1);
	ck_assert_uint_eq(histogram_bucket(histogram_from(LAST)), LAST);
	ck_assert_uint_eq(histogram_bucket(histogram_from(LAST) * 2), LAST);
	ck_assert_uint_eq(histogram_bucket(INT64_MAX), LAST);
	ck_assert_uint_eq(histogram_bucket(UINT64_MAX), LAST);
	ck_assert_uint_eq(histogram_from(HISTOGRAM_BUCKETS), UINT64_MAX);
}
END_TEST

START_TEST(powers_of_two_are_bucket_bounds)
{
	struct histogram_sum h = { 0 };
	uint64_t sum = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		h.counts[i] = i + 1;
	for (uint32_t k = HISTOGRAM_UNIT + HISTOGRAM_PARTS; k < 43; k++) {
		uint32_t bucket = histogram_bucket(UINT64_C(1) << k);

		ck_assert_uint_eq(histogram_from(bucket), UINT64_C(1) << k);
		sum = 0;
		for (uint32_t i = 0; i < bucket; i++)
			sum += i + 1;
		ck_assert_uint_eq(histogram_below(&h, k), sum);
	}
}
END_TEST

/* ------------------------------------------------------------------------ quantiles */

static void count(struct histogram_sum *h, uint64_t ns)
{
	h->n++;
	h->sum_ns += ns;
	h->max_ns = max(h->max_ns, ns);
	h->counts[histogram_bucket(ns)]++;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

START_TEST(quantiles_are_exact_to_a_quarter)
{
	static const double parts[] = { 0.001, 0.1, 0.5, 0.9, 0.99, 0.999 };
	static uint64_t all[N];
	struct histogram_sum h = { 0 };
	uint64_t last = 0;

	srandom(1);
	for (uint32_t i = 0; i < N; i++) {
		/* From 256 ns to an hour, as many in each octave. */
		uint64_t octave = UINT64_C(256) << random() % 33;

		all[i] = octave + (uint64_t)random() % octave;
		count(&h, all[i]);
	}
	qsort(all, N, sizeof(all[0]), by_size);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		uint64_t exact = all[(uint32_t)(parts[i] * N + 0.5) - 1];
		uint64_t is = histogram_quantile(&h, parts[i]);

		ck_assert_uint_ge(is, exact - exact / 4);
		ck_assert_uint_le(is, exact + exact / 4);
		ck_assert_uint_ge(is, last);
		last = is;
	}
	ck_assert_uint_eq(histogram_quantile(&h, 1), all[N - 1]);
	ck_assert_uint_le(histogram_quantile(&h, 0), all[0]);
}
END_TEST

START_TEST(quantile_of_an_empty_histogram_is_0_and_at_most_the_maximum)
{
	struct histogram_sum h = { 0 };

	ck_assert_uint_eq(histogram_quantile(&h, 0.5), 0);
	count(&h, 1000001);
	ck_assert_uint_le(histogram_quantile(&h, 0.5), 1000001);
	ck_assert_uint_eq(histogram_quantile(&h, 1), 1000001);
	/* The last bucket has no end. */
	count(&h, UINT64_MAX / 2);
	count(&h, UINT64_MAX / 2);
	ck_assert_uint_gt(histogram_quantile(&h, 0.99), histogram_from(LAST));
	ck_assert_uint_le(histogram_quantile(&h, 0.99), UINT64_MAX / 2);
	/* As a stray write may leave it. */
	h.max_ns = 0;
	ck_assert_uint_eq(histogram_quantile(&h, 0.99), 0);
	h.n = 100;
	ck_assert_uint_eq(histogram_quantile(&h, 0.99), 0);
}
END_TEST

START_TEST(difference_is_what_has_been_counted_since)
{
	struct histogram_sum before = { 0 }, now, since = { 0 };

	for (uint32_t i = 0; i < 100; i++)
		count(&before, 1000000 + i);
	now = before;
	for (uint64_t ns = 300; ns < 5000; ns += 100) {
		count(&now, ns);
		count(&since, ns);
	}
	histogram_subtract(&now, &before);
	ck_assert_uint_eq(now.n, since.n);
	ck_assert_uint_eq(now.sum_ns, since.sum_ns);
	ck_assert_mem_eq(now.counts, since.counts, sizeof(now.counts));
	/* Not the earlier million. */
	ck_assert_uint_ge(now.max_ns, 4900);
	ck_assert_uint_le(now.max_ns, 4900 + 4900 / 4);
	/* For a new tenant in the same slot no count is negative. */
	histogram_subtract(&now, &before);
	ck_assert_uint_le(now.n, since.n);
	histogram_subtract(&now, &now);
	ck_assert_uint_eq(now.n + now.sum_ns + now.max_ns, 0);
}
END_TEST

/* ------------------------------------------------------------------------ on the board */

START_TEST(histograms_of_workers_add_up)
{
	static struct board board;
	struct histogram_sum h = { .n = 77 };

	board.manager.n_workers = 2;
	ck_assert(!board_read_time(&board, 3, TIMES_RUN, &h));
	ck_assert_uint_eq(h.n, 77);
	board.tenants[3].since_ns = 1;
	ck_assert(board_read_time(&board, 3, TIMES_RUN, &h));
	ck_assert_uint_eq(h.n, 0);
	for (uint32_t w = 0; w < 3; w++) {
		board.times[3][w].counts[TIMES_RUN][10] = 5;
		board.times[3][w].counts[TIMES_WAIT][10] = 1;
		board.times[3][w].sum_ns[TIMES_RUN] = 100;
		board.times[3][w].max_ns[TIMES_RUN] = 20 - w;
		board.times[4][w].counts[TIMES_RUN][10] = 9;
	}
	/* There is no third worker. */
	ck_assert(board_read_time(&board, 3, TIMES_RUN, &h));
	ck_assert_uint_eq(h.n, 10);
	ck_assert_uint_eq(h.counts[10], 10);
	ck_assert_uint_eq(h.sum_ns, 200);
	ck_assert_uint_eq(h.max_ns, 20);
	ck_assert(board_read_time(&board, 3, TIMES_WAIT, &h));
	ck_assert_uint_eq(h.n, 2);
	/* A task may have overwritten it. */
	board.manager.n_workers = UINT32_MAX;
	ck_assert(board_read_time(&board, 3, TIMES_RUN, &h));
	ck_assert_uint_eq(h.n, 15);
}
END_TEST

CHECK_MAIN("histogram")
