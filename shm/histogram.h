/* SPDX-License-Identifier: MIT */
/*
 * shm/histogram.h - histograms of times, with four buckets per octave
 *
 * Log-linear buckets, as in Gil Tene's HdrHistogram: an octave is divided into 2^HISTOGRAM_PARTS
 * equal parts. So a bucket is at most as wide as a quarter of its lower bound, and is found without
 * a table or a loop. Below the first octave the parts continue down to 0. A percentile is known
 * within a quarter before it is interpolated, and 148 buckets cover 32 ns to two hours. Octaves
 * begin at powers of two, so a reader that needs fewer buckets adds up four of them. Histograms of
 * several workers or users add up as well.
 *
 * 	bucket	0	1	2	... 7	8	9	...	147
 * 	from	0	32 ns	64 ns	... 224	256	320	...	2.1 h, and all beyond
 *
 * Threads: histogram_bucket(): workers, at each job's end. The rest: readers, any thread.
 *
 * INVARIANTS
 *   I1. histogram_from(histogram_bucket(ns)) <= ns, and histogram_from() of the next bucket is >
 *       ns, except for the last, which has no end.
 */
#pragma once

#include <stdint.h>

#define HISTOGRAM_UNIT	  5u /* the first buckets are 2^5 ns wide */
#define HISTOGRAM_PARTS	  2u /* 2^2 buckets an octave */
#define HISTOGRAM_BUCKETS 148u

/* Counts, for readers. */
struct histogram_sum {
	uint64_t n;
	uint64_t sum_ns;
	uint64_t max_ns;
	uint64_t counts[HISTOGRAM_BUCKETS];
};

/* Returns the bucket of a time. */
static inline uint32_t histogram_bucket(uint64_t ns)
{
	uint64_t units = ns >> HISTOGRAM_UNIT;
	/* The octave's number, from 0 on; the first includes all times below it. */
	uint32_t octave =
		63 - HISTOGRAM_PARTS - (uint32_t)__builtin_clzll(units | 1u << HISTOGRAM_PARTS);
	uint32_t bucket = (octave << HISTOGRAM_PARTS) + (uint32_t)(units >> octave);

	return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* Returns the lower bound of a bucket, in ns; UINT64_MAX for HISTOGRAM_BUCKETS. */
uint64_t histogram_from(uint32_t bucket);

/* Returns the quantile q, 0 to 1, in ns: by the nearest rank, interpolated within its bucket. 0 if
 * nothing was counted. */
uint64_t histogram_quantile(const struct histogram_sum *h, double q);

/* Returns the number of times below 2^octave ns. octave: HISTOGRAM_UNIT + HISTOGRAM_PARTS at least.
 */
uint64_t histogram_below(const struct histogram_sum *h, uint32_t octave);

/* Returns the counts since `before`, which was read earlier. The maximum is known to the width of
 * its bucket. */
void histogram_subtract(struct histogram_sum *h, const struct histogram_sum *before);
