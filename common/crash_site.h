/* SPDX-License-Identifier: MIT */
/*
 * common/crash_site.h - named places where a test can kill a process
 *
 * Random kills rarely hit a window of a few instructions. With --enable-crash-sites a process kills
 * itself by SIGKILL at the site that is armed; otherwise a site is no code at all. All sites are in
 * common/crash_site.def; FK_CRASH() of any other does not compile.
 *
 * The environment arms a program that is started; crash_arm() arms a test's own process:
 *
 * 	FORKD_CRASH_SITE name of the site
 * 	FORKD_CRASH_AFTER number of passes of this process before the one that kills; default: 0
 * 	FORKD_CRASH_TOKEN a file: only the process that removes it dies there
 */
#pragma once

enum crash_process {
	CRASH_CLIENT,
	CRASH_POOL,
	CRASH_MANAGER,
};

enum crash_site {
	CRASH_NONE,
#define CRASH_SITE(site, process, between) CRASH_AT_##site,
#include "common/crash_site.def"
#undef CRASH_SITE
	CRASH_SITES,
};

#ifdef FK_CRASH_SITES

#include <stdatomic.h>

#include "common/relaxed.h"

/* The site at which this process dies. */
extern _Atomic int crash_armed;

/* The process has reached the site. */
void crash_here(void);

/* How it dies: by SIGKILL, except in tests that simulate the death. */
extern void (*crash_die)(void);

/* Relaxed: it is set before the threads exist that pass the site. */
#define FK_CRASH(site)                                                                             \
	do {                                                                                       \
		if (load_relaxed(&crash_armed) == CRASH_AT_##site)                                 \
			crash_here();                                                              \
	} while (0)

/* For tests: this process dies at the site after it has passed it `after` times. CRASH_NONE:
 * nowhere. */
void crash_arm(enum crash_site site, unsigned long after);

/* For tests: a row of crash_site.def, by its site. */
struct crash_row {
	const char *name;
	const char *between;
	enum crash_process process;
};

extern const struct crash_row crash_rows[CRASH_SITES];

#else
#define FK_CRASH(site) ((void)CRASH_AT_##site)
#endif
