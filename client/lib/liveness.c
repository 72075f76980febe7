/* SPDX-License-Identifier: MIT */
/*
 * liveness.c - detects the end of the daemon; sleeps and periodic checks of the client's threads
 *
 * After WELCOME the daemon sends only a dismissal. If a service manager keeps forkd's end of the
 * connection for the next forkd, the client does not see the end of this one.
 *
 * INVARIANTS
 *   I1. A thread that waits or polls in vain checks the socket, or another thread does, within
 *       CLIENT_TICK_NS. The time begins at its first call or the start of its sleep. Polls add a
 *       tick of the coarse clock. Signals do not delay the check. No sleep exceeds the tick, and
 *       a sleep of a full tick ends with a check. A call, or a sleep that ends without a wake,
 *       checks if client_look() is due. A thread that was woken does not check. While a worker that
 *       this client has woken has not changed its word, the time is shorter (wake.h, W11):
 *       WAKER_NAP, or WAKER_DOUBT within a second after a ring; later, the duration of the doubt.
 */
#include "client/lib/client.h"

#include <errno.h>
#include <sys/socket.h>

#include "client/lib/wake_worker.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "shm/futex.h"
#include "shm/proto.h"
#include "shm/wake.h"

int client_gone(struct fk_client *client)
{
	struct proto_head head;
	ssize_t n;

	if (client_is_gone(client))
		return 1;
	/* A pool in this process lives as long as its clients. */
	if (client->waker.local)
		return 0;
	do {
		n = recv(client->fd, &head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
		/* Skip a repeated WELCOME: a new forkd cannot know that the last one sent it. */
		if (n == (ssize_t)sizeof(head) && head.type == PROTO_WELCOME)
			n = recv(client->fd, &head, sizeof(head), MSG_DONTWAIT);
	} while (n == (ssize_t)sizeof(head) ? head.type == PROTO_WELCOME : n < 0 && errno == EINTR);
	/* After WELCOME only a dismissal or an end of file arrives; both end the connection. */
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	store_relaxed(&client->gone, 1);
	return 1;
}

/* True if the daemon is gone. */
static int client_look_now(struct fk_client *client)
{
	if (client_gone(client))
		return 1;
	/* A wake may have reached another process that sleeps on a worker's word (wake.h, W7). If
	 * the rings are empty, no worker must be woken. */
	wake_published();
	if (tenant_is_marked(client->tenant)) {
		(void)waker_wake(client->board, client->n_workers, load_relaxed(&client->last),
				 &client->waker);
		/* A task may have overwritten the words, so the client rings in any case. */
		(void)waker_ring(&client->waker);
	}
	return 0;
}

int client_look(struct fk_client *client, uint64_t now_ns)
{
	uint64_t unsure = waker_unsure(client->board, &client->waker, now_ns);
	uint64_t tick = unsure < WAKER_DOUBT ? CLIENT_TICK_NS : min(unsure, CLIENT_TICK_NS);

	if (!client_due(&client->looked_ns, now_ns, tick))
		return client_is_gone(client);
	return client_look_now(client);
}

int client_sleep(struct fk_client *client, const _Atomic uint32_t *word, uint32_t value,
		 uint64_t deadline_ns)
{
	uint64_t now = clock_ns();
	uint64_t unsure = waker_unsure(client->board, &client->waker, now);
	/* Relaxed: a time that no other data depends on. */
	uint64_t rung = load_relaxed(&client->waker.rung_ns);
	uint64_t nap = now - rung < NSEC_PER_SEC ? WAKER_DOUBT : WAKER_NAP;
	/* Back off: the interval doubles while checks do not help. */
	uint64_t due = now + min(max(unsure, nap), CLIENT_TICK_NS);
	int r;

	if (client->waker.local && client->waker.local->is_worker())
		return -EDEADLK;
	if (now >= deadline_ns)
		return client_look(client, now) ? -ECONNRESET : -ETIMEDOUT;
	r = futex_wait(word, value, min(due, deadline_ns));
	if (!r || r == -EAGAIN)
		return 0;
	now = clock_ns();
	if (now < due)
		return client_look(client, now) ? -ECONNRESET : 0;
	/* Even if another thread has checked during the sleep (I1). Relaxed: as rung. */
	store_relaxed(&client->looked_ns, now);
	return client_look_now(client) ? -ECONNRESET : 0;
}

void client_kick(struct fk_client *client)
{
	struct watch *watch = watch_of(client->groups);

	if (watch_end(watch))
		(void)futex_wake(&watch->ended, INT32_MAX);
}
