/* SPDX-License-Identifier: MIT */
/* deep.c - recursion to a requested depth, by calls and by forks */
#include <forkd/task.h>

FK_FINE_TASK(int64_t, deep, (int64_t, n), int64_t below;)
{
	if (n <= 0)
		FK_LEAF(0);
}
FK_BODY(deep)
{
	FK_CALL(below, deep, self->n - 1);
	FK_RETURN(self->below + 1);
}
FK_END(deep)

FK_FINE_TASK(int64_t, forked, (int64_t, n), int64_t below;)
{
	if (n <= 0)
		FK_LEAF(0);
}
FK_BODY(forked)
{
	FK_FORK(below, forked, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->below + 1);
}
FK_END(forked)

FK_EXPORT(deep, 0, "n, counted by n calls within each other")
FK_EXPORT(forked, 0, "n, counted by n forks within each other")
FK_MODULE(deep, "Deep recursion")
