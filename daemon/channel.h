/* SPDX-License-Identifier: MIT */
/*
 * daemon/channel.h - the pool's end of the socket to the manager
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   channel_serve(): the pool's main thread, which is the channel's thread from then on.
 *   channel_shut(): the dispatcher. channel_send(): any.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   The manager: the channel ends, and channel_serve() says so.
 */
#ifndef DAEMON_CHANNEL_H
#define DAEMON_CHANNEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct pool;

struct channel {
	int fd;
	pthread_mutex_t lock; /* who sends */
};

/* fd: the SEQPACKET socket, borrowed. */
void channel_init(struct channel *channel, int fd);
void channel_fini(struct channel *channel);

/* Tells the manager. */
void channel_send(struct pool *pool, uint32_t type, uint32_t client, uint32_t generation,
		  const char *text);

/*
 * Does what the manager says, to the end, while the pool drains too: a client may leave, or cancel
 * what the pool would wait for. Returns true once the pool has drained after PROTO_POOL_STOP, false
 * if the manager is gone.
 */
bool channel_serve(struct pool *pool);

/* Nothing is left to do: channel_serve() returns. */
void channel_shut(struct pool *pool);

#endif
