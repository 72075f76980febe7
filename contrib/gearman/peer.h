/* SPDX-License-Identifier: MIT */
/*
 * peer.h - a worker's connection to a job server: packets of the Gearman protocol, with time limits
 *
 * libgearman 1.1.20 is not used. If a time limit passes in its worker, it frees the job into which
 * a packet is being received. Without a time limit a slot cannot be stopped, and does not detect a
 * network that was cut. It also copies each answer, and has no TLS for workers in Debian.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contrib/gearman/packet.h"

#define PEER_BUFFER 8192u /* bytes that are received before they are wanted */
#define PEER_NAMES  1024u /* bytes of handle, function and unique id of a job, at most */
#define PEER_TICK   500u  /* ms: how late peer_next() sees that it is to end, at most */

/* A connection. One thread. */
struct peer {
	int fd;			/* -1: closed */
	uint64_t timeout_ns;	/* time without progress that ends the connection */
	uint32_t left;		/* bytes of the current packet that were not read */
	size_t at, end;		/* unread bytes of the buffer */
	char names[PEER_NAMES]; /* of peer_read_names() */
	char buffer[PEER_BUFFER];
};

/* A part of a packet. */
struct peer_part {
	const void *data;
	size_t size;
};

/* Connects; tries each address of the host. Returns 0, or a negative errno; -EHOSTUNREACH: the host
 * has no address. */
int peer_open(struct peer *peer, const char *host, uint16_t port, uint64_t timeout_ns);
void peer_close(struct peer *peer);

/* All of the following return a negative errno if the connection has ended, or must be closed:
 * -ETIMEDOUT, -ECONNRESET, -EPROTO, ... */

/* Sends a packet whose data is n parts. The kernel may keep PACKET_COMPLETE and PACKET_FAIL for
 * 200 ms, and send them together with the next packet or the end of the connection. */
int peer_send(struct peer *peer, enum packet_type type, const struct peer_part *parts, size_t n);

/*
 * Receives the head of the next packet. The data of the packet before must have been read.
 * idle: the server need not send anything: returns -ETIME after the time limit, and -EINTR as soon
 *   as ended() is true, unless a packet has begun.
 * Returns the type of the packet, whose size is peer->left.
 */
int peer_next(struct peer *peer, bool idle, bool (*ended)(const void *context),
	      const void *context);

/* Reads the arguments of a PACKET_ASSIGN in front of the payload. They are valid until the next
 * call. */
int peer_read_names(struct peer *peer, const char **ret_handle, const char **ret_function,
		    const char **ret_unique);

/* Reads the rest of a packet, which has peer->left bytes. data: NULL to drop them. ret_start: gets
 * the first n bytes, in any case; or NULL. */
int peer_read(struct peer *peer, void *data, char *ret_start, size_t n);
