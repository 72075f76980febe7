/* SPDX-License-Identifier: MIT */
/*
 * manager_stop.c - how the manager ends
 *
 *  				running jobs	queued jobs	the store	saved state
 *  	stop, SIGTERM		stop-timeout	run until then	is emptied	ended
 *  	halt, SIGUSR2		stop-timeout	stay queued	stays		acquitted
 *  	forkd gives up		LOST		LOST		is emptied	ended
 *  	no start, loop fails	for next forkd	stay queued	stays		acquitted
 *  	killed			for next forkd	stay queued	stays		unchanged
 *
 * A reload ends only the pool (manager_reload.c). Such a pool starts no more jobs: if forkd is
 * stopped during the reload, the queued jobs are CANCELLED when the running ones have ended.
 *
 * A halt prepares for the next forkd that the service manager starts. If the store lacks something
 * that the next forkd needs, the halt becomes a stop.
 */
#include "daemon/manager/manager_internal.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/options.h"
#include "common/util.h"
#include "daemon/manager/connection.h"
#include "daemon/manager/connections.h"
#include "daemon/manager/fdstore.h"
#include "daemon/manager/listener.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/manager.h"
#include "daemon/manager/manager_state.h"
#include "daemon/manager/pool_process.h"
#include "daemon/manager/pool_segments.h"
#include "daemon/manager/reload_trial.h"
#include "daemon/manager/saved_state.h"
#include "daemon/manager/sd_notify.h"
#include "daemon/manager/socket_close.h"
#include "daemon/manager/takeover.h"
#include "shm/board.h"
#include "shm/job.h"
#include "shm/proto.h"

void manager_end(struct manager *m, uint32_t outcome)
{
	uint64_t ended = pool_segments_jobs_ended(&m->pool_segments);
	uint64_t n;

	manager_reload_end(m, "forkd ends: see its log");
	ended = ended > m->ended_before ? ended - m->ended_before : 0;
	saved_end(m->takeover.saved);
	pool_segments_set_state(&m->pool_segments, BOARD_STOPPED);
	n = conn_finish_all(&m->conns, outcome);
	conn_count_fails(&m->conns, n);
	if (m->stopping)
		log_notice("stopped: %" PRIu64 " jobs ended during the stop, %" PRIu64
			   " were cancelled",
			   ended, n);
	else if (n)
		log_notice("%" PRIu64 " jobs are lost", n);
	loop_stop(&m->loop);
}

void manager_end_pool(struct manager *m, uint32_t message)
{
	struct proto_pool stop = { .head = { PROTO_MAGIC, message } };

	pool_process_send(&m->pool, &stop, -1);
	loop_forget(&m->loop, &m->stop_source);
	if (m->pool.state != POOL_PROCESS_READY || !m->options->stop_timeout ||
	    loop_timer(&m->loop, &m->stop_source, m->options->stop_timeout) < 0)
		pool_process_kill(&m->pool);
}

static void manager_stop(struct manager *m, const char *why)
{
	if (m->stopping) {
		log_notice("%s again: running jobs are cancelled now", why);
		pool_process_kill(&m->pool);
		return;
	}
	log_notice("%s: stopping, running jobs have %.6g s", why,
		   (double)m->options->stop_timeout / (double)NSEC_PER_SEC);
	m->stopping = true;
	m->halting = false;
	m->exit_code = MANAGER_EXIT_OK; /* also after a halt that had ended */
	m->ended_before = pool_segments_jobs_ended(&m->pool_segments);
	pool_segments_set_state(&m->pool_segments, BOARD_STOPPING);
	notify_stopping();
	manager_status(&m->notify);
	loop_forget(&m->loop, &m->restart_source);
	manager_reload_end(m, "forkd is stopping: nothing is read again");
	(void)loop_close(&m->loop, listener_leave(&m->listener));
	conn_line_end(&m->conns, true);
	conn_stop(&m->conns);
	if (m->pool.state == POOL_PROCESS_DOWN)
		manager_end(m, JOB_CANCELLED);
	else
		manager_end_pool(m, PROTO_POOL_STOP);
}

void manager_leave(struct manager *m)
{
	m->exit_code = MANAGER_EXIT_RESTART;
	loop_stop(&m->loop);
}

static void manager_halt(struct manager *m, const char *why)
{
	if (m->stopping || !takeover_is_shared(&m->takeover, &m->store)) {
		manager_stop(m, why);
		return;
	}
	if (m->halting) {
		log_notice("%s again: running jobs are left to the next forkd now", why);
		pool_process_kill(&m->pool);
		return;
	}
	log_notice("%s: restarting, running jobs have %.6g s", why,
		   (double)m->options->stop_timeout / (double)NSEC_PER_SEC);
	m->halting = true;
	manager_status(&m->notify);
	loop_forget(&m->loop, &m->restart_source);
	manager_reload_end(m, "forkd restarts, and reads everything then");
	/* New connections wait for the next forkd. */
	listener_end(&m->listener);
	if (m->pool.state == POOL_PROCESS_DOWN)
		manager_leave(m);
	else
		manager_end_pool(m, PROTO_POOL_HALT);
}

void manager_on_stop_timeout(struct loop_source *source, int result)
{
	struct manager *m = container_of(source, struct manager, stop_source);

	(void)result;
	if (m->reload.state == RELOAD_RENEWING || m->reload.state == RELOAD_LOADING) {
		manager_reload_late(m);
		return;
	}
	log_notice("stop-timeout: running jobs are %s",
		   m->halting ? "left to the next forkd" : "cancelled");
	pool_process_kill(&m->pool);
}

void manager_on_signal(struct loop_source *source, int result)
{
	struct manager *m = container_of(source, struct manager, signal_source);
	struct signalfd_siginfo info;
	uint64_t number;

	(void)result;
	while (read(m->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			pool_process_on_child(
				&m->pool, info.ssi_code == CLD_STOPPED ? (pid_t)info.ssi_pid : 0);
		else if (info.ssi_signo == SIGHUP)
			manager_reload(m, "SIGHUP", true, &number);
		else if (info.ssi_signo == SIGUSR2)
			manager_halt(m, "SIGUSR2");
		else
			manager_stop(m, info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
	}
}

/* After a halt, or without a start: the exit of the process closes the sockets; nothing is sent. */
void manager_part(struct manager *m)
{
	fdstore_fini(&m->store);
	loop_fini(&m->loop);
}

void manager_fini(struct manager *m)
{
	conn_line_end(&m->conns, false);
	conn_fini(&m->conns);
	reload_trial_end(&m->reload.trial);
	options_fini(&m->configured);
	if (m->pool.loop)
		pool_process_fini(&m->pool);
	takeover_fini(&m->takeover);
	fdstore_empty(&m->store);
	fdstore_fini(&m->store);
	socket_close_fini(&m->closer);
	notify_end(&m->notify);
	(void)loop_close(&m->loop, listener_leave(&m->listener));
	pool_segments_fini(&m->pool_segments);
	(void)safe_close(m->signal_fd);
	loop_fini(&m->loop);
}
