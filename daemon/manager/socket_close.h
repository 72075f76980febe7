/* SPDX-License-Identifier: MIT */
/* socket_close.h - closing sockets of clients and tasks, whatever they have put into them */
#pragma once

#include "common/list.h"

struct loop;

/* All that take long. Zeroed, with loop set. */
struct socket_closer {
	struct loop *loop;
	struct list_link sockets;
};

/*
 * Ends a connection: the peer sees it at once. fd: a socket that was given to
 * proto_take_no_descriptors(); nothing may wait for it any more. Returns -1, to be assigned; below
 * 0 it does nothing.
 */
int socket_close(struct socket_closer *all, int fd);

/* What is not closed yet is left to the end of the process. */
void socket_close_fini(struct socket_closer *all);
