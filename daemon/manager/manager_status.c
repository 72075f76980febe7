/* SPDX-License-Identifier: MIT */
/*
 * manager_status.c - messages to the service manager: that forkd is ready, and one status line
 *
 * systemctl status shows the line:
 *
 * 	Running: 8 workers, 3 clients of 2 users, 1234 jobs/s, 1 crashes, 2 in quarantine; reload:
 * 	changed: spin
 *
 * sd_notify.c calls manager_status() when a part of the line has changed, and manager_alive() with
 * each watchdog message, because the manager is awake then. The number of jobs is measured between
 * two of them. Nothing wakes the manager for this line alone.
 */
#include "daemon/manager/manager_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"
#include "daemon/manager/connections.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/manager_state.h"
#include "daemon/manager/pool_process.h"
#include "daemon/manager/pool_segments.h"
#include "daemon/manager/quarantine.h"
#include "daemon/manager/saved_state.h"
#include "daemon/manager/sd_notify.h"
#include "daemon/manager/tenants.h"

#define STATUS_AGAIN_NS (50 * NSEC_PER_MSEC)

struct status_text {
	char text[512];
	size_t n;
};

static __attribute__((format(printf, 2, 3))) void status_add(struct status_text *t,
							     const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(t->text + t->n, sizeof(t->text) - t->n, format, ap);
	va_end(ap);
	if (n > 0)
		t->n = min(t->n + (size_t)n, sizeof(t->text) - 1);
}

static void status_running(struct manager *m, struct status_text *t)
{
	uint32_t used, idle, refused = quarantine_count_all(&m->quarantine);
	uint64_t crashes = saved_crashes(m->takeover.saved);

	tenants_count(&m->conns.tenants, &used, &idle);
	status_add(t, "Running: %u workers, %u clients of %u users", m->pool_segments.n_workers,
		   conn_n_open(&m->conns), used - idle);
	if (m->pace.known)
		status_add(t, ", %" PRIu64 " jobs/s", m->pace.per_second);
	if (crashes)
		status_add(t, ", %" PRIu64 " crashes", crashes);
	if (refused)
		status_add(t, ", %" PRIu32 " in quarantine", refused);
	if (m->reload.text[0])
		status_add(t, "; reload: %s", m->reload.text);
}

void manager_status(struct notify *notify)
{
	struct manager *m = container_of(notify, struct manager, notify);
	struct status_text t = { .n = 0 };

	if (m->stopping)
		status_add(&t, "Stopping: waiting for running jobs");
	else if (m->halting)
		status_add(&t, "Restarting: waiting for running jobs");
	else if (m->reload.state == RELOAD_RENEWING && m->pool.state == POOL_PROCESS_READY)
		status_add(&t, "Reloading: waiting for running jobs, to replace the pool");
	else if (m->pool.state != POOL_PROCESS_READY)
		status_add(&t, "Starting the pool");
	else if (m->reload.state == RELOAD_TRYING || m->reload.state == RELOAD_LOADING)
		status_add(&t, "Reloading: reading forkd.conf and modules");
	else
		status_running(m, &t);
	notify_status(notify, "%s", t.text);
}

/* Computes how many jobs have ended since the last time. Each pool counts from 0. */
static void status_pace(struct manager *m)
{
	uint64_t now = clock_ns(), ended = pool_segments_jobs_ended(&m->pool_segments);
	uint32_t pool = saved_pool_generation(m->takeover.saved);
	uint64_t ns = now - m->pace.ns;
	bool same = m->pace.pool == pool && ended >= m->pace.ended;

	m->pace.known = same && ns >= NSEC_PER_SEC;
	if (m->pace.known)
		m->pace.per_second = (uint64_t)((double)(ended - m->pace.ended) * 1e9 / (double)ns);
	m->pace.ns = now;
	m->pace.ended = ended;
	m->pace.pool = pool;
}

void manager_alive(struct notify *notify)
{
	struct manager *m = container_of(notify, struct manager, notify);

	pool_process_glance(&m->pool);
	status_pace(m);
	if (m->ready)
		notify_changed(notify);
}

/* The service manager waits for this message, and ends forkd if it does not come. */
void manager_announce(struct manager *m)
{
	int r = notify_ready();

	loop_forget(&m->loop, &m->announce_source);
	if (r == NOTIFY_LATER)
		r = loop_timer(&m->loop, &m->announce_source, STATUS_AGAIN_NS);
	if (r < 0)
		log_error("cannot tell the service manager that forkd is ready: %s", strerror(-r));
}

void manager_on_announce(struct loop_source *source, int result)
{
	(void)result;
	manager_announce(container_of(source, struct manager, announce_source));
}
