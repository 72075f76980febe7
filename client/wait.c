/* SPDX-License-Identifier: MIT */
/*
 * client/wait.c - waiting for a job, and what became of it
 *
 * WHAT IT IS
 *   A wait looks, spins for up to 20 us (less while that was in vain lately, not at all with one
 *   CPU), then announces itself in the state word and sleeps on it.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Any number of threads, on one job too.
 *
 * INVARIANTS
 *   I1. The waiter bit is set by a CAS that fails once there is an outcome, and the outcome is
 *       exchanged in, so one of the two sees the other (J1 in shm/job.h).
 *   I2. Polls look at the socket once in CLIENT_TICK_NS, all threads of the client together
 *       (client.c, I5): a call in a loop makes no system call for it each time. A sleep looks when
 *       it has lasted that long.
 *   I3. Spinning learns: a wait that slept although its job ended within the longest spin sets the
 *       spin to its longest, one that spun in vain halves it.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   Pool: the manager gives every job its outcome and wakes. Daemon: the tick finds the socket
 *   closed; the outcome is looked at once more, because it may have been the daemon's last act.
 */
#include "client/client.h"

#include <errno.h>
#include <string.h>

#include "client/lasting.h"
#include "common/crash.h"
#include "common/util.h"

#define WAIT_SPIN_MIN 500u /* ns: a spin never gets shorter, or it would never learn */

static int is_pending(struct job *job)
{
	return job_outcome(job) == JOB_PENDING;
}

/* It is not pending: 0, or -ECONNRESET if no outcome is there either. That was submitted: forkd has
 * taken the segment back, because this process has closed the socket by itself. */
static int wait_ended(struct job *job)
{
	return job_outcome(job) == JOB_IDLE ? -ECONNRESET : 0;
}

/* What is said of a job without an outcome. */
static int wait_pending(struct fk_client *client)
{
	/* Relaxed: never goes back. */
	return atomic_load_explicit(&client->gone, memory_order_relaxed) ? -ECONNRESET
									 : -EINPROGRESS;
}

/* True if the job ended while spinning. */
static int wait_spin(struct job *job, uint64_t end_ns)
{
	uint32_t steps = 0;

	do {
		if (!is_pending(job))
			return 1;
	} while (client_spin(&steps, end_ns));
	return 0;
}

/* 1 if the job has ended, 0 if not, -ECONNRESET. */
static int wait_poll(struct fk_client *client, struct job *job)
{
	int gone = is_pending(job) && client_look(client, clock_coarse_ns());
	int err;

	if (is_pending(job))
		return gone ? -ECONNRESET : 0;
	err = wait_ended(job);
	return err ? err : 1;
}

/* With the checks done. */
static int wait_job(struct fk_client *client, fk_job handle, uint64_t timeout_ns)
{
	struct job *job = client_job(client, handle);
	uint64_t start;
	uint64_t deadline;
	uint32_t spin;
	int err = 0;

	if (!is_pending(job))
		return wait_ended(job);
	if (!timeout_ns) {
		err = wait_poll(client, job);
		return err > 0 ? 0 : err ? err : -ETIMEDOUT;
	}
	start = clock_ns();
	deadline = client_deadline(start, timeout_ns);

	/* Relaxed: a hint. */
	spin = atomic_load_explicit(&client->spin, memory_order_relaxed);
	if (spin) {
		if (wait_spin(job, min(start + spin, deadline)))
			return wait_ended(job);
		/* In vain so far (I3). */
		atomic_store_explicit(&client->spin, max(spin / 2, WAIT_SPIN_MIN),
				      memory_order_relaxed);
	}
	for (;;) {
		uint32_t value;

		if (unlikely(!client_slot(client, handle)))
			return -ESTALE;
		value = job_announce_waiter(job);
		if (!value)
			break;
		FK_CRASH(wait_announced);
		err = client_sleep(client, &job->state, value, deadline);
		FK_CRASH(wait_woken);
		if (err)
			break;
	}
	/* The acquire of the outcome, also for who saw it change in job_announce_waiter(). */
	if (!is_pending(job)) {
		err = wait_ended(job);
		lasting_learn(&client->lasting, job);
	}
	if (!err && spin && clock_ns() - start < client->spin_max)
		atomic_store_explicit(&client->spin, client->spin_max, memory_order_relaxed);
	return err;
}

int fk_wait(fk_client *client, fk_job job, uint64_t timeout_ns)
{
	struct client_slot *slot;
	int err = client_find(client, job, &slot);

	return err ? err : wait_job(client, job, timeout_ns);
}

int fk_poll(fk_client *client, fk_job job)
{
	struct client_slot *slot;
	int err = client_find(client, job, &slot);

	return err ? err : wait_poll(client, client_job(client, job));
}

int fk_outcome(fk_client *client, fk_job handle, int *ret_code, int *ret_signo)
{
	struct client_slot *slot;
	struct job *job;
	uint32_t outcome;
	int err = client_find(client, handle, &slot);

	if (err)
		return err;
	job = client_job(client, handle);
	outcome = job_outcome(job);
	if (outcome == JOB_IDLE)
		return -ECONNRESET; /* wait_ended() */
	if (outcome == JOB_PENDING && wait_pending(client) == -ECONNRESET)
		return -ECONNRESET;
	/* Relaxed: they were written before the outcome. */
	if (ret_code)
		*ret_code = outcome == JOB_FAILED
				  ? atomic_load_explicit(&job->code, memory_order_relaxed)
				  : 0;
	if (ret_signo)
		*ret_signo = outcome == JOB_CRASHED
				   ? (int)atomic_load_explicit(&job->signo, memory_order_relaxed)
				   : 0;
	return (int)outcome;
}

/* How long a job ran; 0 if its task was not begun. Relaxed: written before the outcome. */
static uint64_t wait_run_ns(const struct client_slot *slot, struct job *job)
{
	uint64_t started = atomic_load_explicit(&job->started_ns, memory_order_relaxed);
	uint64_t ended = atomic_load_explicit(&job->ended_ns, memory_order_relaxed);

	return started >= slot->submitted_ns && ended > started ? ended - started : 0;
}

/* The error of a job that has ended without a result, and its text. */
static int wait_failed(fk_client *client, fk_job handle, uint64_t run_ns, int err)
{
	int code = 0, signo = 0, outcome = fk_outcome(client, handle, &code, &signo);
	char text[256];

	if (outcome < FK_DONE)
		return error_of_task(err, "");
	return error_say(err, "%s",
			 error_outcome(text, sizeof(text), outcome, code, signo, run_ns != 0));
}

int fk_result(fk_client *client, fk_job handle, void *result, size_t size)
{
	struct client_slot *slot;
	struct job *job;
	uint32_t outcome;
	int err = client_find(client, handle, &slot);

	if (err)
		return error_of_task(err, "");
	job = client_job(client, handle);
	outcome = job_outcome(job);
	if (outcome == JOB_PENDING)
		return error_of_task(wait_pending(client), "");
	/* Relaxed: written before the outcome. */
	err = error_of_outcome(outcome, atomic_load_explicit(&job->code, memory_order_relaxed));
	if (err)
		return wait_failed(client, handle, wait_run_ns(slot, job), err);
	if (size < slot->result_size)
		return error_say(-EINVAL, "the result has %u bytes, there is room for %zu",
				 slot->result_size, size);
	if (slot->result_size)
		memcpy(result, job->result, slot->result_size);
	err = wait_ended(job);
	return err ? error_of_task(err, "") : 0;
}

int fk_timings(fk_client *client, fk_job handle, struct fk_timings *ret_timings)
{
	struct client_slot *slot;
	struct job *job;
	uint64_t started;
	int err = client_find(client, handle, &slot);

	if (err)
		return err;
	job = client_job(client, handle);
	if (is_pending(job))
		return wait_pending(client);
	err = wait_ended(job);
	if (err)
		return err;
	/* Relaxed: written before the outcome. One that never started has none. */
	started = atomic_load_explicit(&job->started_ns, memory_order_relaxed);
	*ret_timings = (struct fk_timings){
		.wait_ns = started > slot->submitted_ns ? started - slot->submitted_ns : 0,
		.run_ns = wait_run_ns(slot, job),
	};
	return 0;
}
