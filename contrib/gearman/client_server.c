/* SPDX-License-Identifier: MIT */
/*
 * client_server.c - one connection to a job server, which holds any number of calls
 *
 * libgearman's client is not used. Its gearman_client_wait() sleeps on descriptors that it does not
 * show, and no call of another thread wakes it. So a new job would wait for the end of another one,
 * or need a thread of its own. It also searches all tasks for each packet: with 4000 in flight, a
 * task costs 16 times the CPU time that it costs with 10 (libgearman 1.1.20).
 *
 * 	sending --packet sent--> accepting --CREATED--> buckets --COMPLETE, EXCEPTION, FAIL--> end()
 *
 * INVARIANTS
 *   I1. A call is in exactly one of sending, accepting and buckets, and ends once. The server
 *       answers submissions in their order, so the first call of accepting has the next handle.
 *   I2. A server can run a job only after it has the whole packet. So a call that is in sending
 *       when the connection ends did not run.
 *   I3. Data of the server never exceeds what was received: the buffer grows with the data, not by
 *       the size that a packet's head names. A packet for an unknown handle is dropped: a FAIL that
 *       follows an EXCEPTION is one.
 *   I4. A connection without traffic is tested by the kernel (SERVER_DEAD_S), so a call at a server
 *       that has vanished ends. A server gets calls only after its first answer. So one that
 *       accepts connections and is silent gets none.
 */
#include "contrib/gearman/client_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"

#define SERVER_WAIT	(100 * NSEC_PER_MSEC) /* after the end of a connection */
#define SERVER_WAIT_MAX (5 * NSEC_PER_SEC)
#define SERVER_DEAD_S	20	    /* without an answer of the server's machine */
#define SERVER_IN	(64u << 10) /* bytes read at a time, at least */
#define SERVER_KEEP	(1u << 20)  /* bytes of an empty buffer that is kept */
#define SERVER_READS	16u	    /* reads before other servers get their turn */
#define SERVER_WRITES	64	    /* packets written at a time */

static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;

void server_lock(void)
{
	pthread_mutex_lock(&fork_lock);
}

void server_unlock(void)
{
	pthread_mutex_unlock(&fork_lock);
}

/* ------------------------------------------------------------------------ handles */

static struct server_call **server_bucket(struct server *server, const char *handle)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (; *handle; handle++)
		hash = (hash ^ (uint8_t)*handle) * 16777619u;
	return &server->buckets[hash % SERVER_BUCKETS];
}

/* Takes the call of a handle out of its bucket; NULL: there is none. */
static struct server_call *server_take(struct server *server, const char *handle)
{
	struct server_call **at = server_bucket(server, handle);
	struct server_call *call;

	while (*at && !streq((*at)->handle, handle))
		at = &(*at)->next;
	call = *at;
	if (call)
		*at = call->next;
	return call;
}

static void server_end(struct server *server, struct server_call *call, enum server_end how,
		       const void *data, size_t size)
{
	server->n--;
	server->end(server, call, how, data, size);
}

/* Ends all calls of a list. */
static void server_end_list(struct server *server, struct list_link *list, enum server_end how)
{
	struct server_call *call;

	while ((call = list_first(list, struct server_call, link))) {
		list_remove(&call->link);
		server_end(server, call, how, NULL, 0);
	}
}

static void server_end_handles(struct server *server)
{
	for (uint32_t i = 0; i < SERVER_BUCKETS; i++) {
		struct server_call *call;

		while ((call = server->buckets[i])) {
			server->buckets[i] = call->next;
			server_end(server, call, SERVER_LOST, NULL, 0);
		}
	}
}

/* ------------------------------------------------------------------------ the connection */

static void server_close(struct server *server)
{
	server_lock();
	/* A child of fork() may have a copy of the descriptor. */
	if (server->fd >= 0)
		(void)shutdown(server->fd, SHUT_RDWR);
	server->fd = safe_close(server->fd);
	server_unlock();
	server->is_connected = server->is_up = false;
	server->sent = 0;
	server->n_in = 0;
}

/* The connection has ended: ends all calls, and waits before the next attempt. */
static void server_drop(struct server *server, uint64_t now_ns)
{
	bool was_up = server->is_up;

	server_close(server);
	server->retry_ns = now_ns;
	if (!was_up && server->address->ai_next) {
		server->address = server->address->ai_next;
		return; /* The next address is tried at once. */
	}
	server->address = server->addresses;
	server->wait_ns = min(max(2 * server->wait_ns, SERVER_WAIT), SERVER_WAIT_MAX);
	server->retry_ns += server->wait_ns;
	/* end() may submit a call again, but not to this server, which is down. */
	server_end_list(server, &server->sending, SERVER_UNSENT);
	server_end_list(server, &server->accepting, SERVER_LOST);
	server_end_handles(server);
}

static void server_tune(int fd)
{
	const int on = 1, idle = SERVER_DEAD_S / 2, interval = SERVER_DEAD_S / 4, n = 2;
	const unsigned int unsent = SERVER_DEAD_S * 1000;

	/* The connection works without any of them. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n, sizeof(n));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unsent, sizeof(unsent));
}

/* Asks for the texts of exceptions. A new connection has room for it. */
static bool server_ask(struct server *server)
{
	static const char option[] = "exceptions";
	char packet[PACKET_HEAD + sizeof(option) - 1];

	packet_write_head(packet, PACKET_OPTION, sizeof(option) - 1);
	memcpy(packet + PACKET_HEAD, option, sizeof(option) - 1);
	return send(server->fd, packet, sizeof(packet), MSG_NOSIGNAL) == (ssize_t)sizeof(packet);
}

void server_connect(struct server *server, uint64_t now_ns)
{
	int r = -1;

	if (server->is_up || now_ns < server->retry_ns)
		return;
	if (server->fd >= 0) {
		server_drop(server, now_ns); /* It accepts connections, but does not answer. */
		return;
	}
	server->retry_ns = now_ns + SERVER_DEAD_S * NSEC_PER_SEC;
	if (!server->address)
		server->address = server->addresses;
	server_lock();
	server->fd =
		socket(server->address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	server_unlock();
	if (server->fd >= 0) {
		server_tune(server->fd);
		r = connect(server->fd, server->address->ai_addr, server->address->ai_addrlen);
	}
	if (r < 0 && (server->fd < 0 || errno != EINPROGRESS))
		server_drop(server, now_ns);
}

/* connect() has ended. */
static void server_connected(struct server *server, uint64_t now_ns)
{
	socklen_t size = sizeof(int);
	int error = 0;

	if (getsockopt(server->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error ||
	    !server_ask(server)) {
		server_drop(server, now_ns);
		return;
	}
	server->is_connected = true;
}

short server_events(const struct server *server)
{
	if (!server->is_connected)
		return POLLOUT;
	return list_is_empty(&server->sending) ? POLLIN : POLLIN | POLLOUT;
}

/* ------------------------------------------------------------------------ output */

/* Counts n bytes as sent: their calls wait for handles. */
static void server_count_sent(struct server *server, size_t n)
{
	struct server_call *call;

	server->sent += n;
	while ((call = list_first(&server->sending, struct server_call, link)) &&
	       server->sent >= call->size) {
		server->sent -= call->size;
		list_remove(&call->link);
		list_add(&server->accepting, &call->link);
		call->is_sent = true;
	}
}

/* Writes packets until the socket is full. False: the connection has ended. */
static bool server_write(struct server *server)
{
	while (!list_is_empty(&server->sending)) {
		struct iovec parts[SERVER_WRITES];
		struct msghdr message = { .msg_iov = parts };
		size_t skip = server->sent;
		struct server_call *call;
		ssize_t n;

		list_for_each (call, &server->sending, link) {
			if (message.msg_iovlen == SERVER_WRITES)
				break;
			parts[message.msg_iovlen++] =
				(struct iovec){ call->packet + skip, call->size - skip };
			skip = 0;
		}
		n = sendmsg(server->fd, &message, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		server_count_sent(server, (size_t)n);
	}
	return true;
}

void server_submit(struct server *server, struct server_call *call)
{
	call->is_sent = false;
	list_add(&server->sending, &call->link);
	server->n++;
}

bool server_withdraw(struct server *server, struct server_call *call)
{
	if (call->is_sent ||
	    (server->sent && call == list_first(&server->sending, struct server_call, link)))
		return false;
	list_remove(&call->link);
	server->n--;
	return true;
}

/* ------------------------------------------------------------------------ input */

/* The first call without a handle gets one. */
static void server_accepted(struct server *server, const char *handle)
{
	struct server_call *call = list_first(&server->accepting, struct server_call, link);
	struct server_call **bucket = server_bucket(server, handle);

	if (!call)
		return;
	list_remove(&call->link);
	memcpy(call->handle, handle, sizeof(call->handle));
	call->next = *bucket;
	*bucket = call;
}

/* An error is the answer to the first call without a handle. */
static void server_refused(struct server *server, const char *code, const char *text, size_t size)
{
	struct server_call *call = list_first(&server->accepting, struct server_call, link);

	if (!server->is_up) {
		server->is_up = true; /* It has no exceptions: jobs only fail. */
		return;
	}
	if (!call)
		return;
	list_remove(&call->link);
	server_end(server, call, strstr(code, "QUEUE_FULL") ? SERVER_FULL : SERVER_REFUSED, text,
		   size);
}

static void server_packet(struct server *server, uint32_t type, const char *data, uint32_t size)
{
	char handle[PACKET_HANDLE];
	uint32_t rest_size;
	const char *rest = packet_handle(data, size, handle, &rest_size);
	struct server_call *call = NULL;

	server->wait_ns = 0; /* It is a job server. */
	switch (type) {
	case PACKET_OPTION_SET:
		server->is_up = true;
		break;
	case PACKET_CREATED:
		server_accepted(server, handle);
		break;
	case PACKET_ERROR:
		server_refused(server, handle, rest, rest_size);
		break;
	case PACKET_COMPLETE:
	case PACKET_EXCEPTION:
	case PACKET_FAIL:
		call = server_take(server, handle);
		break;
	default: /* Data, warnings and progress. */
		break;
	}
	if (call)
		server_end(server, call,
			   type == PACKET_COMPLETE    ? SERVER_COMPLETE
			   : type == PACKET_EXCEPTION ? SERVER_EXCEPTION
						      : SERVER_FAIL,
			   rest, rest_size);
}

/* Handles the whole packets of the buffer. Sets *ret_more to the bytes that the next one lacks.
 * False: the peer is no job server. */
static bool server_parse(struct server *server, size_t *ret_more)
{
	size_t at = 0;
	uint32_t type, size;

	*ret_more = PACKET_HEAD;
	while (server->n_in - at >= PACKET_HEAD) {
		if (!packet_read_head(server->in + at, &type, &size))
			return false;
		if (server->n_in - at - PACKET_HEAD < size) {
			*ret_more = size - (server->n_in - at - PACKET_HEAD);
			break;
		}
		server_packet(server, type, server->in + at + PACKET_HEAD, size);
		at += PACKET_HEAD + size;
	}
	server->n_in -= at;
	memmove(server->in, server->in + at, server->n_in);
	if (!server->n_in && server->in_size > SERVER_KEEP) {
		free(server->in);
		server->in = NULL;
		server->in_size = 0;
	}
	return true;
}

/* Makes room for more bytes, for at most twice of what was received (I3). */
static bool server_grow(struct server *server, size_t more)
{
	size_t size = server->n_in + min(max(more, SERVER_IN), max(server->n_in, SERVER_IN));
	char *in;

	if (size <= server->in_size)
		return true;
	in = realloc(server->in, size);
	if (!in)
		return false;
	server->in = in;
	server->in_size = size;
	return true;
}

/* False: the connection has ended. */
static bool server_read(struct server *server)
{
	size_t more = SERVER_IN;

	for (uint32_t i = 0; i < SERVER_READS; i++) {
		ssize_t n;

		if (!server_grow(server, more))
			return false;
		n = recv(server->fd, server->in + server->n_in, server->in_size - server->n_in, 0);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		if (n == 0)
			return false;
		server->n_in += (size_t)n;
		if (!server_parse(server, &more))
			return false;
	}
	return true;
}

void server_handle(struct server *server, short events, uint64_t now_ns)
{
	if (!server->is_connected) {
		if (events)
			server_connected(server, now_ns);
		if (!server->is_connected)
			return;
	}
	/* What was received is read before an end of the connection is. */
	if ((events & (POLLIN | POLLHUP | POLLERR) && !server_read(server)) ||
	    !server_write(server))
		server_drop(server, now_ns);
}

/* ------------------------------------------------------------------------ end */

void server_fini(struct server *server, void (*free_call)(struct server_call *call))
{
	struct list_link *lists[] = { &server->sending, &server->accepting };
	struct server_call *call;

	server_close(server);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		while ((call = list_first(lists[i], struct server_call, link))) {
			list_remove(&call->link);
			free_call(call);
		}
	for (uint32_t i = 0; i < SERVER_BUCKETS; i++)
		while ((call = server->buckets[i])) {
			server->buckets[i] = call->next;
			free_call(call);
		}
	free(server->in);
	if (server->addresses)
		freeaddrinfo(server->addresses);
}

void server_forget(struct server *server)
{
	server->fd = safe_close(server->fd);
}
