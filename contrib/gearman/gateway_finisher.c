/* SPDX-License-Identifier: MIT */
/*
 * gateway_finisher.c - waits for the ends of jobs at forkd, and sends their answers
 *
 *	wait for a link -> start the jobs that wait -> { end -> answer } -> link lost -> ...
 *
 * INVARIANTS
 *   I1. Jobs are submitted only to the link of the connection, with the lock starts. The finisher
 *       sets it. It removes a link that is lost. Then n_running does not increase any more, and
 *       the finisher leaves the link when forkd has reported all of its jobs. So no job is left.
 *   I2. A job that must run again waits in a list until the next link. The finisher starts the jobs
 *       of the list after it has set a link. Jobs enter the list with the lock starts when there is
 *       no link, or theirs is lost.
 *   I3. After the last link, which is the end of forkd while the gateway stops, jobs end at once.
 */
#include "contrib/gearman/gateway_finisher.h"

#include "common/clock.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "contrib/gearman/gateway.h"
#include "contrib/gearman/gateway_connection.h"
#include "contrib/gearman/gateway_metrics.h"

#define FINISHER_TICK (500 * NSEC_PER_MSEC)

/* Sets the link for submissions. */
static void set_link(struct connection *c, struct link *link, bool is_closed)
{
	(void)pthread_mutex_lock(&c->starts);
	c->link = link;
	c->is_closed = is_closed;
	(void)pthread_mutex_unlock(&c->starts);
}

/* Starts the jobs that wait for a link. Returns true if some need the next one. */
static bool run_again(struct connection *c)
{
	struct gateway_job *list, *jobs[GATEWAY_BATCH];
	bool again = false;

	(void)pthread_mutex_lock(&c->starts);
	list = c->again;
	c->again = NULL;
	(void)pthread_mutex_unlock(&c->starts);
	while (list) {
		size_t n = 0;

		for (; list && n < GATEWAY_BATCH; list = list->next)
			jobs[n++] = list;
		again |= connection_run(c, jobs, n);
	}
	return again;
}

/* Finishes a job that has ended, and all others that have. Returns true if some need another
 * link. */
static bool finish(struct connection *c, fk_client *client, fk_job handle, struct gateway_job *job)
{
	struct gateway_job *jobs[GATEWAY_BATCH];
	size_t n = 0;
	void *data = job;

	connection_begin(c);
	do {
		enum verdict verdict;

		job = data;
		(void)sub_relaxed(&c->n_running, 1);
		verdict = gateway_job_finish(job, handle);
		if (verdict == VERDICT_AGAIN)
			jobs[n++] = job;
		else
			connection_answer(c, job, verdict);
	} while (n < GATEWAY_BATCH && !fk_next_completion(client, 0, &handle, &data));
	/* The reader detects an error. */
	(void)connection_flush(c);
	(void)add_relaxed(&c->gateway->metrics->rerun, n);
	return n && connection_run(c, jobs, n);
}

static bool is_done(struct connection *c)
{
	bool done;

	(void)pthread_mutex_lock(&c->lock);
	done = c->is_done;
	(void)pthread_mutex_unlock(&c->lock);
	return done;
}

/* Finishes jobs until the link is lost and all of its jobs have been reported, or the connection is
 * done. */
static void serve(struct connection *c, struct link *link)
{
	fk_client *client = link->clients[c->client];
	bool is_lost = run_again(c);
	fk_job handle;
	void *data;

	while (!is_done(c)) {
		int err = fk_next_completion(client, FINISHER_TICK, &handle, &data);

		if (!err)
			is_lost |= finish(c, client, handle, data);
		if (!is_lost && (!err || !gateway_is_lost(link)))
			continue;
		is_lost = true;
		gateway_lost_link(c->gateway, link);
		set_link(c, NULL, false);
		if (!load_relaxed(&c->n_running))
			break;
	}
}

void *finisher_run(void *context)
{
	struct connection *c = context;
	struct link *link;

	while (!is_done(c) && (link = gateway_wait_link(c->gateway))) {
		set_link(c, link, false);
		serve(c, link);
		gateway_put_link(c->gateway, link);
	}
	set_link(c, NULL, true);
	(void)run_again(c);
	return NULL;
}
