/* SPDX-License-Identifier: MIT */
/*
 * manager_channel.h - the pool's end of the socket to the manager
 *
 * Threads: channel_serve(): the pool's main thread, which is the channel's thread from then on.
 * channel_flush(): that one, before and after. channel_shut(): the dispatcher. channel_tell(),
 * channel_send(): any.
 *
 * INVARIANTS
 *   I1. Only channel_flush() waits for the manager to read. A message that cannot be sent at once
 *       is queued in order, and the channel's thread sends it when there is room. If there is no
 *       memory, it retries periodically.
 *   I2. The queue never overflows: the pool reads a message only if the queue has room for
 *       - its answer: ATTACHED to a CLIENT, RELEASED to a GONE of an unknown client,
 *         TENANT_RELEASED;
 *       - one PONG, one request for CPUs and one reply to a trace request;
 *       - one message about each client by other threads: RELEASED, or before that the reason why
 *         it cannot be served.
 *       If the manager does not read, the pool stops reading from it.
 *
 * If the manager dies, the channel ends, queued messages are dropped, and channel_serve() returns
 * an error.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "shm/limits.h"
#include "shm/proto.h"

struct pool;

/* A signal that does not end the process; its handler does nothing on the channel's thread. */
#define CHANNEL_SIGNAL PROTO_POOL_SIGNAL

#define CHANNEL_ROOM  (2 * LIMIT_CLIENTS + 3) /* for I2 */
#define CHANNEL_QUEUE (4 * LIMIT_CLIENTS)

struct channel {
	int fd; /* -1: hear() gets the messages */
	/* on the thread that sends; any lock of the pool may be held */
	void (*hear)(struct pool *pool, const struct proto_pool *message);
	bool served; /* thread is set */
	pthread_t thread;
	pthread_mutex_t lock; /* protects the members below; held to send */
	bool starved;	      /* the kernel had no memory for the first message */
	uint32_t first;
	uint32_t n;
	struct proto_pool queue[CHANNEL_QUEUE];
};

/* fd: the SEQPACKET socket, borrowed. */
void channel_init(struct channel *channel, int fd);
void channel_fini(struct channel *channel);

/* Sends a message to the manager, now or later (I1); the second function: about a client. */
void channel_tell(struct pool *pool, const struct proto_pool *message);
void channel_send(struct pool *pool, uint32_t type, uint32_t client, uint32_t generation,
		  const char *text);

/* Pause before a retry without memory: poll(2) would report room, or new messages, at once. */
extern const struct timespec channel_pause;

/* Sends from the queue. Returns the events of poll(2) that the channel's thread waits for;
 * *ret_pause: the longest wait, NULL: no limit. */
short channel_events(struct channel *channel, const struct timespec **ret_pause);

/* Makes channel_serve() return. */
void channel_shut(struct pool *pool);

/* Waits until the queue has been sent or the manager has gone. */
void channel_flush(struct pool *pool);
