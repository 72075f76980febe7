/* SPDX-License-Identifier: MIT */
/* null.c - another version of the module null: add takes three numbers */
#include <forkd/task.h>

FK_LEAF_TASK(int64_t, add, (int64_t, a, int64_t, b, int64_t, c))
{
	return a + b + c;
}

FK_EXPORT(add, 0, "The sum of three numbers")
FK_MODULE(null, "Tasks that do next to nothing, later")
