/* SPDX-License-Identifier: MIT */
/* connect.h - a connection to forkd's socket, for the library and for forkctl */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shm/proto.h"

/* Limits for the daemon to accept, to answer and to read, each: seconds. */
#define CONNECT_TIMEOUT_S 10

/* Returns the path of forkd's socket: the argument; or $FORKD_SOCKET; or the installed path. If
 * that does not exist, returns the socket of the user's own instance below $XDG_RUNTIME_DIR, if it
 * exists. Valid until the next call of this thread. */
const char *connect_path(const char *socket);

/* The same without the argument and $FORKD_SOCKET. */
const char *connect_machine(void);

/*
 * Connects to a path within CONNECT_TIMEOUT_S. The caller owns *ret_fd. Receiving on it fails with
 * -EAGAIN after the same time; proto_send() never waits.
 * Returns 0 or the errors of fk_open(), with the cause in fk_error_text().
 */
int connect_socket(const char *path, int *ret_fd);

/*
 * Sends a request and receives the answer, with at most PROTO_MAX_FDS descriptors. The caller owns
 * these, also on failure. pass: a descriptor that is sent with the request (borrowed), or -1.
 * Returns the answer's size in bytes, or the errors of fk_open(). If forkd has answered with an
 * error, *ret_answer is that message; on other errors it is not changed.
 */
int connect_pass(int fd, const char *path, const void *request, size_t request_size, int pass,
		 union proto_message *ret_answer, int *ret_fds, uint32_t *ret_n_fds);

static inline int connect_ask(int fd, const char *path, const void *request, size_t request_size,
			      union proto_message *ret_answer, int *ret_fds, uint32_t *ret_n_fds)
{
	return connect_pass(fd, path, request, request_size, -1, ret_answer, ret_fds, ret_n_fds);
}

/* Sets the error text for an unknown answer. Returns -FK_E_NOT_FORKD. */
int connect_not_understood(const char *path);
