/* SPDX-License-Identifier: MIT */
/* tests/modules/broken/broken_size.c - a signature with one argument for a task that takes two */
#include <forkd/task.h>

FK_TASK(int64_t, sum, (int64_t, a, int64_t, b), )
{
	FK_LEAF(a + b);
}
FK_BODY(sum)
{
	FK_RETURN(0);
}
FK_END(sum)

FK_EXPORT(sum, "a:i64 -> i64", 0, "Of two numbers, of which it names one")
FK_MODULE(broken_size, "A signature that does not fit its task")
