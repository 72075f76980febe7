/* SPDX-License-Identifier: MIT */
/* stale_socket.h - a Unix socket that a program has left behind */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/cleanup.h"

/* True if address is a socket, and no process listens there. type: SOCK_STREAM, SOCK_SEQPACKET. */
static inline bool socket_is_stale(const struct sockaddr_un *address, int type)
{
	_cleanup_close_ int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	return fd >= 0 && lstat(address->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	       connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
	       errno == ECONNREFUSED;
}
