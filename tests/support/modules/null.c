/* SPDX-License-Identifier: MIT */
/* null.c - tasks that do nothing: the cost of a job alone */
#include <forkd/task.h>

FK_LEAF_TASK(fk_void, null, ())
{
}

FK_LEAF_TASK(int64_t, add, (int64_t, a, int64_t, b))
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

FK_LEAF_TASK(fk_void, pass, (struct fk_iobuf, data))
{
	(void)data;
}

FK_EXPORT(null, 0, "Nothing")
FK_EXPORT(add, 0, "The sum of two numbers, modulo 2^64")
FK_EXPORT(pass, FK_EXPORT_IN_PLACE, "Nothing, with a buffer")
FK_MODULE(null, "Tasks that do nothing")
