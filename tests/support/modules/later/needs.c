/* SPDX-License-Identifier: MIT */
/* needs.c - calls a library that does not exist yet: needed.c */
#include <forkd/task.h>

extern int64_t needed(int64_t n);

FK_LEAF_TASK(int64_t, next, (int64_t, n))
{
	return needed(n);
}

FK_EXPORT(next, 0, "The next number")
FK_MODULE(needs, "A task that needs a library")
