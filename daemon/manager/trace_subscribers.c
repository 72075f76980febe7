/* SPDX-License-Identifier: MIT */
/*
 * trace_subscribers.c - who traces what workers do
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   connection.c and its parts, and manager_pool.c; on the manager's only thread. The other
 *   invariants stand in connection_internal.h.
 *
 *	forkctl --PROTO_TRACE--> manager --PROTO_POOL_TRACE, the segment--> pool
 *	                                 <--PROTO_POOL_TRACED--
 *	        <--PROTO_TOLD, the segment, read-only--
 *	        reads it, for as long as it likes, and closes the connection
 *	                         manager --PROTO_POOL_TRACE_END--> pool
 *
 * INVARIANTS
 *   T1. There is a segment (shm/trace.h) from the first who traces until the last one has left, and
 *       a new one after that: what it shows is of that time, and of one pool. The next one waits
 *       for the pool's answer about it like the first.
 *   T2. The pool has been told of a segment once, and has answered, before it is told that nobody
 *       traces any more; then the manager closes it. So the pool writes to at most one, and only as
 *       long as somebody's connection lasts, however that ends.
 *   T3. Who traces stays GREETING: it has no slot. Whatever it says ends its connection.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   Who traces: T2. The pool: all who trace are told so, and have the segment with what it wrote;
 *   the next pool knows nothing of it. The manager: the pool dies with it, and who traces sees the
 *   end of its connection.
 */
#include <poll.h>
#include <string.h>

#include "common/cleanup.h"
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

/* All who trace leave, and are told why. */
static void trace_dismiss(struct session_table *table, const struct greet_verdict *why)
{
	struct session *s;

	session_trace_forget(table);
	while ((s = session_trace_next(table, NULL))) {
		session_say(s, why);
		session_free(s);
	}
}

/* Makes the segment, and tells the pool of it. Returns 0 or a negative errno. */
static int trace_start(struct session_table *table)
{
	const struct proto_pool m = { .head = { PROTO_MAGIC, PROTO_POOL_TRACE } };
	int fd = segment_create("forkd-trace", SEGMENT_TRACE, trace_size(table->tenants.n_workers),
				table->segments.epoch, 0, 0400);

	if (fd < 0)
		return fd;
	table->trace.fd = fd;
	poolproc_send(table->pool, &m, fd);
	return 0;
}

/* The segment is there, and is written. */
static void trace_tell(struct session *s)
{
	const struct log_about about = session_about(s);
	struct proto_told told = { .head = { PROTO_MAGIC, PROTO_TOLD } };
	_cleanup_close_ int fd = segment_reopen_readonly(s->table->trace.fd);
	struct greet_verdict verdict;

	if (fd < 0) {
		greet_failed(fd, &verdict);
		session_refuse(s, &verdict);
		return;
	}
	log_about(LOG_LEVEL_INFO, &about, "workers are traced by pid %u, uid %u", s->pid, s->uid);
	(void)proto_send(s->fd, &told, sizeof(told), &fd, 1);
}

void session_trace(struct session *s)
{
	struct session_table *table = s->table;
	struct greet_verdict verdict;
	int r = 0;

	if (table->trace.fd < 0 && !poolproc_is_free(table->pool)) {
		greet_pool_busy("trace", &verdict);
		session_refuse(s, &verdict);
		return;
	}
	if (table->trace.fd < 0)
		r = trace_start(table);
	s->traces = r == 0;
	loop_forget(table->loop, &s->timer_source);
	if (r == 0)
		r = loop_poll(table->loop, &s->socket_source, s->fd, POLLIN);
	if (r < 0) {
		greet_failed(r, &verdict);
		session_refuse(s, &verdict);
	} else if (table->trace.on) {
		trace_tell(s);
	}
}

bool session_traced(struct session_table *table, const char *text)
{
	struct session *next;
	struct greet_verdict verdict;

	if (table->trace.fd < 0 || table->trace.on)
		return false;
	if (*text) {
		greet_no_trace(text, &verdict);
		trace_dismiss(table, &verdict);
		return true;
	}
	table->trace.on = true;
	for (struct session *s = session_trace_next(table, NULL); s; s = next) {
		next = session_trace_next(table, s);
		trace_tell(s);
	}
	/* Perhaps nobody has waited so long. */
	session_trace_left(table);
	return true;
}

void session_trace_lost(struct session_table *table, bool planned)
{
	struct greet_verdict verdict;

	greet_trace_lost(planned, &verdict);
	trace_dismiss(table, &verdict);
}
