/* SPDX-License-Identifier: MIT */
/*
 * wait.c - waits for a job, and reads its outcome and result
 *
 * A wait checks the state word and spins for up to 20 us: less if recent spins were in vain, not at
 * all with one CPU. Then it announces itself in the state word and sleeps on it.
 *
 * INVARIANTS
 *   I1. The waiter bit is set by a CAS that fails once there is an outcome. The outcome is stored
 *       by an exchange. So either the wait sees the outcome, or the exchange returns the waiter
 *       bit (J1 in shm/job.h).
 *   I2. All polling threads of the client together check the socket once in CLIENT_TICK_NS
 *       (liveness.c, I1). So most polls make no system call. A sleep of that length also checks.
 *   I3. The spin time adapts. A wait that spun in vain halves it. A wait that slept although its
 *       job ended within the longest spin sets the spin time to that maximum.
 *
 * If the pool dies, the manager stores an outcome for every job and wakes. If the daemon dies, the
 * tick finds the socket closed. Then the wait reads the outcome once more, because the daemon may
 * have stored it last. Waits for many jobs and for groups do the same.
 */
#include "client/lib/client.h"

#include <errno.h>
#include <string.h>

#include "client/lib/long_job_hint.h"
#include "client/lib/spill.h"
#include "common/crash_site.h"
#include "common/relaxed.h"
#include "common/util.h"

#define WAIT_SPIN_MIN 500u /* ns: at 0 no wait would spin, and the time would not adapt (I3) */

/* True if a job in the table is pending. False if its record belongs to a later job. */
static int is_pending(struct fk_client *client, fk_job handle)
{
	/* ORDER job/outcome [J1]: acquire, pairs with the exchange in job_finish(). */
	uint32_t state =
		atomic_load_explicit(&client_job(client, handle)->state, memory_order_acquire);

	return (state & ~(JOB_WAITER | JOB_WATCHED)) ==
	       job_state(client_generation(handle), JOB_PENDING);
}

/* Result of a wait for a job that is not pending: 0, -ESTALE, or -ECONNRESET if it has no outcome.
 * Then this process has closed the socket itself, and forkd has taken the segment back. */
static int wait_ended(struct fk_client *client, fk_job handle)
{
	int outcome = client_outcome(client, handle);

	return outcome < 0 ? outcome : 0;
}

/* The error for a job without an outcome. */
static int wait_pending(struct fk_client *client)
{
	return client_is_gone(client) ? -ECONNRESET : -EINPROGRESS;
}

/* True if the job ended while spinning. */
static int wait_spin(struct fk_client *client, fk_job handle, uint64_t end_ns)
{
	uint32_t steps = 0;

	do {
		if (!is_pending(client, handle))
			return 1;
	} while (client_spin(&steps, end_ns));
	return 0;
}

/* 1 if the job has ended, 0 if not, -ESTALE, -ECONNRESET. */
static int wait_poll(struct fk_client *client, fk_job handle)
{
	int gone, err;

	if (unlikely(!client_slot(client, handle))) {
		err = wait_ended(client, handle);
		return err ? err : 1;
	}
	gone = is_pending(client, handle) && client_look(client, clock_coarse_ns());
	if (is_pending(client, handle))
		return gone ? -ECONNRESET : 0;
	err = wait_ended(client, handle);
	return err ? err : 1;
}

/* As fk_wait(), after client_check(). */
static int wait_job(struct fk_client *client, fk_job handle, uint64_t timeout_ns)
{
	struct job *job = client_job(client, handle);
	uint64_t start;
	uint64_t deadline;
	uint32_t spin;
	int err = 0;

	if (unlikely(!client_slot(client, handle)) || !is_pending(client, handle))
		return wait_ended(client, handle);
	if (!timeout_ns) {
		err = wait_poll(client, handle);
		return err > 0 ? 0 : err ? err : -ETIMEDOUT;
	}
	start = clock_ns();
	deadline = client_deadline(start, timeout_ns);

	/* Relaxed: a hint. */
	spin = load_relaxed(&client->spin);
	if (spin) {
		if (wait_spin(client, handle, min(start + spin, deadline)))
			return wait_ended(client, handle);
		/* The spin was in vain (I3). */
		store_relaxed(&client->spin, max(spin / 2, WAIT_SPIN_MIN));
	}
	for (;;) {
		uint32_t value = job_announce_waiter(job);

		/* 0: the job has ended. Other generation: it was released or spilled. */
		if (!value || value >> JOB_GEN_SHIFT != client_generation(handle))
			break;
		FK_CRASH(wait_announced);
		err = client_sleep(client, &job->state, value, deadline);
		FK_CRASH(wait_woken);
		if (err)
			break;
	}
	/* is_pending() acquires the outcome, even if job_announce_waiter() has seen it first. */
	if (!is_pending(client, handle)) {
		err = wait_ended(client, handle);
		/* The record of a spilled job may belong to a later job. */
		if (likely(client_slot(client, handle)))
			long_job_learn(&client->long_job, job);
	}
	if (!err && spin && clock_ns() - start < client->spin_max)
		store_relaxed(&client->spin, client->spin_max);
	return err;
}

int fk_wait(fk_client *client, fk_job job, uint64_t timeout_ns)
{
	int err = client_check(client);

	return err ? err : wait_job(client, job, timeout_ns);
}

int fk_poll(fk_client *client, fk_job job)
{
	int err = client_check(client);

	return err ? err : wait_poll(client, job);
}

/* Reads the end of a job. Returns 0, -EPERM, -EINPROGRESS, -ESTALE, -ECONNRESET. */
static int wait_read(struct fk_client *client, fk_job job, struct client_end *ret_end, void *result)
{
	int err = client_check(client);

	if (!err)
		err = client_end_in_table(client, job, ret_end, result);
	if (err == -ESTALE)
		err = spill_read(client, job, ret_end, result);
	return err == -EINPROGRESS ? wait_pending(client) : err;
}

int fk_outcome(fk_client *client, fk_job job, int *ret_code, int *ret_signo)
{
	struct client_end end = { .outcome = JOB_PENDING };
	int err = wait_read(client, job, &end, NULL);

	if (err && err != -EINPROGRESS)
		return err;
	if (ret_code)
		*ret_code = end.code;
	if (ret_signo)
		*ret_signo = (int)end.signo;
	return (int)end.outcome;
}

/* Sets the text for a job that is not DONE. Returns err. */
static int wait_explain(struct fk_client *client, fk_job job, const struct client_end *end, int err)
{
	const struct waker_local *local = client->waker.local;
	int begun = end->run_ns != 0;
	const fk_task *task = NULL;
	char text[CLIENT_TEXT];

	if (local && local->cluster &&
	    local->cluster->explain(&client->waker, (uint32_t)(job & 0xffffu),
				    client_generation(job), text, sizeof(text)))
		return error_say(err, "%s", text);
	/* The arguments are the most frequent cause of all other codes. The pool's own tasks call
	 * others, whose arguments are not known here. */
	if (end->outcome == JOB_FAILED && begun && end->code != -ENOMEM && end->code != -EPROTO)
		task = task_of_hash(client, end->task_hash);
	(void)error_outcome(text, sizeof(text), (int)end->outcome, end->code, (int)end->signo,
			    begun, local != NULL);
	if (!task || task->index < client_own_tasks(client))
		return error_say(err, "%s", text);
	return error_say(err, "%s (%s%s%s)", text, task->text, task->help[0] ? ": " : "",
			 task->help);
}

int fk_result(fk_client *client, fk_job job, void *result, size_t size)
{
	uint8_t copy[LIMIT_RESULT];
	struct client_end end;
	int err = wait_read(client, job, &end, copy);

	if (err)
		return error_of_task(client, err, "");
	err = error_of_outcome(end.outcome, end.code, end.run_ns != 0);
	if (err)
		return wait_explain(client, job, &end, err);
	if (size < end.result_size)
		return error_say(-FK_E_RESULT_SIZE,
				 "the result has %u bytes, there is room for %zu", end.result_size,
				 size);
	if (end.result_size)
		memcpy(result, copy, end.result_size);
	args_copy_back(&client->heap, end.memory);
	return 0;
}

int fk_timings(fk_client *client, fk_job job, struct fk_timings *ret_timings)
{
	struct client_end end;
	int err = wait_read(client, job, &end, NULL);

	if (!err)
		*ret_timings = (struct fk_timings){ end.wait_ns, end.run_ns };
	return err;
}
