/* SPDX-License-Identifier: MIT */
/*
 * peer.h - a worker's connection to a job server: packets of the Gearman protocol, with time limits
 *
 * libgearman 1.1.20 is not used. After an exception its worker sends no WORK_FAIL, so the job never
 * ends at the server. A time limit frees the job into which a packet is being received. It copies
 * each answer, and the Debian package has no TLS for workers.
 *
 * A packet is a head of 12 bytes (magic, type and size, of 4 bytes each, big-endian), and arguments
 * with a byte 0 between them; the last one ends with the packet.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define PEER_BUFFER 8192u /* bytes that are received before they are wanted */
#define PEER_NAMES  1024u /* bytes of handle, function and unique id of a job, at most */
#define PEER_TICK   500u  /* ms: how late peer_next() sees that it is to end, at most */

enum peer_packet {
	PEER_CAN_DO = 1, /* function */
	PEER_PRE_SLEEP = 4,
	PEER_NOOP = 6,
	PEER_NO_JOB = 10,
	PEER_COMPLETE = 13,  /* handle, answer */
	PEER_FAIL = 14,	     /* handle */
	PEER_ERROR = 19,     /* code, text */
	PEER_EXCEPTION = 25, /* handle, text */
	PEER_WARNING = 29,   /* handle, text */
	PEER_GRAB = 30,	     /* GRAB_JOB_UNIQ */
	PEER_ASSIGN = 31,    /* JOB_ASSIGN_UNIQ: handle, function, unique id, payload */
};

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

/* Sends a packet whose data is n parts. The kernel may keep PEER_COMPLETE and PEER_FAIL for 200 ms,
 * and send them together with the next packet or the end of the connection. */
int peer_send(struct peer *peer, enum peer_packet type, const struct peer_part *parts, size_t n);

/*
 * Receives the head of the next packet. The data of the packet before must have been read.
 * idle: the server need not send anything: returns -ETIME after the time limit, and -EINTR as soon
 *   as ended() is true, unless a packet has begun.
 * Returns the type of the packet, whose size is peer->left.
 */
int peer_next(struct peer *peer, bool idle, bool (*ended)(const void *context),
	      const void *context);

/* Reads the arguments of a PEER_ASSIGN in front of the payload. They are valid until the next call.
 */
int peer_read_names(struct peer *peer, const char **ret_handle, const char **ret_function,
		    const char **ret_unique);

/* Reads the rest of a packet, which has peer->left bytes. data: NULL to drop them. ret_start: gets
 * the first n bytes, in any case; or NULL. */
int peer_read(struct peer *peer, void *data, char *ret_start, size_t n);
