/* SPDX-License-Identifier: MIT */
/*
 * socket_close.c - closes sockets of clients and tasks without blocking
 *
 * A message that was not received keeps its descriptors open, and the close of the socket closes
 * them: the sender decides how long that takes (proto.c, I3). So a socket is closed here only when
 * no descriptors are left in it:
 *
 *  	shut down --> look at the next message --> none: close
 *  	                 ^      |          |
 *  	                 |      | plain    | with descriptors
 *  	                 +------+          v
 *  	                 +--- discarded by a worker of io_uring, which may block
 *
 * INVARIANTS
 *   I1. After shutdown() no process can send any more, so the queue only gets shorter.
 *   I2. A worker of io_uring gets exactly one message that has descriptors, and from then on only
 *       its thread uses them. Those workers do nothing else (loop.c, I7): a close that never ends
 *       delays only other such closes, each of which costs a descriptor.
 *   I3. The end of the process waits for nothing: the kernel ignores SO_LINGER when a process
 *       exits.
 *
 * From Linux 6.16 on, only clients that had connected before forkd had the listening socket can
 * send such messages.
 */
#include "daemon/manager/socket_close.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "common/list.h"
#include "common/util.h"
#include "daemon/manager/loop.h"
#include "shm/proto.h"

#define SOCKET_CLOSE_TURN 64u /* messages that the manager itself looks at */

struct socket_close {
	struct socket_closer *all;
	struct list_link link;
	struct loop_source source;
	int fd;
};

/* True for the end, false for an empty message. No call tells the two apart directly. But a
 * receiver that requests credentials without room for them gets MSG_CTRUNC with each message, and
 * not at the end. */
static bool socket_close_is_end(int fd)
{
	struct msghdr header = { 0 };
	int value = 1;

	(void)setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &value, sizeof(value));
	(void)recvmsg(fd, &header, MSG_PEEK | MSG_DONTWAIT);
	value = 0;
	(void)setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &value, sizeof(value));
	return !(header.msg_flags & MSG_CTRUNC);
}

/* True if no message is left. False: the next message is for a worker of io_uring. */
static bool socket_close_look(int fd)
{
	union proto_message message;

	for (uint32_t i = 0; i < SOCKET_CLOSE_TURN; i++) {
		int r = proto_recv_plain(fd, &message, MSG_DONTWAIT);

		if (r == -EAGAIN || (r == 0 && socket_close_is_end(fd)))
			return true;
		if (r == -EPERM)
			return false;
		if (r == 0)
			(void)recv(fd, NULL, 0, MSG_DONTWAIT);
	}
	return false;
}

static void socket_close_free(struct socket_close *h)
{
	list_remove(&h->link);
	free(h);
}

static void socket_close_on_discarded(struct loop_source *source, int result)
{
	struct socket_close *h = container_of(source, struct socket_close, source);

	(void)result;
	if (socket_close_look(h->fd)) {
		h->fd = safe_close(h->fd);
		socket_close_free(h);
	} else if (loop_discard(h->all->loop, &h->source, h->fd) < 0) {
		socket_close_free(h); /* I3 */
	}
}

int socket_close(struct socket_closer *all, int fd)
{
	struct socket_close *h;

	if (fd < 0)
		return -1;
	(void)shutdown(fd, SHUT_RDWR);
	if (socket_close_look(fd))
		return safe_close(fd);
	h = calloc(1, sizeof(*h));
	if (!h)
		return -1; /* I3 */
	*h = (struct socket_close){
		.all = all,
		.source = { .call = socket_close_on_discarded },
		.fd = fd,
	};
	list_add(&all->sockets, &h->link);
	if (loop_discard(all->loop, &h->source, fd) < 0)
		socket_close_free(h); /* I3 */
	return -1;
}

void socket_close_fini(struct socket_closer *all)
{
	struct socket_close *h;

	list_for_each (h, &all->sockets, link) {
		loop_forget(all->loop, &h->source);
		socket_close_free(h);
	}
}
