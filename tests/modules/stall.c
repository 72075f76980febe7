/* SPDX-License-Identifier: MIT */
/* tests/modules/stall.c - tasks that keep the pool as a whole from running */
#include <signal.h>
#include <unistd.h>

#include <forkd/task.h>

/* What stays 1; volatile, so that the compiler does not know. */
static volatile int64_t on = 1;

/* Returns what it got; -1 if the pool may not do that. */
FK_TASK(int64_t, stop, (int64_t, n), )
{
	for (int64_t i = 0; on && i < n; i++)
		if (kill(getpid(), SIGSTOP) < 0)
			FK_LEAF(-1);
	FK_LEAF(n);
}
FK_BODY(stop)
{
	FK_RETURN(0);
}
FK_END(stop)

/* No thread of the pool wakes up for the signal that its manager sends. */
FK_TASK(int64_t, deafen, (int64_t, ignored), )
{
	(void)ignored;
	FK_LEAF(signal(SIGURG, SIG_IGN) == SIG_ERR ? -1 : 0);
}
FK_BODY(deafen)
{
	FK_RETURN(0);
}
FK_END(deafen)

FK_EXPORT(deafen, "ignored:i64 -> i64", 0, "Has the pool ignore SIGURG; 0")
FK_EXPORT(stop, "n:i64 -> i64", 0, "Stops the pool by SIGSTOP, so often; n")
FK_MODULE(stall, "Tasks that keep the pool from running")
