/* SPDX-License-Identifier: MIT */
/*
 * daemon/manager.c - the process that clients connect to; it keeps the pool running
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   main(), or a test. One thread, one loop; everything below is called from it.
 *
 *	segments, socket --> pool starts --READY--> accepts clients --SIGTERM--> stops
 *	                        ^                        |                         |
 *	                        +--- post-mortem <-- pool dies              pool ends, or is killed
 *
 * INVARIANTS
 *   I1. Nothing is accepted before the first pool is ready; READY=1 says both. Connections made
 *       earlier wait in the socket's queue.
 *   I2. The manager never waits for anything but its loop, runs no task, takes no lock, and uses
 *       what others write in shared memory only as text or numbers to show, or through recover.c.
 *   I3. Every job that was pending when the manager ends by itself has an outcome then.
 *   I4. Whatever of the manager's stands at the front of board and arena, a task can write over,
 *       and the next pool and clients believe it. So it is kept here, and written anew when a pool
 *       has died, before anything else: manager_write_fronts().
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client: session.c. The pool: manager_on_died(). A pool that dies again and again without
 *   getting anything done ends forkd, so that a service manager sees it. If there are no
 *   descriptors, no process or no memory for one to begin with, that is tried again until there
 *   are: jobs wait for it. What a pool's process itself cannot have counts as its death.
 */
#include "daemon/manager.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/urgent.h"
#include "common/util.h"
#include "daemon/listener.h"
#include "daemon/loop.h"
#include "daemon/notify.h"
#include "daemon/poolproc.h"
#include "daemon/recover.h"
#include "daemon/session.h"
#include "daemon/topology.h"
#include "shm/wake.h"

#define MANAGER_DEATHS	   5u		       /* so many at their start ... */
#define MANAGER_DEATHS_NS  (10 * NSEC_PER_SEC) /* ... within this time end forkd */
#define MANAGER_YOUNG_NS   NSEC_PER_SEC	       /* a pool that lived for less died at its start */
#define MANAGER_BACKOFF_NS (50 * NSEC_PER_MSEC)
#define MANAGER_STATUS_NS  NSEC_PER_SEC		 /* between two status lines */
#define MANAGER_ACCEPT_NS  (100 * NSEC_PER_MSEC) /* after accept failed */

struct manager {
	struct options *options;
	struct loop loop;
	struct poolproc pool;
	struct session_table sessions;
	struct listener listener;
	struct board *board;
	struct arena *arena;
	uint64_t board_size;
	uint64_t arena_size;
	uint64_t epoch;
	/* as they were made, of the segments */
	struct segment board_head;
	struct segment arena_head;
	uint64_t started_ns;
	uint32_t state; /* BOARD_* */
	uint32_t pool_generation;
	uint64_t crashes; /* of the pool, so far */
	uint32_t n_workers;
	int board_fd;
	int board_readonly_fd;
	int arena_fd;
	int signal_fd;
	bool ready; /* the first pool was */
	bool stopping;
	bool accept_failed;
	int exit_code;
	uint64_t deaths[MANAGER_DEATHS]; /* when: the last ones that died at their start */
	uint32_t n_deaths;
	uint32_t n_shortages;  /* tries to start the pool that failed, one after the other */
	uint64_t ended_before; /* jobs, when the stop began */
	uint64_t status_ns;    /* of the last status line */
	struct loop_source accept_source;
	struct loop_source accept_again_source;
	struct loop_source signal_source;
	struct loop_source restart_source;
	struct loop_source stop_source;
	struct loop_source status_source;
};

static int manager_fail(struct manager *m, int exit_code)
{
	m->exit_code = exit_code;
	return -ECANCELED;
}

static void manager_set_state(struct manager *m, uint32_t state)
{
	m->state = state;
	/* Relaxed: a client that sees it late finds its socket closed. */
	atomic_store_explicit(&m->board->manager.state, state, memory_order_relaxed);
}

/* What stands at the front of board and arena, from here. No pool may be alive. */
static void manager_write_fronts(struct manager *m)
{
	char version[sizeof(m->board->manager.version)] = PACKAGE_VERSION;
	struct board_manager *b = &m->board->manager;
	struct arena *a = m->arena;

	m->board->head = m->board_head;
	b->pid = (uint32_t)getpid();
	b->n_workers = m->n_workers;
	b->max_jobs = m->options->max_jobs;
	b->max_clients = m->options->max_clients;
	b->heap_max = m->options->heap_max;
	b->started_ns = m->started_ns;
	memcpy(b->version, version, sizeof(b->version));
	/* Relaxed: for display. */
	atomic_store_explicit(&b->state, m->state, memory_order_relaxed);
	atomic_store_explicit(&b->pool_pid, 0, memory_order_relaxed);
	atomic_store_explicit(&b->pool_generation, m->pool_generation, memory_order_relaxed);
	atomic_store_explicit(&b->scheduler, m->options->scheduler, memory_order_relaxed);
	atomic_store_explicit(&b->crashes, m->crashes, memory_order_relaxed);
	session_show_counts(&m->sessions);

	a->head = m->arena_head;
	a->n_workers = m->n_workers;
	a->max_clients = m->options->max_clients;
	a->max_jobs = m->options->max_jobs;
	memset(a->reserved, 0, sizeof(a->reserved));
}

/* Jobs that the pool gave their outcome, all together. */
static uint64_t manager_jobs_ended(const struct manager *m)
{
	uint64_t sum = 0;

	/* Relaxed: statistics. */
	for (uint32_t i = 0; i < m->n_workers; i++) {
		const struct board_counters *c = &m->board->counters[i];

		sum += atomic_load_explicit(&c->jobs_done, memory_order_relaxed);
		sum += atomic_load_explicit(&c->jobs_failed, memory_order_relaxed);
	}
	return sum +
	       atomic_load_explicit(&m->board->counters[BOARD_POOL].dropped, memory_order_relaxed);
}

/* ------------------------------------------------------------------------ status */

static void manager_status(struct manager *m)
{
	m->status_ns = clock_ns();
	if (m->stopping)
		notify_status("Stopping: waiting for running jobs");
	else if (m->pool.state != POOLPROC_READY)
		notify_status("Starting the pool");
	else
		notify_status("Running: %u workers, %u clients", m->n_workers, m->sessions.n_open);
}

/* Says it at once if nothing was said for a second, else when the second is over. */
static void manager_status_soon(struct manager *m)
{
	uint64_t age = clock_ns() - m->status_ns;

	if (age >= MANAGER_STATUS_NS)
		manager_status(m);
	else if (!m->status_source.op)
		(void)loop_timer(&m->loop, &m->status_source, MANAGER_STATUS_NS - age);
}

static void manager_on_status(struct loop_source *source, int result)
{
	(void)result;
	manager_status(container_of(source, struct manager, status_source));
}

static void manager_on_changed(struct session_table *table)
{
	manager_status_soon(container_of(table, struct manager, sessions));
}

/* ------------------------------------------------------------------------ the end */

/* Nothing runs any more, or ever will. */
static void manager_end(struct manager *m, uint32_t outcome)
{
	uint64_t ended = manager_jobs_ended(m);
	uint64_t n;

	ended = ended > m->ended_before ? ended - m->ended_before : 0;
	manager_set_state(m, BOARD_STOPPED);
	n = session_finish_all(&m->sessions, outcome);
	session_count_fails(&m->sessions, n);
	if (m->stopping)
		log_notice("stopped: %" PRIu64 " jobs ended during the stop, %" PRIu64
			   " were cancelled",
			   ended, n);
	else if (n)
		log_notice("%" PRIu64 " jobs are lost", n);
	loop_stop(&m->loop);
}

static void manager_stop(struct manager *m, const char *why)
{
	struct proto_pool stop = { .head = { PROTO_MAGIC, PROTO_POOL_STOP } };

	if (m->stopping) {
		log_notice("%s again: running jobs are cancelled now", why);
		poolproc_kill(&m->pool);
		return;
	}
	log_notice("%s: stopping, running jobs have %.6g s", why,
		   (double)m->options->stop_timeout / (double)NSEC_PER_SEC);
	m->stopping = true;
	m->ended_before = manager_jobs_ended(m);
	manager_set_state(m, BOARD_STOPPING);
	notify_stopping();
	manager_status(m);
	loop_forget(&m->loop, &m->accept_source);
	loop_forget(&m->loop, &m->accept_again_source);
	loop_forget(&m->loop, &m->restart_source);
	listener_close(&m->listener);
	session_stop(&m->sessions);
	if (m->pool.state == POOLPROC_DOWN) {
		manager_end(m, JOB_CANCELLED);
		return;
	}
	poolproc_send(&m->pool, &stop, -1);
	if (m->pool.state != POOLPROC_READY || !m->options->stop_timeout ||
	    loop_timer(&m->loop, &m->stop_source, m->options->stop_timeout) < 0)
		poolproc_kill(&m->pool);
}

static void manager_on_stop_timeout(struct loop_source *source, int result)
{
	struct manager *m = container_of(source, struct manager, stop_source);

	(void)result;
	log_notice("stop-timeout: running jobs are cancelled");
	poolproc_kill(&m->pool);
}

static void manager_on_signal(struct loop_source *source, int result)
{
	struct manager *m = container_of(source, struct manager, signal_source);
	struct signalfd_siginfo info;

	(void)result;
	/* Armed first: manager_stop() may end the loop. */
	if (loop_poll(&m->loop, &m->signal_source, m->signal_fd, POLLIN) < 0)
		log_error("out of memory: further signals are not seen");
	while (read(m->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGHUP)
			log_notice("SIGHUP: there is no reload, forkd goes on as it is");
		else
			manager_stop(m, info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
	}
}

/* ------------------------------------------------------------------------ accepting */

static void manager_accept(struct manager *m)
{
	if (loop_accept(&m->loop, &m->accept_source, m->listener.fd) < 0)
		(void)loop_timer(&m->loop, &m->accept_again_source, MANAGER_ACCEPT_NS);
}

static void manager_on_accept(struct loop_source *source, int result)
{
	struct manager *m = container_of(source, struct manager, accept_source);

	if (result >= 0) {
		m->accept_failed = false;
		session_accept(&m->sessions, result);
		if (!source->op)
			manager_accept(m);
		return;
	}
	if (!m->accept_failed && result != -ECONNABORTED && result != -EINTR)
		log_warning("cannot accept a connection: %s; trying again", strerror(-result));
	m->accept_failed = true;
	if (!source->op && !m->accept_again_source.op)
		(void)loop_timer(&m->loop, &m->accept_again_source, MANAGER_ACCEPT_NS);
}

static void manager_on_accept_again(struct loop_source *source, int result)
{
	(void)result;
	manager_accept(container_of(source, struct manager, accept_again_source));
}

/* ------------------------------------------------------------------------ the pool */

/* Starts the pool later, for the n-th time, from 0 on. False if that cannot be arranged. */
static bool manager_restart_later(struct manager *m, uint32_t n)
{
	return loop_timer(&m->loop, &m->restart_source, MANAGER_BACKOFF_NS << min(n, 4u)) == 0;
}

/* What others use up, and may give back; descriptors that nobody has received among it. */
static bool manager_is_shortage(int r)
{
	return r == -EAGAIN || r == -EMFILE || r == -ENFILE || r == -ENOBUFS || r == -ENOMEM ||
	       r == -ETOOMANYREFS;
}

static void manager_start_pool(struct manager *m)
{
	struct board_manager *b = &m->board->manager;
	int r = poolproc_start(&m->pool, m->board_fd, m->arena_fd);

	/* Nobody waits for the first one. */
	if (m->ready && manager_is_shortage(r) && manager_restart_later(m, m->n_shortages)) {
		if (!m->n_shortages++)
			log_warning("cannot start the pool: %s; trying again", strerror(-r));
		return;
	}
	m->n_shortages = 0;
	if (r < 0) {
		log_error("cannot start the pool: %s", strerror(-r));
		m->exit_code = MANAGER_EXIT_SYSTEM;
		manager_end(m, JOB_LOST);
		return;
	}
	/* Relaxed: for display. */
	atomic_store_explicit(&b->pool_pid, (uint32_t)m->pool.pid, memory_order_relaxed);
}

static void manager_on_restart(struct loop_source *source, int result)
{
	(void)result;
	manager_start_pool(container_of(source, struct manager, restart_source));
}

/* ------------------------------------------------------------------------ settings */

static void manager_tell_setting(void *context, const char *name, const char *value)
{
	struct manager *m = context;
	struct proto_pool set = { .head = { PROTO_MAGIC, PROTO_POOL_SET } };

	(void)snprintf(set.text, sizeof(set.text), "%s=%s", name, value);
	poolproc_send(&m->pool, &set, -1);
}

/* One of the settings, by its name, as text. */
struct manager_setting {
	const char *name;
	char *text;
	size_t size;
};

static void manager_read_setting(void *context, const char *name, const char *value)
{
	struct manager_setting *setting = context;

	if (streq(setting->name, name))
		(void)snprintf(setting->text, setting->size, "%s", value);
}

static int manager_on_set(struct session_table *table, const char *name, const char *value,
			  char *ret_old, size_t old_size, char *ret_error, size_t error_size)
{
	struct manager *m = container_of(table, struct manager, sessions);
	struct manager_setting old = { .name = name, .text = ret_old, .size = old_size };
	struct options_error error;
	int r;

	options_each_runtime(m->options, manager_read_setting, &old);
	r = options_change(m->options, name, value, &error);
	if (r < 0) {
		(void)snprintf(ret_error, error_size, "%s", error.text);
		return r;
	}
	if (poolproc_set_options(&m->pool, m->options) < 0)
		log_warning("out of memory: the next pool starts with the old %s", name);
	/* Relaxed: for display. */
	atomic_store_explicit(&m->board->manager.scheduler, m->options->scheduler,
			      memory_order_relaxed);
	manager_tell_setting(m, name, value);
	return 0;
}

/* ------------------------------------------------------------------------ the pool's life */

static struct recover_limits manager_limits(const struct manager *m)
{
	return (struct recover_limits){
		.n_workers = m->n_workers,
		.max_clients = m->options->max_clients,
		.max_jobs = m->options->max_jobs,
		.n_tenants = m->sessions.tenants.n,
		.is_gone = session_is_gone,
	};
}

/* A new pool is told of those that are gone, too; it shall not begin their jobs before it hears
 * that. Some have gone since recover_run(). */
static void manager_cancel_gone(struct manager *m)
{
	const struct recover_limits limits = manager_limits(m);
	uint64_t n = 0;

	for (uint32_t client = 0; client < limits.max_clients; client++)
		if (session_is_gone(&m->sessions, client))
			n += recover_cancel(m->arena, &limits, client, session_records,
					    &m->sessions);
	session_count_fails(&m->sessions, n);
}

static void manager_on_ready(struct poolproc *pool)
{
	struct manager *m = container_of(pool, struct manager, pool);

	/* What has changed since it was started. */
	options_each_runtime(m->options, manager_tell_setting, m);
	manager_cancel_gone(m);
	session_tell_pool(&m->sessions);
	if (m->stopping)
		return;
	if (m->ready) {
		log_notice("pool %u runs (pid %d)", m->pool_generation, (int)pool->pid);
		manager_status_soon(m);
		return;
	}
	m->ready = true;
	manager_set_state(m, BOARD_RUNNING);
	manager_accept(m);
	notify_ready();
	manager_status(m);
	log_notice("%u workers, listening on %s", m->n_workers,
		   m->listener.path ? m->listener.path : "the socket from systemd");
}

static void manager_on_attached(struct poolproc *pool, uint32_t client, uint32_t generation,
				const char *text)
{
	session_attached(&container_of(pool, struct manager, pool)->sessions, client, generation,
			 text);
}

static void manager_on_released(struct poolproc *pool, uint32_t client, uint32_t generation)
{
	struct manager *m = container_of(pool, struct manager, pool);

	if (!session_released(&m->sessions, client, generation))
		log_warning("the pool released client %u, generation %u, which is not gone", client,
			    generation);
}

/* Whoever wants to wake one of the dead pool's workers shall not try for ever (wake.h). */
static void manager_clear_workers(struct manager *m)
{
	/* Relaxed: nobody of the pool lives. Clients see a value that is not SLEEPING, and go to
	 * the dispatcher, where the same holds; the next pool looks at all rings when it starts. */
	for (uint32_t i = 0; i <= m->n_workers; i++) {
		struct board_worker *w = &m->board->workers[i];
		_Atomic uint32_t *word = i < m->n_workers ? &w->wake : &m->board->dispatcher;
		uint32_t old = atomic_load_explicit(word, memory_order_relaxed);

		atomic_store_explicit(word, ((old & ~WAKE_STATE) + WAKE_SEQ) | WAKE_BUSY,
				      memory_order_relaxed);
		if (i == m->n_workers)
			break;
		atomic_store_explicit(&w->tid, 0, memory_order_relaxed);
		atomic_store_explicit(&m->board->running[i].job, UINT32_MAX, memory_order_relaxed);
	}
}

static void manager_show_crash(struct manager *m, const struct poolproc_end *end,
			       const struct recover_report *report, char *ret_task, size_t size)
{
	struct board_manager *b = &m->board->manager;
	struct board_crash *c = &m->board->crashes[m->crashes % LIMIT_CRASHES];
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	*c = (struct board_crash){
		.time_ns = (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec,
		.address = report->address,
		.pid = (uint32_t)end->pid,
		.signo = report->signo,
		.job = report->job,
		.worker = report->worker,
		.lost = report->lost,
		.requeued = report->requeued,
	};
	if (report->blamed)
		(void)session_identity(&m->sessions, report->client, &c->client_pid, &c->uid);
	if (report->blamed && report->task < LIMIT_TASKS)
		memcpy(c->task, m->board->tasks[report->task].name, sizeof(c->task));
	c->task[sizeof(c->task) - 1] = '\0';
	(void)snprintf(ret_task, size, "%s", c->task[0] ? c->task : "not known");
	/* ORDER board/crashes [B2]: release, so that who sees the number sees the entry. Pairs with
	 * the acquire of whoever shows it. */
	atomic_store_explicit(&b->crashes, ++m->crashes, memory_order_release);
}

/* The one line about a pool's death. */
static void manager_log_death(struct manager *m, const struct poolproc_end *end,
			      const struct recover_report *r, const char *task)
{
	char how[64], who[256] = "no job can be blamed";
	uint32_t pid = 0, uid = 0;

	if (end->signo)
		(void)snprintf(how, sizeof(how), "died of signal %u (%s)", r->signo,
			       strsignal((int)r->signo));
	else
		(void)snprintf(how, sizeof(how), "exited with status %d", end->status);
	if (r->blamed && session_identity(&m->sessions, r->client, &pid, &uid))
		(void)snprintf(who, sizeof(who),
			       "job %u of client %u (pid %u, uid %u), task %s, at address "
			       "0x%" PRIx64 " on worker %u",
			       r->job, r->client, pid, uid, task, r->address, r->worker);
	log_warning(
		"pool (pid %d) %s: %s; %u crashed, %u lost, %u cancelled, %u run again, %u stay "
		"queued%s%s",
		(int)end->pid, how, who, r->crashed, r->lost, r->cancelled, r->requeued, r->queued,
		end->failed_text[0] ? ": " : "", end->failed_text);
}

/* Counts a death at the start. True if there were too many. */
static bool manager_too_many_deaths(struct manager *m)
{
	uint64_t now = clock_ns();
	uint64_t *oldest = &m->deaths[m->n_deaths % MANAGER_DEATHS];
	bool full = m->n_deaths + 1 >= MANAGER_DEATHS;

	*oldest = now;
	m->n_deaths++;
	return full && now - m->deaths[m->n_deaths % MANAGER_DEATHS] < MANAGER_DEATHS_NS;
}

static void manager_pool_failed(struct manager *m, const struct poolproc_end *end)
{
	if (end->failed_text[0])
		log_error("the pool cannot start: %s", end->failed_text);
	else if (end->signo)
		log_error("the pool died at its start, of signal %u (%s)", end->signo,
			  strsignal((int)end->signo));
	else
		log_error("the pool ended at its start, with status %d", end->status);
	m->exit_code = MANAGER_EXIT_POOL;
	manager_end(m, JOB_LOST);
}

static void manager_on_died(struct poolproc *pool, const struct poolproc_end *end)
{
	struct manager *m = container_of(pool, struct manager, pool);
	struct board_manager *b = &m->board->manager;
	const struct recover_limits limits = manager_limits(m);
	struct recover_report report;
	char task[64];

	manager_write_fronts(m);
	loop_forget(&m->loop, &m->stop_source);
	if (m->stopping && end->stopped) {
		manager_end(m, JOB_CANCELLED);
		return;
	}
	if (m->stopping && end->signo == SIGKILL) {
		/* Killed at stop-timeout: what ran was cancelled, not lost. */
		manager_end(m, JOB_CANCELLED);
		return;
	}
	if (!m->ready && !m->stopping) {
		manager_pool_failed(m, end);
		return;
	}
	recover_run(m->arena, &limits, end->signo, session_records, &m->sessions, &report);
	session_count_fails(&m->sessions,
			    report.crashed + report.lost + report.finished + report.cancelled);
	manager_clear_workers(m);
	manager_show_crash(m, end, &report, task, sizeof(task));
	manager_log_death(m, end, &report, task);
	if (m->stopping) {
		manager_end(m, JOB_CANCELLED);
		return;
	}
	/* Relaxed: for display, and for who counts sleeps (client/publish.c). */
	atomic_store_explicit(&b->pool_generation, ++m->pool_generation, memory_order_relaxed);
	manager_status_soon(m);
	if (report.crashed + report.lost + report.cancelled + report.requeued == 0 &&
	    end->lived_ns < MANAGER_YOUNG_NS) {
		if (manager_too_many_deaths(m)) {
			log_error("the pool died %u times within %llu s of its start: forkd gives "
				  "up; the lines above say why",
				  MANAGER_DEATHS,
				  (unsigned long long)(MANAGER_DEATHS_NS / NSEC_PER_SEC));
			m->exit_code = MANAGER_EXIT_POOL;
			manager_end(m, JOB_LOST);
			return;
		}
		if (manager_restart_later(m, m->n_deaths - 1))
			return;
	} else {
		m->n_deaths = 0;
	}
	manager_start_pool(m);
}

static const struct poolproc_events manager_pool_events = {
	.ready = manager_on_ready,
	.attached = manager_on_attached,
	.released = manager_on_released,
	.died = manager_on_died,
};

/* ------------------------------------------------------------------------ the start */

static int manager_system(struct manager *m, const char *what, int r)
{
	log_error("cannot %s: %s", what, strerror(-r));
	return manager_fail(m, MANAGER_EXIT_SYSTEM);
}

static int manager_count_workers(struct manager *m)
{
	struct topology *topology;
	char error[256];
	int r;

	r = topology_new(NULL, m->options->workers, m->options->cpus, error, sizeof(error),
			 &topology);
	if (r < 0) {
		log_error("%s", error);
		return manager_fail(m, r == -EINVAL ? MANAGER_EXIT_USAGE : MANAGER_EXIT_SYSTEM);
	}
	m->n_workers = topology_n_workers(topology);
	topology_free(topology);
	return 0;
}

static int manager_make_board(struct manager *m)
{
	void *base;
	int r;

	m->board_fd = segment_create("forkd-board", SEGMENT_BOARD, sizeof(struct board), m->epoch,
				     1, 0400);
	if (m->board_fd < 0)
		return manager_system(m, "make the board", m->board_fd);
	m->board_readonly_fd = segment_reopen_readonly(m->board_fd);
	if (m->board_readonly_fd < 0)
		return manager_system(m, "open the board again (is /proc mounted?)",
				      m->board_readonly_fd);
	r = segment_map(m->board_fd, SEGMENT_BOARD, 1, m->epoch, &base, &m->board_size);
	if (r < 0)
		return manager_system(m, "map the board", r);
	m->board = base;
	m->board_head = m->board->head;
	for (uint32_t i = 0; i < m->n_workers; i++) {
		atomic_store_explicit(&m->board->workers[i].cpu, UINT32_MAX, memory_order_relaxed);
		atomic_store_explicit(&m->board->workers[i].node, UINT32_MAX, memory_order_relaxed);
		atomic_store_explicit(&m->board->running[i].job, UINT32_MAX, memory_order_relaxed);
	}
	manager_clear_workers(m);
	return 0;
}

static int manager_make_arena(struct manager *m)
{
	const struct options *o = m->options;
	uint64_t front = arena_workers_offset(o->max_clients, o->max_jobs);
	void *base;
	int r;

	m->arena_fd = segment_create("forkd-arena", SEGMENT_ARENA, front + o->arena_max, m->epoch,
				     0, 0600);
	if (m->arena_fd < 0)
		return manager_system(m, "make the arena", m->arena_fd);
	r = segment_map(m->arena_fd, SEGMENT_ARENA, 1, m->epoch, &base, &m->arena_size);
	if (r < 0)
		return manager_system(m, "map the arena", r);
	m->arena = base;
	m->arena_head = m->arena->head;
	for (uint32_t i = 0; i < m->n_workers; i++) {
		struct ledger_worker *w = &m->arena->workers[i];

		atomic_store_explicit(&w->job, UINT32_MAX, memory_order_relaxed);
		atomic_store_explicit(&w->task, UINT32_MAX, memory_order_relaxed);
	}
	return 0;
}

/* Three descriptors a client, and some of our own. Without the right to more, accept fails later
 * and says so. */
static void manager_raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int manager_signals(struct manager *m)
{
	sigset_t set;
	int r;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return manager_system(m, "block signals", -errno);
	m->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (m->signal_fd < 0)
		return manager_system(m, "make a signalfd", -errno);
	r = loop_poll(&m->loop, &m->signal_source, m->signal_fd, POLLIN);
	return r < 0 ? manager_system(m, "wait for signals", r) : 0;
}

static int manager_init(struct manager *m)
{
	char error[512];
	int r;

	r = listener_open(&m->listener, m->options->socket, m->options->socket_mode, error,
			  sizeof(error));
	if (r < 0) {
		log_error("%s", error);
		return manager_fail(m, MANAGER_EXIT_LISTEN);
	}
	if (getrandom(&m->epoch, sizeof(m->epoch), 0) != (ssize_t)sizeof(m->epoch))
		m->epoch = clock_ns();
	m->epoch |= 1; /* 0 means any */
	manager_raise_limit();
	r = manager_count_workers(m);
	if (r == 0)
		r = manager_signals(m);
	if (r == 0)
		r = manager_make_board(m);
	if (r == 0)
		r = manager_make_arena(m);
	if (r < 0)
		return r;
	r = poolproc_init(&m->pool, &m->loop, m->options, &manager_pool_events);
	if (r < 0)
		return manager_system(m, "start the pool", r);
	m->sessions = (struct session_table){
		.loop = &m->loop,
		.options = m->options,
		.pool = &m->pool,
		.board = m->board,
		.board_fd = m->board_readonly_fd,
		.tenants = {
			.pool = &m->pool,
			.board = m->board,
			.epoch = m->epoch,
			.n_workers = m->n_workers,
		},
		.segments = {
			.options = m->options,
			.arena = m->arena,
			.epoch = m->epoch,
		},
		.set = manager_on_set,
		.changed = manager_on_changed,
	};
	m->started_ns = clock_ns();
	m->pool_generation = 1;
	manager_write_fronts(m);
	return 0;
}

static void manager_fini(struct manager *m)
{
	session_fini(&m->sessions);
	if (m->pool.loop)
		poolproc_fini(&m->pool);
	listener_close(&m->listener);
	segment_unmap(m->board, m->board_size);
	segment_unmap(m->arena, m->arena_size);
	(void)safe_close(m->board_fd);
	(void)safe_close(m->board_readonly_fd);
	(void)safe_close(m->arena_fd);
	(void)safe_close(m->signal_fd);
	loop_fini(&m->loop);
}

int manager_run(struct options *options)
{
	/* Some tens of KiB of slots: not on the stack. One manager a process. */
	static struct manager m;
	int r;

	m = (struct manager){
		.options = options,
		.listener = LISTENER_INIT,
		.board_fd = -1,
		.board_readonly_fd = -1,
		.arena_fd = -1,
		.signal_fd = -1,
		.accept_source = { .call = manager_on_accept },
		.accept_again_source = { .call = manager_on_accept_again },
		.signal_source = { .call = manager_on_signal },
		.restart_source = { .call = manager_on_restart },
		.stop_source = { .call = manager_on_stop_timeout },
		.status_source = { .call = manager_on_status },
	};
	r = loop_init(&m.loop);
	if (r < 0) {
		log_error(
			"cannot use io_uring: %s%s", strerror(-r),
			r == -EPERM || r == -ENOSYS
				? ": the sysctl kernel.io_uring_disabled must be 0, and no seccomp "
				  "filter may deny it"
				: "");
		return MANAGER_EXIT_SYSTEM;
	}
	if (manager_init(&m) == 0) {
		urgent_begin();
		manager_start_pool(&m);
		if (loop_run(&m.loop) < 0) {
			log_error("io_uring failed");
			m.exit_code = MANAGER_EXIT_BUG;
		}
	}
	manager_fini(&m);
	return m.exit_code;
}
