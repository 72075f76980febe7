/* SPDX-License-Identifier: MIT */
/*
 * jobs.h - submits jobs by the name of their task, and checks jobs and pools
 *
 * Each function fails the test on error.
 */
#pragma once

#include <signal.h>
#include <stdint.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "tests/support/daemon.h"

/* Starts forkd with these options, NULL at the end. Returns a new connection. */
#define JOBS_BEGIN(d, ...) (daemon_start(d, __VA_ARGS__), daemon_open(d))

static inline const fk_task *jobs_task(fk_client *c, const char *name)
{
	const fk_task *task = NULL;

	ck_assert_int_eq(fk_task_find(c, name, &task), 0);
	return task;
}

/* Submits a job whose task takes up to two numbers. */
static inline fk_job jobs_submit(fk_client *c, const char *name, unsigned int flags, int64_t a,
				 int64_t b)
{
	const union fk_value values[2] = { { .i64 = a }, { .i64 = b } };
	const fk_task *task = jobs_task(c, name);
	fk_job job = 0;

	ck_assert_int_eq(
		fk_submit_values(c, task, values, fk_task_args_size(task) / 8, flags, &job), 0);
	return job;
}

/* Submits a job of one number when there is room, in a group unless group is 0. */
static inline fk_job jobs_submit_in(fk_client *c, const char *name, unsigned int flags, int64_t n,
				    fk_group group)
{
	struct fk_job_options options = { .group = group, .flags = flags | FK_WAIT_ROOM };
	fk_job job = 0;

	ck_assert_int_eq(fk_submit_opts(c, jobs_task(c, name), &options, &job, n), 0);
	return job;
}

/* Submits a job that keeps its worker until *ret_gate, which is on the client's heap, is 1. */
static inline fk_job jobs_hold(fk_client *c, unsigned int flags, volatile uint8_t **ret_gate)
{
	struct fk_buffer buffer = { NULL, 1 };
	fk_job job = 0;

	ck_assert_int_eq(fk_alloc(c, buffer.size, &buffer.data), 0);
	*ret_gate = buffer.data;
	**ret_gate = 0;
	ck_assert_int_eq(fk_submit(c, jobs_task(c, "crash:hold"), flags, &job, buffer), 0);
	return job;
}

/* Waits for a job. Returns its outcome, FK_*; ret_signo: NULL, or set to its signal. */
static inline int jobs_outcome(fk_client *c, fk_job job, int *ret_signo)
{
	ck_assert_int_eq(fk_wait(c, job, DAEMON_PATIENCE * NSEC_PER_SEC), 0);
	return fk_outcome(c, job, NULL, ret_signo);
}

/* Waits for a job that must have this outcome, given by name. */
static inline void jobs_see_end(fk_client *c, fk_job job, const char *name)
{
	ck_assert_str_eq(fk_outcome_name(jobs_outcome(c, job, NULL)), name);
}

/* The same, and releases the job. */
static inline void jobs_drop(fk_client *c, fk_job job, const char *name)
{
	jobs_see_end(c, job, name);
	ck_assert_int_eq(fk_release(c, job), 0);
}

/* Cancels a job, which must end as cancelled. */
static inline void jobs_cancel(fk_client *c, fk_job job)
{
	ck_assert_int_eq(fk_cancel(c, job), 0);
	jobs_see_end(c, job, "CANCELLED");
}

/* Lets a job of jobs_hold() end, and waits for it. */
static inline void jobs_let_go(fk_client *c, fk_job held, volatile uint8_t *gate)
{
	*gate = 1;
	ck_assert_int_eq(jobs_outcome(c, held, NULL), FK_DONE);
}

/* Waits for a job that must be DONE with this result. Releases it. */
static inline void jobs_see(fk_client *c, fk_job job, int64_t result)
{
	int64_t n = 0;

	jobs_see_end(c, job, "DONE");
	ck_assert_int_eq(fk_result(c, job, &n, sizeof(n)), 0);
	ck_assert_int_eq(n, result);
	ck_assert_int_eq(fk_release(c, job), 0);
}

/* Submits n jobs that add 1000 to their index. */
static inline void jobs_queue(fk_client *c, unsigned int flags, fk_job *ret_jobs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		ret_jobs[i] = jobs_submit(c, "null:add", flags, i, 1000);
}

/* Waits for them, checks each sum and releases them. */
static inline void jobs_see_queue(fk_client *c, const fk_job *jobs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		jobs_see(c, jobs[i], i + 1000);
}

/* Waits for the number-th crash (the first is 1). Returns its row on the board. */
static inline const struct board_crash *jobs_crash(struct daemon *d, uint64_t number)
{
	DAEMON_AWAIT(daemon_crashes(d) >= number);
	ck_assert_uint_eq(daemon_crashes(d), number);
	return &d->board->crashes[(number - 1) % LIMIT_CRASHES];
}

/* Returns how many workers run a job of this task; name: NULL for any. */
static inline uint32_t jobs_running(struct daemon *d, const char *name)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < d->board->manager.n_workers; i++) {
		uint32_t job = atomic_load(&d->board->running[i].job);
		uint32_t task = board_job_task(d->board, job);

		n += job != UINT32_MAX &&
		     (!name || (task < LIMIT_TASKS && streq(d->board->tasks[task].name, name)));
	}
	return n;
}

/* Calls jobs_hold(), and waits until the job runs as the only one of its task. */
static inline fk_job jobs_hold_one(struct daemon *d, fk_client *c, unsigned int flags,
				   volatile uint8_t **ret_gate)
{
	fk_job job = jobs_hold(c, flags, ret_gate);

	DAEMON_AWAIT(jobs_running(d, "crash:hold") == 1);
	return job;
}

/* Waits for the pool after this one. */
static inline pid_t jobs_pool_after(struct daemon *d, pid_t old)
{
	DAEMON_AWAIT((pid_t)atomic_load(&d->board->manager.pool_pid) != old && daemon_pool(d));
	return daemon_pool(d);
}

/* Kills the pool and waits for the next one. Returns its pid. */
static inline pid_t jobs_replace_pool(struct daemon *d)
{
	pid_t pool = daemon_pool(d);

	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	return jobs_pool_after(d, pool);
}

/* Checks that the handle still works: calls, closes it, and stops the daemon. */
static inline void jobs_end(struct daemon *d, fk_client *c)
{
	int64_t n = 0;

	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(20)), 0);
	ck_assert_int_eq(n, 6765);
	daemon_stop_close(d, c);
}
