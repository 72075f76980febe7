/* SPDX-License-Identifier: MIT */
/*
 * shm/histogram.h - how often which time: buckets that are four to a doubling
 *
 * Log-linear buckets, as in Gil Tene's HdrHistogram: an octave is cut into 2^HISTOGRAM_PARTS equal
 * parts, so a bucket is as wide as a quarter of its lower bound at most, and is found without a
 * table or a loop. Below the first octave the parts continue down to 0. With powers of two alone a
 * 99th percentile would be known to a factor of two; with four parts it is known to a quarter,
 * before it is interpolated, and 148 buckets go from 32 ns to two hours. Octaves begin at powers of
 * two: a reader that wants fewer buckets adds up four of them. Those of several workers or users
 * add up as well.
 *
 * 	bucket	0	1	2	... 7	8	9	...	147
 * 	from	0	32 ns	64 ns	... 224	256	320	...	2.1 h, and all beyond
 *
 * Threads: histogram_bucket(): workers, at each job's end. The rest: readers, any thread.
 *
 * INVARIANTS
 *   I1. histogram_from(histogram_bucket(ns)) <= ns, and of the next bucket it is > ns, unless that
 *       is the last: it has no end.
 */
#pragma once

#include <stdint.h>

#define HISTOGRAM_UNIT	  5u /* the first buckets are 2^5 ns wide */
#define HISTOGRAM_PARTS	  2u /* 2^2 buckets an octave */
#define HISTOGRAM_BUCKETS 148u

/* What was counted, for readers. */
struct histogram_sum {
	uint64_t n;
	uint64_t sum_ns;
	uint64_t max_ns;
	uint64_t counts[HISTOGRAM_BUCKETS];
};

/* The bucket of a time. */
static inline uint32_t histogram_bucket(uint64_t ns)
{
	uint64_t units = ns >> HISTOGRAM_UNIT;
	/* The octave's number, from 0 on; the first has what is below it, too. */
	uint32_t octave =
		63 - HISTOGRAM_PARTS - (uint32_t)__builtin_clzll(units | 1u << HISTOGRAM_PARTS);
	uint32_t bucket = (octave << HISTOGRAM_PARTS) + (uint32_t)(units >> octave);

	return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* Where a bucket begins, in ns; UINT64_MAX for HISTOGRAM_BUCKETS, where the last one ends. */
uint64_t histogram_from(uint32_t bucket);

/*
 * The time, in ns, that a part q of all, 0 to 1, does not exceed: of the nearest rank, interpolated
 * within its bucket. 0 if nothing was counted.
 */
uint64_t histogram_quantile(const struct histogram_sum *h, double q);

/* How many are less than 2^octave ns. octave: HISTOGRAM_UNIT + HISTOGRAM_PARTS at least. */
uint64_t histogram_below(const struct histogram_sum *h, uint32_t octave);

/* What has been counted since `before`, which was read earlier. The largest is known as far as its
 * bucket is. */
void histogram_subtract(struct histogram_sum *h, const struct histogram_sum *before);
