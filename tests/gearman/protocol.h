/* SPDX-License-Identifier: MIT */
/*
 * protocol.h - a client of a Gearman job server, and the server, for tests and benchmarks
 *
 * The client writes the binary protocol itself, because libgearman cannot send what is malformed,
 * and keeps any number of jobs in flight. One thread uses a connection.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "contrib/gearman/packet.h"

/* A connection. */
struct protocol {
	int fd;
	/* received and not read yet: from at to end */
	char *in;
	size_t at, end, room;
	/* to be sent */
	char *out;
	size_t out_size;
};

/* A received packet. Valid until the next one is read. */
struct protocol_packet {
	uint32_t type;
	const char *handle; /* of the job; "" if the type has none */
	const char *data;   /* what follows the handle */
	size_t size;	    /* bytes of data */
};

/* Connects to a server of this machine, and asks for exceptions. Returns 0, or a negative errno of
 * socket() or connect(), -ENOMEM, -EPROTO (no server of Gearman), -ECONNRESET. */
int protocol_open(struct protocol *protocol, uint16_t port);
void protocol_close(struct protocol *protocol);

/* Submits a foreground job. It is sent at the latest by protocol_read(). unique: its id, or "".
 * Returns 0, or -ENAMETOOLONG, another negative errno of send(). */
int protocol_submit(struct protocol *protocol, const char *function, const char *unique,
		    const void *payload, size_t size);

/* Waits for a packet. Returns 0, or -ECONNRESET, -ENOMEM, -EPROTO, another error of recv(). */
int protocol_read(struct protocol *protocol, struct protocol_packet *ret_packet);

/* Starts gearmand at a free port with --job-retries=1, and waits until it accepts a connection. It
 * ends with this process. Returns its pid, or a negative errno: -ENOENT (there is no gearmand),
 * -EADDRINUSE (others take each port that was free), -ETIMEDOUT. */
pid_t protocol_server(uint16_t *ret_port);

/* The same at this port. */
pid_t protocol_server_at(uint16_t port);

/* Kills a child and waits for it. */
void protocol_kill(pid_t child);
