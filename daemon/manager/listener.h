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
	bool inherited;	  /* from systemd: not unlinked */
	const char *path; /* borrowed; NULL if inherited */
	dev_t dev;	  /* of our own socket file */
	ino_t ino;

	/* accepting */
	struct loop *loop; /* NULL: not accepting */
	bool (*accepted)(struct listener *listener, int fd);
	bool failed;
	uint32_t flood; /* I5: passes left, 0: no flood */
	struct loop_source source;
};

#define LISTENER_INIT	  ((struct listener){ .fd = -1 })
#define LISTENER_MODE	  0666u	     /* default of socket-mode */
#define LISTENER_NO_GROUP UINT32_MAX /* as in chown(2) */

/*
 * Takes the socket that systemd passed, from the store's descriptors, or makes one at path. path:
 * borrowed for the life of the listener. mode: permissions of the socket file. gid: its group, or
 * LISTENER_NO_GROUP. A socket of systemd keeps the settings of its unit: a warning is logged if
 * mode is not LISTENER_MODE, or there is a gid.
 * error: gets one line that says what to do, on failure. Returns 0 or a negative errno; EADDRINUSE
 * if another forkd listens there.
 */
int listener_open(struct listener *ret_listener, struct store *store, const char *path,
		  uint32_t mode, uint32_t gid, char *error, size_t error_size);

/* From now on calls accepted() with each connection: a descriptor, which the callee owns. It
 * returns false if the connection exceeded its uid's limit (I5). The listener must not move. */
void listener_begin(struct listener *listener, struct loop *loop,
		    bool (*accepted)(struct listener *listener, int fd));
/* Stops accepting; new connections wait in the socket. Does nothing if it has not begun. */
void listener_end(struct listener *listener);

/* Ends the listener, and unlinks its socket file if that is still the same. Returns the socket,
 * which the caller owns now, or -1: its last close closes descriptors that waiting clients have
 * sent (proto.c, I3). */
int listener_leave(struct listener *listener);
