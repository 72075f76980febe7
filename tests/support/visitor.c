/* SPDX-License-Identifier: MIT */
/*
 * visitor.c - a client that connects, uses forkd, leaves, and judges the answers
 *
 * If a peer dies: pool or daemon: errors. No call waits longer than VISITOR_PATIENCE, except
 * fk_call(), whose callers use an alarm.
 */
#include "tests/support/visitor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <forkd/client.h>

#include "common/clock.h"
#include "common/util.h"

static const char *run_name;

static enum answer worse(enum answer a, enum answer b)
{
	return a > b ? a : b;
}

static enum answer answer_as(enum answer answer, const char *what, int err)
{
	(void)fprintf(stderr, "%s: %s: %d (%s)\n", run_name, what, err, fk_strerror(err));
	return answer;
}

static enum answer wrong(const char *what, int err)
{
	return answer_as(WRONG, what, err);
}

/* An error must have a text, and must not be a timeout or "not ended yet". */
static enum answer error(const char *what, int err)
{
	bool is_one = err < 0 && err != -ETIMEDOUT && err != -EINPROGRESS && *fk_strerror(err);

	return answer_as(is_one ? ERROR : WRONG, what, err);
}

static enum answer call(fk_client *c)
{
	struct fk_buffer b = { .size = 100000 };
	enum answer answer = RIGHT;
	int64_t n = -1;
	int err = fk_call(c, "fib:fib", &n, (int64_t)15);

	if (err || n != 610)
		answer = err ? error("fib", err) : wrong("fib", (int)n);
	err = fk_alloc(c, b.size, &b.data);
	if (err)
		return worse(answer, error("alloc", err));
	memset(b.data, 2, b.size);
	err = fk_call(c, "bytes:invert", &n, b);
	if (err)
		answer = worse(answer, error("invert", err));
	else if (n != 200000 || ((unsigned char *)b.data)[b.size - 1] != 253)
		answer = wrong("invert", (int)n);
	err = fk_free(c, b.data);
	return err ? wrong("free", err) : answer;
}

/* Checks a job for its result, or, if wanted is negative, for its outcome. */
static enum answer outcome(fk_client *c, fk_job job, int64_t wanted)
{
	int err = fk_wait(c, job, VISITOR_PATIENCE * NSEC_PER_SEC), r;
	enum answer answer = RIGHT;
	int64_t n = -1;

	if (!err)
		err = fk_result(c, job, &n, sizeof(n));
	if (err && err != wanted)
		answer = error("a job's end", err);
	else if (!err && n != wanted)
		answer = wrong("a job's result", (int)n);
	r = fk_release(c, job);
	return r ? wrong("release", r) : answer;
}

static enum answer group(fk_client *c)
{
	const union fk_value value = { .i64 = 14 };
	struct fk_request requests[16];
	enum answer answer = RIGHT;
	const fk_task *task;
	fk_job jobs[16];
	fk_group g;
	int err = fk_group_new(c, &g);

	if (!err)
		err = fk_task_find(c, "fib:fib", &task);
	if (err)
		return error("group", err);
	for (uint32_t i = 0; i < ARRAY_SIZE(requests); i++)
		requests[i] = (struct fk_request){ .task = task,
						   .values = &value,
						   .size = 1,
						   .options.group = g,
						   .options.flags = FK_IDEMPOTENT };
	err = fk_submit_batch(c, requests, ARRAY_SIZE(requests), 0, jobs);
	if (err)
		return error("batch", err);
	err = fk_group_wait(c, g, VISITOR_PATIENCE * NSEC_PER_SEC);
	if (err)
		answer = error("group's end", err);
	for (uint32_t i = 0; i < ARRAY_SIZE(requests); i++)
		answer = worse(answer, outcome(c, jobs[i], 377));
	err = fk_group_free(c, g);
	return err ? wrong("group's freeing", err) : answer;
}

/* As a program with an event loop does. */
static enum answer watch(fk_client *c)
{
	struct pollfd loop = { .events = POLLIN };
	const union fk_value value = { .i64 = 14 };
	const fk_task *task;
	fk_job job, ended = 0;
	enum answer answer;
	int err = fk_task_find(c, "fib:fib", &task), r;

	if (!err)
		err = fk_submit_values(c, task, &value, 1, FK_IDEMPOTENT, &job);
	if (err)
		return error("watched job", err);
	err = fk_watch(c, job, NULL, NULL);
	if (!err)
		err = fk_event_fd(c, &loop.fd);
	if (!err && poll(&loop, 1, VISITOR_PATIENCE * 1000) != 1)
		err = -ETIMEDOUT;
	if (!err)
		err = fk_next_completion(c, 0, &ended, NULL);
	answer = outcome(c, job, 377);
	r = !err && ended != job;
	return r ? wrong("watched job", r) : err ? worse(answer, error("watch", err)) : answer;
}

/* A job that ends after a minute if it is not cancelled. */
static enum answer cancel(fk_client *c)
{
	const union fk_value value = { .i64 = 2 * VISITOR_PATIENCE * 1000 };
	const fk_task *task;
	enum answer answer;
	fk_job job;
	int err = fk_task_find(c, "crash:spin", &task);

	if (!err)
		err = fk_submit_values(c, task, &value, 1, 0, &job);
	if (err)
		return error("spin", err);
	while ((err = fk_cancel(c, job)) == -FK_E_REQUESTS_FULL)
		(void)poll(NULL, 0, 1);
	answer = outcome(c, job, -ECANCELED);
	return err ? wrong("cancel", err) : answer;
}

static enum answer crash(fk_client *c)
{
	const fk_task *task;
	fk_job job;
	int err = fk_task_find(c, "crash:segv", &task);

	if (!err)
		err = fk_submit_packed(c, task, NULL, 0, 0, &job);
	if (err)
		return error("crash", err);
	return outcome(c, job, -ENOTRECOVERABLE);
}

enum answer visitor_comes(const struct daemon *d, const char *run, bool restart)
{
	enum answer answer = RIGHT;
	fk_client *c;
	int err;

	run_name = run;
	err = fk_open(d->socket, NULL, &c);

	if (err)
		return answer_as(err < 0 && *fk_error_text() ? ERROR : WRONG, fk_error_text(), err);
	if (restart)
		answer = crash(c);
	answer = worse(answer, call(c));
	answer = worse(answer, group(c));
	answer = worse(answer, watch(c));
	answer = worse(answer, cancel(c));
	err = fk_close(c);
	return err ? wrong("close", err) : answer;
}
