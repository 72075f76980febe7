/* SPDX-License-Identifier: MIT */
/* gateway_state.c - the state that the threads of forkd-gearman share: gateway.h */
#include <errno.h>
#include <stdlib.h>
#include <sys/sysinfo.h>

#include "client/lib/client.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "contrib/gearman/functions.h"
#include "contrib/gearman/gateway.h"

int gateway_init(struct gateway *gateway, const struct gateway_options *options)
{
	pthread_condattr_t attributes;
	int err;

	*gateway = (struct gateway){ .options = options };
	err = pthread_condattr_init(&attributes);
	if (err)
		return -err;
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	err = pthread_cond_init(&gateway->changed, &attributes);
	(void)pthread_condattr_destroy(&attributes);
	if (err)
		return -err;
	err = pthread_mutex_init(&gateway->lock, NULL);
	if (err)
		(void)pthread_cond_destroy(&gateway->changed);
	return -err;
}

/* Wakes all that wait for a change. With the lock. */
static void announce(struct gateway *gateway)
{
	(void)add_relaxed(&gateway->epoch, 1);
	(void)pthread_cond_broadcast(&gateway->changed);
}

/* ------------------------------------------------------------------------------ links */

/* Drops a reference. With the lock. Returns a link to close without the lock, or NULL. */
static struct link *unuse_link(struct link *link)
{
	return link && !--link->users ? link : NULL;
}

static void close_link(struct link *link)
{
	for (uint32_t i = 0; link && i < link->n_clients; i++)
		(void)fk_close(link->clients[i]);
	free(link);
}

void gateway_put_link(struct gateway *gateway, struct link *link)
{
	struct link *last;

	(void)pthread_mutex_lock(&gateway->lock);
	last = unuse_link(link);
	(void)pthread_mutex_unlock(&gateway->lock);
	close_link(last);
}

struct link *gateway_use_link(struct gateway *gateway, struct link *link)
{
	(void)pthread_mutex_lock(&gateway->lock);
	if (link)
		link->users++;
	(void)pthread_mutex_unlock(&gateway->lock);
	return link;
}

/* Returns a reference to the link. With the lock. */
static struct link *use_current(struct gateway *gateway)
{
	if (gateway->link)
		gateway->link->users++;
	return gateway->link;
}

struct link *gateway_link(struct gateway *gateway)
{
	struct link *link;

	(void)pthread_mutex_lock(&gateway->lock);
	link = use_current(gateway);
	(void)pthread_mutex_unlock(&gateway->lock);
	return link;
}

struct link *gateway_wait_link(struct gateway *gateway)
{
	for (;;) {
		struct link *link;

		(void)pthread_mutex_lock(&gateway->lock);
		while (!gateway->link && !gateway->stopping)
			(void)pthread_cond_wait(&gateway->changed, &gateway->lock);
		link = use_current(gateway);
		(void)pthread_mutex_unlock(&gateway->lock);
		if (!link || !gateway_is_lost(link))
			return link;
		gateway_lost_link(gateway, link);
		gateway_put_link(gateway, link);
	}
}

bool gateway_is_stopping(const fk_client *client)
{
	return load_relaxed(&client->board->manager.state) >= BOARD_STOPPING;
}

bool gateway_is_lost(const struct link *link)
{
	for (uint32_t i = 0; i < link->n_clients; i++)
		if (client_gone(link->clients[i]))
			return true;
	return gateway_is_stopping(link->clients[0]);
}

void gateway_lost_link(struct gateway *gateway, const struct link *link)
{
	struct link *last = NULL;

	(void)pthread_mutex_lock(&gateway->lock);
	if (gateway->link == link) {
		last = unuse_link(gateway->link);
		gateway->link = NULL;
		if (gateway->functions && !--gateway->functions->users)
			free(gateway->functions);
		gateway->functions = NULL;
		announce(gateway);
	}
	(void)pthread_mutex_unlock(&gateway->lock);
	close_link(last);
}

/* ------------------------------------------------------------------------------ functions */

struct functions *gateway_wait_functions(struct gateway *gateway, uint32_t *ret_epoch)
{
	struct functions *functions = NULL;

	(void)pthread_mutex_lock(&gateway->lock);
	while (!gateway->stopping && (!gateway->functions || !gateway->functions->n_tasks))
		(void)pthread_cond_wait(&gateway->changed, &gateway->lock);
	if (!gateway->stopping) {
		functions = gateway->functions;
		functions->users++;
		*ret_epoch = load_relaxed(&gateway->epoch);
	}
	(void)pthread_mutex_unlock(&gateway->lock);
	return functions;
}

void gateway_put_functions(struct gateway *gateway, struct functions *functions)
{
	bool last;

	(void)pthread_mutex_lock(&gateway->lock);
	last = !--functions->users;
	(void)pthread_mutex_unlock(&gateway->lock);
	if (last)
		free(functions);
}

/* Replaces the functions by new ones, whose first reference it takes, and the link with link, if
 * that is not NULL. */
static void replace(struct gateway *gateway, struct functions *functions, struct link *link)
{
	struct functions *old;

	functions->users = 1;
	(void)pthread_mutex_lock(&gateway->lock);
	if (link)
		gateway->link = link;
	old = gateway->functions;
	/* Another thread may have lost the link. */
	gateway->functions = gateway->link ? functions : NULL;
	if (!gateway->link)
		old = functions;
	if (old && --old->users)
		old = NULL;
	announce(gateway);
	(void)pthread_mutex_unlock(&gateway->lock);
	free(old);
}

/* ------------------------------------------------------------------------------ main thread */

/* Opens the connections of a link. */
static int open_link(struct link *link, const struct gateway_options *o)
{
	/* The first connection tells how many workers there are: until then, at most one for each
	 * CPU. */
	uint32_t n = o->jobs ? o->jobs : 2 * (uint32_t)get_nprocs_conf();
	const struct fk_open_options options = { .n_jobs = n > 256 ? n : 0 };

	while (link->n_clients < o->n_servers) {
		fk_client **client = &link->clients[link->n_clients];
		int err = fk_open(o->socket, &options, client);

		/* More than jobs-max of forkd.conf: jobs wait for each other's records. */
		if (err == -E2BIG)
			err = fk_open(o->socket, NULL, client);
		if (err)
			return err;
		link->n_clients++;
	}
	return 0;
}

int gateway_connect(struct gateway *gateway)
{
	struct functions *functions = NULL;
	struct link *link = calloc(1, sizeof(*link));
	int err = link ? open_link(link, gateway->options) : -ENOMEM;

	if (!err && !(functions = functions_read(link->clients[0])))
		err = -ENOMEM;
	if (err) {
		close_link(link);
		return err;
	}
	link->users = 1;
	replace(gateway, functions, link);
	return 0;
}

bool gateway_refresh(struct gateway *gateway)
{
	struct link *link = gateway_link(gateway);
	struct functions *functions = NULL;
	uint64_t mark;

	if (!link)
		return false;
	if (gateway_is_lost(link)) {
		gateway_lost_link(gateway, link);
		gateway_put_link(gateway, link);
		return false;
	}
	mark = functions_mark(link->clients[0]);
	(void)pthread_mutex_lock(&gateway->lock);
	if (gateway->functions && gateway->functions->mark == mark)
		mark = 0;
	(void)pthread_mutex_unlock(&gateway->lock);
	if (mark)
		functions = functions_read(link->clients[0]);
	if (functions) {
		log_info("forkd: %u tasks of %u modules", functions->n_tasks, functions->n_modules);
		replace(gateway, functions, NULL);
	}
	gateway_put_link(gateway, link);
	return true;
}

void gateway_stop(struct gateway *gateway)
{
	(void)pthread_mutex_lock(&gateway->lock);
	gateway->stopping = true;
	announce(gateway);
	(void)pthread_mutex_unlock(&gateway->lock);
}

bool gateway_sleep(struct gateway *gateway, uint64_t ns)
{
	struct timespec until = clock_to_timespec(clock_ns() + ns);
	bool stopping;
	int err = 0;

	(void)pthread_mutex_lock(&gateway->lock);
	while (!err && !gateway->stopping)
		err = pthread_cond_timedwait(&gateway->changed, &gateway->lock, &until);
	stopping = gateway->stopping;
	(void)pthread_mutex_unlock(&gateway->lock);
	return stopping;
}

void gateway_settled(struct gateway *gateway)
{
	(void)pthread_mutex_lock(&gateway->lock);
	gateway->settled++;
	(void)pthread_cond_broadcast(&gateway->changed);
	(void)pthread_mutex_unlock(&gateway->lock);
}

void gateway_wait_settled(struct gateway *gateway, uint32_t n, uint64_t ns)
{
	struct timespec until = clock_to_timespec(clock_ns() + ns);
	int err = 0;

	(void)pthread_mutex_lock(&gateway->lock);
	while (!err && gateway->settled < n)
		err = pthread_cond_timedwait(&gateway->changed, &gateway->lock, &until);
	(void)pthread_mutex_unlock(&gateway->lock);
}

void gateway_fini(struct gateway *gateway)
{
	if (gateway->functions)
		gateway_put_functions(gateway, gateway->functions);
	gateway_put_link(gateway, gateway->link);
	(void)pthread_cond_destroy(&gateway->changed);
	(void)pthread_mutex_destroy(&gateway->lock);
}
