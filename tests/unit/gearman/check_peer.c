/* SPDX-License-Identifier: MIT */
/* check_peer.c - packets of a job server, whole, in pieces and malformed; time limits */
#include "contrib/gearman/peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"
#include "tests/support/check_unit.h"

#define TIMEOUT (50 * NSEC_PER_MSEC)

static struct peer peer;
static int server = -1; /* the other end */

/* Listens at a free port. Returns the socket. */
static int listen_somewhere(uint16_t *ret_port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, size), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	*ret_port = ntohs(address.sin_port);
	return fd;
}

static void connect_peer(uint64_t timeout_ns)
{
	uint16_t port;
	int fd = listen_somewhere(&port);

	ck_assert_int_eq(peer_open(&peer, "127.0.0.1", port, timeout_ns), 0);
	server = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(server, 0);
	(void)close(fd);
}

static void server_write(const void *data, size_t size)
{
	ck_assert_int_eq(write(server, data, size), (ssize_t)size);
}
#define SERVER(text) server_write(text, sizeof(text) - 1)

static int ticks;

/* Returns the result at context, once there were ticks. */
static int count_tick(void *context)
{
	const int *result = context;

	ticks++;
	return result ? *result : 0;
}

static int next(void)
{
	return peer_next(&peer, count_tick, NULL);
}

START_TEST(packet_is_sent_with_head_and_parts)
{
	static const char expected[] = "\0REQ\0\0\0\x0d\0\0\0\x08h\0answer";
	const struct peer_part parts[] = { { "h", 2 }, { "answer", 6 } };
	char got[sizeof(expected) - 1];

	connect_peer(TIMEOUT);
	ck_assert_int_eq(peer_send(&peer, PACKET_COMPLETE, parts, 2), 0);
	/* It waits for more. */
	ck_assert_int_eq(recv(server, got, sizeof(got), MSG_DONTWAIT), -1);
	ck_assert_int_eq(peer_flush(&peer), 0);
	ck_assert_int_eq(recv(server, got, sizeof(got), MSG_WAITALL), sizeof(got));
	ck_assert_mem_eq(got, expected, sizeof(got));
}
END_TEST

START_TEST(job_that_arrives_byte_by_byte_is_read)
{
	static const char packets[] = "\0RES\0\0\0\x06\0\0\0\0"
				      "\0RES\0\0\0\x1f\0\0\0\x0eH:1\0m:t\0u\0data";
	const char *handle, *function, *unique;
	char names[PEER_NAMES];
	char data[4], start[8] = "";

	connect_peer(10 * NSEC_PER_SEC);
	for (size_t i = 0; i < sizeof(packets) - 1; i++)
		server_write(&packets[i], 1);
	ck_assert_int_eq(next(), PACKET_NOOP);
	ck_assert_uint_eq(peer.left, 0);
	ck_assert_int_eq(next(), PACKET_ASSIGN);
	ck_assert_int_eq(peer_read_names(&peer, names, &handle, &function, &unique), 0);
	ck_assert_str_eq(handle, "H:1");
	ck_assert_str_eq(function, "m:t");
	ck_assert_str_eq(unique, "u");
	ck_assert_uint_eq(peer.left, 4);
	ck_assert_int_eq(peer_read(&peer, data, start, 2), 0);
	ck_assert_mem_eq(data, "data", 4);
	ck_assert_str_eq(start, "da");
}
END_TEST

/* Sends the head of a PACKET_ASSIGN with size bytes of data. */
static void server_assign(uint32_t size)
{
	char head[12] = "\0RES\0\0\0\x1f";

	for (int i = 0; i < 4; i++)
		head[8 + i] = (char)(size >> (24 - 8 * i));
	server_write(head, sizeof(head));
}

START_TEST(payload_is_dropped_up_to_its_end)
{
	static char zeros[100000];
	const char *handle, *function, *unique;
	char names[PEER_NAMES];
	char start[5] = "";

	connect_peer(10 * NSEC_PER_SEC);
	server_assign(9 + sizeof(zeros));
	SERVER("h\0f\0u\0abc");
	server_write(zeros, sizeof(zeros));
	SERVER("\0RES\0\0\0\x0a\0\0\0\0");
	ck_assert_int_eq(next(), PACKET_ASSIGN);
	ck_assert_int_eq(peer_read_names(&peer, names, &handle, &function, &unique), 0);
	ck_assert_uint_eq(peer.left, 3 + sizeof(zeros));
	ck_assert_int_eq(peer_read(&peer, NULL, start, 4), 0);
	ck_assert_mem_eq(start, "abc\0", 4);
	ck_assert_int_eq(next(), PACKET_NO_JOB);
}
END_TEST

START_TEST(payload_is_received_into_exactly_its_memory)
{
	static char sent[50000];
	const char *handle, *function, *unique;
	char names[PEER_NAMES];
	char *data = malloc(sizeof(sent));

	ck_assert_ptr_nonnull(data);
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (char)(i * 7);
	connect_peer(10 * NSEC_PER_SEC);
	server_assign(6 + sizeof(sent));
	SERVER("h\0f\0u\0");
	server_write(sent, sizeof(sent));
	ck_assert_int_eq(next(), PACKET_ASSIGN);
	ck_assert_int_eq(peer_read_names(&peer, names, &handle, &function, &unique), 0);
	ck_assert_int_eq(peer_read(&peer, data, NULL, 0), 0);
	ck_assert_mem_eq(data, sent, sizeof(sent));
	free(data);
}
END_TEST

START_TEST(start_of_a_short_payload_is_the_payload)
{
	const char *handle, *function, *unique;
	char names[PEER_NAMES];
	char start[5] = "";

	connect_peer(10 * NSEC_PER_SEC);
	server_assign(8);
	SERVER("h\0f\0u\0xy\0RES\0\0\0\x0a\0\0\0\0");
	ck_assert_int_eq(next(), PACKET_ASSIGN);
	ck_assert_int_eq(peer_read_names(&peer, names, &handle, &function, &unique), 0);
	ck_assert_int_eq(peer_read(&peer, NULL, start, 4), 0);
	ck_assert_str_eq(start, "xy");
	ck_assert_int_eq(next(), PACKET_NO_JOB);
}
END_TEST

START_TEST(malformed_packets_end_the_connection)
{
	const char *handle, *function, *unique;
	char names[PEER_NAMES];
	static char endless[PEER_NAMES];

	connect_peer(10 * NSEC_PER_SEC);
	SERVER("HTTP/1.1 400 Bad Request\r\n");
	ck_assert_int_eq(next(), -EPROTO);
	peer_close(&peer);

	connect_peer(10 * NSEC_PER_SEC);
	SERVER("\0RES\xff\0\0\0\0\0\0\0");
	ck_assert_int_eq(next(), -EPROTO);
	peer_close(&peer);

	/* Two arguments, and the end of the packet. */
	connect_peer(10 * NSEC_PER_SEC);
	server_assign(5);
	SERVER("h\0f\0u");
	ck_assert_int_eq(next(), PACKET_ASSIGN);
	ck_assert_int_eq(peer_read_names(&peer, names, &handle, &function, &unique), -EPROTO);
	peer_close(&peer);

	/* Names without an end. */
	memset(endless, 'x', sizeof(endless));
	connect_peer(10 * NSEC_PER_SEC);
	server_assign(UINT32_MAX);
	server_write(endless, sizeof(endless));
	ck_assert_int_eq(next(), PACKET_ASSIGN);
	ck_assert_int_eq(peer_read_names(&peer, names, &handle, &function, &unique), -EPROTO);
}
END_TEST

START_TEST(silence_ends_a_packet_that_has_begun)
{
	char data[8];

	connect_peer(TIMEOUT);
	SERVER("\0RES");
	ck_assert_int_eq(next(), -ETIMEDOUT);
	peer_close(&peer);

	connect_peer(TIMEOUT);
	SERVER("\0RES\0\0\0\x13\0\0\0\x08half");
	ck_assert_int_eq(next(), PACKET_ERROR);
	ck_assert_int_eq(peer_read(&peer, data, NULL, 0), -ETIMEDOUT);
}
END_TEST

START_TEST(idle_server_may_be_silent)
{
	int end = 7;

	connect_peer(TIMEOUT);
	ck_assert_int_eq(peer_next(&peer, count_tick, &end), 7);
	ck_assert_int_eq(ticks, 1);
	/* A packet precedes the end. */
	SERVER("\0RES\0\0\0\x06\0\0\0\0\0RES\0\0\0\x0a\0\0\0\0");
	ck_assert_int_eq(peer_next(&peer, count_tick, &end), PACKET_NOOP);
	ck_assert(peer_has_packet(&peer));
	ck_assert_int_eq(peer_next(&peer, count_tick, &end), PACKET_NO_JOB);
	ck_assert(!peer_has_packet(&peer));
	ck_assert_int_eq(ticks, 1);
}
END_TEST

START_TEST(packet_that_was_received_in_part_is_none)
{
	connect_peer(10 * NSEC_PER_SEC);
	SERVER("\0RES\0\0\0\x06\0\0\0\0\0RES\0\0\0\x13\0\0\0\x02x");
	ck_assert_int_eq(next(), PACKET_NOOP);
	ck_assert(!peer_has_packet(&peer));
	SERVER("y");
	ck_assert_int_eq(next(), PACKET_ERROR);
	ck_assert_int_eq(peer_read(&peer, NULL, NULL, 0), 0);
}
END_TEST

START_TEST(closed_connection_is_reported)
{
	const struct peer_part part = { "x", 1 };
	int err = 0;

	connect_peer(TIMEOUT);
	(void)close(server);
	ck_assert_int_eq(next(), -ECONNRESET);
	/* The kernel may take the first packet. */
	for (int i = 0; i < 1000 && !err; i++) {
		err = peer_send(&peer, PACKET_CAN_DO, &part, 1);
		if (!err)
			err = peer_flush(&peer);
	}
	ck_assert(err == -EPIPE || err == -ECONNRESET);
}
END_TEST

START_TEST(server_that_reads_nothing_is_a_timeout)
{
	static char data[1 << 20];
	const struct peer_part part = { data, sizeof(data) };
	int err = 0;

	connect_peer(TIMEOUT);
	for (int i = 0; i < 1000 && !err; i++)
		err = peer_send(&peer, PACKET_COMPLETE, &part, 1);
	ck_assert_int_eq(err, -ETIMEDOUT);
}
END_TEST

START_TEST(server_that_is_not_there_is_refused)
{
	uint16_t port;

	(void)close(listen_somewhere(&port));
	ck_assert_int_eq(peer_open(&peer, "127.0.0.1", port, TIMEOUT), -ECONNREFUSED);
	ck_assert_int_eq(peer_open(&peer, "not a host", port, TIMEOUT), -EHOSTUNREACH);
}
END_TEST

CHECK_MAIN("peer")
