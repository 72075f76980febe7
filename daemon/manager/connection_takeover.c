/* SPDX-License-Identifier: MIT */
/*
 * connection_takeover.c - a connection of a former manager goes on
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   takeover.c, on the manager's only thread, before its loop runs. The invariants stand in
 *   connection_internal.h, and those of the whole in takeover.c.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client, before this or meanwhile: its connection is looked at before its jobs are.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/util.h"
#include "daemon/manager/admission.h"
#include "daemon/manager/client_segments.h"
#include "daemon/manager/connection.h"
#include "daemon/manager/connection_internal.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/saved_state.h"
#include "daemon/manager/tenants.h"

/* Has it ended meanwhile, as far as can be told? */
static bool session_has_ended(const struct session *s)
{
	struct pollfd p[2] = {
		{ .fd = s->fd, .events = POLLRDHUP },
		{ .fd = s->pidfd, .events = POLLIN },
	};

	return s->fd < 0 || poll(p, 2, 0) > 0;
}

/* Nobody has stored who made the connection: the kernel has not forgotten. False if it may not be
 * in any more; who is here is told so. */
static bool session_admit(struct session *s, bool here)
{
	const struct log_about about = session_about(s);
	struct greet_verdict verdict;

	session_judge(s, greet_again, &verdict);
	if (verdict.code && here) {
		log_limited_about(&s->table->misfits, LOG_LEVEL_WARNING, &about,
				  "client %u (pid %u) of the last forkd may not be in any more: %s",
				  s->slot, s->pid, verdict.text);
		session_say(s, &verdict);
	}
	return verdict.code == 0;
}

/* Waits for what it says and for its end, from where the former manager was. */
static int session_resume(struct session *s, enum roster_state state)
{
	bool admitted;
	int r;

	if (state == ROSTER_EMPTYING) {
		s->state = SESSION_GONE;
		session_retire(s);
		return 0;
	}
	/* Those that are gone, too: the pool hears of them before it hears that. */
	admitted = session_admit(s, state == ROSTER_HERE);
	if (state == ROSTER_GONE) {
		s->state = SESSION_GONE;
		s->held = s->fd >= 0;
		return s->held ? session_await(s, POLLHUP) : 0;
	}
	s->state = SESSION_OPEN;
	if (session_has_ended(s)) {
		session_gone(s);
		return 0;
	}
	session_weigh(s->table, s->tenant);
	/* Also for who has to go: its process may end before a child of it that has the socket. */
	r = session_await(s, POLLIN);
	if (r == 0 && !admitted)
		session_evict(s);
	return r;
}

int session_adopt(struct session_table *table, uint32_t slot, const struct roster_entry *entry,
		  const struct session_inherited *fds)
{
	struct session *s = session_new(table, fds->socket);
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
	r = segments_adopt(&table->segments, &s->segment, s->uid, fds->segment, entry->n_jobs,
			   entry->size);
	if (r < 0)
		return r;
	if (r == SEGMENTS_FOREIGN)
		(void)safe_close(fds->segment);
	if (r == SEGMENTS_FOREIGN || !tenants_join(&table->tenants, entry->tenant, entry->uid)) {
		session_free(s);
		session_forget(table, slot);
		return SESSION_LOST;
	}
	s->slot = slot;
	table->slots[slot] = s;
	return session_resume(s, entry->state);
}
