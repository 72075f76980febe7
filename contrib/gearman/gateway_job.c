/* SPDX-License-Identifier: MIT */
/*
 * gateway_job.c - one job of Gearman, from its payload to its answer: gateway_job.h
 *
 *	payload -> task, permission -> values -> journal -> forkd -> outcome -> answer or exception
 *
 * INVARIANTS
 *   I1. A task that is not idempotent is submitted once, unless forkd certainly has not begun it.
 *       Its entry in the journal is durable before: it is started, entered and started again.
 *   I2. After forkd was lost, a job runs again only if no task can have written to its arguments:
 *       it was not begun, or it is idempotent and has no iobuf.
 *   I3. A payload that is copied from the heap of a lost link is complete if the head of that
 *       segment is intact after the copy: forkd frees the pages of a segment from its start.
 *   I4. After fk_submit_batch() a job belongs to the thread to which forkd reports it. That thread
 *       may have it before fk_submit_batch() returns.
 */
#include "contrib/gearman/gateway_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "common/clock.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "contrib/gearman/functions.h"
#include "contrib/gearman/gateway.h"
#include "contrib/gearman/gateway_metrics.h"
#include "contrib/gearman/journal.h"
#include "shm/limits.h"
#include "shm/segment.h"

#define JOB_TRIES 3u /* of a task whose module is replaced at the same time */

static enum verdict end_unknown(struct gateway_job *job, const char *why)
{
	(void)snprintf(job->outcome, sizeof(job->outcome), PAYLOAD_UNKNOWN);
	(void)snprintf(job->text, sizeof(job->text), "the task may have run: %s", why);
	job->code = 0;
	return VERDICT_ENDED;
}

/* Ends a job with an exception. A job that may have run is not REFUSED. */
static enum verdict end(struct gateway_job *job, const char *outcome, int code, const char *text)
{
	if (job->begun && streq(outcome, PAYLOAD_REFUSED))
		return end_unknown(job, text);
	(void)snprintf(job->outcome, sizeof(job->outcome), "%s", outcome);
	(void)snprintf(job->text, sizeof(job->text), "%s", text);
	job->code = code;
	return VERDICT_ENDED;
}

static enum verdict end_stopped(struct gateway_job *job)
{
	return end(job, PAYLOAD_REFUSED, -ESHUTDOWN, "the gateway was stopped");
}

/* ------------------------------------------------------------------------------ receive */

void gateway_job_init(struct gateway_job *job, struct gateway *gateway, uint32_t server,
		      bool is_listing, _Atomic uint32_t *in_flight)
{
	*job = (struct gateway_job){
		.gateway = gateway,
		.server = server,
		.is_listing = is_listing,
		.in_flight = in_flight,
		.memory = { .gateway = gateway, .server = server, .in_flight = in_flight },
	};
}

int gateway_job_receive(struct gateway_job *job, struct peer *peer, enum verdict *ret_verdict)
{
	struct memory *memory = &job->memory;
	char text[PAYLOAD_EXCEPTION];
	char magic[sizeof(PAYLOAD_CALL)] = "";
	int err = peer_read_names(peer, job->names, &job->handle, &job->name, &job->unique);
	int lost;

	if (err)
		return err;
	job->started_ns = clock_ns();
	job->entered = job->begun = false;
	job->tries = 0;
	job->answer_size = 0;
	job->size = peer->left;
	err = job->size ? memory_reserve(memory, job->size, text, sizeof(text)) : 0;
	*ret_verdict = err ? end(job, PAYLOAD_REFUSED, err, text) : VERDICT_RUNS;
	lost = peer_read(peer, err ? NULL : memory->block, magic, sizeof(magic) - 1);
	if (lost) {
		memory_free(memory);
		return lost;
	}
	job->is_frame = streq(magic, PAYLOAD_CALL);
	return 0;
}

/* ------------------------------------------------------------------------------ start */

/* Forkd has gone. begun: the task may have run. */
static enum verdict lost(struct gateway_job *job, bool begun);

/* Moves the payload to the heap of a link. */
static enum verdict move(struct gateway_job *job, struct link *link)
{
	int err;

	job->client = link->clients[job->server];
	err = memory_move(&job->memory, link, job->size);
	if (err == -EOWNERDEAD)
		return end_unknown(job, "forkd was lost, and with it the payload");
	if (err == -ECONNRESET)
		return VERDICT_AGAIN;
	return err ? end(job, PAYLOAD_REFUSED, err, fk_error_text()) : VERDICT_RUNS;
}

/* Finds the task, checks whether the user may call it, and parses the payload. */
static enum verdict parse(struct gateway_job *job)
{
	char error[PAYLOAD_ERROR];
	int err = fk_task_find(job->client, job->name, &job->task);

	if (err)
		return end(job, PAYLOAD_REFUSED, err, fk_error_text());
	if (functions_denied(job->client, job->task))
		return end(job, PAYLOAD_REFUSED, -FK_E_DENIED, fk_strerror(-FK_E_DENIED));
	err = payload_parse_call(job->size ? job->memory.block : NULL, job->size,
				 &job->task->signature, job->task->hash, &job->payload, error);
	if (err)
		return end(job, PAYLOAD_REFUSED, err, error);
	job->is_parsed = true;
	job->idempotent = job->payload.flags & PAYLOAD_IDEMPOTENT ||
			  gateway_options_idempotent(job->gateway->options, job->name);
	return VERDICT_RUNS;
}

static void free_payload(struct gateway_job *job)
{
	if (job->is_parsed)
		payload_fini(&job->payload);
	job->is_parsed = false;
}

static enum verdict end_journal(struct gateway_job *job, int err)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "cannot write the journal: %s", fk_strerror(err));
	return end(job, PAYLOAD_REFUSED, err, text);
}

/* Enters a job. *ret_fd: for journal_commit(), with VERDICT_RUNS. */
static enum verdict enter(struct gateway_job *job, int *ret_fd)
{
	struct journal *journal = job->gateway->journal;
	char by[160], text[256];
	int err;

	err = journal_enter(journal, job->name, job->unique, ret_fd, by, sizeof(by));
	if (err == JOURNAL_STARTED) {
		(void)add_relaxed(&job->gateway->metrics->journal_hits, 1);
		(void)snprintf(text, sizeof(text), "started by %s", by);
		return end_unknown(job, text);
	}
	if (err == -EINVAL)
		return end(job, PAYLOAD_REFUSED, err,
			   "the job has no unique id of at most 64 bytes, and the task is not "
			   "idempotent: give it one, or see --idempotent of forkd-gearman(8)");
	if (err)
		return end_journal(job, err);
	job->entered = true;
	return VERDICT_RUNS;
}

/* The file system makes several entries durable at once. */
void gateway_job_enter(struct gateway_job *const *jobs, size_t n, enum verdict *ret_verdicts)
{
	int fds[GATEWAY_BATCH], err;
	size_t n_fds = 0;

	for (size_t i = 0; i < n; i++) {
		ret_verdicts[i] = enter(jobs[i], &fds[n_fds]);
		n_fds += ret_verdicts[i] == VERDICT_RUNS;
	}
	err = n_fds ? journal_commit(jobs[0]->gateway->journal, fds, n_fds) : 0;
	for (size_t i = 0; i < n && err; i++)
		if (ret_verdicts[i] == VERDICT_RUNS)
			ret_verdicts[i] = end_journal(jobs[i], err);
}

/* True if the job must not run twice, and is not in the journal. */
static bool must_enter(const struct gateway_job *job)
{
	return job->gateway->journal && !job->idempotent && !job->entered;
}

static struct fk_request request_of(struct gateway_job *job)
{
	return (struct fk_request){
		.task = job->task,
		.values = job->payload.values,
		.size = job->task->signature.n_args,
		.options = {
			.timeout_ns = job->payload.timeout_ns,
			.weight = job->payload.weight,
			.flags = FK_WATCH | (job->idempotent ? FK_IDEMPOTENT : 0),
			.data = job,
		},
	};
}

/* Submits jobs of one client together: all or none. */
static int submit_batch(struct gateway_job *const *jobs, size_t n)
{
	fk_client *client = jobs[0]->client;
	struct fk_request requests[GATEWAY_BATCH];
	fk_job handles[GATEWAY_BATCH];

	for (size_t i = 0; i < n; i++)
		requests[i] = request_of(jobs[i]);
	return fk_submit_batch(client, requests, n, FK_WAIT_ROOM, handles);
}

/* Submits a job. If its module was replaced, finds the task again. */
static enum verdict submit(struct gateway_job *job)
{
	enum verdict verdict = VERDICT_RUNS;
	int err = 0;

	do {
		if (err) {
			free_payload(job);
			verdict = parse(job);
		}
		err = verdict == VERDICT_RUNS ? submit_batch(&job, 1) : 0;
	} while (err == -FK_E_TASK_GONE && job->tries++ < JOB_TRIES);
	if (err == -ECONNRESET)
		return lost(job, false);
	return err ? end(job, PAYLOAD_REFUSED, err, fk_error_text()) : verdict;
}

static void submit_all(struct gateway_job *const *jobs, size_t n, enum verdict *verdicts)
{
	struct gateway_job *batch[GATEWAY_BATCH];
	size_t n_batch = 0;

	for (size_t i = 0; i < n; i++)
		if (verdicts[i] == VERDICT_RUNS)
			batch[n_batch++] = jobs[i];
	/* If one of them fails, none was submitted. */
	if (n_batch > 1 && !submit_batch(batch, n_batch))
		return;
	for (size_t i = 0; i < n; i++)
		if (verdicts[i] == VERDICT_RUNS)
			verdicts[i] = submit(jobs[i]);
}

void gateway_job_start(struct gateway_job *const *jobs, size_t n, struct link *link,
		       enum verdict *ret_verdicts)
{
	for (size_t i = 0; i < n; i++) {
		ret_verdicts[i] = link ? move(jobs[i], link) : end_stopped(jobs[i]);
		if (ret_verdicts[i] == VERDICT_RUNS)
			ret_verdicts[i] = parse(jobs[i]);
		if (ret_verdicts[i] == VERDICT_RUNS && must_enter(jobs[i]))
			ret_verdicts[i] = VERDICT_ENTER;
	}
	submit_all(jobs, n, ret_verdicts);
	for (size_t i = 0; i < n; i++)
		if (ret_verdicts[i] != VERDICT_RUNS)
			free_payload(jobs[i]);
}

enum verdict gateway_job_list(struct gateway_job *job)
{
	struct link *link = gateway_wait_link(job->gateway);

	if (!link)
		return end_stopped(job);
	job->listed =
		functions_list(link->clients[job->server], job->name, job->gateway->options->jobs);
	gateway_put_link(job->gateway, link);
	if (!job->listed)
		return end(job, PAYLOAD_REFUSED, -ENOMEM, fk_strerror(-ENOMEM));
	job->answer = job->listed;
	job->answer_size = strlen(job->listed);
	return VERDICT_DONE;
}

/* ------------------------------------------------------------------------------ finish */

static bool has_iobuf(const struct signature *signature)
{
	for (uint32_t i = 0; i < signature->n_args; i++)
		if (signature->args[i].type == SIGNATURE_IOBUF)
			return true;
	return false;
}

static enum verdict lost(struct gateway_job *job, bool begun)
{
	job->begun |= begun;
	if (!begun || (job->idempotent && !has_iobuf(&job->task->signature)))
		return VERDICT_AGAIN;
	return end_unknown(job, "the connection of the gateway to forkd was lost");
}

/* The job has another outcome than DONE. err: of fk_result(). */
static enum verdict failed(struct gateway_job *job, fk_job handle, int err)
{
	const char *text = fk_error_text(), *name;
	int code = 0, signo = 0;
	int outcome = fk_outcome(job->client, handle, &code, &signo);
	size_t n;

	/* DONE: the worker has ended the job since fk_result() found that forkd has gone. */
	if (outcome < 0 || outcome == FK_DONE)
		return lost(job, true);
	/* Whether it had begun is not known: if the manager ends a job, its times are not set. */
	if (outcome == FK_CANCELLED && gateway_is_stopping(job->client))
		return lost(job, true);
	if (outcome == FK_FAILED && err == -FK_E_TASK_GONE && job->tries++ < JOB_TRIES)
		return VERDICT_AGAIN;
	if (outcome == FK_LOST)
		return end_unknown(job, fk_strerror(err));
	/* The text of an outcome begins with its name. */
	name = fk_outcome_name(outcome);
	n = strlen(name);
	if (!strncmp(text, name, n) && text[n] == ':')
		text += n + 2;
	else if (streq(text, name))
		text = fk_strerror(err);
	return end(job, name, outcome == FK_CRASHED ? signo : code, text);
}

/* Reads the outcome, and writes the answer. */
static enum verdict read_outcome(struct gateway_job *job, fk_job handle)
{
	uint8_t results[LIMIT_RESULT];
	struct fk_timings timings;
	char error[PAYLOAD_ERROR];
	int err = fk_result(job->client, handle, results, sizeof(results));

	if (err)
		return failed(job, handle, err);
	err = fk_timings(job->client, handle, &timings);
	if (err)
		return lost(job, true);
	err = payload_write_answer(&job->payload, &job->task->signature, results, &timings,
				   &job->answer, &job->answer_size, error);
	return err ? end(job, fk_outcome_name(FK_FAILED), err, error) : VERDICT_DONE;
}

enum verdict gateway_job_finish(struct gateway_job *job, fk_job handle)
{
	enum verdict verdict = read_outcome(job, handle);

	(void)fk_release(job->client, handle);
	if (verdict != VERDICT_DONE)
		free_payload(job);
	return verdict;
}

/* Sends the end of a job that has no answer. Version 1.1.20 of the server ends the job with the
 * exception. A client that has not requested exceptions does not recognise this end. Clients that
 * send frames have requested them. All others get a warning in its place. */
static int answer_failed(const struct gateway_job *job, struct peer *peer)
{
	char line[PAYLOAD_EXCEPTION];
	const struct peer_part parts[] = {
		{ job->handle, strlen(job->handle) + 1 },
		{ line, payload_format_exception(line, job->outcome, job->code, job->text) },
	};
	const struct peer_part handle = { job->handle, strlen(job->handle) };
	int err = peer_send(peer, job->is_frame ? PACKET_EXCEPTION : PACKET_WARNING, parts, 2);

	return err ? err : peer_send(peer, PACKET_FAIL, &handle, 1);
}

static int answer(const struct gateway_job *job, enum verdict verdict, struct peer *peer)
{
	const struct peer_part parts[] = {
		{ job->handle, strlen(job->handle) + 1 },
		{ job->answer, job->answer_size },
	};

	if (!peer)
		return -ENOTCONN;
	return verdict == VERDICT_DONE ? peer_send(peer, PACKET_COMPLETE, parts, 2)
				       : answer_failed(job, peer);
}

static void count(const struct gateway_job *job, enum verdict verdict, bool is_sent)
{
	struct gateway_metrics *metrics = job->gateway->metrics;

	gateway_metrics_ended(metrics,
			      verdict == VERDICT_DONE ? GATEWAY_DONE
						      : gateway_metrics_end_of(job->outcome),
			      clock_ns() - job->started_ns);
	(void)add_relaxed(&metrics->bytes_in, job->size);
	(void)add_relaxed(&metrics->bytes_out, is_sent ? job->answer_size : 0);
	(void)add_relaxed(&metrics->undelivered, !is_sent);
}

int gateway_job_end(struct gateway_job *job, enum verdict verdict, struct peer *peer)
{
	int err;

	/* Before the answer: the client may send the job again. */
	if (job->entered && verdict == VERDICT_ENDED && streq(job->outcome, PAYLOAD_REFUSED))
		journal_leave(job->gateway->journal, job->name, job->unique);
	err = answer(job, verdict, peer);
	if (!job->is_listing)
		count(job, verdict, !err);
	free(job->listed);
	job->listed = NULL;
	free_payload(job);
	memory_free(&job->memory);
	(void)sub_relaxed(&job->gateway->metrics->in_flight, 1);
	/* ORDER heap/flight [G2]: release, after the memory was freed. Pairs with
	 * memory_reserve(). */
	(void)atomic_fetch_sub_explicit(job->in_flight, 1, memory_order_release);
	return peer ? err : 0;
}
