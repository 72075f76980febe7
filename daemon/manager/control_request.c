/* SPDX-License-Identifier: MIT */
/*
 * control_request.c - requests that need no slot: cancel another client's jobs, list jobs, show the
 * configuration
 *
 * 	forkctl --PROTO_CANCEL_FOR--> manager --PROTO_POOL_CANCEL--> pool
 * 	        --PROTO_JOBS, PROTO_CONFIG-->
 * 	        <--PROTO_TOLD, a sealed file-- and the connection ends
 *
 *   The kernel reports the requesting user. An operator may request everything; other users may
 *   cancel and list the jobs of their own clients. trace_subscribers.c continues PROTO_TRACE.
 *
 *   An answer requires a scan of the concerned clients' records, whose number the quotas of their
 *   users limit (quota.c). The file has at most PROTO_MAX_TOLD jobs.
 *
 * INVARIANTS
 *   I1. A job whose end was requested does not run again. The client's own request is in its record
 *       (shm/job.h, I5), to which only the client writes. Requests of others are stored here, by
 *       the job's generation, before the pool is told. Each pool gets those that have no outcome
 *       yet, after it was told of the client and before that client's jobs can start.
 *
 * If the manager dies: the next one does not know these requests, and a job that runs again must be
 * cancelled again; forkctl(1) documents that.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/options.h"
#include "common/options_print.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/manager/admission.h"
#include "daemon/manager/client_segments.h"
#include "daemon/manager/connection_internal.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/connections.h"
#include "daemon/manager/pool_process.h"
#include "shm/job.h"
#include "shm/job_list.h"
#include "shm/ledger.h"
#include "shm/limits.h"
#include "shm/proto.h"
#include "shm/segment.h"

#define ASK_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

static void ask_tell(struct conn *s, uint64_t n, int fd)
{
	struct proto_told told = { .head = { PROTO_MAGIC, PROTO_TOLD }, .n = n };

	(void)proto_send(s->fd, &told, sizeof(told), &fd, fd < 0 ? 0 : 1);
	conn_free(s);
}

/* Prints into a sealed file. Returns it, or a negative errno. */
static int ask_file(void (*print)(struct conn *s, FILE *file, uint64_t *ret_n), struct conn *s,
		    uint64_t *ret_n)
{
	_cleanup_close_ int fd = segment_memfd("forkd-answer");
	_cleanup_fclose_ FILE *file = NULL;
	int copy;

	if (fd < 0)
		return steal_fd(&fd);
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	file = copy < 0 ? NULL : fdopen(copy, "w");
	if (!file) {
		int err = -errno;

		(void)safe_close(copy);
		return err;
	}
	print(s, file, ret_n);
	if (fflush(file) != 0 || ferror(file))
		return -ENOMEM;
	if (fcntl(fd, F_ADD_SEALS, ASK_SEALS) < 0)
		return -errno;
	return steal_fd(&fd);
}

static void ask_print(struct conn *s, void (*print)(struct conn *s, FILE *file, uint64_t *ret_n))
{
	uint64_t n = 0;
	_cleanup_close_ int fd = ask_file(print, s, &n);

	if (fd >= 0)
		ask_tell(s, n, fd);
	else
		conn_refuse(s, admission_failed(fd));
}

/* ------------------------------------------------------------------------ options */

static void ask_print_options(struct conn *s, FILE *file, uint64_t *ret_n)
{
	struct options shown = *s->table->options;

	(void)ret_n;
	/* forkd.conf may have 0: show the actual number. */
	shown.workers = s->table->tenants.n_workers;
	options_print(&shown, file);
}

/* ------------------------------------------------------------------------ jobs */

/* Relaxed reads of the ledger, which a task can overwrite: for display only. */
static uint32_t ask_count_running(const struct conn *of)
{
	const struct conn_table *table = of->table;
	uint64_t first = (uint64_t)of->slot * table->options->jobs_max;
	uint32_t n = 0;

	for (uint32_t i = 0; i < of->segment.n_jobs; i++)
		n += ledger_is_started(ledger_row(table->segments.arena, first + i).state) != 0;
	return n;
}

void conn_count_running(const struct conn_table *table, uint32_t *ret_n_jobs, uint32_t *ret_n_users)
{
	uint32_t uids[LIMIT_CLIENTS], n_users = 0, n_jobs = 0;

	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
		const struct conn *of = table->slots[i];
		uint32_t n = of ? ask_count_running(of) : 0, at = 0;

		n_jobs += n;
		while (n && at < n_users && uids[at] != of->uid)
			at++;
		if (n && at == n_users)
			uids[n_users++] = of->uid;
	}
	*ret_n_jobs = n_jobs;
	*ret_n_users = n_users;
}

static void ask_print_jobs(struct conn *s, FILE *file, uint64_t *ret_n)
{
	static const uint32_t states[] = { LEDGER_RUNNING, LEDGER_QUEUED };
	const struct conn_table *table = s->table;
	const struct admission_peer peer = conn_peer(s);
	bool all = admission_is_operator(&peer, geteuid());

	for (size_t k = 0; k < ARRAY_SIZE(states); k++)
		for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
			const struct conn *of = table->slots[i];
			struct job_list_client client;

			if (!of || of->state != CONN_OPEN || (!all && of->uid != s->uid))
				continue;
			client = (struct job_list_client){
				.slot = i,
				.generation = of->generation,
				.row = (uint64_t)i * table->options->jobs_max,
				.jobs = segments_jobs(&of->segment),
			};
			if (client.jobs)
				client.n_jobs = of->segment.n_jobs;
			job_list_write(file, table->segments.arena, &client, states[k], ret_n);
		}
}

/* ------------------------------------------------------------------------ cancel */

/* Returns the requested client, or NULL: it has left. */
static struct conn *ask_client(const struct conn_table *table, const struct proto_ask *ask)
{
	struct conn *of = ask->client < LIMIT_CLIENTS ? table->slots[ask->client] : NULL;

	return of && of->state == CONN_OPEN && of->generation == ask->client_generation ? of : NULL;
}

/* Returns the generation of a record without an outcome, 0: none. The client writes it, so it can
 * only name that client's jobs. */
static uint32_t ask_pending(const struct job *job)
{
	/* Relaxed: a job that is submitted right now may be seen or not. */
	uint32_t state = load_relaxed(&job->state);

	return (state & JOB_OUTCOME_MASK) == JOB_PENDING ? state >> JOB_GEN_SHIFT : 0;
}

/* I1. *ret_n: the number of jobs without an outcome that the request ends. Returns 0 or -ENOMEM. */
static int ask_note(struct conn *of, const struct proto_ask *ask, uint64_t *ret_n)
{
	const struct job *jobs = segments_jobs(&of->segment);
	uint64_t n = 0;

	if (!of->unwanted)
		of->unwanted = calloc(of->segment.n_jobs, sizeof(*of->unwanted));
	if (!of->unwanted)
		return -ENOMEM;
	if (ask->job != PROTO_EVERY_JOB) {
		of->unwanted[ask->job] = ask->generation;
		n = jobs && ask_pending(&jobs[ask->job]) == ask->generation;
	}
	for (uint32_t i = 0; jobs && ask->job == PROTO_EVERY_JOB && i < of->segment.n_jobs; i++) {
		of->unwanted[i] = ask_pending(&jobs[i]);
		n += of->unwanted[i] != 0;
	}
	*ret_n = n;
	return 0;
}

void conn_tell_unwanted(struct conn *s)
{
	const struct job *jobs = segments_jobs(&s->segment);

	for (uint32_t i = 0; s->unwanted && jobs && i < s->segment.n_jobs; i++)
		if (s->unwanted[i] && s->unwanted[i] == ask_pending(&jobs[i]))
			conn_tell_cancel(s, i, s->unwanted[i]);
		else
			s->unwanted[i] = 0;
}

static void ask_log(const struct conn *s, const struct conn *of, const struct proto_ask *ask)
{
	char what[48];

	if (ask->job == PROTO_EVERY_JOB)
		(void)snprintf(what, sizeof(what), "all jobs of client %u", of->slot);
	else
		(void)snprintf(what, sizeof(what), "job %u.%" PRIu64, of->slot,
			       job_handle(ask->generation, ask->job));
	log_notice("%s (pid %u, uid %u) cancelled by pid %u, uid %u", what, of->pid, of->uid,
		   s->pid, s->uid);
}

static void ask_cancel(struct conn *s, struct conn *of, const struct proto_ask *ask)
{
	uint64_t n;

	/* Only a bounded number of messages may wait for the pool (connection_internal.h, I2 and
	 * I6). */
	if (!pool_process_is_free(s->table->pool)) {
		conn_refuse(s, admission_pool_busy("cancel"));
		return;
	}
	if (ask_note(of, ask, &n) < 0) {
		conn_refuse(s, admission_failed(-ENOMEM));
		return;
	}
	conn_tell_cancel(of, ask->job, ask->generation);
	if (s->uid != of->uid)
		ask_log(s, of, ask);
	ask_tell(s, n, -1);
}

void conn_ask(struct conn *s, const struct proto_ask *ask)
{
	const struct admission_peer peer = conn_peer(s);
	struct admission_verdict verdict;
	struct conn *of = NULL;

	if (ask->head.type == PROTO_CANCEL_FOR) {
		of = ask_client(s->table, ask);
		if (!of || (ask->job != PROTO_EVERY_JOB &&
			    (ask->job >= of->segment.n_jobs || !ask->generation ||
			     ask->generation > JOB_GEN_MASK))) {
			conn_refuse(s, admission_no_client(ask->client));
			return;
		}
	}
	admission_ask(&peer, geteuid(), ask->head.type, of ? of->uid : 0, &verdict);
	if (verdict.code)
		conn_refuse(s, verdict);
	else if (of)
		ask_cancel(s, of, ask);
	else if (ask->head.type == PROTO_TRACE)
		conn_trace(s);
	else
		ask_print(s, ask->head.type == PROTO_CONFIG ? ask_print_options : ask_print_jobs);
}
