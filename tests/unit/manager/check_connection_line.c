/* SPDX-License-Identifier: MIT */
/* connection_line - the order in which connections that exceed the rate are greeted */
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/manager/connection.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/quota.h"
#include "daemon/manager/socket_close.h"
#include "tests/support/check_unit.h"

#define UID    12345u
#define NOW    (7 * NSEC_PER_SEC)
#define WAITS  4u
#define MISSES 1300u /* ns missing for its first connection: more than one check */

/* Instead of the clock: each read takes a microsecond. 0: the real clock. */
static uint64_t now;

int __real_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	if (!now || clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, ret_time);
	*ret_time = clock_to_timespec(now);
	now += NSEC_PER_USEC;
	return 0;
}

/* Replaces connection.c: records the connections that are greeted. */
static int greeted[WAITS];
static uint32_t n_greeted;

void __wrap_conn_take(struct conn_table *table, int fd);

void __wrap_conn_take(struct conn_table *table, int fd)
{
	(void)table;
	ck_assert_uint_lt(n_greeted, WAITS);
	greeted[n_greeted++] = fd;
}

START_TEST(connections_of_a_uid_are_greeted_in_their_order)
{
	static struct conn_table table;
	static struct loop loop;
	static struct socket_closer closer = { .loop = &loop };
	int pairs[WAITS][2];

	ck_assert_int_eq(loop_init(&loop), 0);
	table.loop = &loop;
	table.closer = &closer;
	table.stranger = UINT32_MAX;
	for (uint32_t i = 0; i < WAITS; i++)
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pairs[i]), 0);
	/* A connection of this process, whose uid has used up its rate. */
	table.pace.users[0] = (struct quota_paced){ geteuid(), UINT64_MAX / 2 };
	ck_assert(conn_accept(&table, pairs[0][0]));
	ck_assert_uint_eq(table.line.n, 1);
	for (uint32_t i = 1; i < WAITS; i++)
		table.line.first[i] = (struct conn_waiting){ pairs[i][0], UID };
	table.line.n = WAITS;
	now = NOW;
	table.pace.users[1] =
		(struct quota_paced){ UID, NOW + QUOTA_BURST_NS - QUOTA_CONNECT_NS + MISSES };
	table.line.source.call(&table.line.source, 0);
	now = NOW + QUOTA_CONNECT_NS;
	table.line.source.call(&table.line.source, 0);
	now = NOW + 2 * QUOTA_CONNECT_NS;
	table.line.source.call(&table.line.source, 0);
	now = 0;
	ck_assert_uint_eq(n_greeted, 2);
	ck_assert_int_eq(greeted[0], pairs[1][0]);
	ck_assert_int_eq(greeted[1], pairs[2][0]);
	ck_assert_uint_eq(table.line.n, 2);
	conn_line_end(&table, false);
	socket_close_fini(&closer);
	loop_fini(&loop);
}
END_TEST

CHECK_MAIN("connection_line")
