/* SPDX-License-Identifier: MIT */
/*
 * connection_close.c - ends a connection and frees its resources
 *
 * If the manager dies: a slot is GONE, EMPTYING or FREE in the saved state, and the next manager
 * continues from there; steps that were done are repeated.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/list.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/host/probe.h"
#include "daemon/manager/client_segments.h"
#include "daemon/manager/connection.h"
#include "daemon/manager/connection_internal.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/connections.h"
#include "daemon/manager/fdstore.h"
#include "daemon/manager/import_check.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/saved_state.h"
#include "daemon/manager/tenants.h"
#include "shm/board.h"
#include "shm/job.h"
#include "shm/limits.h"
#include "shm/proto.h"

void conn_leave_greeting(struct conn *s)
{
	if (s->link.next)
		list_remove(&s->link);
}

void conn_free(struct conn *s)
{
	conn_leave_greeting(s);
	if (s->traces)
		conn_trace_left(s->table);
	if (s->reload)
		s->table->reload_left(s->table);
	fdstore_forget(&s->put);
	import_check_forget(&s->import.check);
	for (uint32_t i = 0; s->imports && i < LIMIT_IMPORTS; i++) {
		fdstore_forget(&s->imports[i].put);
		(void)loop_close(s->table->loop, s->imports[i].fd);
	}
	free(s->imports);
	if (s->slot != CONN_SLOT_NONE)
		tenants_detach(&s->table->tenants, s->tenant);
	conn_disconnect(s);
	segments_close(&s->table->segments, &s->segment);
	free(s->unwanted);
	free(s);
}

void conn_count(struct conn_table *table)
{
	conn_show_counts(table);
	table->changed(table);
}

void conn_forget(struct conn_table *table, uint32_t slot)
{
	char name[FDSTORE_NAME];

	saved_client_is(table->saved, slot, SAVED_FREE);
	fdstore_name(name, FDSTORE_CLIENT, slot);
	fdstore_remove(table->store, name);
}

void conn_forget_import(struct conn_table *table, uint32_t slot, uint32_t index,
			struct conn_import *import)
{
	char name[FDSTORE_NAME];

	saved_set_import(table->saved, slot, index, (struct saved_range){ .size = 0 });
	fdstore_forget(&import->put);
	fdstore_name(name, FDSTORE_IMPORT, slot * LIMIT_IMPORTS + index);
	fdstore_remove(table->store, name);
}

void conn_end_imports(struct conn *s, uint32_t slot)
{
	for (uint32_t i = 0; s->imports && i < LIMIT_IMPORTS; i++)
		if (s->imports[i].fd >= 0) {
			conn_forget_import(s->table, slot, i, &s->imports[i]);
			s->imports[i].fd = loop_close(s->table->loop, s->imports[i].fd);
		}
}

/* The segment has been removed: frees the slot (I4). */
static void conn_on_emptied(struct segments_client *segment, int result)
{
	struct conn *s = container_of(segment, struct conn, segment);
	struct conn_table *table = s->table;

	if (result < 0)
		log_error("cannot free the %" PRIu64 " bytes of client %u (pid %u): %s: they stay "
			  "counted against shared-memory-max",
			  segment->memory, s->slot, s->pid, strerror(-result));
	table->slots[s->slot] = NULL;
	table->freed[s->slot] = ++table->n_freed;
	conn_forget(table, s->slot);
	conn_free(s);
	conn_show_counts(table);
}

void conn_retire(struct conn *s)
{
	int r;

	conn_disconnect(s);
	fdstore_forget(&s->put);
	/* A slot that is already FREE stays so. */
	if (s->state == CONN_GONE)
		saved_client_is(s->table->saved, s->slot, SAVED_EMPTYING);
	conn_end_imports(s, s->slot);
	s->state = CONN_EMPTYING;
	r = segments_take_back(&s->segment, conn_on_emptied);
	if (r < 0)
		conn_on_emptied(&s->segment, r);
}

void conn_drop(struct conn *s)
{
	if (s->state == CONN_MAKING)
		conn_retire(s);
	else
		conn_free(s);
}

void conn_say(struct conn *s, const struct admission_verdict *verdict)
{
	struct proto_error error = { .head = { PROTO_MAGIC, PROTO_ERROR }, .code = verdict->code };

	memcpy(error.text, verdict->text, sizeof(error.text));
	(void)proto_send(s->fd, &error, sizeof(error), NULL, 0);
}

void conn_refuse(struct conn *s, struct admission_verdict verdict)
{
	const struct log_about about = conn_about(s);

	log_limited_about(&s->table->refusals, LOG_LEVEL_INFO, &about,
			  "client pid %u, uid %u refused: %s", s->pid, s->uid, verdict.text);
	s->table->refused++;
	conn_show_counts(s->table);
	conn_say(s, &verdict);
	conn_drop(s);
}

void conn_close(struct conn *s)
{
	s->state = CONN_GONE;
	saved_client_is(s->table->saved, s->slot, SAVED_GONE);
	store_relaxed(&s->table->board->clients[s->slot].left_ns, clock_ns());
	conn_weigh(s->table, s->tenant);
}

/* An open connection has ended: the rest must wait for the pool. */
static void conn_leave(struct conn *s)
{
	const struct log_about about = conn_about(s);

	conn_close(s);
	tenants_mark(&s->table->tenants, s->tenant);
	conn_tell_client(s, PROTO_POOL_GONE);
	PROBE(client_leave, s->slot, s->pid, s->uid);
	log_about(LOG_LEVEL_DEBUG, &about, "client %u (pid %u) is gone", s->slot, s->pid);
	conn_count(s->table);
}

void conn_gone(struct conn *s)
{
	conn_disconnect(s);
	conn_leave(s);
}

void conn_evict(struct conn *s)
{
	loop_forget(s->table->loop, &s->socket_source);
	loop_forget(s->table->loop, &s->timer_source);
	/* The client sees the end. Its messages are not read any more. */
	(void)shutdown(s->fd, SHUT_WR);
	s->held = loop_poll(s->table->loop, &s->socket_source, s->fd, POLLHUP) == 0;
	if (!s->held)
		conn_disconnect(s);
	conn_leave(s);
}

bool conn_released(struct conn_table *table, uint32_t client, uint32_t generation)
{
	struct conn *s = client < LIMIT_CLIENTS ? table->slots[client] : NULL;

	if (!s || s->state != CONN_GONE || s->released || s->generation != generation)
		return false;
	s->released = true;
	if (s->held)
		/* For jobs in the rings: the pool drops words of a client that has gone. */
		conn_count_fails(table, conn_finish_one(s, JOB_CANCELLED));
	else
		conn_retire(s);
	return true;
}

void conn_let_go(struct conn *s)
{
	s->held = false;
	conn_disconnect(s);
	if (s->released)
		conn_retire(s);
}
