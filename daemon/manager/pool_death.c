/* SPDX-License-Identifier: MIT */
/*
 * pool_death.c - handles a pool's death: its jobs, the report, and whether another pool starts
 *
 * WHEN FORKD GIVES UP
 *   A pool that began no job and lived for less than POOL_DEATH_YOUNG_NS died at its start. If
 *   POOL_DEATH_MOST pools in succession do so within POOL_DEATH_WITHIN_NS, forkd ends, so that a
 *   service manager sees it. The intervals between the tries grow until then.
 */
#include "daemon/manager/pool_death.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/options.h"
#include "common/relaxed.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/connections.h"
#include "daemon/manager/job_recovery.h"
#include "daemon/manager/pool_process.h"
#include "daemon/manager/pool_segments.h"
#include "daemon/manager/quarantine.h"
#include "shm/backtrace.h"
#include "shm/board.h"
#include "shm/limits.h"

#define POOL_DEATH_WITHIN_NS (10 * NSEC_PER_SEC)
#define POOL_DEATH_YOUNG_NS  NSEC_PER_SEC

static struct recovery_limits pool_death_limits(const struct pool_death *p)
{
	return (struct recovery_limits){
		.n_workers = p->pool_segments->n_workers,
		.clients_max = p->pool_segments->options->clients_max,
		.jobs_max = p->pool_segments->options->jobs_max,
		.n_tenants = p->conns->tenants.n,
		.is_gone = conn_is_gone,
		.ended = conn_on_ended,
	};
}

void pool_death_cancel_gone(struct pool_death *p)
{
	const struct recovery_limits limits = pool_death_limits(p);
	uint64_t n = 0;

	for (uint32_t client = 0; client < limits.clients_max; client++)
		if (conn_is_gone(p->conns, client))
			n += recovery_cancel(p->pool_segments->arena, &limits, client, conn_records,
					     p->conns);
	conn_count_fails(p->conns, n);
}

/* A pool that is slow to die of another cause does not answer either. */
static bool pool_death_hung(const struct pool_process_end *end, const struct recovery_report *r)
{
	return r->hung || (end->hung && r->worker == UINT32_MAX);
}

static uint32_t pool_death_reason(const struct pool_process_end *end,
				  const struct recovery_report *r)
{
	if (pool_death_hung(end, r))
		return CRASH_HANG;
	if (r->overflowed)
		return CRASH_STACK;
	if (r->worker != UINT32_MAX)
		return end->signo ? CRASH_FAULT : CRASH_EXIT;
	return end->signo ? CRASH_SIGNAL : CRASH_ENDED;
}

static struct board_crash pool_death_crash(const struct pool_death *p,
					   const struct pool_process_end *end,
					   const struct recovery_report *r)
{
	struct board_crash c = {
		.address = r->address,
		.pid = (uint32_t)end->pid,
		.signo = r->signo,
		.job = r->job,
		.client = r->client,
		.worker = r->worker,
		.lost = r->lost,
		.requeued = r->requeued,
		.reason = pool_death_reason(end, r),
		.status = end->status,
		.stack_size = r->stack_size,
		.trace = r->trace,
	};
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	c.time_ns = (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
	if (r->blamed)
		(void)conn_identity(p->conns, r->client, &c.client_pid, &c.uid);
	if (r->blamed && r->task < LIMIT_TASKS)
		memcpy(c.task, p->pool_segments->board->tasks[r->task].name, sizeof(c.task));
	c.task[sizeof(c.task) - 1] = '\0';
	memcpy(c.fiber, r->fiber, sizeof(c.fiber));
	memcpy(c.inner, r->inner, sizeof(c.inner));
	return c;
}

/* Writes what the blamed job did, for the log: ", in child row, beyond the C stack of ...". */
static void pool_death_describe(const struct recovery_report *r, const struct board_crash *c,
				char *text, size_t size)
{
	const struct backtrace_place *best = backtrace_best(&r->trace);
	const char *colon = strchr(c->task, ':');
	char place[BACKTRACE_TEXT];
	FILE *f = fmemopen(text, size, "w");

	text[0] = '\0';
	if (!f)
		return;
	if (r->hung)
		(void)fprintf(f,
			      "which ran without a fork for %.3g s after its end was requested, on "
			      "worker %u",
			      (double)r->held_ns / (double)NSEC_PER_SEC, r->worker);
	else
		(void)fprintf(f, "at address 0x%" PRIx64 " on worker %u", r->address, r->worker);
	if (r->inner[0] && !(colon && !strcmp(colon + 1, r->inner)))
		(void)fprintf(f, ", in child %s", r->inner);
	if (r->overflowed && !r->fiber[0])
		(void)fprintf(f,
			      ", beyond the worker's C stack of %" PRIu64 " bytes (worker-stack)",
			      r->stack_size);
	else if (r->fiber[0])
		(void)fprintf(f, "%s %s",
			      r->overflowed ? ", beyond the stack of fiber" : ", in fiber",
			      r->fiber);
	if (best) {
		backtrace_print(best, place, sizeof(place));
		(void)fprintf(f, ", in %s", place);
	}
	(void)fclose(f);
}

static void pool_death_log_trace(const struct pool_process_end *end, const struct backtrace *trace)
{
	char text[BACKTRACE_PLACES * (BACKTRACE_TEXT + 4)] = "", place[BACKTRACE_TEXT];
	size_t n = 0;

	for (uint32_t i = 0; i < backtrace_count(trace); i++) {
		backtrace_print(&trace->places[i], place, sizeof(place));
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? " < " : "", place);
	}
	if (n)
		log_warning("pool (pid %d) backtrace: %s", (int)end->pid, text);
}

static void pool_death_log(const struct pool_process_end *end, const struct recovery_report *r,
			   const struct board_crash *c)
{
	const struct log_about about = {
		.has = r->blamed ? LOG_JOB | LOG_CLIENT | LOG_PID | LOG_UID : 0,
		.job = r->job,
		.client = r->client,
		.pid = c->client_pid,
		.uid = c->uid,
		.task = c->task,
		.message_id = pool_death_hung(end, r) ? LOG_ID_HANG : LOG_ID_CRASH,
	};
	char how[64], what[480], who[640] = "no job can be blamed";

	if (pool_death_hung(end, r))
		(void)snprintf(how, sizeof(how), "was killed by hang-timeout");
	else if (end->signo)
		(void)snprintf(how, sizeof(how), "died of signal %u (%s)", r->signo,
			       strsignal((int)r->signo));
	else
		(void)snprintf(how, sizeof(how), "exited with status %d", end->status);
	pool_death_describe(r, c, what, sizeof(what));
	if (r->blamed)
		(void)snprintf(who, sizeof(who), "job %u.%" PRIu64 " (pid %u, uid %u), task %s, %s",
			       r->client, r->job, c->client_pid, c->uid,
			       c->task[0] ? c->task : "not known", what);
	log_about(LOG_LEVEL_WARNING, &about,
		  "pool (pid %d) %s: %s; %u crashed, %u lost, %u cancelled, %u run again, %u stay "
		  "queued%s%s",
		  (int)end->pid, how, who, r->crashed, r->lost, r->cancelled, r->requeued,
		  r->queued, end->failed_text[0] ? ": " : "", end->failed_text);
	pool_death_log_trace(end, &r->trace);
}

/* Counts a death at the start. True if there were too many. */
static bool pool_death_too_many(struct pool_death *p)
{
	uint64_t now = clock_ns();
	uint64_t *oldest = &p->deaths[p->n_deaths % POOL_DEATH_MOST];
	bool full = p->n_deaths + 1 >= POOL_DEATH_MOST;

	*oldest = now;
	p->n_deaths++;
	return full && now - p->deaths[p->n_deaths % POOL_DEATH_MOST] < POOL_DEATH_WITHIN_NS;
}

static void pool_death_accuse(struct pool_death *p, const struct recovery_report *r,
			      const struct board_crash *c)
{
	/* Relaxed: the pool is dead. A faulty task may have written there; any value is a
	 * number. */
	uint64_t task = r->task < LIMIT_TASKS
			      ? load_relaxed(&p->pool_segments->board->tasks[r->task].hash)
			      : 0;

	quarantine_crashed(p->quarantine, c->uid, task, c->task);
}

/* killed: no job is suspected. */
static struct recovery_report pool_death_recover(struct pool_death *p,
						 const struct pool_process_end *end, bool killed)
{
	struct recovery_limits limits = pool_death_limits(p);
	struct recovery_report r;

	limits.killed = killed;
	limits.abandoned = end->abandoned;
	recovery_run(p->pool_segments->arena, &limits, end->signo, conn_records, p->conns, &r);
	conn_count_fails(p->conns, r.crashed + r.lost + r.finished + r.cancelled);
	pool_segments_clear_workers(p->pool_segments);
	return r;
}

void pool_death_inherit(struct pool_death *p, uint32_t n_clients, bool abandoned)
{
	const struct pool_process_end end = {
		.was_ready = true,
		.signo = SIGKILL,
		.abandoned = abandoned,
	};
	const struct recovery_report report = pool_death_recover(p, &end, true);
	struct board_crash crash;

	log_notice("continuing with %u clients of the last forkd: %u jobs lost, %u cancelled, %u "
		   "run again, %u stay queued",
		   n_clients, report.lost, report.cancelled, report.requeued, report.queued);
	if (!report.blamed)
		return;
	crash = pool_death_crash(p, &end, &report);
	pool_segments_crashed(p->pool_segments, &crash);
	pool_death_log(&end, &report, &crash);
	pool_death_accuse(p, &report, &crash);
}

void pool_death_renewed(struct pool_death *p, const struct pool_process_end *end)
{
	const struct recovery_report report = pool_death_recover(p, end, true);

	p->n_deaths = 0;
	log_notice("pool (pid %d) is replaced: %u jobs lost, %u cancelled, %u run again, %u stay "
		   "queued",
		   (int)end->pid, report.lost, report.cancelled, report.requeued, report.queued);
}

enum pool_death_next pool_death_run(struct pool_death *p, const struct pool_process_end *end)
{
	/* Before READY, the board has the count of the previous pool. */
	bool served = end->was_ready && pool_segments_jobs_ended(p->pool_segments);
	const struct recovery_report report = pool_death_recover(p, end, false);
	const struct board_crash crash = pool_death_crash(p, end, &report);

	pool_segments_crashed(p->pool_segments, &crash);
	pool_death_log(end, &report, &crash);
	if (report.blamed)
		pool_death_accuse(p, &report, &crash);
	if (report.begun || end->lived_ns >= POOL_DEATH_YOUNG_NS || served) {
		p->n_deaths = 0;
		return POOL_DEATH_RESTART;
	}
	if (p->conns->stopping || !pool_death_too_many(p))
		return POOL_DEATH_LATER;
	log_error("the pool died %u times within %llu s of its start: forkd exits: see the lines "
		  "above",
		  POOL_DEATH_MOST, (unsigned long long)(POOL_DEATH_WITHIN_NS / NSEC_PER_SEC));
	return POOL_DEATH_GIVE_UP;
}
