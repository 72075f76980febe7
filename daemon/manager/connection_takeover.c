/* SPDX-License-Identifier: MIT */
/*
 * connection_takeover.c - takes over connections of an earlier manager, before the loop runs
 *
 * The invariants are in connection_internal.h, and those of the whole takeover in takeover.c.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "daemon/manager/admission.h"
#include "daemon/manager/client_segments.h"
#include "daemon/manager/connection.h"
#include "daemon/manager/connection_internal.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/saved_state.h"
#include "daemon/manager/tenants.h"
#include "shm/limits.h"

static bool conn_has_ended(const struct conn *s)
{
	struct pollfd p[2] = {
		{ .fd = s->fd, .events = POLLRDHUP },
		{ .fd = s->pidfd, .events = POLLIN },
	};

	return s->fd < 0 || poll(p, 2, 0) > 0;
}

/* The kernel still knows the process that made the connection. False if the options do not admit it
 * any more; here: notifies its client. */
static bool conn_admit(struct conn *s, bool here)
{
	const struct log_about about = conn_about(s);
	struct admission_verdict verdict;

	conn_judge(s, admission_again, &verdict);
	if (verdict.code && here) {
		log_limited_about(&s->table->misfits, LOG_LEVEL_WARNING, &about,
				  "client %u (pid %u) of the last forkd may not be in any more: %s",
				  s->slot, s->pid, verdict.text);
		conn_say(s, &verdict);
	}
	return verdict.code == 0;
}

/* Continues from the earlier manager's state. */
static int conn_resume(struct conn *s, enum saved_stage state)
{
	bool admitted;
	int r;

	if (state == SAVED_EMPTYING) {
		s->state = CONN_GONE;
		conn_retire(s);
		return 0;
	}
	/* Also if the client has gone: the pool is told of a client before its end. */
	admitted = conn_admit(s, state == SAVED_HERE);
	if (state == SAVED_GONE) {
		s->state = CONN_GONE;
		s->held = s->fd >= 0;
		return s->held ? conn_await(s, POLLHUP) : 0;
	}
	s->state = CONN_OPEN;
	if (conn_has_ended(s)) {
		conn_gone(s);
		return 0;
	}
	conn_weigh(s->table, s->tenant);
	/* Also if it must end: its process may end before a child that has the socket. */
	r = conn_await(s, POLLIN);
	if (r == 0 && !admitted)
		conn_evict(s);
	return r;
}

int conn_takeover(struct conn_table *table, uint32_t slot, const struct saved_entry *entry,
		  const struct conn_inherited *fds)
{
	struct conn *s = conn_new(table, fds->socket);
	int r;

	if (!s)
		return -ENOMEM;
	s->pidfd = fds->pidfd;
	s->pid = entry->pid;
	s->uid = entry->uid;
	s->generation = entry->generation;
	s->tenant = entry->tenant;
	s->welcomed = entry->welcomed;
	s->inherited = true;
	r = segments_takeover(&table->segments, &s->segment, s->uid, fds->segment, entry->n_jobs,
			      entry->size, entry->memory);
	if (r < 0)
		return r;
	if (r == SEGMENTS_FOREIGN)
		(void)safe_close(fds->segment);
	for (uint32_t i = 0; r == 0 && entry->state != SAVED_EMPTYING && i < LIMIT_IMPORTS; i++)
		r = conn_takeover_import(s, slot, i);
	if (r < 0)
		return r;
	if (r != 0 || !tenants_join(&table->tenants, entry->tenant, entry->uid)) {
		conn_end_imports(s, slot);
		conn_free(s);
		conn_forget(table, slot);
		return CONN_LOST;
	}
	s->slot = slot;
	table->slots[slot] = s;
	return conn_resume(s, entry->state);
}
