/* SPDX-License-Identifier: MIT */
/* join000.c - a module that a test copies under names of the same length, which it writes into the
 * copies */
#include <forkd/task.h>

FK_LEAF_TASK(int64_t, next, (int64_t, n))
{
	return n + 1;
}

FK_EXPORT(next, 0, "The next number")
FK_MODULE(join000, "A task of a module that joins a pool that runs")
