/* SPDX-License-Identifier: MIT */
/*
 * shm/proto.c - sending and receiving one message with its descriptors
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   Manager, pool and clients, each on its own sockets. No state.
 *
 * INVARIANTS
 *   I1. What proto_recv() returns is a whole message with a whole head, the bytes behind it are
 *       zero; a descriptor that came with anything else is closed. The type, and the size that
 *       belongs to it, are the caller's to check.
 *   I2. A send never blocks and never raises SIGPIPE.
 */
#include "shm/proto.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union proto_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(PROTO_MAX_FDS * sizeof(int))];
};

int proto_send(int fd, const void *message, uint32_t size, const int *fds, uint32_t n_fds)
{
	union proto_control control = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)message, .iov_len = size };
	struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (n_fds > PROTO_MAX_FDS)
		return -EINVAL;
	if (n_fds) {
		struct cmsghdr *c = &control.align;

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
		header.msg_control = &control;
		header.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	}
	do {
		n = sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Takes the descriptors out of a message; there is room for PROTO_MAX_FDS of them. */
static uint32_t proto_descriptors(struct msghdr *header, int *ret_fds)
{
	uint32_t n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		size_t bytes;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		bytes = c->cmsg_len - CMSG_LEN(0);
		for (size_t i = 0; i < bytes / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (n < PROTO_MAX_FDS)
				ret_fds[n++] = fd;
			else
				(void)close(fd);
		}
	}
	return n;
}

int proto_recv(int fd, union proto_message *ret_message, int *ret_fds, uint32_t *ret_n_fds,
	       int flags)
{
	union proto_message message;
	union proto_control control;
	struct iovec iov = { .iov_base = &message, .iov_len = sizeof(message) };
	struct msghdr header = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int fds[PROTO_MAX_FDS];
	uint32_t n_fds;
	ssize_t n;

	memset(&message, 0, sizeof(message));
	do {
		n = recvmsg(fd, &header, flags | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	n_fds = proto_descriptors(&header, fds);
	if (n < (ssize_t)sizeof(message.head) || header.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
	    message.head.magic != PROTO_MAGIC) {
		while (n_fds)
			(void)close(fds[--n_fds]);
		if (n == 0)
			*ret_n_fds = 0;
		return n == 0 ? 0 : -EBADMSG;
	}
	*ret_message = message;
	memcpy(ret_fds, fds, n_fds * sizeof(int));
	*ret_n_fds = n_fds;
	return (int)n;
}
