/* SPDX-License-Identifier: MIT */
/*
 * common/crash.h - named places where a test can kill the daemon
 *
 * Random kills seldom hit a window of a few instructions. With --enable-crash-sites the process
 * kills itself by SIGKILL where the environment says so; otherwise a site is nothing at all.
 *
 *	FORKD_CRASH_SITE   name of the site
 *	FORKD_CRASH_AFTER  how many times this process passes it before that; 0 if it is not set
 *	FORKD_CRASH_TOKEN  a file: whoever removes it dies there, so of all pools only one does
 */
#ifndef COMMON_CRASH_H
#define COMMON_CRASH_H

#ifdef FK_CRASH_SITES
void crash_site(const char *name);
#define FK_CRASH(site) crash_site(site)
#else
#define FK_CRASH(site) ((void)0)
#endif

#endif
