/* SPDX-License-Identifier: MIT */
/* reload_rig.h - a forkd that reloads, with its own module directory */
#pragma once

#include <stdio.h>
#include <string.h>

#include "tests/support/jobs.h"
#include "tests/support/kept.h"
#ifndef CHECK_TIMEOUT
#define CHECK_TIMEOUT 120
#endif
#include "tests/support/check_unit.h"

#define SHIPPED(name) "daemon/modules/.libs/" name ".so", name ".so"
#define OURS(name)    "tests/support/modules/.libs/" name ".so", name ".so"

static struct daemon d;
static fk_client *c;

/* Puts a file of the build tree into the module directory under this name, atomically and as a new
 * file. */
static inline void put(const char *path, const char *name)
{
	char from[128], to[128];

	daemon_add_module(&d, path, "next");
	(void)snprintf(from, sizeof(from), "%s/next", d.modules);
	(void)snprintf(to, sizeof(to), "%s/%s", d.modules, name);
	ck_assert_int_eq(rename(from, to), 0);
}

static inline void prepare(void)
{
	daemon_prepare_bare(&d);
	put(SHIPPED("fib"));
	put(OURS("null"));
	put(OURS("crash"));
}

static inline void start(const char *conf)
{
	c = JOBS_BEGIN(&d, kept_configure(&d, conf), NULL);
}

/* Calls start() with one worker, which a job keeps until **ret_gate is 1. Returns the job. */
static inline fk_job start_held(volatile uint8_t **ret_gate)
{
	start("workers = 1\nstop-timeout = 1000s\n");
	return jobs_hold_one(&d, c, 0, ret_gate);
}

/* After start(): returns true if modules can be loaded into the running pool. Modules with a
 * sanitizer have constructors. A container may forbid filters for executable memory. */
static inline bool can_join(void)
{
	return !daemon_sanitized() &&
	       !daemon_logged(&d, "no module can be loaded while jobs run", "");
}

static inline void configure(const char *conf)
{
	(void)kept_configure(&d, conf);
}

/* Checks that forkctl reload ends with this status and prints this text. */
static inline void reload(int status, const char *text)
{
	daemon_see_ctl(&d, status, text, "reload", NULL);
}

/* Starts forkctl reload, which waits for jobs. Returns its pid when the pool has been told to
 * end. */
static inline pid_t reload_waits(void)
{
	pid_t pid = daemon_spawn(&d, "reload", (const char *[]){ "forkctl", "reload", NULL });

	DAEMON_AWAIT(daemon_logged(&d, "replacing the pool", ""));
	/* The pool has received the request. */
	DAEMON_AWAIT(daemon_logged(&d, "the pool starts no more jobs", ""));
	return pid;
}
