/* SPDX-License-Identifier: MIT */
/* socket_close.h - closes sockets of clients and tasks without blocking */
#pragma once

#include "common/list.h"

struct loop;

/* The sockets that are still being closed. Zeroed, with loop set. */
struct socket_closer {
	struct loop *loop;
	struct list_link sockets;
};

/* Ends a connection: the peer sees it at once. fd: a socket that was given to
 * proto_take_no_descriptors(); no loop source may wait for it. Returns -1, to be assigned; a
 * negative fd is ignored. */
int socket_close(struct socket_closer *all, int fd);

/* Sockets that are not closed yet are left to the end of the process. */
void socket_close_fini(struct socket_closer *all);
