/* SPDX-License-Identifier: MIT */
/* takeover_rig.h - a forkd whose manager is killed, and the effect on its clients */
#pragma once

#include <fnmatch.h>
#include <string.h>

#include "tests/support/jobs.h"
#include "tests/support/kept.h"

static struct daemon d;
static struct systemd_stub *store;

/* Starts forkd under the systemd stub with these options, NULL at the end. Returns a new
 * connection. */
#define TAKEOVER_BEGIN(...) (store = kept_start(&d, __VA_ARGS__), daemon_open(&d))

static inline void takeover_end(fk_client *c)
{
	ck_assert_int_eq(fk_close(c), 0);
	kept_stop(&d, store);
}

/* Runs a job of an old connection. */
static inline void serves(fk_client *c)
{
	jobs_see(c, jobs_submit(c, "null:add", FK_IDEMPOTENT, 40, 2), 42);
}

/* Returns how many descriptors the stub has under names of a pattern: "c1", "c*". */
static inline uint32_t n_kept(const char *pattern)
{
	char names[4096], *save = NULL;
	uint32_t n = 0;

	systemd_stub_names(store, names, sizeof(names));
	for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save))
		n += fnmatch(pattern, name, 0) == 0;
	return n;
}

/* Checks that all jobs are LOST after a new forkd without the old state. */
static inline void see_all_lost(fk_client *c, const fk_job *jobs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		jobs_see_end(c, jobs[i], "LOST");
	kept_ready(&d, store);
	ck_assert(daemon_logged(&d, "clients of the last forkd are disconnected", ""));
	/* The connection has ended, and the next one is to another forkd. */
	ck_assert_int_eq(fk_close(c), 0);
	daemon_call_fib(&d);
	ck_assert_int_eq(fk_close(d.watcher), 0);
	d.watcher = daemon_open(&d);
	kept_stop(&d, store);
}
