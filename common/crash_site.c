/* SPDX-License-Identifier: MIT */
/*
 * Threads: any. The environment is read once, before main().
 *
 * In a build without crash sites there is nothing in this file.
 */
#include "common/crash_site.h"

#ifdef FK_CRASH_SITES

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/relaxed.h"

const struct crash_row crash_rows[CRASH_SITES] = {
	[CRASH_NONE] = { "none", "nowhere", CRASH_CLIENT },
#define CRASH_SITE(site, process, between) [CRASH_AT_##site] = { #site, between, CRASH_##process },
#include "common/crash_site.def"
#undef CRASH_SITE
};

_Atomic int crash_armed;

static void crash_kill(void)
{
	(void)kill(getpid(), SIGKILL);
}

void (*crash_die)(void) = crash_kill;

static _Atomic unsigned long passes; /* passes left before the one that kills */
static const char *token;
static pthread_mutex_t token_lock = PTHREAD_MUTEX_INITIALIZER;

void crash_arm(enum crash_site site, unsigned long after)
{
	store_relaxed(&passes, after);
	store_relaxed(&crash_armed, (int)site);
}

__attribute__((constructor)) static void crash_read_environment(void)
{
	const char *site = getenv("FORKD_CRASH_SITE");
	const char *after = getenv("FORKD_CRASH_AFTER");

	if (!site)
		return;
	token = getenv("FORKD_CRASH_TOKEN");
	for (int i = CRASH_NONE + 1; i < CRASH_SITES; i++) {
		if (strcmp(crash_rows[i].name, site) != 0)
			continue;
		crash_arm((enum crash_site)i, after ? strtoul(after, NULL, 10) : 0);
		return;
	}
	(void)fprintf(stderr, "FORKD_CRASH_SITE: there is no site %s in common/crash_site.def\n",
		      site);
	abort();
}

void crash_here(void)
{
	/* Relaxed: it only counts. */
	unsigned long left = load_relaxed(&passes);

	while (left)
		if (atomic_compare_exchange_weak_explicit(
			    &passes, &left, left - 1, memory_order_relaxed, memory_order_relaxed))
			return;
	if (!token) {
		crash_die();
		return;
	}
	/* A thread that gets here while another thread is about to kill the process waits, and dies
	 * with it. A thread continues only if the token was already gone. */
	(void)pthread_mutex_lock(&token_lock);
	if (unlink(token) == 0)
		crash_die();
	(void)pthread_mutex_unlock(&token_lock);
}

#endif
