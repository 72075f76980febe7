/* SPDX-License-Identifier: MIT */
/* tests/modules/wrong/time.c - what forkctl check cannot judge: not the same from call to call, too
 * long, without an end, the end of forkd */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <forkd/task.h>

static _Atomic int64_t calls;

FK_TASK(int64_t, count, (int64_t, n), )
{
	FK_LEAF(n + atomic_fetch_add(&calls, 1) + (int64_t)time(NULL));
}
FK_NO_BODY(count)
FK_END(count)

FK_TASK(int64_t, forever, (int64_t, n), int64_t x;)
{
	if (!n)
		FK_LEAF(0);
}
FK_BODY(forever)
{
	for (;;) {
		FK_FORK(x, forever, 0);
		FK_JOIN();
	}
}
FK_END(forever)

/* 99 is not among the arguments that are generated. */
FK_TASK(int64_t, orphan, (int64_t, n), )
{
	if (n == 99) {
		kill(getppid(), SIGKILL);
		for (;;)
			pause();
	}
	FK_LEAF(n);
}
FK_NO_BODY(orphan)
FK_END(orphan)

FK_EXPORT(count, "n:i64 -> i64", 0, "Another number each time")
FK_EXPORT(forever, "n:i64 -> i64", 0, "Never ends, but for n = 0")
FK_EXPORT(orphan, "n:i64 -> i64", 0, "99: kills the manager")
FK_MODULE(time, "What cannot be checked")
