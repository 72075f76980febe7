/* SPDX-License-Identifier: MIT */
/*
 * shm/proto.c - sending and receiving one message with its descriptors
 *
 * Threads: manager, pool and clients, each on its own sockets. No state.
 *
 * INVARIANTS
 *   I1. proto_recv() returns a whole message with a whole head, and zeroes after it; otherwise it
 *       closes the descriptors that came with it. Only proto_recv_short() may lack descriptors. The
 *       caller checks the type, and the size of that type.
 *   I2. A send never blocks and never raises SIGPIPE.
 *   I3. A thread that others depend on takes no descriptor from an untrusted peer, not even to
 *       close it. The last close of a TCP connection with SO_LINGER, or of a file on a hung server,
 *       can block for any time.
 *
 * HOW THE KERNEL TREATS DESCRIPTORS IN MESSAGES (seen on 6.18;
 * tests/unit/manager/check_socket_close.c and check_passed.c fail if this changes)
 *   - A message that was not received keeps them open. The process that closes its socket last, or
 *     receives them without room for them, closes them on its return from that call, and blocks
 *     there. The same holds for a listening socket and messages sent to it before an accept.
 *   - MSG_PEEK without room for them sets MSG_CTRUNC and closes nothing: the message stays there.
 *   - With SO_PASSRIGHTS 0 (6.16) sendmsg() with descriptors fails with EPERM. Connections inherit
 *     this from their listening socket before they are accepted. Earlier messages stay, and
 *     MSG_PEEK finds them.
 *   - A process that ends does not linger. The end of a process interrupts an io_uring thread that
 *     lingers. In a process that uses io_uring itself its next completion does so, if there is one,
 *     except for a file that blocks regardless of signals.
 */
#include "shm/proto.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"

/* Newer than the headers of Debian 12; fails with ENOPROTOOPT before Linux 6.16. */
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
/* The same, before Linux 6.5. */
#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

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

/* Moves the descriptors of a message, at most PROTO_MAX_FDS, into an array. */
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

/* Returns the result for a message of n bytes. */
static int proto_check(const union proto_message *message, ssize_t n, int flags)
{
	if (n < (ssize_t)sizeof(message->head) || flags & (MSG_TRUNC | MSG_CTRUNC) ||
	    message->head.magic != PROTO_MAGIC)
		return -EBADMSG;
	return (int)n;
}

static ssize_t proto_recvmsg(int fd, struct msghdr *header, int flags)
{
	ssize_t n;

	do {
		n = recvmsg(fd, header, flags | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* forgiven: MSG_CTRUNC, or 0. */
static int proto_take(int fd, union proto_message *ret_message, int *ret_fds, uint32_t *ret_n_fds,
		      int flags, int forgiven)
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
	int r;

	memset(&message, 0, sizeof(message));
	n = proto_recvmsg(fd, &header, flags);
	if (n < 0)
		return (int)n;
	n_fds = proto_descriptors(&header, fds);
	r = n > 0 ? proto_check(&message, n, header.msg_flags & ~forgiven) : 0;
	if (r <= 0) {
		while (n_fds)
			(void)close(fds[--n_fds]);
		if (r == 0)
			*ret_n_fds = 0;
		return r;
	}
	*ret_message = message;
	memcpy(ret_fds, fds, n_fds * sizeof(int));
	*ret_n_fds = n_fds;
	return r;
}

int proto_recv(int fd, union proto_message *ret_message, int *ret_fds, uint32_t *ret_n_fds,
	       int flags)
{
	return proto_take(fd, ret_message, ret_fds, ret_n_fds, flags, 0);
}

int proto_recv_short(int fd, union proto_message *ret_message, int *ret_fds, uint32_t *ret_n_fds,
		     int flags)
{
	return proto_take(fd, ret_message, ret_fds, ret_n_fds, flags, MSG_CTRUNC);
}

int proto_recv_plain(int fd, union proto_message *ret_message, int flags)
{
	union proto_message message;
	struct iovec iov = { .iov_base = &message, .iov_len = sizeof(message) };
	struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;
	int r;

	memset(&message, 0, sizeof(message));
	n = proto_recvmsg(fd, &header, flags | MSG_PEEK);
	if (n < 0)
		return (int)n;
	if (header.msg_flags & MSG_CTRUNC)
		return -EPERM;
	if (n == 0)
		return 0;
	r = proto_check(&message, n, header.msg_flags);
	/* The same message: no other thread receives. */
	n = proto_recvmsg(fd, &header, flags);
	if (n < 0)
		return (int)n;
	if (r > 0)
		*ret_message = message;
	return r;
}

void proto_take_no_descriptors(int fd)
{
	/* The others add something to each message, and a listening socket from a service manager
	 * may have them. */
	static const int options[] = { SO_PASSRIGHTS, SO_PASSCRED, SO_PASSSEC, SO_PASSPIDFD };
	const int off = 0;

	for (uint32_t i = 0; i < ARRAY_SIZE(options); i++)
		(void)setsockopt(fd, SOL_SOCKET, options[i], &off, sizeof(off));
}

void proto_take_descriptors(int fd)
{
	const int on = 1;

	(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &on, sizeof(on));
}
