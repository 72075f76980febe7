/* SPDX-License-Identifier: MIT */
/* client_server.h - the calls that a client has at one job server */
#pragma once

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/list.h"
#include "contrib/gearman/packet.h"

/* How a server ends a call. */
enum server_end {
	SERVER_COMPLETE,  /* data: the answer */
	SERVER_EXCEPTION, /* data: its text */
	SERVER_FAIL,	  /* the job failed without a text: its worker is gone */
	SERVER_FULL,	  /* the server has too many jobs, and has not accepted it */
	SERVER_REFUSED,	  /* the server has not accepted it; data: the reason */
	SERVER_UNSENT,	  /* the connection has ended before the server had the whole packet */
	SERVER_LOST,	  /* the connection has ended, and the job may run */
};

/* A call at a server, from server_submit() to struct server.end(). */
struct server_call {
	struct list_link link;	  /* in sending or accepting of its server, or the owner's */
	struct server_call *next; /* of the same bucket of handles */
	char *packet;		  /* the caller's: the whole packet, until end() */
	size_t size;		  /* bytes of it */
	bool is_sent;
	char handle[PACKET_HANDLE];
};

#define SERVER_BUCKETS 1024u

struct server {
	char name[300]; /* HOST:PORT */
	struct addrinfo *addresses;
	/* Takes a call off the server. */
	void (*end)(struct server *server, struct server_call *call, enum server_end how,
		    const void *data, size_t size);
	void *owner; /* of the user */
	/* private */
	const struct addrinfo *address; /* that is tried or used */
	int fd;				/* -1: none */
	bool is_connected;
	bool is_up;	   /* it has answered PACKET_OPTION */
	uint64_t retry_ns; /* of the next attempt to connect, unless it is up: CLOCK_MONOTONIC */
	uint64_t wait_ns;  /* before the last attempt; 0: it has answered since */
	uint32_t n;	   /* calls */
	struct list_link sending;   /* calls whose packets are not sent, oldest first */
	size_t sent;		    /* bytes of the first one */
	struct list_link accepting; /* calls whose handles are outstanding, oldest first */
	char *in;		    /* bytes that were received */
	size_t n_in;
	size_t in_size;
	struct server_call *buckets[SERVER_BUCKETS]; /* calls with a handle */
};

/* Held by a thread of the client while it opens and closes descriptors: a fork() waits for it. */
void server_lock(void);
void server_unlock(void);

/* Begins to connect if it is time. now_ns: CLOCK_MONOTONIC. */
void server_connect(struct server *server, uint64_t now_ns);

/* The events that poll() must wait for, if fd is not -1. */
short server_events(const struct server *server);

/* Handles the events that poll() has found. */
void server_handle(struct server *server, short events, uint64_t now_ns);

/* Adds a call. The server must be up. */
void server_submit(struct server *server, struct server_call *call);

/* Takes back a call. False if the server may have it: then end() follows. */
bool server_withdraw(struct server *server, struct server_call *call);

/* Closes the connection without a call of end(), and frees what the server has. free_call: frees a
 * call, or NULL. */
void server_fini(struct server *server, void (*free_call)(struct server_call *call));

/* In a child of fork(): closes the copy of the descriptor. */
void server_forget(struct server *server);
