/* SPDX-License-Identifier: MIT */
/* other_user.h - measures the longest wait of another user's jobs during an operation on the pool,
 * and without it */
#pragma once

#include <forkd/client.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/daemon.h"

#define OTHER_USER_UID	 65531u /* if the test runs as root */
#define OTHER_USER_CALLS 200u	/* for the control, and after the operation */

struct other_user {
	_Atomic uint64_t calls;	   /* jobs that have ended with the right outcome */
	_Atomic uint64_t worst_ns; /* longest time of one of them */
	_Atomic bool leaves;
	uint64_t control_ns;
	pid_t pid;
};

static struct daemon *other_user_daemon;
static struct other_user *other_user;

/* Calls one job after another. Each may run twice, so that the end of a pool is no error here. */
static void other_user_calls(void)
{
	fk_client *c = daemon_open(other_user_daemon);
	const fk_task *task = NULL;

	DAEMON_MUST(fk_task_find(c, "null:add", &task) == 0);
	for (int64_t i = 0, n = 0; !atomic_load(&other_user->leaves); i++) {
		const union fk_value values[2] = { { .i64 = i }, { .i64 = 1000 } };
		uint64_t from = clock_ns(), took;
		fk_job job;

		DAEMON_MUST(fk_submit_values(c, task, values, 2, FK_IDEMPOTENT, &job) == 0);
		DAEMON_MUST(fk_wait(c, job, DAEMON_PATIENCE * NSEC_PER_SEC) == 0);
		took = clock_ns() - from;
		DAEMON_MUST(fk_outcome(c, job, NULL, NULL) == FK_DONE);
		DAEMON_MUST(fk_result(c, job, &n, sizeof(n)) == 0 && n == i + 1000);
		DAEMON_MUST(fk_release(c, job) == 0);
		if (took > atomic_load(&other_user->worst_ns))
			atomic_store(&other_user->worst_ns, took);
		atomic_fetch_add(&other_user->calls, 1);
		(void)poll(NULL, 0, 1);
	}
	DAEMON_MUST(fk_close(c) == 0);
}

static inline void other_user_waits(void)
{
	uint64_t calls = atomic_load(&other_user->calls);

	DAEMON_AWAIT_AMID(atomic_load(&other_user->calls) >= calls + OTHER_USER_CALLS,
			  atomic_load(&other_user->calls));
}

/* Starts the other user. Its longest call without the operation is known when this returns. */
static inline void other_user_begin(struct daemon *d)
{
	other_user_daemon = d;
	other_user = daemon_share(sizeof(*other_user));
	other_user->pid = daemon_client(other_user_calls, OTHER_USER_UID);
	other_user_waits();
	other_user->control_ns = atomic_exchange(&other_user->worst_ns, 0);
}

/* Waits until the pool serves the other user again, checks the outcomes, and prints the longest
 * wait. */
static inline void other_user_end(const char *what)
{
	other_user_waits();
	atomic_store(&other_user->leaves, true);
	ck_assert_int_eq(daemon_reap(other_user->pid), 0);
	printf("%s: another user's job waited for %.1f ms at worst, without it for %.1f ms\n", what,
	       (double)atomic_load(&other_user->worst_ns) / (double)NSEC_PER_MSEC,
	       (double)other_user->control_ns / (double)NSEC_PER_MSEC);
}
