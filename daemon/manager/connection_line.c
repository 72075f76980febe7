/* SPDX-License-Identifier: MIT */
/*
 * connection_line.c - connections that arrive too fast
 *
 * If the uid of a connection has no time left (quota.c), the connection is accepted, because others
 * may be behind it in the listening socket. It waits here unread. Further ones are refused, with
 * six system calls and no memory.
 *
 * INVARIANTS
 *   L1. Connections of one uid are greeted in order of arrival.
 *   L2. A timer runs while any waits. So each uid's next connection is greeted at most
 *       QUOTA_CONNECT_NS after the uid has time for it. Requests leave the uid that time (quota.c,
 *       I3).
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/manager/admission.h"
#include "daemon/manager/connection.h"
#include "daemon/manager/connection_internal.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/quota.h"
#include "daemon/manager/socket_close.h"
#include "shm/board.h"

/* Like quota_charge(). */
static uint64_t line_charge(struct conn_table *table, uint32_t uid, uint64_t now)
{
	return quota_charge(&table->pace, uid, conn_cost(table, uid, QUOTA_CONNECT_NS), now);
}

/* Refuses a connection without struct conn. */
static void line_refuse(struct conn_table *table, int fd, uint32_t uid,
			struct admission_verdict verdict)
{
	struct conn s = { .table = table, .fd = fd };

	log_limited(&table->refusals, LOG_LEVEL_INFO, "a connection of uid %u refused: %s", uid,
		    verdict.text);
	table->refused++;
	store_relaxed(&table->board->manager.refused, table->refused);
	conn_say(&s, &verdict);
	(void)socket_close(table->closer, fd);
}

void conn_line_end(struct conn_table *table, bool refuses)
{
	loop_forget(table->loop, &table->line.source);
	for (uint32_t i = 0; i < table->line.n; i++)
		if (refuses)
			line_refuse(table, table->line.first[i].fd, table->line.first[i].uid,
				    admission_stopping());
		else
			(void)socket_close(table->closer, table->line.first[i].fd);
	table->line.n = 0;
}

static void line_on_timer(struct loop_source *source, int result);

static void line_wait(struct conn_table *table)
{
	int r;

	table->line.source.call = line_on_timer;
	r = loop_timer(table->loop, &table->line.source, QUOTA_CONNECT_NS);
	/* Without a timer they would never be greeted. -EBUSY: it is already running. */
	if (r < 0 && r != -EBUSY)
		conn_line_end(table, false);
}

static void line_on_timer(struct loop_source *source, int result)
{
	struct conn_table *table = container_of(source, struct conn_table, line.source);
	struct conn_waiting *waiting = table->line.first;
	uint32_t n = table->line.n;
	/* L1: the same time for all, so that a uid cannot have time for a later connection only. */
	uint64_t now = clock_ns();

	(void)result;
	table->line.n = 0;
	for (uint32_t i = 0; i < n; i++)
		if (line_charge(table, waiting[i].uid, now))
			waiting[table->line.n++] = waiting[i];
		else
			conn_take(table, waiting[i].fd);
	if (table->line.n)
		line_wait(table);
}

bool conn_accept(struct conn_table *table, int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	uint32_t own = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
		(void)socket_close(table->closer, fd);
		return true;
	}
	for (uint32_t i = 0; i < table->line.n; i++)
		own += table->line.first[i].uid == peer.uid;
	if (!own && !line_charge(table, peer.uid, clock_ns())) {
		conn_take(table, fd);
		return true;
	}
	if (own == QUOTA_WAITING_1 || table->line.n == QUOTA_WAITING) {
		line_refuse(table, fd, peer.uid, admission_hasty(peer.uid));
		return false;
	}
	table->line.first[table->line.n++] = (struct conn_waiting){ fd, peer.uid };
	line_wait(table);
	return true;
}
