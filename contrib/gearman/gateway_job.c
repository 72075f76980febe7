/* SPDX-License-Identifier: MIT */
/*
 * gateway_job.c - one job of Gearman, from its payload to its answer
 *
 *	payload -> task, permission -> values -> journal -> forkd -> outcome -> answer or exception
 *
 * INVARIANTS
 *   I1. A task that is not idempotent is submitted once, unless forkd certainly has not begun it.
 *       Its entry in the journal is made before.
 *   I2. After forkd was lost, a job runs again only if no task can have written to its arguments:
 *       it was not begun, or it is idempotent and has no iobuf.
 *   I3. A payload that is copied from the heap of a lost link is complete if the head of that
 *       segment is intact after the copy: forkd frees the pages of a segment from its start.
 */
#include "contrib/gearman/gateway_job.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/client.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "contrib/gearman/functions.h"
#include "contrib/gearman/gateway.h"
#include "contrib/gearman/gateway_slot.h"
#include "contrib/gearman/journal.h"
#include "contrib/gearman/gateway_metrics.h"
#include "contrib/gearman/payload.h"
#include "shm/limits.h"
#include "shm/segment.h"

#define JOB_TRIES 3u /* of a task whose module is replaced at the same time */

/* What becomes of a job. */
enum verdict {
	VERDICT_DONE,  /* there is an answer */
	VERDICT_ENDED, /* there is an exception */
	VERDICT_AGAIN, /* the job has not begun, or may run twice: wait for forkd and run it */
};

/* A job while it is in the gateway. */
struct run {
	struct slot *slot;
	const char *handle; /* of the server */
	const char *name;
	const char *unique;
	void *data;
	uint32_t size;
	bool is_frame;
	fk_client *client;
	const fk_task *task;
	struct payload payload;
	bool idempotent;
	bool entered; /* in the journal */
	bool begun;   /* the task may have run */
	uint32_t tries;
	uint64_t started_ns;
	const void *answer;
	size_t answer_size;
	char outcome[16];
	int code;
	char text[PAYLOAD_EXCEPTION];
};

static enum verdict end_unknown(struct run *run, const char *why)
{
	(void)snprintf(run->outcome, sizeof(run->outcome), PAYLOAD_UNKNOWN);
	(void)snprintf(run->text, sizeof(run->text), "the task may have run: %s", why);
	run->code = 0;
	return VERDICT_ENDED;
}

/* Ends a job with an exception. A job that may have run is not REFUSED. */
static enum verdict end(struct run *run, const char *outcome, int code, const char *text)
{
	if (run->begun && streq(outcome, PAYLOAD_REFUSED))
		return end_unknown(run, text);
	(void)snprintf(run->outcome, sizeof(run->outcome), "%s", outcome);
	(void)snprintf(run->text, sizeof(run->text), "%s", text);
	run->code = code;
	return VERDICT_ENDED;
}

/* ------------------------------------------------------------------------------ before forkd */

/* Finds the task, and checks whether the user may call it. */
static enum verdict find(struct run *run)
{
	int err = fk_task_find(run->client, run->name, &run->task);

	if (err)
		return end(run, PAYLOAD_REFUSED, err, fk_error_text());
	if (functions_denied(run->client, run->task))
		return end(run, PAYLOAD_REFUSED, -FK_E_DENIED, fk_strerror(-FK_E_DENIED));
	return VERDICT_DONE;
}

static bool has_iobuf(const struct signature *signature)
{
	for (uint32_t i = 0; i < signature->n_args; i++)
		if (signature->args[i].type == SIGNATURE_IOBUF)
			return true;
	return false;
}

/* Enters a job that must not run twice. */
static enum verdict enter(struct run *run)
{
	struct journal *journal = run->slot->gateway->journal;
	char by[160], text[256];
	int fd, err;

	if (run->idempotent || run->entered || !journal)
		return VERDICT_DONE;
	err = journal_enter(journal, run->name, run->unique, &fd, by, sizeof(by));
	if (err == JOURNAL_STARTED) {
		(void)add_relaxed(&run->slot->gateway->metrics->journal_hits, 1);
		(void)snprintf(text, sizeof(text), "started by %s", by);
		return end_unknown(run, text);
	}
	if (err == -EINVAL)
		return end(run, PAYLOAD_REFUSED, err,
			   "the job has no unique id of at most 64 bytes, and the task is not "
			   "idempotent: give "
			   "it one, or see --idempotent of forkd-gearman(8)");
	run->entered = !err;
	if (!err)
		err = journal_commit(journal, &fd, 1);
	if (err) {
		(void)snprintf(text, sizeof(text), "cannot write the journal: %s",
			       fk_strerror(err));
		return end(run, PAYLOAD_REFUSED, err, text);
	}
	return VERDICT_DONE;
}

/* ------------------------------------------------------------------------------ at forkd */

/* Forkd has gone. begun: the task may have run. */
static enum verdict lost(struct run *run, bool begun)
{
	run->begun |= begun;
	if (!begun || (run->idempotent && !has_iobuf(&run->task->signature)))
		return VERDICT_AGAIN;
	return end_unknown(run, "the connection of the gateway to forkd was lost");
}

/* True if forkd ends all jobs because it stops. */
static bool is_stopping(const fk_client *client)
{
	return load_relaxed(&client->board->manager.state) >= BOARD_STOPPING;
}

/* The job has another outcome than DONE. err: of fk_result(). */
static enum verdict failed(struct run *run, fk_job job, int err)
{
	const char *text = fk_error_text(), *name;
	int code = 0, signo = 0;
	int outcome = fk_outcome(run->client, job, &code, &signo);
	size_t n;

	if (outcome < 0)
		return lost(run, true);
	/* Whether it had begun is not known: if the manager ends a job, its times are not set. */
	if (outcome == FK_CANCELLED && is_stopping(run->client))
		return lost(run, true);
	if (outcome == FK_FAILED && err == -FK_E_TASK_GONE && run->tries++ < JOB_TRIES)
		return VERDICT_AGAIN;
	if (outcome == FK_LOST)
		return end_unknown(run, fk_strerror(err));
	/* The text of an outcome begins with its name. */
	name = fk_outcome_name(outcome);
	n = strlen(name);
	if (!strncmp(text, name, n) && text[n] == ':')
		text += n + 2;
	else if (streq(text, name))
		text = fk_strerror(err);
	return end(run, name, outcome == FK_CRASHED ? signo : code, text);
}

/* Waits for the outcome, and writes the answer. */
static enum verdict finish(struct run *run, fk_job job)
{
	uint8_t results[LIMIT_RESULT];
	struct fk_timings timings;
	char error[PAYLOAD_ERROR];
	int err = fk_wait(run->client, job, FK_FOREVER);

	if (err)
		return lost(run, true);
	err = fk_result(run->client, job, results, sizeof(results));
	if (err)
		return failed(run, job, err);
	err = fk_timings(run->client, job, &timings);
	if (err)
		return lost(run, true);
	err = payload_write_answer(&run->payload, &run->task->signature, results, &timings,
				   &run->answer, &run->answer_size, error);
	return err ? end(run, fk_outcome_name(FK_FAILED), err, error) : VERDICT_DONE;
}

/* Returns the worker of the CPU that the thread runs on, or UINT32_MAX. The thread waits for the
 * job and leaves the CPU to the worker: no other CPU must be woken, neither now nor at the end. */
static uint32_t worker_here(const fk_client *client)
{
	uint32_t cpu = (uint32_t)sched_getcpu();

	/* Relaxed: a hint. As a rule there is a worker for each CPU, in this order. */
	if (cpu < client->n_workers && load_relaxed(&client->board->workers[cpu].cpu) == cpu)
		return cpu;
	for (uint32_t i = 0; i < client->n_workers; i++)
		if (load_relaxed(&client->board->workers[i].cpu) == cpu)
			return i;
	return UINT32_MAX;
}

static enum verdict submit(struct run *run)
{
	uint32_t worker = worker_here(run->client);
	const struct fk_request request = {
		.task = run->task,
		.values = run->payload.values,
		.size = run->task->signature.n_args,
		.options = {
			.timeout_ns = run->payload.timeout_ns,
			.weight = run->payload.weight,
			.flags = run->idempotent ? FK_IDEMPOTENT : 0,
			.place = worker == UINT32_MAX ? FK_PLACE_ANY : FK_PLACE_WORKER,
			.place_index = worker == UINT32_MAX ? 0 : worker,
		},
	};
	enum verdict verdict;
	fk_job job;
	int err = fk_submit_batch(run->client, &request, 1, FK_WAIT_ROOM, &job);

	if (err == -ECONNRESET)
		return lost(run, false);
	if (err == -FK_E_TASK_GONE && run->tries++ < JOB_TRIES)
		return VERDICT_AGAIN;
	if (err)
		return end(run, PAYLOAD_REFUSED, err, fk_error_text());
	verdict = finish(run, job);
	(void)fk_release(run->client, job);
	return verdict;
}

/* Runs the job with the link of its memory. */
static enum verdict run_once(struct run *run)
{
	char error[PAYLOAD_ERROR];
	enum verdict verdict = find(run);
	int err;

	if (verdict != VERDICT_DONE)
		return verdict;
	err = payload_parse_call(run->data, run->size, &run->task->signature, run->task->hash,
				 &run->payload, error);
	if (err)
		return end(run, PAYLOAD_REFUSED, err, error);
	run->idempotent = run->payload.flags & PAYLOAD_IDEMPOTENT ||
			  gateway_options_idempotent(run->slot->gateway->options, run->name);
	verdict = enter(run);
	if (verdict == VERDICT_DONE)
		verdict = submit(run);
	payload_fini(&run->payload);
	return verdict;
}

/* Moves the payload to the heap of a link that works. */
static enum verdict move(struct run *run, struct link *link)
{
	struct memory *memory = &run->slot->memory;
	int err;

	run->client = link->client;
	err = memory_move(memory, link, run->size);
	if (err == -EOWNERDEAD)
		return end_unknown(run, "forkd was lost, and with it the payload");
	if (err == -ECONNRESET)
		return VERDICT_AGAIN;
	if (err)
		return end(run, PAYLOAD_REFUSED, err, fk_error_text());
	run->data = run->size ? memory->block : NULL;
	return VERDICT_DONE;
}

/* Runs the job until it has ended. */
static enum verdict run_job(struct run *run)
{
	struct gateway *gateway = run->slot->gateway;
	enum verdict verdict;
	struct link *link;

	for (;;) {
		link = gateway_wait_link(gateway);
		if (!link)
			return end(run, PAYLOAD_REFUSED, -ESHUTDOWN, "the gateway was stopped");
		verdict = move(run, link);
		if (verdict == VERDICT_DONE)
			verdict = run_once(run);
		if (verdict != VERDICT_DONE && gateway_is_lost(link))
			gateway_lost_link(gateway, link);
		gateway_put_link(gateway, link);
		if (verdict != VERDICT_AGAIN)
			return verdict;
		(void)add_relaxed(&gateway->metrics->rerun, 1);
	}
}

/* Runs "MODULE:". The answer is allocated. */
static enum verdict list(struct run *run, char **ret_answer)
{
	struct link *link = gateway_wait_link(run->slot->gateway);

	if (!link)
		return end(run, PAYLOAD_REFUSED, -ESHUTDOWN, "the gateway was stopped");
	*ret_answer = functions_list(link->client, run->name, run->slot->gateway->options->jobs);
	gateway_put_link(run->slot->gateway, link);
	if (!*ret_answer)
		return end(run, PAYLOAD_REFUSED, -ENOMEM, fk_strerror(-ENOMEM));
	run->answer = *ret_answer;
	run->answer_size = strlen(*ret_answer);
	return VERDICT_DONE;
}

/* Sends the end of a job that has no answer. Version 1.1.20 of the server ends the job with the
 * exception. A client that has not requested exceptions does not recognise this end. Clients that
 * send frames have requested them. All others get a warning in its place. */
static int answer_failed(const struct run *run)
{
	struct peer *peer = &run->slot->peer;
	char line[PAYLOAD_EXCEPTION];
	const struct peer_part parts[] = {
		{ run->handle, strlen(run->handle) + 1 },
		{ line, payload_format_exception(line, run->outcome, run->code, run->text) },
	};
	const struct peer_part handle = { run->handle, strlen(run->handle) };
	int err = peer_send(peer, run->is_frame ? PACKET_EXCEPTION : PACKET_WARNING, parts, 2);

	return err ? err : peer_send(peer, PACKET_FAIL, &handle, 1);
}

static int answer(const struct run *run, enum verdict verdict)
{
	const struct peer_part parts[] = {
		{ run->handle, strlen(run->handle) + 1 },
		{ run->answer, run->answer_size },
	};

	return verdict == VERDICT_DONE ? peer_send(&run->slot->peer, PACKET_COMPLETE, parts, 2)
				       : answer_failed(run);
}

static void count(const struct run *run, enum verdict verdict, int err)
{
	struct gateway_metrics *metrics = run->slot->gateway->metrics;

	gateway_metrics_ended(metrics,
			      verdict == VERDICT_DONE ? GATEWAY_DONE
						      : gateway_metrics_end_of(run->outcome),
			      clock_ns() - run->started_ns);
	(void)add_relaxed(&metrics->bytes_in, run->size);
	(void)add_relaxed(&metrics->bytes_out, err ? 0 : run->answer_size);
	(void)add_relaxed(&metrics->undelivered, err != 0);
}

/* Receives the payload; or drops it, if there is no memory for it. Returns 0 or a negative errno of
 * the connection. */
static int receive(struct run *run, enum verdict *ret_verdict)
{
	struct memory *memory = &run->slot->memory;
	char text[PAYLOAD_EXCEPTION];
	int err = run->size ? memory_reserve(memory, run->size, text, sizeof(text)) : 0;
	char magic[sizeof(PAYLOAD_CALL)] = "";
	int lost;

	*ret_verdict = err ? end(run, PAYLOAD_REFUSED, err, text) : VERDICT_DONE;
	lost = peer_read(&run->slot->peer, err ? NULL : memory->block, magic, sizeof(magic) - 1);
	run->is_frame = streq(magic, PAYLOAD_CALL);
	return lost;
}

int gateway_job_run(struct slot *slot)
{
	_cleanup_free_ char *listed = NULL;
	struct run run = { .slot = slot, .started_ns = clock_ns() };
	struct gateway_metrics *metrics = slot->gateway->metrics;
	enum verdict verdict;
	int err = peer_read_names(&slot->peer, &run.handle, &run.name, &run.unique);

	if (err)
		return err;
	run.size = slot->peer.left;
	err = receive(&run, &verdict);
	if (err)
		return err;
	(void)add_relaxed(&metrics->in_flight, 1);
	if (verdict == VERDICT_DONE)
		verdict = slot->listing ? list(&run, &listed) : run_job(&run);
	if (run.entered && verdict == VERDICT_ENDED && streq(run.outcome, PAYLOAD_REFUSED))
		journal_leave(slot->gateway->journal, run.name, run.unique);
	err = answer(&run, verdict);
	(void)sub_relaxed(&metrics->in_flight, 1);
	if (!slot->listing)
		count(&run, verdict, err);
	return err;
}
