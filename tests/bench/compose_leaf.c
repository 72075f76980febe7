/* SPDX-License-Identifier: MIT */
#include "tests/bench/compose.h"

#include "tests/bench/work.h"

int64_t compose_leaf(int64_t i, int64_t rounds)
{
	return work_leaf(i, rounds);
}
