/* SPDX-License-Identifier: MIT */
/*
 * wait_many.c - waiting for any, and for all, of many jobs
 *
 * A wait for any marks all its jobs as watched and sleeps on the count of their ends (shm/watch.h):
 * one word, however many there are. futex_waitv() ends at 128 words, and would have the kernel
 * queue and unqueue each of them for every sleep. A wait for all is one wait after the other, from
 * the last job to the first: what is submitted last ends late, so most of the others have ended
 * when it has. It sleeps at most once for each job, and no end wakes it but of the one that it
 * sleeps for.
 *
 * INVARIANTS
 *   I1. No end is missed: every job is marked, or was seen to have ended, before the first sleep,
 *       and between the value that it sleeps on and the sleep it looks at all of them (shm/watch.h,
 *       I1 and I2).
 *   I2. It is busy for no longer than a wait for a single job spins: after that, each look but the
 *       first follows a sleep that an end or the tick has finished.
 *   I3. Marks stay in the jobs. Their ends are counted, and wake sleepers: that is all.
 */
#include "client/lib/client.h"

#include <errno.h>

#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"

/* 0, or -EPERM in a child, or -ESTALE: one of them is not there. */
static int wait_many_check(struct fk_client *client, const fk_job *jobs, size_t n)
{
	int err = client_check(client);

	for (size_t i = 0; i < n && !err; i++)
		if (client_outcome(client, jobs[i]) == -ESTALE)
			err = -ESTALE;
	return err;
}

/* Sets *ret_index to the first that has ended. Returns 0, -EAGAIN (none has), -ESTALE, or
 * -ECONNRESET: forkd has taken its segment back (wait.c). */
static int any_look(struct fk_client *client, const fk_job *jobs, size_t n, size_t *ret_index)
{
	for (size_t i = 0; i < n; i++) {
		int outcome = client_outcome(client, jobs[i]);

		if (outcome == JOB_PENDING)
			continue;
		if (unlikely(outcome < 0))
			return outcome;
		*ret_index = i;
		return 0;
	}
	return -EAGAIN;
}

static int any_spin(struct fk_client *client, const fk_job *jobs, size_t n, uint64_t end_ns,
		    size_t *ret_index)
{
	uint32_t steps = 0;
	int err;

	do {
		err = any_look(client, jobs, n, ret_index);
	} while (err == -EAGAIN && client_spin(&steps, end_ns));
	return err;
}

static int any_sleep(struct fk_client *client, const fk_job *jobs, size_t n, uint64_t deadline,
		     size_t *ret_index)
{
	struct watch *watch = watch_of(client->groups);
	int slept = 0;
	int err;

	for (size_t i = 0; i < n; i++)
		(void)job_watch(client_job(client, jobs[i]));
	do {
		uint32_t value = watch_begin(watch);

		FK_CRASH(many_watched);
		err = any_look(client, jobs, n, ret_index);
		if (err == -EAGAIN)
			slept = client_sleep(client, &watch->ended, value, deadline);
		watch_leave(watch);
	} while (err == -EAGAIN && !slept);
	/* Its time is over, or the daemon gone: one may have ended just then. */
	if (err == -EAGAIN)
		err = any_look(client, jobs, n, ret_index);
	return err == -EAGAIN ? slept : err;
}

/* With a timeout of 0. */
static int any_poll(struct fk_client *client, const fk_job *jobs, size_t n, size_t *ret_index)
{
	int gone = client_look(client, clock_coarse_ns());
	int err = any_look(client, jobs, n, ret_index);

	if (err != -EAGAIN)
		return err;
	return gone ? -ECONNRESET : -ETIMEDOUT;
}

int fk_wait_any(fk_client *client, const fk_job *jobs, size_t n, uint64_t timeout_ns,
		size_t *ret_index)
{
	uint64_t deadline;
	uint32_t spin;
	int err = wait_many_check(client, jobs, n);

	if (err)
		return err;
	if (!n)
		return -EINVAL;
	err = any_look(client, jobs, n, ret_index);
	if (err != -EAGAIN)
		return err;
	if (!timeout_ns)
		return any_poll(client, jobs, n, ret_index);
	deadline = client_deadline(clock_ns(), timeout_ns);
	/* Relaxed: a hint, that single waits adapt. */
	spin = load_relaxed(&client->spin);
	if (spin) {
		err = any_spin(client, jobs, n, min(clock_ns() + spin, deadline), ret_index);
		if (err != -EAGAIN)
			return err;
	}
	return any_sleep(client, jobs, n, deadline, ret_index);
}

int fk_wait_all(fk_client *client, const fk_job *jobs, size_t n, uint64_t timeout_ns)
{
	uint64_t deadline = timeout_ns ? client_deadline(clock_ns(), timeout_ns) : 0;
	int err = wait_many_check(client, jobs, n);

	while (n-- && !err)
		err = fk_wait(client, jobs[n], client_left(deadline));
	return err;
}
