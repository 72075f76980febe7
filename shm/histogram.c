/* SPDX-License-Identifier: MIT */
#include "shm/histogram.h"

#include "common/util.h"

uint64_t histogram_from(uint32_t bucket)
{
	uint32_t parts = 1u << HISTOGRAM_PARTS;
	uint32_t octave = bucket < parts ? 0 : (bucket >> HISTOGRAM_PARTS) - 1;

	if (bucket >= HISTOGRAM_BUCKETS)
		return UINT64_MAX;
	return (uint64_t)(bucket - octave * parts) << (octave + HISTOGRAM_UNIT);
}

/* The largest time that a bucket may have. */
static uint64_t histogram_until(const struct histogram_sum *h, uint32_t bucket)
{
	return min(histogram_from(bucket + 1), h->max_ns);
}

uint64_t histogram_quantile(const struct histogram_sum *h, double q)
{
	/* The nearest rank: the first bucket with which the counts reach a part q of all. */
	double rank = q * (double)h->n;
	uint64_t before = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t from = histogram_from(i), until = histogram_until(h, i);

		if (!h->counts[i] || (double)(before + h->counts[i]) < rank) {
			before += h->counts[i];
			continue;
		}
		if (until <= from)
			return until;
		return from + (uint64_t)((double)(until - from) *
					 max((rank - (double)before) / (double)h->counts[i], 0.0));
	}
	return h->n ? h->max_ns : 0;
}

uint64_t histogram_below(const struct histogram_sum *h, uint32_t octave)
{
	uint32_t end = histogram_bucket(UINT64_C(1) << octave);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < end; i++)
		sum += h->counts[i];
	return sum;
}

void histogram_subtract(struct histogram_sum *h, const struct histogram_sum *before)
{
	uint64_t largest = 0;

	h->n = 0;
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		/* A task may have overwritten it: a decrease counts as 0. */
		h->counts[i] -= min(h->counts[i], before->counts[i]);
		h->n += h->counts[i];
		if (h->counts[i])
			largest = histogram_until(h, i);
	}
	h->sum_ns -= min(h->sum_ns, before->sum_ns);
	h->max_ns = largest;
}
