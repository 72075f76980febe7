/* SPDX-License-Identifier: MIT */
/* listener.h - the socket that clients connect to */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "daemon/manager/loop.h"

struct store;

struct listener {
	int fd;
	bool inherited;	  /* from systemd: not ours to unlink */
	const char *path; /* borrowed; NULL if inherited */
	dev_t dev;	  /* of our own socket file */
	ino_t ino;

	/* accepting */
	struct loop *loop; /* NULL: it does not */
	bool (*accepted)(struct listener *listener, int fd);
	bool failed;
	uint32_t flood; /* I5: turns that it goes on for, 0: there is none */
	struct loop_source source;
};

#define LISTENER_INIT	  ((struct listener){ .fd = -1 })
#define LISTENER_MODE	  0666u	     /* the default of socket-mode */
#define LISTENER_NO_GROUP UINT32_MAX /* as chown(2) has it */

/*
 * Takes the socket that systemd passed, of what the store says was passed, or makes one at path.
 * path: borrowed for as long as the listener lives. mode: permissions of the socket file. gid: its
 * group, or LISTENER_NO_GROUP. A socket of systemd keeps what its unit says: a warning is logged if
 * mode is not LISTENER_MODE, or there is a gid.
 * error: gets one line that says what to do, on failure.
 * Returns 0 or a negative errno; EADDRINUSE if another forkd listens there.
 */
int listener_open(struct listener *ret_listener, struct store *store, const char *path,
		  uint32_t mode, uint32_t gid, char *error, size_t error_size);

/* Calls accepted() with each connection from now on: a descriptor, the callee's. It returns false
 * if the connection was one too many of its uid (I5). The listener stays where it is. */
void listener_begin(struct listener *listener, struct loop *loop,
		    bool (*accepted)(struct listener *listener, int fd));
/* No more of it; those that come wait in the socket. Fine if it has not begun. */
void listener_end(struct listener *listener);

/*
 * Ends, and unlinks the socket's file, if it still is the one that was made. Returns the socket,
 * the caller's now, or -1: its last close closes what waiting clients have sent (proto.c, I3).
 */
int listener_leave(struct listener *listener);
