/* SPDX-License-Identifier: MIT */
/*
 * connection_close.c - the end of a connection, and of what forkd had for it
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   connection.c, connection_takeover.c and, when the pool has released a client, manager_pool.c;
 *   on the manager's only thread. The invariants stand in connection_internal.h.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The pool before it has released a client: the next one is told of it again, and releases it.
 *   The manager: a slot is GONE, EMPTYING or FREE in the roster, and the next manager goes on from
 *   there; what was done is done again.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"
#include "daemon/host/probe.h"
#include "daemon/manager/client_segments.h"
#include "daemon/manager/connection.h"
#include "daemon/manager/connection_internal.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/connections.h"
#include "daemon/manager/fdstore.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/saved_state.h"
#include "daemon/manager/tenants.h"
#include "shm/board.h"
#include "shm/job.h"
#include "shm/limits.h"
#include "shm/proto.h"

void session_leave_greeting(struct session *s)
{
	if (!s->link)
		return;
	*s->link = s->next;
	if (s->next)
		s->next->link = s->link;
	s->link = NULL;
}

void session_free(struct session *s)
{
	session_leave_greeting(s);
	if (s->traces)
		session_trace_left(s->table);
	if (s->reload)
		s->table->reload_left(s->table);
	store_forget(&s->put);
	if (s->slot != SESSION_SLOT_NONE)
		tenants_detach(&s->table->tenants, s->tenant);
	session_disconnect(s);
	segments_close(&s->table->segments, &s->segment);
	free(s->unwanted);
	free(s);
}

void session_count(struct session_table *table)
{
	session_show_counts(table);
	table->changed(table);
}

void session_forget(struct session_table *table, uint32_t slot)
{
	char name[STORE_NAME];

	roster_client_is(table->roster, slot, ROSTER_FREE);
	store_name(name, STORE_CLIENT, slot);
	store_remove(table->store, name);
}

/* Its segment is gone: the slot is free (I4). */
static void session_on_emptied(struct segments_client *segment, int result)
{
	struct session *s = container_of(segment, struct session, segment);
	struct session_table *table = s->table;

	if (result < 0)
		log_error("cannot take back the %" PRIu64 " bytes of client %u (pid %u): %s: they "
			  "stay counted against memory-max",
			  segment->size, s->slot, s->pid, strerror(-result));
	table->slots[s->slot] = NULL;
	table->freed[s->slot] = ++table->n_freed;
	session_forget(table, s->slot);
	session_free(s);
	session_show_counts(table);
}

void session_retire(struct session *s)
{
	int r;

	session_disconnect(s);
	store_forget(&s->put);
	/* A slot that nobody goes on with stays so. */
	if (s->state == SESSION_GONE)
		roster_client_is(s->table->roster, s->slot, ROSTER_EMPTYING);
	s->state = SESSION_EMPTYING;
	r = segments_take_back(&s->segment, session_on_emptied);
	if (r < 0)
		session_on_emptied(&s->segment, r);
}

void session_drop(struct session *s)
{
	if (s->state == SESSION_MAKING)
		session_retire(s);
	else
		session_free(s);
}

void session_say(struct session *s, const struct greet_verdict *verdict)
{
	struct proto_error error = { .head = { PROTO_MAGIC, PROTO_ERROR }, .code = verdict->code };

	memcpy(error.text, verdict->text, sizeof(error.text));
	(void)proto_send(s->fd, &error, sizeof(error), NULL, 0);
}

void session_refuse(struct session *s, const struct greet_verdict *verdict)
{
	const struct log_about about = session_about(s);

	log_limited_about(&s->table->refusals, LOG_LEVEL_INFO, &about,
			  "client pid %u, uid %u refused: %s", s->pid, s->uid, verdict->text);
	s->table->refused++;
	session_show_counts(s->table);
	session_say(s, verdict);
	session_drop(s);
}

void session_close(struct session *s)
{
	s->state = SESSION_GONE;
	roster_client_is(s->table->roster, s->slot, ROSTER_GONE);
	/* Relaxed: for display. */
	atomic_store_explicit(&s->table->board->clients[s->slot].left_ns, clock_ns(),
			      memory_order_relaxed);
	session_weigh(s->table, s->tenant);
}

/* An open session is over: what is left of it waits for the pool. */
static void session_leave(struct session *s)
{
	const struct log_about about = session_about(s);

	session_close(s);
	tenants_mark(&s->table->tenants, s->tenant);
	session_tell_client(s, PROTO_POOL_GONE);
	PROBE(client_leave, s->slot, s->pid, s->uid);
	log_about(LOG_LEVEL_DEBUG, &about, "client %u (pid %u) is gone", s->slot, s->pid);
	session_count(s->table);
}

void session_gone(struct session *s)
{
	session_disconnect(s);
	session_leave(s);
}

void session_evict(struct session *s)
{
	loop_forget(s->table->loop, &s->socket_source);
	loop_forget(s->table->loop, &s->timer_source);
	/* The client sees the end. What it says is not read any more. */
	(void)shutdown(s->fd, SHUT_WR);
	s->held = loop_poll(s->table->loop, &s->socket_source, s->fd, POLLHUP) == 0;
	if (!s->held)
		session_disconnect(s);
	session_leave(s);
}

bool session_released(struct session_table *table, uint32_t client, uint32_t generation)
{
	struct session *s = client < LIMIT_CLIENTS ? table->slots[client] : NULL;

	if (!s || s->state != SESSION_GONE || s->released || s->generation != generation)
		return false;
	s->released = true;
	if (s->held)
		/* What waited in the rings: the pool drops words of who is gone. */
		session_count_fails(table, session_finish_one(s, JOB_CANCELLED));
	else
		session_retire(s);
	return true;
}

void session_let_go(struct session *s)
{
	s->held = false;
	session_disconnect(s);
	if (s->released)
		session_retire(s);
}
