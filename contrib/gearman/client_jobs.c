/* SPDX-License-Identifier: MIT */
/*
 * client_jobs.c - the thread of a cluster: from job records to servers and back
 *
 * For the client library this thread is the only worker of a pool. It takes the words of jobs from
 * the ring, and writes each job as a frame (payload.h). The server with the fewest jobs gets it.
 * When that ends the call, the thread gives the job its outcome.
 *
 * 	ring -> call -> waiting -> server -> outcome
 * 			   ^---------'	  FK_IDEMPOTENT, or it did not run
 *
 * INVARIANTS
 *   I1. No wake is lost. The worker's word is SLEEPING only from wake_prepare() to the end of
 *       poll(), else LOOKING. wake_prepare() has a full fence before the check of the summary. A
 *       client has one between its word in the ring and its read of the worker's word. So the
 *       check finds the job, or the client finds SLEEPING and writes to wake_fd. poll() ends as
 *       long as wake_fd was not read, and the ring is checked after each read. The worker has no
 *       tid, so each wake is a call of waker_local.wake() (wake_worker.c).
 *   I2. A record belongs to this thread from the acquire of its word (ring_peek()) to the exchange
 *       of its outcome (job_finish()). In between only state and cancel are also the client's.
 *       calls[] has the call of each such record. The entry is NULL before the exchange, because
 *       the record may be published again at once.
 *   I3. Each generation gets one outcome: jobs_finish() is called only for a call that is not over,
 *       or for a record without a call. So a call may outlive its job: a job that is cancelled, or
 *       whose deadline has passed, ends at once, and its call stays until the server ends it.
 *   I4. The arguments are copied into the frame when the record is taken. An iobuf is written only
 *       before a job's outcome DONE. So after a cancel nothing touches the caller's buffers.
 *   I5. A call is submitted again only if its job is idempotent, or was certainly not started. Each
 *       attempt has its own unique id: a job server could merge it with one that lost its client.
 *   I6. The steps of an outcome are those of daemon/jobs/job_end.c: result, code, times, text; then
 *       the exchange; then the wakes, the watch, and the group. The group is read before the
 *       exchange.
 *
 * fk_close() ends the thread, then its connections: servers drop jobs that have not begun. Those
 * that run end there. In a child of fork() there is no such thread, and each call of the library
 * fails there; client_plugin.c closes the descriptors.
 */
#include "contrib/gearman/client_jobs.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <forkd/client.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/relaxed.h"
#include "common/text.h"
#include "common/util.h"
#include "contrib/gearman/client_cluster.h"
#include "contrib/gearman/payload.h"
#include "shm/fence.h"
#include "shm/futex.h"
#include "shm/ref.h"
#include "shm/ring.h"
#include "shm/wake.h"
#include "shm/watch.h"

#define JOBS_BACK_OFF	  (50 * NSEC_PER_MSEC) /* before the second attempt; then it doubles */
#define JOBS_BACK_OFF_MAX (5 * NSEC_PER_SEC)
#define JOBS_NO_DUE	  UINT64_MAX

/* A job on its way. server: the call there; its link is in waiting if it is at no server. */
struct call {
	struct server_call sent;
	struct server *server; /* NULL: it is in waiting */
	uint32_t index, generation;
	bool is_over; /* the job has its outcome: the record is the client's */
	bool is_idempotent;
	uint32_t tries;
	uint64_t due_ns;      /* in waiting: not before this time */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: none */
	uint64_t drained_ns;
	size_t id_at;	   /* place of the unique id in the packet */
	size_t payload_at; /* place of the payload */
	const struct signature *signature;
	union fk_value values[SIGNATURE_MAX_ARGS];
};

/* An outcome. */
struct end {
	uint32_t outcome;
	int32_t code;
	uint32_t signo;
	bool begun;
	uint64_t run_ns; /* if it has begun */
};

void jobs_wake(struct cluster *cluster)
{
	const uint64_t one = 1;

	/* EAGAIN: it is readable. */
	(void)!write(cluster->wake_fd, &one, sizeof(one));
}

/* ------------------------------------------------------------------------ outcomes */

static void jobs_set_text(struct cluster *cluster, uint32_t index, uint32_t generation,
			  const char *text)
{
	struct cluster_text *entry;

	pthread_mutex_lock(&cluster->texts_lock);
	entry = &cluster->texts[cluster->next_text++ % cluster->n_texts];
	free(entry->text);
	*entry = (struct cluster_text){ index, generation, strdup(text) };
	if (entry->text)
		text_make_line(entry->text, strlen(entry->text));
	pthread_mutex_unlock(&cluster->texts_lock);
}

int jobs_text(struct cluster *cluster, uint32_t index, uint32_t generation, char *text, size_t size)
{
	int found = 0;

	pthread_mutex_lock(&cluster->texts_lock);
	for (uint32_t i = 0; i < cluster->n_texts && !found; i++) {
		const struct cluster_text *entry = &cluster->texts[i];

		found = entry->text && entry->index == index && entry->generation == generation;
		if (found)
			(void)snprintf(text, size, "%s", entry->text);
	}
	pthread_mutex_unlock(&cluster->texts_lock);
	return found;
}

/* Gives the job of a record its outcome (I6). text: NULL for the usual one. */
static void jobs_finish(struct cluster *cluster, uint32_t index, uint32_t generation,
			uint64_t drained_ns, const struct end *end, const char *text)
{
	struct watch *watch = watch_of(cluster->groups);
	struct job *job = &cluster->jobs[index];
	uint64_t now = clock_ns(), started = now;
	struct group *group;
	uint32_t told;

	cluster->calls[index] = NULL; /* I2 */
	if (end->begun)
		started = max(now - min(max(end->run_ns, UINT64_C(1)), now), drained_ns);
	if (text)
		jobs_set_text(cluster, index, generation, text);
	/* ORDER job/reuse [J2]: release, as in job_end_row(). */
	fence_release();
	store_relaxed(&job->code, end->code);
	store_relaxed(&job->signo, end->signo);
	store_relaxed(&job->worker, 0);
	store_relaxed(&job->drained_ns, drained_ns);
	store_relaxed(&job->started_ns, started);
	store_relaxed(&job->ended_ns, end->begun ? max(now, started + 1) : started);
	group = group_of(cluster->groups, load_relaxed(&job->group));
	told = job_finish(job, generation, end->outcome);
	if (told & JOB_WAITER)
		futex_wake(&job->state, INT32_MAX);
	if (told & JOB_WATCHED && watch_end(watch))
		futex_wake(&watch->ended, INT32_MAX);
	if (group && group_done(group, 1))
		futex_wake(&group->word, INT32_MAX);
}

/* Gives the job of a call its outcome. The call stays. */
static void call_finish(struct cluster *cluster, struct call *call, const struct end *end,
			const char *text)
{
	call->is_over = true;
	jobs_finish(cluster, call->index, call->generation, call->drained_ns, end, text);
}

/* A job that has not begun. */
static void call_refuse(struct cluster *cluster, struct call *call, int code, const char *text)
{
	const struct end end = { .outcome = JOB_FAILED, .code = code };

	call_finish(cluster, call, &end, text);
}

static void call_free(struct server_call *sent)
{
	struct call *call = container_of(sent, struct call, sent);

	free(sent->packet);
	free(call);
}

/* ------------------------------------------------------------------------ calls */

/* A time at which the thread must look at its calls. */
static void jobs_due(struct cluster *cluster, uint64_t ns)
{
	cluster->due_ns = min(cluster->due_ns, ns);
}

/* Returns the server that is up and has the fewest calls; NULL: none is up. */
static struct server *jobs_choose(struct cluster *cluster)
{
	struct server *best = NULL;

	for (uint32_t i = 0; i < cluster->n_servers; i++) {
		struct server *server =
			&cluster->servers[(cluster->next_server + i) % cluster->n_servers];

		if (server->is_up && (!best || server->n < best->n))
			best = server;
	}
	cluster->next_server++;
	return best;
}

/* Gives a call to a server, or puts it into the list of those that wait for one. */
static void call_submit(struct cluster *cluster, struct call *call)
{
	uint64_t now = clock_ns(), timeout;
	char id[PACKET_UNIQUE];

	call->server = call->due_ns <= now ? jobs_choose(cluster) : NULL;
	if (!call->server) {
		list_add(&cluster->waiting, &call->sent.link);
		cluster->waiting_ns = min(cluster->waiting_ns, call->due_ns);
		if (call->due_ns > now)
			jobs_due(cluster, call->due_ns);
		return;
	}
	/* Its length is the same each time: client_packet(). */
	(void)snprintf(id, sizeof(id), "%s-%016llx", cluster->id,
		       (unsigned long long)cluster->n_ids++);
	memcpy(call->sent.packet + call->id_at, id, strlen(id));
	if (call->deadline_ns) {
		timeout = htole64(call->deadline_ns > now ? call->deadline_ns - now : 1);
		memcpy(call->sent.packet + call->payload_at +
			       offsetof(struct payload_call, timeout_ns),
		       &timeout, sizeof(timeout));
	}
	server_submit(call->server, &call->sent);
}

/* Submits a call again, after a time that grows. */
static void call_again(struct cluster *cluster, struct call *call, bool back_off)
{
	uint64_t wait = min(JOBS_BACK_OFF << min(call->tries, 16u), JOBS_BACK_OFF_MAX);

	call->due_ns = back_off ? clock_ns() + wait : 0;
	call->tries += back_off;
	call_submit(cluster, call);
}

/* It is not known whether the job has run. Returns true if the call is submitted again. */
static bool call_lost(struct cluster *cluster, struct call *call, const char *why)
{
	const struct end end = { .outcome = JOB_LOST };
	char text[CLUSTER_TEXT];

	if (call->is_idempotent) {
		call_again(cluster, call, true);
		return true;
	}
	(void)snprintf(text, sizeof(text), "LOST: unknown, may have run: %s", why);
	call_finish(cluster, call, &end, text);
	return false;
}

/* The outcome of an exception. JOB_IDLE: the task was not started; JOB_PENDING: there is no such
 * outcome. */
static uint32_t exception_outcome(const char *name)
{
	static const struct {
		const char *name;
		uint32_t outcome;
	} rows[] = {
		{ "FAILED", JOB_FAILED },      { "CANCELLED", JOB_CANCELLED },
		{ "EXPIRED", JOB_EXPIRED },    { "CRASHED", JOB_CRASHED },
		{ "LOST", JOB_LOST },	       { PAYLOAD_UNKNOWN, JOB_LOST },
		{ PAYLOAD_REFUSED, JOB_IDLE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (streq(name, rows[i].name))
			return rows[i].outcome;
	return JOB_PENDING;
}

/* The machine's task has another signature: fk_task_find() must ask a gateway again. */
static void call_task_gone(struct cluster *cluster, const struct call *call)
{
	uint32_t index = load_relaxed(&cluster->jobs[call->index].task);

	/* Relaxed: it publishes nothing. If tasks_revive() has just named the same task, the next
	 * search does so again. */
	if (index < LIMIT_TASKS)
		atomic_fetch_or_explicit(&cluster->board->tasks[index].flags, TASK_GONE,
					 memory_order_relaxed);
}

/* Returns true if the call is submitted again. */
static bool call_exception(struct cluster *cluster, struct call *call, const void *data,
			   size_t size)
{
	static const char not_begun[] = "FAILED: not begun: ";
	static const char may_have_run[] = "the task may have run: "; /* gateway_job.c */
	struct payload_exception exception;
	struct end end = { .begun = true };
	char text[CLUSTER_TEXT];
	bool is_named;

	if (payload_parse_exception(data, size, &exception) == 0)
		end.outcome = exception_outcome(exception.outcome);
	else
		end.outcome = JOB_PENDING;
	if (end.outcome == JOB_PENDING) {
		(void)snprintf(text, sizeof(text),
			       "FAILED: the worker is no gateway of forkd: %.*s",
			       (int)min(size, sizeof(text)), (const char *)data);
		call_refuse(cluster, call, -EPROTO, text);
		return false;
	}
	if (end.outcome == JOB_LOST) {
		/* call_lost() says the same in front of the reason. */
		bool is_said = !strncmp(exception.text, may_have_run, strlen(may_have_run));

		return call_lost(cluster, call,
				 exception.text + (is_said ? strlen(may_have_run) : 0));
	}
	is_named = !strncmp(exception.text, exception.outcome, strlen(exception.outcome));
	(void)snprintf(text, sizeof(text), "%s%s%.360s", is_named ? "" : exception.outcome,
		       is_named ? "" : ": ", exception.text);
	if (end.outcome == JOB_IDLE && exception.code == -ESHUTDOWN) {
		call_again(cluster, call, true);
		return true;
	}
	if (end.outcome == JOB_IDLE) {
		if (exception.code == -FK_E_TASK_GONE)
			call_task_gone(cluster, call);
		call_refuse(cluster, call, exception.code < 0 ? exception.code : -EINVAL, text);
		return false;
	}
	if (end.outcome == JOB_CRASHED)
		end.signo = (uint32_t)exception.code;
	else
		end.code = exception.code;
	/* error_outcome() of the machine's library says so. */
	end.begun = strncmp(text, not_begun, strlen(not_begun)) != 0;
	call_finish(cluster, call, &end, text);
	return false;
}

static void call_complete(struct cluster *cluster, struct call *call, const void *data, size_t size)
{
	struct end end = { .outcome = JOB_DONE, .begun = true };
	struct fk_timings timings;
	char error[PAYLOAD_ERROR], text[CLUSTER_TEXT];

	if (payload_parse_answer(data, size, call->signature, call->values,
				 cluster->jobs[call->index].result, &timings, error) < 0) {
		(void)snprintf(text, sizeof(text), "FAILED: the answer is malformed: %s", error);
		end = (struct end){ .outcome = JOB_FAILED, .code = -EBADMSG, .begun = true };
		call_finish(cluster, call, &end, text);
		return;
	}
	end.run_ns = timings.run_ns;
	call_finish(cluster, call, &end, NULL);
}

/* struct server.end */
static void jobs_server_end(struct server *server, struct server_call *sent, enum server_end how,
			    const void *data, size_t size)
{
	struct call *call = container_of(sent, struct call, sent);
	struct cluster *cluster = server->owner;
	bool again = false;
	char text[CLUSTER_TEXT];

	if (call->is_over) {
		call_free(sent);
		return;
	}
	switch (how) {
	case SERVER_COMPLETE:
		call_complete(cluster, call, data, size);
		break;
	case SERVER_EXCEPTION:
		again = call_exception(cluster, call, data, size);
		break;
	case SERVER_FAIL:
		(void)snprintf(text, sizeof(text), "its gateway has left %s", server->name);
		again = call_lost(cluster, call, text);
		break;
	case SERVER_LOST:
		(void)snprintf(text, sizeof(text), "the connection to %s is lost", server->name);
		again = call_lost(cluster, call, text);
		break;
	case SERVER_REFUSED:
		(void)snprintf(text, sizeof(text), "FAILED: %s refuses the job: %.*s", server->name,
			       (int)min(size, sizeof(text)), (const char *)data);
		call_refuse(cluster, call, -EREMOTEIO, text);
		break;
	case SERVER_FULL:
	case SERVER_UNSENT:
		call_again(cluster, call, how == SERVER_FULL);
		again = true;
		break;
	}
	if (!again)
		call_free(sent);
}

/* ------------------------------------------------------------------------ records */

/* Resolves a reference as daemon/jobs/job_input.c does. Returns 0 or a negative error. */
static int record_resolve(struct cluster *cluster, uint8_t type, struct job_ref ref,
			  struct fk_buffer *ret_buffer)
{
	/* ORDER client/imports [K3]: acquire, as in input_import(). */
	char *imports = atomic_load_explicit(&cluster->imports, memory_order_acquire);
	char *heap = (char *)cluster->segment + cluster->segment->heap_offset;
	void *data;

	if (ref.offset & JOB_REF_ADDRESS) {
		data = (void *)(uintptr_t)(ref.offset & ~JOB_REF_ADDRESS);
	} else if (ref.offset >= LIMIT_HEAP) {
		ref.offset -= LIMIT_HEAP;
		data = imports ? ref_resolve(imports, LIMIT_IMPORT, ref, 1) : NULL;
		if (data && type == SIGNATURE_IOBUF)
			return -EROFS;
	} else {
		data = ref_resolve(heap, cluster->segment->heap_max, ref, 1);
	}
	if (!data)
		return -FK_E_REFERENCE;
	*ret_buffer = (struct fk_buffer){ data, ref.size };
	return 0;
}

/* Reads the arguments of a record. strings: receives copies, which end with a NUL, and which the
 * caller frees. Returns 0 or a negative error. */
static int record_values(struct cluster *cluster, const struct job *job,
			 const struct signature *signature, union fk_value *values, char **strings)
{
	for (uint32_t i = 0; i < signature->n_args; i++) {
		const uint8_t *from = job->args + signature->args[i].offset;
		uint8_t type = signature->args[i].type;
		struct fk_buffer buffer;
		struct job_ref ref;
		int err;

		if (!signature_is_reference(type)) {
			memcpy(&values[i], from, sizeof(int64_t));
			continue;
		}
		memcpy(&ref, from, sizeof(ref));
		err = record_resolve(cluster, type, ref, &buffer);
		if (err)
			return err;
		values[i].buf = buffer;
		if (type != SIGNATURE_STR)
			continue;
		strings[i] = strndup(buffer.data, buffer.size);
		if (!strings[i])
			return -ENOMEM;
		values[i].str = strings[i];
	}
	return 0;
}

/* Writes the packet of a call. Returns 0, or a negative error with a text in error. */
static int record_packet(struct cluster *cluster, const struct job *job,
			 const struct board_task *task, struct call *call, char *error)
{
	uint32_t weight = load_relaxed(&job->weight);
	size_t name = strlen(task->name) + 1, id = strlen(cluster->id) + 1 + 16 + 1, size;
	enum packet_type type = weight > 100	       ? PACKET_SUBMIT_HIGH
			      : weight && weight < 100 ? PACKET_SUBMIT_LOW
						       : PACKET_SUBMIT;
	char *packet;
	int err = payload_call_size(call->signature, call->values, &size, error);

	if (err)
		return err;
	call->id_at = PACKET_HEAD + name;
	call->payload_at = call->id_at + id;
	packet = malloc(call->payload_at + size);
	if (!packet)
		return -ENOMEM;
	packet_write_head(packet, type, (uint32_t)(name + id + size));
	memcpy(packet + PACKET_HEAD, task->name, name);
	memset(packet + call->id_at, 0, id);
	payload_write_call(packet + call->payload_at, call->signature, call->values,
			   load_relaxed(&task->hash), call->is_idempotent ? PAYLOAD_IDEMPOTENT : 0,
			   0, weight);
	call->sent.packet = packet;
	call->sent.size = call->payload_at + size;
	return 0;
}

static int record_fill(struct cluster *cluster, const struct job *job, struct call *call,
		       char *error)
{
	/* ORDER board/tasks [B1]: acquire, the entry and its signature are complete. Pairs with
	 * tasks_add(). */
	uint32_t n = atomic_load_explicit(&cluster->board->n_tasks, memory_order_acquire);
	char *strings[SIGNATURE_MAX_ARGS] = { NULL };
	uint32_t index = load_relaxed(&job->task);
	const struct board_task *task = &cluster->board->tasks[min(index, LIMIT_TASKS - 1)];
	int err;

	if (index >= n || load_relaxed(&task->hash) != load_relaxed(&job->task_hash))
		return -FK_E_TASK_GONE;
	call->signature = &cluster->signatures[index];
	if (load_relaxed(&job->args_size) != call->signature->args_size)
		return -FK_E_SIGNATURE;
	if (load_relaxed(&job->place))
		return -FK_E_PLACE;
	err = record_values(cluster, job, call->signature, call->values, strings);
	if (!err)
		err = record_packet(cluster, job, task, call, error);
	for (uint32_t i = 0; i < SIGNATURE_MAX_ARGS; i++)
		free(strings[i]);
	return err;
}

/* Takes the job of a record. */
static void record_take(struct cluster *cluster, uint32_t index)
{
	struct job *job = &cluster->jobs[index];
	uint32_t generation = load_relaxed(&job->generation) & JOB_GEN_MASK;
	struct end end = { .outcome = JOB_FAILED };
	char error[PAYLOAD_ERROR] = "", text[CLUSTER_TEXT];
	uint64_t now = clock_ns();
	struct call *call;

	if (cluster->calls[index])
		return; /* It was submitted twice. */
	call = calloc(1, sizeof(*call));
	if (!call) {
		end.code = -ENOMEM;
		jobs_finish(cluster, index, generation, now, &end, NULL);
		return;
	}
	call->index = index;
	call->generation = generation;
	call->drained_ns = now;
	call->deadline_ns = load_relaxed(&job->deadline_ns);
	call->is_idempotent = load_relaxed(&job->flags) & JOB_IDEMPOTENT;
	cluster->calls[index] = call;
	end.code = record_fill(cluster, job, call, error);
	if (end.code) {
		(void)snprintf(text, sizeof(text), "FAILED: not begun: %s", error);
		call_finish(cluster, call, &end, error[0] ? text : NULL);
		call_free(&call->sent);
		return;
	}
	if (call->deadline_ns)
		jobs_due(cluster, call->deadline_ns);
	if (job_is_unwanted(job, generation))
		/* Relaxed: this thread reads it. */
		store_relaxed(&cluster->is_cancelled, 1);
	call_submit(cluster, call);
}

/* Takes the chain of a word. */
static void jobs_take_chain(struct cluster *cluster, uint32_t payload)
{
	uint32_t n = cluster->segment->n_jobs;
	uint32_t next = ring_payload_job(payload) + 1;

	for (uint32_t left = n; next && next <= n && left; left--) {
		uint32_t index = next - 1;

		/* Read before the job can end and its record be reused (job.h, I2). */
		next = load_relaxed(&cluster->jobs[index].next);
		record_take(cluster, index);
	}
}

/* Takes all words off the ring: daemon/jobs/ring_drain.c, with one ring and one consumer. */
static void jobs_drain(struct cluster *cluster)
{
	struct ring *ring = &cluster->tenant->rings[0];
	uint32_t payload;

	if (!tenant_is_marked(cluster->tenant))
		return;
	tenant_clear(cluster->tenant, 0);
	for (;;) {
		enum ring_status status = ring_peek(ring, cluster->head, &payload);

		if (status == RING_EMPTY) {
			status = ring_skip(ring, cluster->head);
			if (status == RING_EMPTY)
				break;
			if (status == RING_OK)
				continue;
			cluster->head++;
			continue;
		}
		if (status == RING_GARBAGE)
			continue;
		jobs_take_chain(cluster, payload);
		cluster->head++;
		ring_consume(ring, cluster->head - 1);
	}
}

/* ------------------------------------------------------------------------ time and cancels */

/* Ends the job of a call. The call is freed now, or when its server ends it. */
static void call_abandon(struct cluster *cluster, struct call *call, uint32_t outcome)
{
	const struct end end = { .outcome = outcome };

	call_finish(cluster, call, &end, NULL);
	if (!call->server) {
		list_remove(&call->sent.link);
	} else if (!server_withdraw(call->server, &call->sent)) {
		if (!call->sent.is_sent)
			return;
		/* The call may stay for as long as its machine works. */
		free(call->sent.packet);
		call->sent.packet = NULL;
		return;
	}
	call_free(&call->sent);
}

static void jobs_cancel(struct cluster *cluster)
{
	/* ORDER cancel/word [V4]: acquire, the word of the record was written before. Pairs with
	 * cluster_send(). */
	if (!atomic_exchange_explicit(&cluster->is_cancelled, 0, memory_order_acquire))
		return;
	for (uint32_t i = 0; i < cluster->segment->n_jobs; i++) {
		struct call *call = cluster->calls[i];

		if (call && job_is_unwanted(&cluster->jobs[i], call->generation))
			call_abandon(cluster, call, JOB_CANCELLED);
	}
}

/* Ends jobs whose deadlines have passed, and finds the next one. */
static void jobs_expire(struct cluster *cluster, uint64_t now)
{
	if (now < cluster->due_ns)
		return;
	cluster->due_ns = JOBS_NO_DUE;
	for (uint32_t i = 0; i < cluster->segment->n_jobs; i++) {
		struct call *call = cluster->calls[i];

		if (!call)
			continue;
		if (call->deadline_ns && call->deadline_ns <= now) {
			call_abandon(cluster, call, JOB_EXPIRED);
			continue;
		}
		if (call->deadline_ns)
			jobs_due(cluster, call->deadline_ns);
		if (!call->server && call->due_ns > now)
			jobs_due(cluster, call->due_ns);
	}
}

static bool is_any_up(const struct cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->n_servers; i++)
		if (cluster->servers[i].is_up)
			return true;
	return false;
}

/* Submits the calls that have waited long enough, if a server is up. */
static void jobs_resubmit(struct cluster *cluster, uint64_t now)
{
	struct list_link later = { NULL, NULL };
	struct call *call;

	if (now < cluster->waiting_ns || !is_any_up(cluster))
		return;
	cluster->waiting_ns = JOBS_NO_DUE;
	while ((call = list_first(&cluster->waiting, struct call, sent.link))) {
		list_remove(&call->sent.link);
		list_add(&later, &call->sent.link);
	}
	while ((call = list_first(&later, struct call, sent.link))) {
		list_remove(&call->sent.link);
		call_submit(cluster, call);
	}
}

/* ------------------------------------------------------------------------ the thread */

/* Milliseconds until the thread must act, for poll(). */
static int jobs_timeout(const struct cluster *cluster)
{
	uint64_t now = clock_ns(), due = cluster->due_ns;

	for (uint32_t i = 0; i < cluster->n_servers; i++)
		if (!cluster->servers[i].is_up)
			due = min(due, cluster->servers[i].retry_ns);
	if (due == JOBS_NO_DUE)
		return -1;
	/* Rounded up, or poll() would return too early again and again. */
	return due <= now ? 0 : (int)min((due - now) / NSEC_PER_MSEC + 1, UINT64_C(60000));
}

/* Sleeps until there is something to do; then handles the servers' events. */
static void jobs_sleep(struct cluster *cluster)
{
	_Atomic uint32_t *word = &cluster->board->workers[0].wake;
	struct pollfd fds[CLUSTER_SERVERS + 1];
	uint64_t count, now;

	fds[0] = (struct pollfd){ .fd = cluster->wake_fd, .events = POLLIN };
	for (uint32_t i = 0; i < cluster->n_servers; i++)
		fds[i + 1] = (struct pollfd){ .fd = cluster->servers[i].fd,
					      .events = server_events(&cluster->servers[i]) };
	(void)wake_prepare(word); /* I1 */
	if (!tenant_is_marked(cluster->tenant))
		(void)poll(fds, cluster->n_servers + 1, jobs_timeout(cluster));
	wake_store(word, WAKE_LOOKING);
	if (fds[0].revents)
		(void)!read(cluster->wake_fd, &count, sizeof(count));
	now = clock_ns();
	for (uint32_t i = 0; i < cluster->n_servers; i++)
		if (fds[i + 1].revents)
			server_handle(&cluster->servers[i], fds[i + 1].revents, now);
}

void *jobs_main(void *arg)
{
	struct cluster *cluster = arg;

	for (uint32_t i = 0; i < cluster->n_servers; i++) {
		cluster->servers[i].end = jobs_server_end;
		cluster->servers[i].owner = cluster;
	}
	/* Relaxed: it orders nothing. */
	while (!load_relaxed(&cluster->is_ending)) {
		uint64_t now = clock_ns();

		for (uint32_t i = 0; i < cluster->n_servers; i++)
			server_connect(&cluster->servers[i], now);
		jobs_drain(cluster);
		jobs_cancel(cluster);
		jobs_expire(cluster, now);
		jobs_resubmit(cluster, now);
		/* Writes at once, not only after poll(). */
		for (uint32_t i = 0; i < cluster->n_servers; i++)
			if (cluster->servers[i].is_up)
				server_handle(&cluster->servers[i], 0, now);
		jobs_sleep(cluster);
	}
	return NULL;
}

void jobs_fini(struct cluster *cluster)
{
	struct call *call;

	for (uint32_t i = 0; i < cluster->n_servers; i++)
		server_fini(&cluster->servers[i], call_free);
	while ((call = list_first(&cluster->waiting, struct call, sent.link))) {
		list_remove(&call->sent.link);
		call_free(&call->sent);
	}
	for (uint32_t i = 0; cluster->texts && i < cluster->n_texts; i++)
		free(cluster->texts[i].text);
}
