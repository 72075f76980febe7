/* SPDX-License-Identifier: MIT */
/*
 * manager_pool.c - the manager and its pool: start, READY, death, and the pool's requests
 *
 * 	      +---- later <---- memory or descriptors are short, and a client waits
 * 	      v                    ^                ^
 * 	    start --> STARTING ----+--- READY ---> died --> post-mortem --> start, now or later
 * 	                  |                          |           |
 * 	                  +-- no client: exit        |           +-- too many deaths: LOST, exit
 * 	                                             +-- to load other modules: start
 * 	                                             +-- stopping, halting: manager_stop.c
 *
 * INVARIANTS
 *   I1. Jobs wait for a pool as long as one can start: once this manager or the last one has served
 *       a client (manager_is_wanted()), a shortage of descriptors, memory or threads ends nothing.
 *       The start is tried again, at increasing intervals. If no client waits, forkd exits with the
 *       error, so an operator sees it at once.
 *   I2. When a pool has died, the manager first writes the fronts of board and arena again, because
 *       a task can write there (pool_segments.c, I1). A task can also send messages in the pool's
 *       name: the manager accepts one only if its own state allows it.
 *   I3. A ready pool receives settings, CPUs and quarantines before tenants, and all clients before
 *       the next client connects.
 */
#include "daemon/manager/manager_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"
#include "daemon/host/probe.h"
#include "daemon/host/cgroup.h"
#include "daemon/manager/connection.h"
#include "daemon/manager/connections.h"
#include "daemon/manager/listener.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/manager.h"
#include "daemon/manager/manager_state.h"
#include "daemon/manager/pool_death.h"
#include "daemon/manager/pool_process.h"
#include "daemon/manager/pool_segments.h"
#include "daemon/manager/quarantine.h"
#include "daemon/manager/saved_state.h"
#include "daemon/manager/sd_notify.h"
#include "daemon/manager/settings.h"
#include "daemon/manager/takeover.h"
#include "daemon/manager/task_rules.h"
#include "daemon/manager/tenants.h"
#include "shm/board.h"
#include "shm/job.h"
#include "shm/proto.h"

#define MANAGER_BACKOFF_NS (50 * NSEC_PER_MSEC)
#define MANAGER_CPUS_NS	   (500 * NSEC_PER_MSEC) /* minimum interval between two reads of cpu.max */
#define MANAGER_LIVED_NS   NSEC_PER_SEC		 /* later than this after READY, no failed start */

/* Clients wait for the pool: this manager has had one ready, or has taken over clients. */
static bool manager_is_wanted(const struct manager *m)
{
	return m->ready || m->takeover.n_clients;
}

/* Starts the pool later; n: delays so far, from 0. False if no timer could be set. */
static bool manager_restart_later(struct manager *m, uint32_t n)
{
	return loop_timer(&m->loop, &m->restart_source, MANAGER_BACKOFF_NS << min(n, 4u)) == 0;
}

/* The pool could not be started. failure: POOL_PROCESS_LATER, or a negative errno. True if it is
 * started later. Never for the first pool, because no client waits for it. */
static bool manager_try_again(struct manager *m, int failure, const char *why)
{
	if (!manager_is_wanted(m) || failure != POOL_PROCESS_LATER ||
	    !manager_restart_later(m, m->n_shortages))
		return false;
	m->n_shortages++;
	log_limited(&m->shortages, LOG_LEVEL_WARNING, "cannot start the pool: %s; trying again",
		    why);
	return true;
}

void manager_start_pool(struct manager *m)
{
	int r = pool_process_start(&m->pool, m->pool_segments.board_fd, m->pool_segments.arena_fd);

	if (manager_try_again(m, r, m->pool.failed_text))
		return;
	if (r != 0) {
		log_error("cannot start the pool: %s", m->pool.failed_text);
		m->exit_code = MANAGER_EXIT_SYSTEM;
		manager_end(m, JOB_LOST);
		return;
	}
	pool_segments_set_pool(&m->pool_segments, (uint32_t)m->pool.pid);
}

void manager_on_restart(struct loop_source *source, int result)
{
	(void)result;
	manager_start_pool(container_of(source, struct manager, restart_source));
}

static bool manager_on_accept(struct listener *listener, int fd)
{
	return conn_accept(&container_of(listener, struct manager, listener)->conns, fd);
}

/* The pool asks once a second while it works (cpu_parking.h); a task could ask at any time. */
static void manager_on_asks_cpus(struct pool_process *pool)
{
	struct manager *m = container_of(pool, struct manager, pool);
	struct proto_pool cpus = { .head = { PROTO_MAGIC, PROTO_POOL_CPUS } };
	uint64_t now = clock_ns();

	if (now - m->cpus_ns >= MANAGER_CPUS_NS) {
		m->cpus = cgroup_cpus("");
		m->cpus_ns = now;
	}
	cpus.n_jobs = m->cpus;
	pool_process_send(pool, &cpus, -1);
}

static void manager_on_ready(struct pool_process *pool)
{
	struct manager *m = container_of(pool, struct manager, pool);

	PROBE(pool_start, pool->pid);
	m->n_shortages = 0;
	pool_segments_keep_tasks(&m->pool_segments);
	settings_tell_pool(m->options, pool);
	manager_on_asks_cpus(pool); /* a request from before READY was not answered */
	quarantine_tell_pool(&m->quarantine);
	pool_death_cancel_gone(&m->pool_death);
	conn_tell_pool(&m->conns);
	if (m->stopping || m->halting)
		return;
	if (m->ready) {
		log_notice("pool %u runs (pid %d)", saved_pool_generation(m->takeover.saved),
			   (int)pool->pid);
		notify_changed(&m->notify);
		manager_reload_ready(m);
		return;
	}
	m->ready = true;
	task_rules_look(m->options, m->pool_segments.board);
	saved_ready(m->takeover.saved, pool_segments_jobs_ended(&m->pool_segments));
	if (loop_timer(&m->loop, &m->lived_source, MANAGER_LIVED_NS) < 0)
		saved_acquit(m->takeover.saved);
	pool_segments_set_state(&m->pool_segments, BOARD_RUNNING);
	listener_begin(&m->listener, &m->loop, manager_on_accept);
	manager_announce(m);
	manager_status(&m->notify);
	log_notice("%u workers, listening on %s", m->pool_segments.n_workers,
		   m->listener.path ? m->listener.path : "the socket from systemd");
	manager_reload_ready(m);
}

void manager_on_lived(struct loop_source *source, int result)
{
	(void)result;
	saved_acquit(container_of(source, struct manager, lived_source)->takeover.saved);
}

/* A task may have written over the front of the board. Neither the clients of the next pool nor
 * those that connect now may read that. No job can be blamed. */
static void manager_check_board(struct manager *m)
{
	struct pool_process *pool = &m->pool;

	if (pool->state != POOL_PROCESS_READY || !pool_segments_restore(&m->pool_segments))
		return;
	(void)snprintf(pool->failed_text, sizeof(pool->failed_text),
		       "a task has written over the front of the board");
	pool_process_kill(pool);
}

static void manager_on_attached(struct pool_process *pool, uint32_t client, uint32_t generation,
				const char *text)
{
	manager_check_board(container_of(pool, struct manager, pool));
	conn_attached(&container_of(pool, struct manager, pool)->conns, client, generation, text);
}

static void manager_on_imported(struct pool_process *pool, uint32_t client, uint32_t generation,
				uint32_t index, const char *text)
{
	struct conn_table *conns = &container_of(pool, struct manager, pool)->conns;

	if (!conn_imported(conns, client, generation, index, text))
		conn_attached(conns, client, generation, text);
}

static void manager_on_released(struct pool_process *pool, uint32_t client, uint32_t generation)
{
	struct manager *m = container_of(pool, struct manager, pool);

	if (!conn_released(&m->conns, client, generation))
		log_limited(&m->strays, LOG_LEVEL_WARNING,
			    "the pool released client %u, generation %u, which has not ended",
			    client, generation);
}

static void manager_on_tenant_released(struct pool_process *pool, uint32_t tenant)
{
	struct manager *m = container_of(pool, struct manager, pool);

	if (!tenants_released(&m->conns.tenants, tenant))
		log_limited(&m->strays, LOG_LEVEL_WARNING,
			    "the pool released tenant %u, which has not left", tenant);
}

static void manager_on_traced(struct pool_process *pool, const char *text)
{
	struct manager *m = container_of(pool, struct manager, pool);

	if (!conn_traced(&m->conns, text))
		log_limited(&m->strays, LOG_LEVEL_WARNING,
			    "the pool reports a trace that was not requested");
}

static void manager_on_loaded(struct pool_process *pool, int error, const char *text)
{
	manager_reload_loaded(container_of(pool, struct manager, pool), error, text);
}

static void manager_pool_failed(struct manager *m, const struct pool_process_end *end)
{
	bool unread = end->failed == -EACCES || end->failed == -ENOEXEC;

	if (end->failed_text[0])
		log_error("the pool cannot start: %s%s", end->failed_text,
			  unread ? m->runas.hint : "");
	else if (end->signo)
		log_error("the pool died at its start, of signal %u (%s)", end->signo,
			  strsignal((int)end->signo));
	else
		log_error("the pool ended at its start, with status %d", end->status);
	m->exit_code = MANAGER_EXIT_POOL;
	manager_end(m, JOB_LOST);
}

/* True if this pool ended for a pool with other modules, or was killed when its time for that had
 * passed. Only the pool that was told to end counts, not a later one. */
static bool manager_was_to_end(struct manager *m, const struct pool_process_end *end)
{
	bool killed = m->reload.killed;

	m->reload.killed = false;
	return m->reload.state == RELOAD_RENEWING && end->was_ready &&
	       (end->stopped || (killed && end->signo == SIGKILL));
}

/* The settings sent to the pool are in force; or the next pool begins with them. */
static void manager_on_heard(struct pool_process *pool)
{
	struct manager *m = container_of(pool, struct manager, pool);

	manager_check_board(m);
	conn_heard(&m->conns);
	/* The board may have lost tasks that the pool has added: then its death ends the reload. */
	if (pool->state != POOL_PROCESS_READY || !pool->killed)
		manager_reload_heard(m);
}

void manager_replace_arena(struct manager *m)
{
	int r = pool_segments_replace_arena(&m->pool_segments);

	if (r == 0)
		takeover_share_arena(&m->takeover, &m->store, &m->pool_segments);
	else
		log_error("cannot make another arena: %s: the next pool shares the arena with one "
			  "that has not ended",
			  strerror(-r));
}

static void manager_on_died(struct pool_process *pool, const struct pool_process_end *end)
{
	struct manager *m = container_of(pool, struct manager, pool);
	enum pool_death_next next;

	PROBE(pool_end, end->pid, end->signo, end->status);
	if (end->abandoned)
		manager_replace_arena(m);
	pool_segments_write(&m->pool_segments);
	conn_trace_lost(&m->conns, end->stopped);
	conn_show_counts(&m->conns);
	quarantine_show(&m->quarantine);
	loop_forget(&m->loop, &m->stop_source);
	manager_reload_died(m);
	manager_on_heard(pool);
	if (m->halting) {
		/* If it crashed, a job may be to blame. */
		if (!end->stopped && end->signo != SIGKILL)
			(void)pool_death_run(&m->pool_death, end);
		manager_leave(m);
		return;
	}
	/* Killed at stop-timeout: the jobs that ran are CANCELLED, not LOST. */
	if (m->stopping && (end->stopped || end->signo == SIGKILL)) {
		manager_end(m, JOB_CANCELLED);
		return;
	}
	if (!manager_is_wanted(m) && !m->stopping) {
		manager_pool_failed(m, end);
		return;
	}
	/* This pool had no job yet. */
	if (!m->stopping && !end->was_ready &&
	    manager_try_again(m, end->failed, end->failed_text)) {
		pool_segments_clear_workers(&m->pool_segments);
		return;
	}
	if (manager_was_to_end(m, end)) {
		pool_death_renewed(&m->pool_death, end);
		pool_segments_next_pool(&m->pool_segments);
		notify_changed(&m->notify);
		manager_start_pool(m);
		return;
	}
	next = pool_death_run(&m->pool_death, end);
	if (m->stopping) {
		manager_end(m, JOB_CANCELLED);
		return;
	}
	pool_segments_next_pool(&m->pool_segments);
	notify_changed(&m->notify);
	if (next == POOL_DEATH_GIVE_UP) {
		m->exit_code = MANAGER_EXIT_POOL;
		manager_end(m, JOB_LOST);
	} else if (next == POOL_DEATH_RESTART ||
		   !manager_restart_later(m, m->pool_death.n_deaths - 1)) {
		manager_start_pool(m);
	}
}

const struct pool_process_events manager_pool_events = {
	.ready = manager_on_ready,
	.attached = manager_on_attached,
	.imported = manager_on_imported,
	.released = manager_on_released,
	.tenant_released = manager_on_tenant_released,
	.asks_cpus = manager_on_asks_cpus,
	.heard = manager_on_heard,
	.traced = manager_on_traced,
	.loaded = manager_on_loaded,
	.died = manager_on_died,
};
