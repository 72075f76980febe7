/* SPDX-License-Identifier: MIT */
/*
 * manager.c - the process that clients connect to; it keeps the pool running
 *
 * Threads: main(), or a test. One thread, one loop, which calls every file of this directory unless
 * noted: manager_pool.c handles the pool, manager_reload.c reloads, manager_status.c the status
 * line for the service manager, manager_stop.c the end.
 *
 * 	segments, socket --> pool starts --READY--> accepts clients --SIGTERM--> stops
 * 	                        ^                        |                         |
 * 	                        +--- recovery <----- pool dies              pool ends, or is killed
 *
 * INVARIANTS
 *     I1. No connection is accepted before the first pool is ready; READY=1 reports both. Earlier
 *         connections wait in the socket's queue.
 *     I2. Once it is ready the manager waits only in its loop. It runs no task and takes no lock.
 *         Shared memory that others write is used only as text or numbers for display, or through
 *         job_recovery.c.
 *     I3. When the manager ends regularly, every pending job has an outcome, unless the next
 *         manager continues it (takeover.c): a manager that is to be restarted, could not begin, or
 *         lost its loop keeps everything in the store.
 *
 *   If a client dies: connection.c. If the pool dies: pool_death.c. If descriptors, processes,
 *   threads or memory for the next pool are short, its start is tried again, and jobs wait for it.
 */
#include "daemon/manager/manager_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "common/log.h"
#include "common/low_latency.h"
#include "common/options.h"
#include "common/util.h"
#include "daemon/host/topology.h"
#include "daemon/manager/connection.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/fdstore.h"
#include "daemon/manager/listener.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/manager.h"
#include "daemon/manager/manager_state.h"
#include "daemon/manager/memory_budget.h"
#include "daemon/manager/pool_death.h"
#include "daemon/manager/pool_process.h"
#include "daemon/manager/pool_segments.h"
#include "daemon/manager/pool_watchdog.h"
#include "daemon/manager/quarantine.h"
#include "daemon/manager/reload_trial.h"
#include "daemon/manager/runas.h"
#include "daemon/manager/saved_state.h"
#include "daemon/manager/sd_notify.h"
#include "daemon/manager/settings.h"
#include "daemon/manager/takeover.h"
#include "daemon/manager/userns.h"
#include "shm/job.h"

static int manager_fail(struct manager *m, int exit_code)
{
	m->exit_code = exit_code;
	return -ECANCELED;
}

/* ------------------------------------------------------------------------ requests */

static void manager_on_changed(struct conn_table *table)
{
	notify_changed(&container_of(table, struct manager, conns)->notify);
}

static int manager_on_set(struct conn_table *table, const char *name, const char *value,
			  char *ret_old, size_t old_size, char *ret_error, size_t error_size)
{
	struct manager *m = container_of(table, struct manager, conns);

	return settings_change(m->options, &m->pool_segments, &m->pool, name, value, ret_old,
			       old_size, ret_error, error_size);
}

static int manager_on_lift(struct conn_table *table, const char *task, const char *uid, char *ret_n,
			   size_t n_size, char *ret_error, size_t error_size)
{
	struct manager *m = container_of(table, struct manager, conns);

	return quarantine_lift(&m->quarantine, uid, task, ret_n, n_size, ret_error, error_size);
}

static void manager_on_reload(struct conn_table *table, uint32_t pid, uint32_t uid,
			      uint64_t *ret_number)
{
	char why[64];

	(void)snprintf(why, sizeof(why), "reload by pid %u, uid %u", pid, uid);
	manager_reload(container_of(table, struct manager, conns), why, false, ret_number);
}

static void manager_on_reload_left(struct conn_table *table)
{
	manager_reload_left(container_of(table, struct manager, conns));
}

/* A uid that returns gets a new tenant. */
static void manager_on_tenant(struct tenants *tenants, uint32_t index)
{
	struct manager *m = container_of(tenants, struct manager, conns.tenants);

	quarantine_tell_tenant(&m->quarantine, index);
}

/* ------------------------------------------------------------------------ the start */

static int manager_system(struct manager *m, const char *what, int r)
{
	log_error("cannot %s: %s", what, strerror(-r));
	return manager_fail(m, MANAGER_EXIT_SYSTEM);
}

static int manager_count_workers(struct manager *m, uint32_t *ret_n)
{
	struct options *o = m->options;
	struct topology *topology;
	char error[256] = "";
	int r;

	/* Some CPUs of the first start may be missing: their workers are then offline. */
	if (takeover_had_cpus(&m->takeover, o->cpus))
		r = topology_again(o->workers, options_threads(o), o->cpus, error, sizeof(error),
				   &topology);
	else
		r = topology_new(NULL, o->workers, options_threads(o), o->cpus, error,
				 sizeof(error), &topology);
	if (r < 0) {
		log_error("%s", error);
		return manager_fail(m, r == -EINVAL ? MANAGER_EXIT_USAGE : MANAGER_EXIT_SYSTEM);
	}
	*ret_n = o->workers = topology_n_workers(topology);
	/* The same for every pool, even if CPUs change. */
	if (!o->cpus)
		o->cpus = topology_cpus(topology);
	topology_free(topology);
	return o->cpus ? 0 : manager_system(m, "list the workers' CPUs", -ENOMEM);
}

/* Three descriptors for each client, and some of our own. If the limit cannot be raised, accept
 * fails later with an error. */
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
	(void)sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return manager_system(m, "block signals", -errno);
	m->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (m->signal_fd < 0)
		return manager_system(m, "make a signalfd", -errno);
	r = loop_poll(&m->loop, &m->signal_source, m->signal_fd, POLLIN);
	return r < 0 ? manager_system(m, "wait for signals", r) : 0;
}

static int manager_share(struct manager *m, uint32_t n_workers)
{
	const struct saved_geometry geometry = pool_segments_geometry(m->options, n_workers);
	const char *what = "make the saved state";
	int r;

	m->closer.loop = &m->loop;
	r = takeover_begin(&m->takeover, &m->store, &m->closer, &geometry, m->options->cpus);
	if (r == 0)
		r = pool_segments_init(&m->pool_segments, m->options, n_workers,
				       &(struct pool_segments_inherited){
					       .saved = m->takeover.saved,
					       .board_fd = m->takeover.board_fd,
					       .arena_fd = m->takeover.arena_fd,
				       },
				       &what);
	if (r < 0)
		return manager_system(m, what, r);
	if (m->takeover.inherited && m->takeover.abandoned)
		manager_replace_arena(m);
	saved_store(&m->takeover.saved->threads_per_core, m->options->threads_per_core);
	takeover_share(&m->takeover, &m->store, &m->pool_segments);
	return 0;
}

static int manager_choose_user(struct manager *m)
{
	struct options_error text;
	int r = runas_choose(m->options, &m->runas, &text);

	if (r < 0)
		log_error("%s", text.text);
	else if (m->runas.drops)
		log_notice("%s", text.text);
	else if (text.text[0])
		log_warning("%s", text.text);
	return r;
}

static int manager_listen(struct manager *m)
{
	const struct options *o = m->options;
	char error[512];
	int r = listener_open(&m->listener, &m->store, o->socket, o->socket_mode,
			      o->socket_group ? o->socket_group->entries[0].id : LISTENER_NO_GROUP,
			      error, sizeof(error));

	if (r == 0)
		return 0;
	log_error("%s", error);
	return manager_fail(m, MANAGER_EXIT_LISTEN);
}

static int manager_init(struct manager *m)
{
	struct options_error text;
	uint64_t epoch;
	uint32_t n_workers;
	int r;

	r = fdstore_init(&m->store, &m->loop);
	if (r < 0)
		return manager_system(m, "take the sockets of systemd", r);
	r = options_copy(m->options, &m->configured);
	if (r < 0)
		return manager_system(m, "copy the options", r);
	takeover_look(&m->takeover, &m->store);
	if (budget_decide(m->options, takeover_inherit(&m->takeover, m->options), &text) < 0) {
		log_error("%s", text.text);
		return manager_fail(m, MANAGER_EXIT_USAGE);
	}
	log_info("%s", text.text);
	if (manager_choose_user(m) < 0)
		return manager_fail(m, MANAGER_EXIT_USAGE);
	r = manager_listen(m);
	if (r < 0)
		return r;
	manager_raise_limit();
	r = manager_count_workers(m, &n_workers);
	if (r == 0)
		r = manager_signals(m);
	if (r < 0)
		return r;
	r = manager_share(m, n_workers);
	if (r < 0)
		return r;
	epoch = m->takeover.saved->head.epoch;
	r = pool_process_init(&m->pool, &m->closer, &m->store, m->options, &manager_pool_events);
	if (r < 0)
		return manager_system(m, "start the pool", r);
	m->pool.runas = &m->runas;
	m->pool.watchdog.arena = m->pool_segments.arena;
	m->pool.watchdog.n_workers = n_workers;
	m->conns = (struct conn_table){
		.loop = &m->loop,
		.options = m->options,
		.pool = &m->pool,
		.board = m->pool_segments.board,
		.board_fd = m->pool_segments.board_readonly_fd,
		.tenants = {
			.loop = &m->loop,
			.pool = &m->pool,
			.saved = m->takeover.saved,
			.store = &m->store,
			.board = m->pool_segments.board,
			.board_fd = m->pool_segments.board_fd,
			.arena = m->pool_segments.arena,
			.epoch = epoch,
			.n_workers = n_workers,
			.made = manager_on_tenant,
		},
		.segments = {
			.loop = &m->loop,
			.options = m->options,
			.arena = m->pool_segments.arena,
			.epoch = epoch,
		},
		.import_processes = { .loop = &m->loop, .ended = conn_import_next },
		.trace = { .fd = -1 },
		.stranger = userns_stranger(),
		.strange_group = userns_strange_group(),
		.closer = &m->closer,
		.saved = m->takeover.saved,
		.store = &m->store,
		.set = manager_on_set,
		.lift = manager_on_lift,
		.reload = manager_on_reload,
		.reload_left = manager_on_reload_left,
		.changed = manager_on_changed,
		.refusals = LOG_LIMIT_INIT,
		.offences = LOG_LIMIT_INIT,
		.misfits = LOG_LIMIT_INIT,
	};
	quarantine_init(&m->quarantine, m->options, &m->loop, &m->pool, &m->conns.tenants,
			m->pool_segments.board, &m->takeover.saved->quarantine);
	m->pool_death = (struct pool_death){
		.pool_segments = &m->pool_segments,
		.conns = &m->conns,
		.quarantine = &m->quarantine,
	};
	pool_segments_write(&m->pool_segments);
	quarantine_show(&m->quarantine);
	r = takeover_clients(&m->takeover, &m->conns);
	if (r < 0)
		return manager_system(m, "continue with the clients of the last forkd", r);
	if (m->takeover.inherited)
		pool_death_inherit(&m->pool_death, m->takeover.n_clients, m->takeover.abandoned);
	return 0;
}

int manager_run(struct options *options, char *const *args)
{
	/* Some tens of KiB of slots: not on the stack. One manager in a process. */
	static struct manager m;
	bool begun, ran = false;
	int r;

	m = (struct manager){
		.options = options,
		.args = args,
		.reload.trial = RELOAD_TRIAL_INIT,
		.notify = { .loop = &m.loop, .status = manager_status, .alive = manager_alive },
		.store = FDSTORE_INIT,
		.takeover = TAKEOVER_INIT,
		.listener = LISTENER_INIT,
		.pool_segments = POOL_SEGMENTS_INIT,
		.signal_fd = -1,
		.shortages = LOG_LIMIT_INIT,
		.strays = LOG_LIMIT_INIT,
		.signal_source = { .call = manager_on_signal, .repeats = true },
		.restart_source = { .call = manager_on_restart },
		.stop_source = { .call = manager_on_stop_timeout },
		.announce_source = { .call = manager_on_announce },
		.lived_source = { .call = manager_on_lived },
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
		low_latency_begin(true);
		notify_begin(&m.notify);
		manager_start_pool(&m);
		ran = loop_run(&m.loop) == 0;
	}
	if (begun && !ran) {
		log_error("io_uring failed");
		m.exit_code = MANAGER_EXIT_BUG;
	}
	/* The next manager may be able to continue. */
	m.halting |= !ran && !m.stopping && fdstore_is_there(&m.store);
	if (m.halting && m.takeover.saved)
		saved_acquit(m.takeover.saved);
	if (begun && !ran && !m.halting) {
		pool_process_fini(&m.pool);
		manager_end(&m, m.stopping ? JOB_CANCELLED : JOB_LOST);
	}
	if (m.halting)
		manager_part(&m);
	else
		manager_fini(&m);
	return m.exit_code;
}
