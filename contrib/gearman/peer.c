/* SPDX-License-Identifier: MIT */
/*
 * peer.c - a worker's connection to a job server: peer.h
 *
 * INVARIANTS
 *   I1. No byte is written beyond the memory of the caller: it has made memory for peer->left
 *       bytes. Sizes that the server sends are compared with those of the buffer and of names.
 *   I2. A call that sends, or receives the rest of a packet, makes progress once in timeout_ns, or
 *       fails. The kernel also ends a connection whose data is not acknowledged for that time, or
 *       that does not answer probes while it is idle.
 */
#include "contrib/gearman/peer.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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
	unsigned int tick_ms = min(ms, PEER_TICK);
	struct timeval tick = { 0, tick_ms * 1000u };

	(void)setsockopt(peer->fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick));
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
	peer->at = peer->end = peer->n_out = 0;
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
	/* With unread data, the kernel would drop what was not sent yet. */
	while (peer->fd >= 0 && recv(peer->fd, peer->buffer, PEER_BUFFER, MSG_DONTWAIT) > 0)
		;
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

/* Sends parts of any size. */
static int send_parts(const struct peer *peer, struct iovec *iov, size_t n)
{
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = n };

	while (message.msg_iovlen) {
		ssize_t sent = sendmsg(peer->fd, &message, MSG_NOSIGNAL);

		if (sent >= 0)
			advance(&message, (size_t)sent);
		else if (errno != EINTR)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
	}
	return 0;
}

int peer_flush(struct peer *peer)
{
	struct iovec iov = { peer->out, peer->n_out };

	peer->n_out = 0;
	return send_parts(peer, &iov, iov.iov_len ? 1 : 0);
}

int peer_send(struct peer *peer, enum packet_type type, const struct peer_part *parts, size_t n)
{
	struct iovec iov[1 + 1 + PEER_PARTS];
	char head[PACKET_HEAD];
	size_t size = 0, n_out;

	for (size_t i = 0; i < n; i++) {
		iov[2 + i].iov_base = (void *)(uintptr_t)parts[i].data;
		iov[2 + i].iov_len = parts[i].size;
		size += parts[i].size;
	}
	if (size > UINT32_MAX)
		return -EMSGSIZE;
	packet_write_head(head, type, (uint32_t)size);
	iov[0] = (struct iovec){ peer->out, peer->n_out };
	iov[1] = (struct iovec){ head, sizeof(head) };
	n_out = peer->n_out;
	peer->n_out = 0;
	if (size + sizeof(head) > sizeof(peer->out) - n_out)
		return send_parts(peer, iov, 2 + n);
	for (size_t i = 1; i < 2 + n; n_out += iov[i++].iov_len)
		if (iov[i].iov_len)
			memcpy(peer->out + n_out, iov[i].iov_base, iov[i].iov_len);
	peer->n_out = n_out;
	return 0;
}

/* ------------------------------------------------------------------------------ receive */

/* Waits for data until the next tick, and receives at most size bytes. Returns the number; 0: there
 * are none. */
static ssize_t receive_some(const struct peer *peer, void *data, size_t size)
{
	ssize_t n;

	do
		n = recv(peer->fd, data, size, 0);
	while (n < 0 && errno == EINTR);
	return n > 0 ? n : !n ? -ECONNRESET : errno == EAGAIN ? 0 : -errno;
}

/* Waits for data within a packet, and receives at most size bytes. Returns the number. */
static ssize_t receive(const struct peer *peer, void *data, size_t size)
{
	uint64_t until = 0;
	ssize_t n;

	while (!(n = receive_some(peer, data, size))) {
		uint64_t now = clock_ns();

		/* The first tick has passed. */
		if (!until)
			until = now + peer->timeout_ns -
				min(peer->timeout_ns, PEER_TICK * NSEC_PER_MSEC);
		if (now >= until)
			return -ETIMEDOUT;
	}
	return n;
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

/* Waits for the first byte of a packet. */
static int wait_packet(struct peer *peer, int (*tick)(void *context), void *context)
{
	ssize_t n = 0;
	int err = 0;

	if (peer->at < peer->end)
		return 0;
	peer->at = peer->end = 0;
	while (!err && !(n = receive_some(peer, peer->buffer, PEER_BUFFER)))
		err = tick(context);
	if (n > 0)
		peer->end = (size_t)n;
	return n < 0 ? (int)n : err;
}

/* Reads the head of the packet that begins the buffer. */
static bool read_head(const struct peer *peer, uint32_t *ret_type, uint32_t *ret_size)
{
	return packet_read_head(peer->buffer + peer->at, ret_type, ret_size);
}

int peer_next(struct peer *peer, int (*tick)(void *context), void *context)
{
	uint32_t type;
	int err = wait_packet(peer, tick, context);

	while (!err && peer->end - peer->at < PACKET_HEAD)
		err = fill(peer);
	if (err)
		return err;
	if (!read_head(peer, &type, &peer->left))
		return -EPROTO;
	peer->at += PACKET_HEAD;
	return type > INT16_MAX ? -EPROTO : (int)type;
}

bool peer_has_packet(const struct peer *peer)
{
	size_t n = peer->end - peer->at;
	uint32_t type, size;

	return n >= PACKET_HEAD && read_head(peer, &type, &size) && size <= n - PACKET_HEAD;
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

int peer_read_names(struct peer *peer, char *names, const char **ret_handle,
		    const char **ret_function, const char **ret_unique)
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
	memcpy(names, peer->buffer + peer->at, size);
	peer->at += size;
	peer->left -= (uint32_t)size;
	*ret_handle = names;
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
