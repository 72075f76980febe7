/* SPDX-License-Identifier: MIT */
/*
 * gateway_enterer.c - enters jobs in the journal, so that nothing else waits for the disk
 *
 * While all enterers make entries durable, others gather. They become durable together.
 */
#include "contrib/gearman/gateway_enterer.h"

#include "contrib/gearman/gateway_connection.h"

void enterer_add(struct connection *c, struct gateway_job *job)
{
	job->next = NULL;
	(void)pthread_mutex_lock(&c->lock);
	if (c->enter)
		c->enter_last->next = job;
	else
		c->enter = job;
	c->enter_last = job;
	(void)pthread_cond_signal(&c->entering);
	(void)pthread_mutex_unlock(&c->lock);
}

/* Waits for jobs, and takes at most GATEWAY_BATCH. Returns their number; 0: is_done. */
static size_t take(struct connection *c, struct gateway_job **jobs)
{
	size_t n = 0;

	(void)pthread_mutex_lock(&c->lock);
	while (!c->enter && !c->is_done)
		(void)pthread_cond_wait(&c->entering, &c->lock);
	for (; c->enter && n < GATEWAY_BATCH; c->enter = c->enter->next)
		jobs[n++] = c->enter;
	(void)pthread_mutex_unlock(&c->lock);
	return n;
}

void *enterer_run(void *context)
{
	struct connection *c = context;
	struct gateway_job *jobs[GATEWAY_BATCH];
	enum verdict verdicts[GATEWAY_BATCH];
	size_t n;

	while ((n = take(c, jobs))) {
		size_t n_entered = 0;

		gateway_job_enter(jobs, n, verdicts);
		connection_begin(c);
		for (size_t i = 0; i < n; i++)
			if (verdicts[i] == VERDICT_RUNS)
				jobs[n_entered++] = jobs[i];
			else
				connection_answer(c, jobs[i], verdicts[i]);
		/* The reader detects an error. */
		(void)connection_flush(c);
		if (n_entered)
			(void)connection_run(c, jobs, n_entered);
	}
	return NULL;
}
