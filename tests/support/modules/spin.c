/* SPDX-License-Identifier: MIT */
/* spin.c - tasks that use a requested CPU time, or sleep */
#include <time.h>

#include <forkd/task.h>

static int64_t clock_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

FK_LEAF_TASK(int64_t, us, (int64_t, us))
{
	int64_t end = clock_us(CLOCK_MONOTONIC) + us;

	while (clock_us(CLOCK_MONOTONIC) < end)
		;
	return 1;
}

FK_LEAF_TASK(int64_t, cpu, (int64_t, us))
{
	int64_t end = clock_us(CLOCK_THREAD_CPUTIME_ID) + us;

	while (clock_us(CLOCK_THREAD_CPUTIME_ID) < end)
		;
	return 1;
}

FK_LEAF_TASK(int64_t, sleep, (int64_t, n, int64_t, us))
{
	for (int64_t i = 0; i < n; i++)
		(void)nanosleep(&(struct timespec){ us / 1000000, us % 1000000 * 1000 }, NULL);
	return n;
}

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

FK_EXPORT(us, 0, "Spins for the given microseconds, and gives 1")
FK_EXPORT(cpu, 0, "Uses us microseconds of CPU time, and gives 1")
FK_EXPORT(sleep, 0, "Sleeps n times, for us microseconds; n")
FK_EXPORT(tree, 0, "Forks down to n leaves that spin; gives n")
FK_MODULE(spin, "Tasks that use CPU time")
