/* SPDX-License-Identifier: MIT */
/* observers.h - the socket by which forkctl reads the state of a pool in a program */
#pragma once

struct observers;
struct pool;

/*
 * Listens on a socket at this path, and starts the thread that serves it. board_fd: the board's
 * segment (borrowed). Returns 0, or a negative errno: -EADDRINUSE another process listens there,
 * -ENAMETOOLONG, -EAGAIN no thread, or another error of bind(2).
 */
int observers_begin(struct pool *pool, int board_fd, const char *path,
		    struct observers **ret_observers);

/* In a child of fork(): closes its copies of the descriptors. observers: may be NULL. */
void observers_forget(struct observers *observers);

/* Ends the thread and removes the socket. observers: may be NULL. */
void observers_end(struct observers *observers);
