/* SPDX-License-Identifier: MIT */
/* tests/adopt_rig.h - a forkd whose manager is killed, and what its clients see of that */
#pragma once

#include <fnmatch.h>
#include <string.h>

#include "client/client.h"
#include "common/util.h"
#include "tests/kept.h"

static struct daemon d;
static struct fdstore *store;

static inline int outcome(fk_client *c, fk_job job)
{
	ck_assert_int_eq(fk_wait(c, job, DAEMON_PATIENCE * NSEC_PER_SEC), 0);
	return fk_outcome(c, job, NULL, NULL);
}

static inline fk_job submit_add(fk_client *c)
{
	const int64_t args[2] = { 40, 2 };
	const fk_task *task;
	fk_job job;

	ck_assert_int_eq(fk_task_find(c, "null:add", &task), 0);
	ck_assert_int_eq(fk_submit(c, task, args, sizeof(args), FK_IDEMPOTENT, &job), 0);
	return job;
}

/* A job of an old connection. */
static inline void serves(fk_client *c)
{
	fk_job job = submit_add(c);
	int64_t sum = 0;

	ck_assert_str_eq(fk_outcome_name(outcome(c, job)), "DONE");
	ck_assert_int_eq(fk_result(c, job, &sum, sizeof(sum)), 0);
	ck_assert_int_eq(sum, 42);
	ck_assert_int_eq(fk_release(c, job), 0);
}

static inline uint32_t n_running(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < 2; i++)
		n += atomic_load(&d.board->running[i].job) != UINT32_MAX;
	return n;
}

/* How many descriptors the stand-in has by such names: "c1", "c*". */
static inline uint32_t n_kept(const char *pattern)
{
	char names[4096], *save = NULL;
	uint32_t n = 0;

	fdstore_names(store, names, sizeof(names));
	for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save))
		n += fnmatch(pattern, name, 0) == 0;
	return n;
}

/* They are, as the next forkd says, which is another one. */
static inline void see_all_lost(fk_client *c, const fk_job *jobs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		ck_assert_str_eq(fk_outcome_name(outcome(c, jobs[i])), "LOST");
	kept_ready(&d, store);
	ck_assert(daemon_logged(&d, "clients of the last forkd are disconnected", ""));
	/* Its connection has ended, and the next is another forkd's. */
	ck_assert_int_eq(fk_close(c), 0);
	daemon_call_fib(&d);
	ck_assert_int_eq(fk_close(d.watcher), 0);
	d.watcher = daemon_open(&d);
	kept_stop(&d, store);
}
