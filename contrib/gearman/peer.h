/* SPDX-License-Identifier: MIT */
/*
 * peer.h - a worker's connection to a job server: packets of the Gearman protocol, with time limits
 *
 * libgearman 1.1.20 is not used. Its worker has one job at a time. If a time limit passes, it frees
 * the job into which a packet is being received. Without a time limit it cannot be stopped, and
 * does not detect a network that was cut. It also copies each answer, and has no TLS in Debian.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contrib/gearman/packet.h"

#define PEER_BUFFER 8192u /* bytes that are received before they are wanted, or wait to be sent */
#define PEER_NAMES  1024u /* bytes of handle, function and unique id of a job, at most */
#define PEER_TICK   500u  /* ms between two ticks of peer_next() */

/* A connection. One thread at a time may send, and one may receive. */
struct peer {
	int fd;		     /* -1: closed */
	uint64_t timeout_ns; /* time without progress that ends the connection */
	/* of the thread that receives */
	uint32_t left;	/* bytes of the current packet that were not read */
	size_t at, end; /* unread bytes of the buffer */
	char buffer[PEER_BUFFER];
	/* of the thread that sends */
	size_t n_out;
	char out[PEER_BUFFER];
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

/* Sends a packet whose data is n parts; small packets with the next peer_flush(). The parts are no
 * longer needed after the call. */
int peer_send(struct peer *peer, enum packet_type type, const struct peer_part *parts, size_t n);

/* Sends the packets that wait. */
int peer_flush(struct peer *peer);

/*
 * Receives the head of the next packet. The data of the packet before must have been read. The
 * server need not send one. While none has begun, calls tick() once in PEER_TICK; a result other
 * than 0 is returned.
 * Returns the type of the packet, whose size is peer->left.
 */
int peer_next(struct peer *peer, int (*tick)(void *context), void *context);

/* True if the whole of another packet was received. */
bool peer_has_packet(const struct peer *peer);

/* Reads the arguments of a PACKET_ASSIGN in front of the payload. names: PEER_NAMES bytes, to which
 * the others refer. */
int peer_read_names(struct peer *peer, char *names, const char **ret_handle,
		    const char **ret_function, const char **ret_unique);

/* Reads the rest of a packet, which has peer->left bytes. data: NULL to drop them. ret_start: gets
 * the first n bytes, in any case; or NULL. */
int peer_read(struct peer *peer, void *data, char *ret_start, size_t n);
