/* SPDX-License-Identifier: MIT */
#include "tests/bench/compose.h"

/* With OpenMP, built with gcc (libgomp) and with clang (libomp). The library chooses the number of
 * threads. The schedule suits threads that lose their CPUs; the default gives each thread its share
 * at the start. */

void compose_start(const char *socket)
{
	(void)socket;
}

int64_t compose_sum(int64_t leaves, int64_t rounds)
{
	int64_t sum = 0;

#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
	for (int64_t i = 0; i < leaves; i++)
		sum += compose_leaf(i, rounds);
	return sum;
}
