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
 *   I3. Every job that was pending when the manager ends by itself has an outcome then, unless the
 *       next manager goes on with it (adopt.c): who is to be started again, or could not begin,
 *       leaves all that is in the store as it is.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client: session.c. The pool: postmortem.c. If there are no descriptors, no process, no thread
 *   or no memory for the next one, here or in its own process, that is tried again until there are:
 *   jobs wait for it.
 */
#include "daemon/manager.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/urgent.h"
#include "common/util.h"
#include "daemon/adopt.h"
#include "daemon/budget.h"
#include "daemon/cgroup.h"
#include "daemon/fronts.h"
#include "daemon/hangup.h"
#include "daemon/listener.h"
#include "daemon/loop.h"
#include "daemon/notify.h"
#include "daemon/poolproc.h"
#include "daemon/postmortem.h"
#include "daemon/quarantine.h"
#include "daemon/session.h"
#include "daemon/settings.h"
#include "daemon/store.h"
#include "daemon/topology.h"
#include "daemon/userns.h"

#define MANAGER_BACKOFF_NS (50 * NSEC_PER_MSEC)
#define MANAGER_CPUS_NS	   (500 * NSEC_PER_MSEC) /* between two looks at cpu.max, at least */

struct manager {
	struct options *options;
	struct loop loop;
	struct hangups hangups;
	struct poolproc pool;
	struct session_table sessions;
	struct notify notify;
	struct store store;
	struct adopt adopt;
	struct listener listener;
	struct fronts fronts;
	struct postmortem postmortem;
	struct quarantine quarantine;
	int signal_fd;
	bool ready; /* the first pool was */
	bool stopping;
	bool halting; /* to be started again */
	int exit_code;
	uint32_t n_shortages; /* tries to start the pool that failed, one after the other */
	struct log_limit shortages;
	struct log_limit strays; /* lines that a task can provoke, by the pool's channel */
	uint64_t ended_before;	 /* jobs, when the stop began */
	uint64_t cpus_ns;	 /* of the last look at cpu.max */
	uint32_t cpus;		 /* that it was enough for; 0: for any number */
	struct loop_source signal_source;
	struct loop_source restart_source;
	struct loop_source stop_source;
	struct loop_source announce_source;
};

static int manager_fail(struct manager *m, int exit_code)
{
	m->exit_code = exit_code;
	return -ECANCELED;
}

/* ------------------------------------------------------------------------ status */

static void manager_status(struct notify *notify)
{
	struct manager *m = container_of(notify, struct manager, notify);

	if (m->stopping)
		notify_status(notify, "Stopping: waiting for running jobs");
	else if (m->halting)
		notify_status(notify, "To be started again: waiting for running jobs");
	else if (m->pool.state != POOLPROC_READY)
		notify_status(notify, "Starting the pool");
	else
		notify_status(notify, "Running: %u workers, %u clients", m->fronts.n_workers,
			      m->sessions.n_open);
}

static void manager_on_changed(struct session_table *table)
{
	notify_changed(&container_of(table, struct manager, sessions)->notify);
}

/* ------------------------------------------------------------------------ the end */

/* Nothing runs any more, or ever will. */
static void manager_end(struct manager *m, uint32_t outcome)
{
	uint64_t ended = fronts_jobs_ended(&m->fronts);
	uint64_t n;

	ended = ended > m->ended_before ? ended - m->ended_before : 0;
	roster_end(m->adopt.roster);
	fronts_set_state(&m->fronts, BOARD_STOPPED);
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

/* The pool is told to end, in one way or the other, and has stop-timeout for it. */
static void manager_end_pool(struct manager *m, uint32_t message)
{
	struct proto_pool stop = { .head = { PROTO_MAGIC, message } };

	poolproc_send(&m->pool, &stop, -1);
	loop_forget(&m->loop, &m->stop_source);
	if (m->pool.state != POOLPROC_READY || !m->options->stop_timeout ||
	    loop_timer(&m->loop, &m->stop_source, m->options->stop_timeout) < 0)
		poolproc_kill(&m->pool);
}

static void manager_stop(struct manager *m, const char *why)
{
	if (m->stopping) {
		log_notice("%s again: running jobs are cancelled now", why);
		poolproc_kill(&m->pool);
		return;
	}
	log_notice("%s: stopping, running jobs have %.6g s", why,
		   (double)m->options->stop_timeout / (double)NSEC_PER_SEC);
	m->stopping = true;
	m->halting = false;
	m->ended_before = fronts_jobs_ended(&m->fronts);
	fronts_set_state(&m->fronts, BOARD_STOPPING);
	notify_stopping();
	manager_status(&m->notify);
	loop_forget(&m->loop, &m->restart_source);
	(void)loop_close(&m->loop, listener_leave(&m->listener));
	session_stop(&m->sessions);
	if (m->pool.state == POOLPROC_DOWN)
		manager_end(m, JOB_CANCELLED);
	else
		manager_end_pool(m, PROTO_POOL_STOP);
}

/* What the service manager keeps is the next forkd's: nothing is closed, no job gets an outcome. */
static void manager_leave(struct manager *m)
{
	roster_part(m->adopt.roster);
	m->exit_code = MANAGER_EXIT_RESTART;
	loop_stop(&m->loop);
}

/* To be started again: jobs that run may end, those that are queued wait for the next pool. */
static void manager_halt(struct manager *m, const char *why)
{
	if (m->stopping || !adopt_is_shared(&m->adopt, &m->store)) {
		manager_stop(m, why);
		return;
	}
	if (m->halting) {
		log_notice("%s again: running jobs are left to the next forkd now", why);
		poolproc_kill(&m->pool);
		return;
	}
	log_notice("%s: to be started again, running jobs have %.6g s", why,
		   (double)m->options->stop_timeout / (double)NSEC_PER_SEC);
	m->halting = true;
	manager_status(&m->notify);
	loop_forget(&m->loop, &m->restart_source);
	/* Who connects now waits for the next forkd. */
	listener_end(&m->listener);
	if (m->pool.state == POOLPROC_DOWN)
		manager_leave(m);
	else
		manager_end_pool(m, PROTO_POOL_HALT);
}

static void manager_on_stop_timeout(struct loop_source *source, int result)
{
	struct manager *m = container_of(source, struct manager, stop_source);

	(void)result;
	log_notice("stop-timeout: running jobs are %s",
		   m->halting ? "left to the next forkd" : "cancelled");
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
		else if (info.ssi_signo == SIGUSR2)
			manager_halt(m, "SIGUSR2");
		else
			manager_stop(m, info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
	}
}

/* ------------------------------------------------------------------------ the pool */

/* Somebody waits for the pool: it is not the first one, or not his. */
static bool manager_is_wanted(const struct manager *m)
{
	return m->ready || m->adopt.n_clients;
}

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

/* Until it has heard that, a service manager waits, and then ends forkd. */
static void manager_announce(struct manager *m)
{
	int r = notify_ready();

	if (manager_is_shortage(r) || r == -EINTR)
		r = loop_timer(&m->loop, &m->announce_source, MANAGER_BACKOFF_NS);
	if (r < 0)
		log_error("cannot tell the service manager that forkd is ready: %s", strerror(-r));
}

static void manager_on_announce(struct loop_source *source, int result)
{
	(void)result;
	manager_announce(container_of(source, struct manager, announce_source));
}

/* The pool was not to be had. True if it is started later: something was short. Nobody waits for
 * the first one. */
static bool manager_try_again(struct manager *m, int r, const char *why)
{
	if (!manager_is_wanted(m) || !manager_is_shortage(r) ||
	    !manager_restart_later(m, m->n_shortages))
		return false;
	m->n_shortages++;
	log_limited(&m->shortages, LOG_LEVEL_WARNING, "cannot start the pool: %s; trying again",
		    why);
	return true;
}

static void manager_start_pool(struct manager *m)
{
	int r = poolproc_start(&m->pool, m->fronts.board_fd, m->fronts.arena_fd);

	if (manager_try_again(m, r, strerror(-r)))
		return;
	if (r < 0) {
		log_error("cannot start the pool: %s", strerror(-r));
		m->exit_code = MANAGER_EXIT_SYSTEM;
		manager_end(m, JOB_LOST);
		return;
	}
	fronts_set_pool(&m->fronts, (uint32_t)m->pool.pid);
}

static void manager_on_restart(struct loop_source *source, int result)
{
	(void)result;
	manager_start_pool(container_of(source, struct manager, restart_source));
}

static int manager_on_set(struct session_table *table, const char *name, const char *value,
			  char *ret_old, size_t old_size, char *ret_error, size_t error_size)
{
	struct manager *m = container_of(table, struct manager, sessions);

	return settings_change(m->options, &m->fronts, &m->pool, name, value, ret_old, old_size,
			       ret_error, error_size);
}

static int manager_on_lift(struct session_table *table, const char *task, const char *uid,
			   char *ret_n, size_t n_size, char *ret_error, size_t error_size)
{
	struct manager *m = container_of(table, struct manager, sessions);

	return quarantine_lift(&m->quarantine, uid, task, ret_n, n_size, ret_error, error_size);
}

/* A uid that comes back has another tenant. */
static void manager_on_tenant(struct tenants *tenants, uint32_t index)
{
	struct manager *m = container_of(tenants, struct manager, sessions.tenants);

	quarantine_tell_tenant(&m->quarantine, index);
}

static void manager_on_accept(struct listener *listener, int fd)
{
	session_accept(&container_of(listener, struct manager, listener)->sessions, fd);
}

/* It asks once a second, while it works (park.h); a task could say so at any time. */
static void manager_on_asks_cpus(struct poolproc *pool)
{
	struct manager *m = container_of(pool, struct manager, pool);
	struct proto_pool cpus = { .head = { PROTO_MAGIC, PROTO_POOL_CPUS } };
	uint64_t now = clock_ns();

	if (now - m->cpus_ns >= MANAGER_CPUS_NS) {
		m->cpus = cgroup_cpus("");
		m->cpus_ns = now;
	}
	cpus.n_jobs = m->cpus;
	poolproc_send(pool, &cpus, -1);
}

static void manager_on_ready(struct poolproc *pool)
{
	struct manager *m = container_of(pool, struct manager, pool);

	m->n_shortages = 0;
	settings_tell_pool(m->options, pool);
	manager_on_asks_cpus(pool); /* what it asked before is not answered */
	quarantine_tell_pool(&m->quarantine);
	postmortem_cancel_gone(&m->postmortem);
	session_tell_pool(&m->sessions);
	if (m->stopping || m->halting)
		return;
	if (m->ready) {
		log_notice("pool %u runs (pid %d)", m->fronts.pool_generation, (int)pool->pid);
		notify_changed(&m->notify);
		return;
	}
	m->ready = true;
	roster_ready(m->adopt.roster, clock_ns());
	fronts_set_state(&m->fronts, BOARD_RUNNING);
	listener_begin(&m->listener, &m->loop, manager_on_accept);
	manager_announce(m);
	manager_status(&m->notify);
	log_notice("%u workers, listening on %s", m->fronts.n_workers,
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
		log_limited(&m->strays, LOG_LEVEL_WARNING,
			    "the pool released client %u, generation %u, which is not gone", client,
			    generation);
}

static void manager_on_tenant_released(struct poolproc *pool, uint32_t tenant)
{
	struct manager *m = container_of(pool, struct manager, pool);

	if (!tenants_released(&m->sessions.tenants, tenant))
		log_limited(&m->strays, LOG_LEVEL_WARNING,
			    "the pool released tenant %u, which has not left", tenant);
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
	enum postmortem_next next;

	fronts_write(&m->fronts);
	session_show_counts(&m->sessions);
	quarantine_show(&m->quarantine);
	loop_forget(&m->loop, &m->stop_source);
	if (m->halting) {
		/* One that crashed has somebody to blame. */
		if (!end->stopped && end->signo != SIGKILL)
			(void)postmortem_run(&m->postmortem, end);
		manager_leave(m);
		return;
	}
	/* Killed at stop-timeout: what ran was cancelled, not lost. */
	if (m->stopping && (end->stopped || end->signo == SIGKILL)) {
		manager_end(m, JOB_CANCELLED);
		return;
	}
	if (!manager_is_wanted(m) && !m->stopping) {
		manager_pool_failed(m, end);
		return;
	}
	/* No job was its own yet. */
	if (!m->stopping && !end->was_ready &&
	    manager_try_again(m, end->failed, end->failed_text)) {
		fronts_clear_workers(&m->fronts);
		return;
	}
	next = postmortem_run(&m->postmortem, end);
	if (m->stopping) {
		manager_end(m, JOB_CANCELLED);
		return;
	}
	fronts_next_pool(&m->fronts);
	notify_changed(&m->notify);
	if (next == POSTMORTEM_GIVE_UP) {
		m->exit_code = MANAGER_EXIT_POOL;
		manager_end(m, JOB_LOST);
	} else if (next == POSTMORTEM_RESTART ||
		   !manager_restart_later(m, m->postmortem.n_deaths - 1)) {
		manager_start_pool(m);
	}
}

static const struct poolproc_events manager_pool_events = {
	.ready = manager_on_ready,
	.attached = manager_on_attached,
	.released = manager_on_released,
	.tenant_released = manager_on_tenant_released,
	.asks_cpus = manager_on_asks_cpus,
	.died = manager_on_died,
};

/* ------------------------------------------------------------------------ the start */

static int manager_system(struct manager *m, const char *what, int r)
{
	log_error("cannot %s: %s", what, strerror(-r));
	return manager_fail(m, MANAGER_EXIT_SYSTEM);
}

static int manager_count_workers(struct manager *m, uint32_t *ret_n)
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
	*ret_n = topology_n_workers(topology);
	/* For every pool the same, whatever becomes of CPUs meanwhile. */
	if (!m->options->cpus)
		m->options->cpus = topology_cpus(topology);
	topology_free(topology);
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
	(void)sigaddset(&set, SIGUSR2);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return manager_system(m, "block signals", -errno);
	m->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (m->signal_fd < 0)
		return manager_system(m, "make a signalfd", -errno);
	r = loop_poll(&m->loop, &m->signal_source, m->signal_fd, POLLIN);
	return r < 0 ? manager_system(m, "wait for signals", r) : 0;
}

/* Board, arena and roster: new ones, or those of the last forkd. */
static int manager_share(struct manager *m, uint32_t n_workers)
{
	const struct roster_geometry geometry = fronts_geometry(m->options, n_workers);
	const char *what = "make the roster";
	int r;

	m->hangups.loop = &m->loop;
	r = adopt_begin(&m->adopt, &m->store, &m->hangups, &geometry);
	if (r == 0)
		r = fronts_init(&m->fronts, m->options, n_workers,
				&(struct fronts_inherited){
					.roster = m->adopt.roster,
					.board_fd = m->adopt.board_fd,
					.arena_fd = m->adopt.arena_fd,
				},
				&what);
	if (r < 0)
		return manager_system(m, what, r);
	adopt_share(&m->adopt, &m->store, &m->fronts);
	return 0;
}

static int manager_init(struct manager *m)
{
	struct options_error text;
	char error[512];
	uint64_t epoch;
	uint32_t n_workers;
	int r;

	if (budget_settle(m->options, &text) < 0) {
		log_error("%s", text.text);
		return manager_fail(m, MANAGER_EXIT_USAGE);
	}
	log_info("%s", text.text);
	r = store_init(&m->store, &m->loop);
	if (r < 0)
		return manager_system(m, "take what systemd passes", r);
	r = listener_open(&m->listener, &m->store, m->options->socket, m->options->socket_mode,
			  error, sizeof(error));
	if (r < 0) {
		log_error("%s", error);
		return manager_fail(m, MANAGER_EXIT_LISTEN);
	}
	manager_raise_limit();
	r = manager_count_workers(m, &n_workers);
	if (r == 0)
		r = manager_signals(m);
	if (r < 0)
		return r;
	r = manager_share(m, n_workers);
	if (r < 0)
		return r;
	epoch = m->adopt.roster->head.epoch;
	r = poolproc_init(&m->pool, &m->hangups, &m->store, m->options, &manager_pool_events);
	if (r < 0)
		return manager_system(m, "start the pool", r);
	pulse_watch(&m->pool.pulse, m->fronts.arena, n_workers);
	m->sessions = (struct session_table){
		.loop = &m->loop,
		.options = m->options,
		.pool = &m->pool,
		.board = m->fronts.board,
		.board_fd = m->fronts.board_readonly_fd,
		.tenants = {
			.loop = &m->loop,
			.pool = &m->pool,
			.roster = m->adopt.roster,
			.store = &m->store,
			.board = m->fronts.board,
			.arena = m->fronts.arena,
			.epoch = epoch,
			.n_workers = n_workers,
			.made = manager_on_tenant,
		},
		.segments = {
			.loop = &m->loop,
			.options = m->options,
			.arena = m->fronts.arena,
			.epoch = epoch,
		},
		.stranger = userns_stranger(),
		.strange_group = userns_strange_group(),
		.hangups = &m->hangups,
		.roster = m->adopt.roster,
		.store = &m->store,
		.set = manager_on_set,
		.lift = manager_on_lift,
		.changed = manager_on_changed,
		.refusals = LOG_LIMIT_INIT,
		.offences = LOG_LIMIT_INIT,
		.misfits = LOG_LIMIT_INIT,
	};
	quarantine_init(&m->quarantine, m->options, &m->loop, &m->pool, &m->sessions.tenants,
			m->fronts.board, &m->adopt.roster->quarantine);
	m->postmortem = (struct postmortem){
		.fronts = &m->fronts,
		.sessions = &m->sessions,
		.quarantine = &m->quarantine,
	};
	fronts_write(&m->fronts);
	quarantine_show(&m->quarantine);
	adopt_clients(&m->adopt, &m->sessions);
	if (m->adopt.inherited)
		postmortem_inherit(&m->postmortem, m->adopt.n_clients);
	return 0;
}

/* Halted, or never begun: the end of the process closes what it has, and nothing is said in the
 * sockets. */
static void manager_part(struct manager *m)
{
	store_fini(&m->store);
	loop_fini(&m->loop);
}

static void manager_fini(struct manager *m)
{
	session_fini(&m->sessions);
	if (m->pool.loop)
		poolproc_fini(&m->pool);
	adopt_fini(&m->adopt);
	store_empty(&m->store);
	store_fini(&m->store);
	hangup_fini(&m->hangups);
	notify_end(&m->notify);
	(void)loop_close(&m->loop, listener_leave(&m->listener));
	fronts_fini(&m->fronts);
	(void)safe_close(m->signal_fd);
	loop_fini(&m->loop);
}

int manager_run(struct options *options)
{
	/* Some tens of KiB of slots: not on the stack. One manager a process. */
	static struct manager m;
	bool begun;
	int r;

	m = (struct manager){
		.options = options,
		.notify = { .loop = &m.loop, .status = manager_status },
		.store = STORE_INIT,
		.adopt = ADOPT_INIT,
		.listener = LISTENER_INIT,
		.fronts = FRONTS_INIT,
		.signal_fd = -1,
		.shortages = LOG_LIMIT_INIT,
		.strays = LOG_LIMIT_INIT,
		.signal_source = { .call = manager_on_signal },
		.restart_source = { .call = manager_on_restart },
		.stop_source = { .call = manager_on_stop_timeout },
		.announce_source = { .call = manager_on_announce },
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
	begun = manager_init(&m) == 0;
	if (begun) {
		urgent_begin(true);
		notify_begin(&m.notify);
		manager_start_pool(&m);
		if (loop_run(&m.loop) < 0) {
			log_error("io_uring failed");
			m.exit_code = MANAGER_EXIT_BUG;
		}
	}
	/* What this one could not begin with may do for the next. */
	if (m.halting || (!begun && store_is_there(&m.store)))
		manager_part(&m);
	else
		manager_fini(&m);
	return m.exit_code;
}
