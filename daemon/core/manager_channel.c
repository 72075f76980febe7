/* SPDX-License-Identifier: MIT */
#include "daemon/core/manager_channel.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/crash_site.h"
#include "common/log.h"
#include "daemon/core/pool_state.h"
#include "shm/proto.h"

const struct timespec channel_pause = { .tv_nsec = 2000000 };

void channel_init(struct channel *channel, int fd)
{
	channel->fd = fd;
	pthread_mutex_init(&channel->lock, NULL);
}

void channel_fini(struct channel *channel)
{
	pthread_mutex_destroy(&channel->lock);
}

/* Lock held. Sends from the queue until the socket is full. */
static void channel_push(struct channel *channel)
{
	channel->starved = false;
	while (channel->n) {
		const struct proto_pool *message = &channel->queue[channel->first];
		int r = proto_send(channel->fd, message, sizeof(*message), NULL, 0);

		channel->starved = r == -ENOBUFS || r == -ENOMEM;
		if (r == -EAGAIN || channel->starved)
			return;
		FK_CRASH(channel_sent);
		if (r < 0)
			log_debug("cannot send to the manager: %s", strerror(-r));
		channel->first = (channel->first + 1) % CHANNEL_QUEUE;
		channel->n--;
	}
	/* So most pages of the queue are never touched. */
	channel->first = 0;
}

void channel_tell(struct pool *pool, const struct proto_pool *message)
{
	struct channel *channel = &pool->channel;

	if (channel->hear) {
		channel->hear(pool, message);
		return;
	}
	pthread_mutex_lock(&channel->lock);
	assert(channel->n < CHANNEL_QUEUE);
	channel->queue[(channel->first + channel->n++) % CHANNEL_QUEUE] = *message;
	FK_CRASH(channel_queued);
	/* Earlier messages wait for room, and the channel's thread sends them. */
	if (channel->n == 1)
		channel_push(channel);
	if (channel->n == 1 && channel->served)
		pthread_kill(channel->thread, CHANNEL_SIGNAL);
	pthread_mutex_unlock(&channel->lock);
}

void channel_send(struct pool *pool, uint32_t type, uint32_t client, uint32_t generation,
		  const char *text)
{
	struct proto_pool message = {
		.head = { .magic = PROTO_MAGIC, .type = type },
		.client = client,
		.client_generation = generation,
	};

	strncpy(message.text, text, sizeof(message.text) - 1);
	channel_tell(pool, &message);
}

/* Lock held, after channel_push(): returns the events that the rest of the queue waits for. Sets
 * *ret_pause to the longest wait, NULL: no limit. */
static short channel_wants(const struct channel *channel, const struct timespec **ret_pause)
{
	*ret_pause = channel->starved ? &channel_pause : NULL;
	return channel->n && !channel->starved ? POLLOUT : 0;
}

short channel_events(struct channel *channel, const struct timespec **ret_pause)
{
	short events;

	pthread_mutex_lock(&channel->lock);
	channel_push(channel);
	events = channel_wants(channel, ret_pause);
	if (channel->n <= CHANNEL_QUEUE - CHANNEL_ROOM)
		events |= POLLIN;
	pthread_mutex_unlock(&channel->lock);
	return events;
}

void channel_flush(struct pool *pool)
{
	struct channel *channel = &pool->channel;
	struct pollfd p = { .fd = channel->fd };
	const struct timespec *pause;

	pthread_mutex_lock(&channel->lock);
	for (channel_push(channel); channel->n; channel_push(channel)) {
		p.events = channel_wants(channel, &pause);
		(void)ppoll(&p, 1, pause, NULL);
	}
	pthread_mutex_unlock(&channel->lock);
}

void channel_shut(struct pool *pool)
{
	(void)shutdown(pool->channel.fd, SHUT_RD);
}
