/* SPDX-License-Identifier: MIT */
/*
 * peer.c - a worker's connection to a job server: peer.h
 *
 * INVARIANTS
 *   I1. No byte is written beyond the memory of the caller: it has made memory for peer->left
 *       bytes. Sizes that the server sends are compared with those of the buffer and of names.
 *   I2. A call that sends or receives makes progress once in timeout_ns, or fails: this is the time
 *       limit of the socket. The kernel also ends a connection whose data is not acknowledged for
 *       that time, or that does not answer probes while it is idle. So connections that no thread
 *       uses end as well.
 */
#include "contrib/gearman/peer.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"

#define PEER_PARTS  4u
#define PEER_PROBES 3 /* of a connection that is idle */

/* ------------------------------------------------------------------------------ connect */

static uint64_t timeout_ms(const struct peer *peer)
{
	return max(peer->timeout_ns / NSEC_PER_MSEC, UINT64_C(1));
}

/* I2. A kernel without one of these options detects a lost server later. */
static void set_limits(const struct peer *peer)
{
	unsigned int ms = (unsigned int)min(timeout_ms(peer), UINT64_C(0x7fffffff));
	int on = 1, s = (int)max(ms / 1000u, 1u), probes = PEER_PROBES;
	struct timeval limit = { ms / 1000u, ms % 1000u * 1000u };

	(void)setsockopt(peer->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(peer->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	(void)setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(peer->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	(void)setsockopt(peer->fd, IPPROTO_TCP, TCP_KEEPIDLE, &s, sizeof(s));
	(void)setsockopt(peer->fd, IPPROTO_TCP, TCP_KEEPINTVL, &s, sizeof(s));
	(void)setsockopt(peer->fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	(void)setsockopt(peer->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static int connect_to(struct peer *peer, const struct addrinfo *address)
{
	int err = 0;

	peer->fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (peer->fd < 0)
		return -errno;
	set_limits(peer);
	if (connect(peer->fd, address->ai_addr, address->ai_addrlen) < 0)
		err = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
	if (err)
		peer->fd = safe_close(peer->fd);
	return err;
}

int peer_open(struct peer *peer, const char *host, uint16_t port, uint64_t timeout_ns)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *addresses;
	char service[8];
	int err = -EHOSTUNREACH;

	peer->fd = -1;
	peer->timeout_ns = timeout_ns;
	peer->at = peer->end = 0;
	peer->left = 0;
	(void)snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &addresses))
		return -EHOSTUNREACH;
	for (const struct addrinfo *a = addresses; a && err; a = a->ai_next)
		err = connect_to(peer, a);
	freeaddrinfo(addresses);
	return err;
}

void peer_close(struct peer *peer)
{
	peer->fd = safe_close(peer->fd);
}

/* ------------------------------------------------------------------------------ send */

/* Removes n bytes from the front of a message. */
static void advance(struct msghdr *message, size_t n)
{
	while (message->msg_iovlen && n >= message->msg_iov->iov_len) {
		n -= message->msg_iov->iov_len;
		message->msg_iov++;
		message->msg_iovlen--;
	}
	if (n) {
		message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + n;
		message->msg_iov->iov_len -= n;
	}
}

/* The error of a call that made no progress. */
static int socket_error(void)
{
	return errno == EAGAIN ? -ETIMEDOUT : -errno;
}

int peer_send(struct peer *peer, enum packet_type type, const struct peer_part *parts, size_t n)
{
	struct iovec iov[1 + PEER_PARTS];
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 1 + n };
	/* A job has ended: a request for the next one follows. The kernel sends both together. */
	int flags = MSG_NOSIGNAL | (type == PACKET_COMPLETE || type == PACKET_FAIL ? MSG_MORE : 0);
	char head[PACKET_HEAD];
	size_t size = 0;

	for (size_t i = 0; i < n; i++) {
		iov[1 + i].iov_base = (void *)(uintptr_t)parts[i].data;
		iov[1 + i].iov_len = parts[i].size;
		size += parts[i].size;
	}
	if (size > UINT32_MAX)
		return -EMSGSIZE;
	packet_write_head(head, type, (uint32_t)size);
	iov[0] = (struct iovec){ head, sizeof(head) };
	while (message.msg_iovlen) {
		ssize_t sent = sendmsg(peer->fd, &message, flags);

		if (sent >= 0)
			advance(&message, (size_t)sent);
		else if (errno != EINTR)
			return socket_error();
	}
	return 0;
}

/* ------------------------------------------------------------------------------ receive */

/* Waits for data, and receives at most size bytes. Returns the number. */
static ssize_t receive(const struct peer *peer, void *data, size_t size)
{
	ssize_t n;

	do
		n = recv(peer->fd, data, size, 0);
	while (n < 0 && errno == EINTR);
	return n > 0 ? n : n < 0 ? socket_error() : -ECONNRESET;
}

/* Receives more into the buffer. */
static int fill(struct peer *peer)
{
	ssize_t n;

	if (peer->at == peer->end)
		peer->at = peer->end = 0;
	if (peer->end == PEER_BUFFER) {
		memmove(peer->buffer, peer->buffer + peer->at, peer->end - peer->at);
		peer->end -= peer->at;
		peer->at = 0;
	}
	n = receive(peer, peer->buffer + peer->end, PEER_BUFFER - peer->end);
	if (n < 0)
		return (int)n;
	peer->end += (size_t)n;
	return 0;
}

/* Waits for the first byte of a packet that the server need not send. */
static int wait_idle(const struct peer *peer, bool (*ended)(const void *context),
		     const void *context)
{
	uint64_t until = clock_ns() + peer->timeout_ns;
	struct pollfd p = { .fd = peer->fd, .events = POLLIN };
	int n;

	if (peer->at < peer->end)
		return 0;
	do {
		if (ended(context))
			return -EINTR;
		n = poll(&p, 1, (int)min(timeout_ms(peer), (uint64_t)PEER_TICK));
	} while ((n < 0 && errno == EINTR) || (!n && clock_ns() < until));
	return n > 0 ? 0 : n ? -errno : -ETIME;
}

int peer_next(struct peer *peer, bool idle, bool (*ended)(const void *context), const void *context)
{
	uint32_t type;
	int err = idle ? wait_idle(peer, ended, context) : 0;

	while (!err && peer->end - peer->at < PACKET_HEAD)
		err = fill(peer);
	if (err)
		return err;
	if (!packet_read_head(peer->buffer + peer->at, &type, &peer->left))
		return -EPROTO;
	peer->at += PACKET_HEAD;
	return type > INT16_MAX ? -EPROTO : (int)type;
}

/* Returns the number of bytes of three arguments at the start of n bytes, or 0: there are fewer. */
static size_t names_size(const char *data, size_t n)
{
	size_t size = 0;

	for (int i = 0; i < 3; i++) {
		const char *end = memchr(data + size, 0, n - size);

		if (!end)
			return 0;
		size = (size_t)(end - data) + 1;
	}
	return size;
}

int peer_read_names(struct peer *peer, const char **ret_handle, const char **ret_function,
		    const char **ret_unique)
{
	size_t size, n;

	for (;;) {
		n = min(min(peer->end - peer->at, (size_t)peer->left), (size_t)PEER_NAMES);
		size = names_size(peer->buffer + peer->at, n);
		if (size)
			break;
		if (n == peer->left || n == PEER_NAMES)
			return -EPROTO;
		n = (size_t)fill(peer);
		if (n)
			return (int)n;
	}
	memcpy(peer->names, peer->buffer + peer->at, size);
	peer->at += size;
	peer->left -= (uint32_t)size;
	*ret_handle = peer->names;
	*ret_function = *ret_handle + strlen(*ret_handle) + 1;
	*ret_unique = *ret_function + strlen(*ret_function) + 1;
	return 0;
}

/* Receives at least n bytes of the packet into the buffer, if it has as many. */
static int peek(struct peer *peer, char *ret_start, size_t n)
{
	int err = 0;

	n = min(n, (size_t)peer->left);
	while (!err && peer->end - peer->at < n)
		err = fill(peer);
	if (!err)
		memcpy(ret_start, peer->buffer + peer->at, n);
	return err;
}

int peer_read(struct peer *peer, void *data, char *ret_start, size_t n)
{
	char *to = data;
	ssize_t received = n ? peek(peer, ret_start, n) : 0;

	while (received >= 0 && peer->left) {
		received = (ssize_t)min(peer->end - peer->at, (size_t)peer->left);
		if (received && to)
			memcpy(to, peer->buffer + peer->at, (size_t)received);
		peer->at += (size_t)received;
		if (!received)
			received = receive(peer, to ? to : peer->buffer,
					   to ? peer->left : min(peer->left, PEER_BUFFER));
		if (received > 0)
			peer->left -= (uint32_t)received;
		if (received > 0 && to)
			to += received;
	}
	return received < 0 ? (int)received : 0;
}
