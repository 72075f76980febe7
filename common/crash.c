/* SPDX-License-Identifier: MIT */
/*
 * common/crash.c - named places where a test can kill the daemon
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Whoever passes a site, any thread. The environment does not change after main() has begun.
 *
 * In a build without crash sites there is nothing in this file.
 */
#include "common/crash.h"

#ifdef FK_CRASH_SITES

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void crash_site(const char *name)
{
	static _Atomic unsigned long passed;
	const char *site = getenv("FORKD_CRASH_SITE");
	const char *after = getenv("FORKD_CRASH_AFTER");
	const char *token = getenv("FORKD_CRASH_TOKEN");

	if (!site || strcmp(site, name) != 0)
		return;
	/* Relaxed: it only counts. */
	if (atomic_fetch_add_explicit(&passed, 1, memory_order_relaxed) <
	    (after ? strtoul(after, NULL, 10) : 0))
		return;
	if (token && unlink(token) == 0)
		(void)kill(getpid(), SIGKILL);
}

#endif
