/* SPDX-License-Identifier: MIT */
/*
 * gateway_connection.c - the reader of a connection, and its requests: gateway_connection.h
 *
 *	functions -> connect -> echo -> request -> job -> run, request one more
 *	                                       \-> no job -> sleep -> wake -> request
 */
#include "contrib/gearman/gateway_connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "contrib/gearman/functions.h"
#include "contrib/gearman/gateway.h"
#include "contrib/gearman/gateway_enterer.h"
#include "contrib/gearman/gateway_finisher.h"
#include "contrib/gearman/gateway_metrics.h"

#define CONNECTION_BACK_OFF	(100 * NSEC_PER_MSEC)
#define CONNECTION_BACK_OFF_MAX NSEC_PER_SEC

/* The reader leaves the session. No packet has this type (peer.c). */
#define CONNECTION_CLOSED (INT16_MAX + 1)

/* A text that is the same for the whole thread, of fk_strerror() or the system. */
static const char *why_text(int err)
{
	return err == -EPROTO	    ? "the program that listens there is no job server"
	     : err == -EHOSTUNREACH ? "there is no such host, or no route to it"
	     : err == -ETIMEDOUT    ? "no answer within --server-timeout"
	     : err == -ECONNRESET   ? "the server has closed the connection"
				    : strerrordesc_np(-err);
}

static void report(struct connection *c, int err)
{
	const struct server_name *address = c->server->address;

	c->tries = err ? c->tries + 1 : 0;
	if (!c->is_listing)
		return;
	store_relaxed(&c->server->connected, !err);
	if (err && !c->reported)
		log_warning("server %s:%u: no connection: %s: trying again", address->host,
			    address->port, why_text(err));
	if (!err && c->reported)
		log_notice("server %s:%u: connected again", address->host, address->port);
	c->reported = err;
}

/* ------------------------------------------------------------------------------ places */

/* Takes a place for a job that the server has assigned; NULL: it was not requested (I2). */
static struct gateway_job *take_place(struct connection *c)
{
	struct gateway_job *job = NULL;

	(void)pthread_mutex_lock(&c->lock);
	if (c->requests) {
		c->requests--;
		c->window = min(c->window + 1, c->n_jobs);
		c->n_free--;
		job = c->free;
		c->free = job->next;
		job->session = c->session;
		job->session->users++;
	}
	(void)pthread_mutex_unlock(&c->lock);
	return job;
}

/* Drops a reference to a session. The last one closes it. */
static void put_session(struct connection *c, struct session *session)
{
	bool last;

	(void)pthread_mutex_lock(&c->lock);
	last = !--session->users;
	(void)pthread_mutex_unlock(&c->lock);
	if (last) {
		peer_close(&session->peer);
		free(session);
	}
}

static void give_place(struct connection *c, struct gateway_job *job)
{
	put_session(c, job->session);
	(void)pthread_mutex_lock(&c->lock);
	job->next = c->free;
	c->free = job;
	if (++c->n_free == c->n_jobs)
		(void)pthread_cond_signal(&c->freed);
	(void)pthread_mutex_unlock(&c->lock);
}

/* ------------------------------------------------------------------------------ send */

void connection_begin(struct connection *c)
{
	(void)pthread_mutex_lock(&c->sends);
}

/* The session does not work any more: the reader detects its end. */
static void shut_down(const struct session *session)
{
	(void)shutdown(session->peer.fd, SHUT_RDWR);
}

void connection_answer(struct connection *c, struct gateway_job *job, enum verdict verdict)
{
	struct session *session = job->session;
	bool is_open = session->peer.fd >= 0;
	int err = gateway_job_end(job, verdict, is_open ? &session->peer : NULL);

	c->n_sent += !err && session == c->session;
	if (!err && session != c->session && is_open)
		err = peer_flush(&session->peer);
	if (err)
		shut_down(session);
	give_place(c, job);
}

/* Decides how many jobs are requested next, and whether the connection sleeps. */
static uint32_t decide(struct connection *c, bool *ret_sleep)
{
	uint32_t n = 0, most;

	*ret_sleep = false;
	(void)pthread_mutex_lock(&c->lock);
	most = min(c->n_free, c->window);
	if (!c->is_new && !c->is_paused && !c->is_asleep && c->n_free) {
		if (!c->is_empty)
			n = most > c->requests ? most - c->requests : 0;
		else if (!c->requests)
			c->is_asleep = *ret_sleep = true;
	}
	if (n && !c->requests)
		c->heard_ns = clock_ns();
	c->requests += n;
	(void)pthread_mutex_unlock(&c->lock);
	return n;
}

/* Sends n requests and everything else. */
static int send_requests(struct peer *peer, uint32_t n, bool sleep)
{
	int err = 0;

	while (!err && n--)
		err = peer_send(peer, PACKET_GRAB, NULL, 0);
	if (!err && sleep)
		err = peer_send(peer, PACKET_PRE_SLEEP, NULL, 0);
	return err ? err : peer_flush(peer);
}

int connection_flush(struct connection *c)
{
	struct session *session = c->session;
	bool sleep = false;
	uint32_t n = session ? decide(c, &sleep) : 0;
	int err = session ? send_requests(&session->peer, n, sleep) : 0;

	if (err) {
		shut_down(session);
		(void)add_relaxed(&c->gateway->metrics->undelivered, c->n_sent);
	}
	c->n_sent = 0;
	(void)pthread_mutex_unlock(&c->sends);
	return err;
}

/* True if decide() may have something to send. */
static bool may_request(struct connection *c)
{
	bool may;

	(void)pthread_mutex_lock(&c->lock);
	may = c->n_free && !c->is_paused && !c->is_asleep;
	(void)pthread_mutex_unlock(&c->lock);
	return may;
}

static int request(struct connection *c)
{
	if (!may_request(c))
		return 0;
	connection_begin(c);
	return connection_flush(c);
}

/* ------------------------------------------------------------------------------ run */

/* Starts n jobs with the lock starts. Returns true if some wait for another link. */
static bool start(struct connection *c, struct gateway_job *const *jobs, size_t n,
		  enum verdict *verdicts)
{
	bool again = false,
	     starts = c->link ? !gateway_is_stopping(c->link->clients[c->client]) : c->is_closed;

	if (starts) {
		(void)add_relaxed(&c->n_running, (uint32_t)n);
		gateway_job_start(jobs, n, c->link, verdicts);
	}
	for (size_t i = 0; i < n; i++) {
		if (!starts)
			verdicts[i] = VERDICT_AGAIN;
		else if (verdicts[i] != VERDICT_RUNS)
			(void)sub_relaxed(&c->n_running, 1);
		if (verdicts[i] == VERDICT_ENTER)
			enterer_add(c, jobs[i]);
		if (verdicts[i] != VERDICT_AGAIN)
			continue;
		(void)add_relaxed(&c->gateway->metrics->rerun, starts);
		jobs[i]->next = c->again;
		c->again = jobs[i];
		again = true;
	}
	return again;
}

bool connection_run(struct connection *c, struct gateway_job *const *jobs, size_t n)
{
	enum verdict verdicts[GATEWAY_BATCH];
	bool again = false;

	(void)pthread_mutex_lock(&c->starts);
	if (c->is_listing)
		verdicts[0] = gateway_job_list(jobs[0]);
	else
		again = start(c, jobs, n, verdicts);
	(void)pthread_mutex_unlock(&c->starts);
	for (size_t i = 0; i < n; i++) {
		if (verdicts[i] != VERDICT_DONE && verdicts[i] != VERDICT_ENDED)
			continue;
		connection_begin(c);
		connection_answer(c, jobs[i], verdicts[i]);
		/* The reader detects an error. */
		(void)connection_flush(c);
	}
	return again;
}

/* ------------------------------------------------------------------------------ functions */

/* Registers the functions. */
static int send_functions(const struct connection *c, const struct functions *functions,
			  struct peer *peer)
{
	uint32_t n = c->is_listing ? functions->n_modules : functions->n_tasks;
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++) {
		const char *name = c->is_listing ? functions->modules[i] : functions->tasks[i];

		err = peer_send(peer, PACKET_CAN_DO, &(struct peer_part){ name, strlen(name) }, 1);
	}
	return err;
}

/* Pauses requests. Returns true if the session can be left (I1). *ret_request: after a request. */
static bool pause_requests(struct connection *c, bool *ret_request)
{
	bool ready;

	(void)pthread_mutex_lock(&c->lock);
	c->is_paused = true;
	*ret_request = c->is_asleep && c->n_free && c->n_free < c->n_jobs;
	if (*ret_request) {
		c->is_asleep = false;
		c->requests++;
		c->heard_ns = clock_ns();
	}
	ready = !c->requests;
	(void)pthread_mutex_unlock(&c->lock);
	return ready;
}

/* Follows changes of the functions, and the end of the gateway. Returns 0, CONNECTION_CLOSED or a
 * negative errno. */
static int follow(struct connection *c)
{
	bool ready, request;
	int err;

	if (load_relaxed(&c->gateway->epoch) == c->epoch && !c->is_paused)
		return 0;
	connection_begin(c);
	ready = pause_requests(c, &request);
	err = request ? peer_send(&c->session->peer, PACKET_GRAB, NULL, 0) : 0;
	if (err) {
		(void)pthread_mutex_unlock(&c->sends);
		return err;
	}
	err = connection_flush(c);
	return err ? err : ready ? CONNECTION_CLOSED : 0;
}

/* ------------------------------------------------------------------------------ read */

/* The server has been silent for a while. */
static int tick(void *context)
{
	struct connection *c = context;
	int err = follow(c);

	(void)pthread_mutex_lock(&c->lock);
	if (!err && clock_ns() - c->heard_ns >= c->session->peer.timeout_ns) {
		if (c->requests || c->is_new)
			err = -ETIMEDOUT;
		c->is_asleep = c->is_empty = false; /* I3 */
	}
	(void)pthread_mutex_unlock(&c->lock);
	return err ? err : request(c);
}

/* Reads a packet that has no job. An error is the answer to WORK_FAIL after an exception
 * (gateway_job.c). */
static int drop(struct connection *c, int type)
{
	int err = peer_read(&c->session->peer, NULL, NULL, 0);

	if (err || type == PACKET_ERROR)
		return err;
	(void)pthread_mutex_lock(&c->lock);
	if (type == PACKET_NO_JOB && c->requests) {
		c->requests--;
		c->is_empty = true;
		c->window = 1;
	} else if (type == PACKET_NOOP) {
		c->is_asleep = c->is_empty = false;
	} else if (type == PACKET_ECHOED) {
		c->is_new = false;
	} else {
		err = -EPROTO;
	}
	(void)pthread_mutex_unlock(&c->lock);
	return err;
}

static void count_started(struct connection *c, uint32_t n)
{
	(void)add_relaxed(&c->in_flight, n);
	(void)add_relaxed(&c->gateway->metrics->in_flight, n);
}

/* Receives a job, and adds it to *n others. */
static int receive(struct connection *c, struct gateway_job **jobs, size_t *n)
{
	struct gateway_job *job = take_place(c);
	enum verdict verdict;
	int err = job ? gateway_job_receive(job, &c->session->peer, &verdict) : -EPROTO;

	if (err) {
		if (job)
			give_place(c, job);
		return err;
	}
	if (verdict == VERDICT_RUNS) {
		jobs[(*n)++] = job;
		return 0;
	}
	count_started(c, 1);
	connection_begin(c);
	connection_answer(c, job, verdict);
	return connection_flush(c);
}

/* Reads a packet and all others that were received, and runs their jobs. */
static int read_packets(struct connection *c)
{
	struct gateway_job *jobs[GATEWAY_BATCH];
	size_t n = 0;
	int err = 0;

	do {
		int type = peer_next(&c->session->peer, tick, c);

		if (type < 0 || type == CONNECTION_CLOSED)
			err = type;
		else
			err = type == PACKET_ASSIGN ? receive(c, jobs, &n) : drop(c, type);
	} while (!err && n < GATEWAY_BATCH && peer_has_packet(&c->session->peer));
	count_started(c, (uint32_t)n);
	if (n)
		(void)connection_run(c, jobs, n);
	if (err)
		return err;
	report(c, 0);
	(void)pthread_mutex_lock(&c->lock);
	c->heard_ns = clock_ns();
	(void)pthread_mutex_unlock(&c->lock);
	err = follow(c);
	return err ? err : request(c);
}

/* Connects, registers the functions, and waits for an answer. */
static int open_session(struct connection *c, const struct functions *functions)
{
	const struct server_name *address = c->server->address;
	struct session *session = calloc(1, sizeof(*session));
	int err;

	if (!session)
		return -ENOMEM;
	session->users = 1;
	err = peer_open(&session->peer, address->host, address->port,
			c->gateway->options->server_timeout_ns);
	if (!err)
		err = send_functions(c, functions, &session->peer);
	if (!err)
		err = peer_send(&session->peer, PACKET_ECHO, NULL, 0);
	(void)pthread_mutex_lock(&c->lock);
	c->requests = 0;
	c->window = 1;
	c->is_new = true;
	c->is_paused = c->is_empty = c->is_asleep = false;
	c->heard_ns = clock_ns();
	(void)pthread_mutex_unlock(&c->lock);
	connection_begin(c);
	c->session = session;
	if (!err)
		return connection_flush(c);
	(void)pthread_mutex_unlock(&c->sends);
	return err;
}

/* Leaves the session. works: it stays open for its jobs. */
static void leave_session(struct connection *c, bool works)
{
	struct session *session = c->session;

	if (!session)
		return;
	/* The finisher may be sending. */
	if (!works)
		shut_down(session);
	connection_begin(c);
	if (!works)
		peer_close(&session->peer);
	c->session = NULL;
	(void)pthread_mutex_unlock(&c->sends);
	put_session(c, session);
}

/* The other threads end. With the lock. */
static void set_done(struct connection *c)
{
	c->is_done = true;
	(void)pthread_cond_broadcast(&c->entering);
}

/* Waits until all places are free. Then the other threads end. */
static void wait_free(struct connection *c)
{
	(void)pthread_mutex_lock(&c->lock);
	while (c->n_free < c->n_jobs)
		(void)pthread_cond_wait(&c->freed, &c->lock);
	set_done(c);
	(void)pthread_mutex_unlock(&c->lock);
}

static void *reader_run(void *context)
{
	struct connection *c = context;
	struct functions *functions;

	while ((functions = gateway_wait_functions(c->gateway, &c->epoch))) {
		int err = open_session(c, functions);

		gateway_put_functions(c->gateway, functions);
		if (!c->settled)
			gateway_settled(c->gateway);
		c->settled = true;
		while (!err)
			err = read_packets(c);
		leave_session(c, err == CONNECTION_CLOSED);
		if (err == CONNECTION_CLOSED)
			continue;
		report(c, err);
		if (gateway_sleep(c->gateway, min(CONNECTION_BACK_OFF << min(c->tries - 1, 4u),
						  CONNECTION_BACK_OFF_MAX)))
			break;
	}
	wait_free(c);
	return NULL;
}

/* ------------------------------------------------------------------------------ start, end */

static int start_thread(struct connection *c, void *(*run)(void *context))
{
	int err = pthread_create(&c->threads[c->n_threads], NULL, run, c);

	c->n_threads += !err;
	return -err;
}

int connection_start(struct connection *c, struct gateway *gateway, struct gateway_server *server,
		     uint32_t client, bool is_listing)
{
	uint32_t n;
	int err;

	*c = (struct connection){
		.gateway = gateway,
		.server = server,
		.client = client,
		.is_listing = is_listing,
		.n_jobs = is_listing ? 1 : gateway->options->jobs,
		.starts = PTHREAD_MUTEX_INITIALIZER,
		.sends = PTHREAD_MUTEX_INITIALIZER,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.freed = PTHREAD_COND_INITIALIZER,
		.entering = PTHREAD_COND_INITIALIZER,
	};
	c->jobs = calloc(c->n_jobs, sizeof(*c->jobs));
	if (!c->jobs)
		return -ENOMEM;
	for (c->n_free = 0; c->n_free < c->n_jobs; c->n_free++) {
		gateway_job_init(&c->jobs[c->n_free], gateway, client, is_listing, &c->in_flight);
		c->jobs[c->n_free].next = c->free;
		c->free = &c->jobs[c->n_free];
	}
	err = is_listing ? 0 : start_thread(c, finisher_run);
	n = is_listing || !gateway->journal ? 0 : min(c->n_jobs, CONNECTION_ENTERERS);
	while (!err && n--)
		err = start_thread(c, enterer_run);
	if (!err)
		err = start_thread(c, reader_run);
	if (err) {
		(void)pthread_mutex_lock(&c->lock);
		set_done(c);
		(void)pthread_mutex_unlock(&c->lock);
	}
	return err;
}

bool connection_join(struct connection *c, const struct timespec *until)
{
	for (uint32_t i = 0; i < c->n_threads; i++)
		if (pthread_timedjoin_np(c->threads[i], NULL, until))
			return false;
	free(c->jobs);
	return true;
}
