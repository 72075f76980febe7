/* SPDX-License-Identifier: MIT */
/*
 * manager_channel.h - the pool's end of the socket to the manager
 *
 * Threads: channel_serve(): the pool's main thread, which is the channel's thread from then on.
 * channel_flush(): that one, before and after. channel_shut(): the dispatcher. channel_tell(),
 * channel_send(): any.
 *
 * INVARIANTS
 *   I1. Only channel_flush() waits for the manager to read: what does not go out at once stands in
 *       a queue, in its order, and the channel's thread sends it when there is room, or memory: it
 *       is tried again and again then.
 *   I2. The queue never overflows: no message is read while there is no room for its answer
 *       (ATTACHED to a CLIENT, RELEASED to a GONE of one that is not there, TENANT_RELEASED), for
 *       the one PONG that may be due, for one question for the CPUs, for whether a trace has begun,
 *       and for what others may have to say of each client, which is that it is RELEASED, or before
 *       that why it cannot be served. A manager that does not read is not listened to.
 *
 * If a peer dies: the manager: the channel ends, what was queued is dropped, and channel_serve()
 * says so.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "shm/limits.h"
#include "shm/proto.h"

struct pool;

/* One that ends nothing, and whose handler has nothing to do on the channel's thread. */
#define CHANNEL_SIGNAL PROTO_POOL_SIGNAL

#define CHANNEL_ROOM  (2 * LIMIT_CLIENTS + 3) /* for I2 */
#define CHANNEL_QUEUE (4 * LIMIT_CLIENTS)

struct channel {
	int fd;
	bool served; /* by this thread */
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows; held to send */
	bool starved;	      /* the kernel had no memory for the first message */
	uint32_t first;
	uint32_t n;
	struct proto_pool queue[CHANNEL_QUEUE];
};

/* fd: the SEQPACKET socket, borrowed. */
void channel_init(struct channel *channel, int fd);
void channel_fini(struct channel *channel);

/* Tells the manager, now or later (I1); the second, of a client. */
void channel_tell(struct pool *pool, const struct proto_pool *message);
void channel_send(struct pool *pool, uint32_t type, uint32_t client, uint32_t generation,
		  const char *text);

/* How long a message waits for memory: poll(2) would say at once that there is room, or that it is
 * there. */
extern const struct timespec channel_pause;

/* Sends what it can. Returns the events of poll(2) that the channel's thread waits for; *ret_pause:
 * how long at most, NULL for any time. */
short channel_events(struct channel *channel, const struct timespec **ret_pause);

/* Nothing is left to do: channel_serve() returns. */
void channel_shut(struct pool *pool);

/* Waits until all that was said has gone out, or the manager is gone. */
void channel_flush(struct pool *pool);
