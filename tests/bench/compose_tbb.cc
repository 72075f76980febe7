/* SPDX-License-Identifier: MIT */
#include <functional>
#include <tbb/blocked_range.h>
#include <tbb/parallel_reduce.h>

#include "tests/bench/compose.h"

/* With oneTBB: its default arena, partitioner and number of threads. */

void compose_start(const char *)
{
}

int64_t compose_sum(int64_t leaves, int64_t rounds)
{
	using range = tbb::blocked_range<int64_t>;

	return tbb::parallel_reduce(
		range(0, leaves), int64_t{ 0 },
		[rounds](const range &part, int64_t sum) {
			for (int64_t i = part.begin(); i < part.end(); i++)
				sum += compose_leaf(i, rounds);
			return sum;
		},
		std::plus<int64_t>());
}
