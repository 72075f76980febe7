/* SPDX-License-Identifier: MIT */
/* connect.h - a connection to forkd's socket, for the library and for forkctl */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shm/proto.h"

/* For the daemon to accept, to answer and to read: seconds. */
#define CONNECT_TIMEOUT_S 10

/* The path of forkd's socket: what was asked for; if that is NULL, $FORKD_SOCKET; or the one that
 * forkd was installed with; or, where that is not there, the one of the user's own instance, below
 * $XDG_RUNTIME_DIR. Good until the next call of this thread. */
const char *connect_path(const char *socket);

/*
 * Connects to what listens on a path, within CONNECT_TIMEOUT_S. What is received on *ret_fd, which
 * is the caller's, ends with -EAGAIN after as long; proto_send() never waits.
 * Returns 0 or the errors of fk_open(); then fk_error_text() says what is wrong.
 */
int connect_socket(const char *path, int *ret_fd);

/*
 * Sends a request and takes the answer, with the descriptors that come with it, PROTO_MAX_FDS at
 * most, which are the caller's on failure, too.
 * Returns the answer's size in bytes, or the errors of fk_open(); an error that forkd has answered
 * with stands in *ret_answer, otherwise that is left alone.
 */
int connect_ask(int fd, const char *path, const void *request, size_t request_size,
		union proto_message *ret_answer, int *ret_fds, uint32_t *ret_n_fds);

/* The answer is none of those that there are. Returns -EPROTO. */
int connect_not_understood(const char *path);
