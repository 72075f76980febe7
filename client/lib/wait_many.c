/* SPDX-License-Identifier: MIT */
/*
 * wait_many.c - waits for any, or for all, of many jobs
 *
 * A wait for any marks all its jobs as watched and sleeps on the count of their ends (shm/watch.h),
 * which is one word. futex_waitv() takes at most 128 words, and the kernel would queue and unqueue
 * each of them for every sleep. A wait for all waits for one job after the other, from the last to
 * the first. The last job usually ends late, so most others have ended by then. The wait sleeps at
 * most once for each job, and only the end of that job wakes it.
 *
 * INVARIANTS
 *   I1. No end is missed. Every job is marked, or has ended, before the first sleep. The wait reads
 *       the value to sleep on, checks all jobs, and then sleeps (shm/watch.h, I1 and I2).
 *   I2. It spins no longer than a wait for a single job. After that, each check except the first
 *       follows a sleep that was ended by the end of a job or by the tick.
 *   I3. Marks stay in the jobs after the wait. Their ends are counted and wake sleepers, which has
 *       no other effect.
 */
#include "client/lib/client.h"

#include <errno.h>

#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"

/* Returns 0; -EPERM in a child; or -ESTALE: one of the jobs does not exist. */
static int wait_many_check(struct fk_client *client, const fk_job *jobs, size_t n)
{
	int err = client_check(client);

	for (size_t i = 0; i < n && !err; i++)
		if (client_outcome(client, jobs[i]) == -ESTALE)
			err = -ESTALE;
	return err;
}

/* Sets *ret_index to the first job that has ended. Returns 0, -EAGAIN (none has), -ESTALE, or
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
	/* After a timeout, or if the daemon is gone: a job may have ended since the last check. */
	if (err == -EAGAIN)
		err = any_look(client, jobs, n, ret_index);
	return err == -EAGAIN ? slept : err;
}

/* fk_wait_any() with a timeout of 0. */
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
		return -FK_E_NO_JOBS;
	err = any_look(client, jobs, n, ret_index);
	if (err != -EAGAIN)
		return err;
	if (!timeout_ns)
		return any_poll(client, jobs, n, ret_index);
	deadline = client_deadline(clock_ns(), timeout_ns);
	/* Relaxed: a hint, which waits for single jobs adapt. */
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
