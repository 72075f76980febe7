/* SPDX-License-Identifier: MIT */
/*
 * trace_subscribers.c - the connections that trace workers
 *
 *  	forkctl --PROTO_TRACE--> manager --PROTO_POOL_TRACE, the segment--> pool
 *  	                                 <--PROTO_POOL_TRACED--
 *  	        <--PROTO_TOLD, the segment, read-only--
 *  	        reads it for any time, and closes the connection
 *  	                         manager --PROTO_POOL_TRACE_END--> pool
 *
 * INVARIANTS
 *   T1. A segment (shm/trace.h) exists from the first connection that traces until the last one has
 *       ended, and a new one after that: it shows that time, and one pool. Each connection waits
 *       for the pool's answer about the segment.
 *   T2. The pool has been told of a segment once, and has answered, before it is told that no
 *       connection traces any more; then the manager closes the segment. So the pool writes to at
 *       most one, and only while a connection exists, however that ends.
 *   T3. A connection that traces stays GREETING: it has no slot. Any message ends it.
 *
 * If the pool dies: all connections that trace are told so, and keep the segment with its contents;
 * the next pool is not told of it.
 */
#include <poll.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/list.h"
#include "common/log.h"
#include "daemon/manager/admission.h"
#include "daemon/manager/connection.h"
#include "daemon/manager/connection_internal.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/pool_process.h"
#include "shm/proto.h"
#include "shm/segment.h"
#include "shm/trace.h"

/* Ends all connections that trace. */
static void trace_dismiss(struct conn_table *table, struct admission_verdict why)
{
	struct conn *s;

	conn_trace_forget(table);
	while ((s = conn_trace_first(table))) {
		conn_say(s, &why);
		conn_free(s);
	}
}

/* Makes the segment, and tells the pool of it. Returns 0 or a negative errno. */
static int trace_start(struct conn_table *table)
{
	const struct proto_pool m = { .head = { PROTO_MAGIC, PROTO_POOL_TRACE } };
	int fd = segment_create("forkd-trace", SEGMENT_TRACE, trace_size(table->tenants.n_workers),
				table->segments.epoch, 0, 0400);

	if (fd < 0)
		return fd;
	table->trace.fd = fd;
	pool_process_send(table->pool, &m, fd);
	return 0;
}

static void trace_tell(struct conn *s)
{
	const struct log_about about = conn_about(s);
	struct proto_told told = { .head = { PROTO_MAGIC, PROTO_TOLD } };
	_cleanup_close_ int fd = segment_reopen_readonly(s->table->trace.fd);

	if (fd < 0) {
		conn_refuse(s, admission_failed(fd));
		return;
	}
	log_about(LOG_LEVEL_INFO, &about, "workers are traced by pid %u, uid %u", s->pid, s->uid);
	(void)proto_send(s->fd, &told, sizeof(told), &fd, 1);
}

void conn_trace(struct conn *s)
{
	struct conn_table *table = s->table;
	int r = 0;

	if (table->trace.fd < 0 && !pool_process_is_free(table->pool)) {
		conn_refuse(s, admission_pool_busy("trace"));
		return;
	}
	if (table->trace.fd < 0)
		r = trace_start(table);
	s->traces = r == 0;
	loop_forget(table->loop, &s->timer_source);
	if (r == 0)
		r = loop_poll(table->loop, &s->socket_source, s->fd, POLLIN);
	if (r < 0)
		conn_refuse(s, admission_failed(r));
	else if (table->trace.on)
		trace_tell(s);
}

bool conn_traced(struct conn_table *table, const char *text)
{
	struct conn *s;

	if (table->trace.fd < 0 || table->trace.on)
		return false;
	if (*text) {
		trace_dismiss(table, admission_no_trace(text));
		return true;
	}
	table->trace.on = true;
	list_for_each (s, &table->greeting, link)
		if (s->traces)
			trace_tell(s);
	/* All connections may have ended by now. */
	conn_trace_left(table);
	return true;
}

void conn_trace_lost(struct conn_table *table, bool planned)
{
	trace_dismiss(table, admission_trace_lost(planned));
}
