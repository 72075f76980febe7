/* SPDX-License-Identifier: MIT */
/* tests/modules/spin.c - tasks that use as much CPU time as they are told to */
#include <time.h>

#include <forkd/task.h>

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

FK_TASK(int64_t, us, (int64_t, us), )
{
	int64_t end = now_us() + us;

	while (now_us() < end)
		;
	FK_LEAF(1);
}
FK_BODY(us)
{
	FK_RETURN(0);
}
FK_END(us)

FK_TASK(int64_t, tree, (int64_t, n, int64_t, leaf), int64_t x; int64_t y;)
{
	if (n <= 0)
		FK_LEAF(0);
}
FK_BODY(tree)
{
	self->x = self->y = 0;
	if (self->n == 1) {
		FK_CALL(x, us, self->leaf);
	} else {
		FK_FORK(x, tree, self->n / 2, self->leaf);
		FK_CALL(y, tree, self->n - self->n / 2, self->leaf);
		FK_JOIN();
	}
	FK_RETURN(self->x + self->y);
}
FK_END(tree)

FK_EXPORT(us, 0, "Spins for so many microseconds, and gives 1")
FK_EXPORT(tree, 0, "Forks down to n leaves that spin; gives n")
FK_MODULE(spin, "Tasks that use CPU time")
