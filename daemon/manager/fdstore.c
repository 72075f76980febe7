/* SPDX-License-Identifier: MIT */
/*
 * fdstore.c - descriptors that the service manager keeps for the next forkd
 *
 * The protocol of sd_notify(3): one datagram puts descriptors into the store under a name
 * (FDSTORE=1, FDNAME=); another removes all of a name (FDSTOREREMOVE=1). The next forkd, after a
 * crash or a restart, finds them from SD_LISTEN_FDS_START on, and their names in one string.
 * sd_pid_notify_with_fds() is not used: it blocks while the service manager does not read, for
 * example while that reloads its units, and this thread waits only in its loop.
 *
 * 	absent --put()--> queued --sent--> stored --remove()--> queued --sent--> absent
 * 	                      |                                                    ^
 * 	                      +-------------------- remove() ---------------------+
 *
 * INVARIANTS
 *     I1. Messages are sent in the order of the calls. If the socket is full they are queued here
 *         with duplicated descriptors. A put that is removed before it was sent is never sent, so
 *         at most max descriptors are queued. If a put cannot be sent for another reason, or cannot
 *         be queued, fdstore_put() fails. A removal that cannot be queued is sent with the next
 *         message; if it cannot be sent, fdstore_drop_rest() of the next forkd removes the rest.
 *     I2. The service manager sends no answers, and discards descriptors beyond its limit. So n is
 *         counted, and puts never exceed max. FDSTORE_OWN places are reserved, so that a new pool
 *         finds its own. If max has become smaller, clients are dropped until the rest fits.
 *     I3. A message that was sent is handled before our death is: systemd gives the notification
 *         socket the higher priority for this reason, and a datagram stays in its queue when we
 *         die. So only the end waits for a barrier (I5).
 *     I4. Only fdstore_remove() removes descriptors from the store: FDPOLL=0. Without it systemd
 *         polls them, and drops one that hangs up.
 *     I5. Clients' sockets may contain messages that take forever to close (socket_close.c). The
 *         service manager must never be the last process that has such a socket. While forkd lives
 *         it is not, because forkd closes its own only when they are empty. At its end forkd waits
 *         until the store is empty.
 *
 *   If the service manager dies, its next process has the same socket and the messages in it.
 *   Without the socket fdstore_put() fails.
 */
#include "daemon/manager/fdstore.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/list.h"
#include "common/log.h"
#include "common/number.h"
#include "common/util.h"
#include "daemon/manager/sd_notify.h"
#include "daemon/manager/socket_close.h"

#define FDSTORE_AGAIN_NS (2 * NSEC_PER_MSEC) /* between two tries if the kernel lacks memory */
#define FDSTORE_MAX	 1000000u	     /* limit of $FDSTORE */
#define FDSTORE_LEAST	 (FDSTORE_OWN + FDSTORE_PER_NAME + 1) /* one client and its rings */
#define FDSTORE_END_NS	 (2 * NSEC_PER_SEC) /* time for the service manager to read the rest */

struct fdstore_item {
	struct list_link link; /* in the list of all */
	struct list_link queued;
	char name[FDSTORE_NAME];
	uint32_t n;		   /* descriptors */
	int fds[FDSTORE_PER_NAME]; /* until they are sent */
	bool puts;		   /* it is to be put */
	bool leaves;		   /* it is to be removed */
	struct fdstore_put *put;   /* its owner waits for it, or NULL */
};

/* ------------------------------------------------------------------------ messages */

/* Why a message cannot be sent now. */
enum fdstore_unsent {
	FDSTORE_FULL = 1, /* the socket is full until the service manager reads */
	FDSTORE_SHORT,	  /* the kernel lacks memory, or too many descriptors are in flight */
};

/* Messages; the name is appended. */
#define FDSTORE_PUT    "FDSTORE=1\nFDPOLL=0\nFDNAME="
#define FDSTORE_REMOVE "FDSTOREREMOVE=1\nFDNAME="

/* Returns 0, an enum fdstore_unsent, or a negative errno. */
static int fdstore_send(const struct store *store, const char *text, const char *name,
			const int *fds, uint32_t n)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDSTORE_PER_NAME * sizeof(int))];
	} control = { 0 };
	struct iovec iov[] = {
		{ .iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) },
		{ .iov_base = (void *)(uintptr_t)name, .iov_len = strlen(name) },
	};
	struct msghdr header = { .msg_iov = iov, .msg_iovlen = ARRAY_SIZE(iov) };

	if (n) {
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, n * sizeof(int));
		header.msg_control = &control;
		header.msg_controllen = CMSG_SPACE(n * sizeof(int));
	}
	while (sendmsg(store->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		switch (errno) {
		case EINTR:
			break;
		case EAGAIN:
			return FDSTORE_FULL;
		case ENOBUFS:
		case ENOMEM:
		case ETOOMANYREFS:
			return FDSTORE_SHORT;
		default:
			return -errno;
		}
	}
	return 0;
}

/* ------------------------------------------------------------------------ the queue */

static void fdstore_close_fds(struct fdstore_item *item)
{
	/* Inherited items have no descriptors here, whatever n is. */
	for (uint32_t i = 0; i < FDSTORE_PER_NAME; i++)
		item->fds[i] = safe_close(item->fds[i]);
}

static void fdstore_item_free(struct fdstore_item *item)
{
	list_remove(&item->link);
	free(item);
}

/* Returns 0: fdstore_on_outgoing() follows; or a negative errno. */
static int fdstore_wait(struct store *store, enum fdstore_unsent why)
{
	if (store->outgoing.op)
		return 0;
	if (why == FDSTORE_FULL &&
	    loop_poll(store->loop, &store->outgoing, store->fd, POLLOUT) == 0)
		return 0;
	return loop_timer(store->loop, &store->outgoing, FDSTORE_AGAIN_NS);
}

/* An item of the queue was sent, or cannot be. */
static void fdstore_done(struct store *store, struct fdstore_item *item, int r)
{
	struct fdstore_put *waits = item->put;

	list_remove(&item->queued);
	fdstore_close_fds(item);
	item->put = NULL;
	item->puts = false;
	if (r < 0 && !item->leaves)
		store->n -= item->n;
	if (r < 0 || item->leaves)
		fdstore_item_free(item);
	if (waits) {
		waits->item = NULL;
		waits->call(waits, r);
	}
}

/* Sends the first item of the queue. Returns 0: done; or an enum fdstore_unsent. */
static int fdstore_push(struct store *store)
{
	struct fdstore_item *item = list_first(&store->queue, struct fdstore_item, queued);
	int r = item->leaves ? fdstore_send(store, FDSTORE_REMOVE, item->name, NULL, 0)
			     : fdstore_send(store, FDSTORE_PUT, item->name, item->fds, item->n);

	if (r > 0)
		return r;
	fdstore_done(store, item, r);
	return 0;
}

/* Returns the first put in the queue. */
static struct fdstore_item *fdstore_first_put(const struct store *store)
{
	struct fdstore_item *item;

	list_for_each (item, &store->queue, queued)
		if (item->puts)
			break;
	return item;
}

/* Neither loop nor timer can call back: fails each waiting put. Removals wait for the next message
 * (I1). */
static void fdstore_give_up(struct store *store, int r)
{
	struct fdstore_item *item;

	/* A notified owner may have changed the queue. */
	while ((item = fdstore_first_put(store)))
		fdstore_done(store, item, r);
}

static void fdstore_on_outgoing(struct loop_source *source, int result)
{
	struct store *store = container_of(source, struct store, outgoing);

	(void)result;
	while (!list_is_empty(&store->queue)) {
		int r = fdstore_push(store);

		if (r == 0)
			continue;
		r = fdstore_wait(store, (enum fdstore_unsent)r);
		if (r < 0)
			fdstore_give_up(store, r);
		return;
	}
}

/* ------------------------------------------------------------------------ putting, removing */

/* Returns the item of a name that is stored, or will be. */
static struct fdstore_item *fdstore_find(const struct store *store, const char *name)
{
	struct fdstore_item *item;

	list_for_each (item, &store->items, link)
		if (!item->leaves && streq(item->name, name))
			break;
	return item;
}

static struct fdstore_item *fdstore_item_new(struct store *store, const char *name, uint32_t n)
{
	struct fdstore_item *item = calloc(1, sizeof(*item));

	if (!item)
		return NULL;
	(void)snprintf(item->name, sizeof(item->name), "%s", name);
	item->n = n;
	for (uint32_t i = 0; i < FDSTORE_PER_NAME; i++)
		item->fds[i] = -1;
	list_add_first(&store->items, &item->link);
	store->n += n;
	return item;
}

/* The service manager does not read now: queues the put. Returns 1, or a negative errno. */
static int fdstore_put_later(struct store *store, struct fdstore_item *item,
			     struct fdstore_put *put, const int *fds)
{
	for (uint32_t i = 0; i < item->n; i++) {
		item->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
		if (item->fds[i] < 0) {
			int r = -errno;

			fdstore_close_fds(item);
			return r;
		}
	}
	item->puts = true;
	item->put = put;
	put->item = item;
	list_add(&store->queue, &item->queued);
	return 1;
}

static bool fdstore_is_own(const char *name)
{
	return !isdigit((unsigned char)name[strlen(name) - 1]);
}

/* Returns the number of FDSTORE_OWN places that are free. */
static uint32_t fdstore_kept_free(const struct store *store)
{
	const struct fdstore_item *item;
	uint32_t n = 0;

	list_for_each (item, &store->items, link)
		if (!item->leaves && fdstore_is_own(item->name))
			n += item->n;
	return FDSTORE_OWN - min(n, FDSTORE_OWN);
}

static bool fdstore_has_room(const struct store *store, const char *name, uint32_t n)
{
	uint32_t kept = fdstore_is_own(name) ? 0 : fdstore_kept_free(store);

	return (uint64_t)store->n + n + kept <= store->max;
}

int fdstore_put(struct store *store, struct fdstore_put *put, const char *name, const int *fds,
		uint32_t n)
{
	struct fdstore_item *item;
	int r = FDSTORE_FULL;

	assert(n <= FDSTORE_PER_NAME);
	if (!fdstore_is_there(store))
		return 0;
	if (!fdstore_has_room(store, name, n))
		return -ENOSPC;
	item = fdstore_item_new(store, name, n);
	if (!item)
		return -ENOMEM;
	if (list_is_empty(&store->queue))
		r = fdstore_send(store, FDSTORE_PUT, name, fds, n);
	if (r > 0) {
		r = fdstore_wait(store, (enum fdstore_unsent)r);
		if (r == 0)
			r = fdstore_put_later(store, item, put, fds);
	}
	if (r < 0) {
		store->n -= item->n;
		fdstore_item_free(item);
	}
	return r;
}

void fdstore_forget(struct fdstore_put *put)
{
	if (put->item)
		put->item->put = NULL;
	put->item = NULL;
}

static void fdstore_remove_item(struct store *store, struct fdstore_item *item)
{
	int r = FDSTORE_FULL;

	store->n -= item->n;
	if (item->puts) {
		if (item->put)
			fdstore_forget(item->put);
		list_remove(&item->queued);
		fdstore_close_fds(item);
		fdstore_item_free(item);
		return;
	}
	item->leaves = true;
	if (list_is_empty(&store->queue))
		r = fdstore_send(store, FDSTORE_REMOVE, item->name, NULL, 0);
	if (r <= 0) {
		fdstore_item_free(item);
		return;
	}
	list_add(&store->queue, &item->queued);
	(void)fdstore_wait(store, (enum fdstore_unsent)r);
}

void fdstore_remove(struct store *store, const char *name)
{
	struct fdstore_item *item = store->fd >= 0 ? fdstore_find(store, name) : NULL;

	if (item)
		fdstore_remove_item(store, item);
}

void fdstore_empty(struct store *store)
{
	struct fdstore_item *item;

	list_for_each (item, &store->items, link) {
		store->emptied = true;
		if (!item->leaves)
			fdstore_remove_item(store, item);
	}
}

bool fdstore_has(const struct store *store, const char *name)
{
	return fdstore_find(store, name) != NULL;
}

void fdstore_name(char ret_name[FDSTORE_NAME], enum fdstore_letter letter, uint32_t slot)
{
	(void)snprintf(ret_name, FDSTORE_NAME, "%c%u", letter, slot % 1000000u);
}

/* ------------------------------------------------------------------------ inherited descriptors */

static enum fdstore_kind fdstore_kind_of(int fd)
{
	int listens = 0;
	socklen_t size = sizeof(listens);

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0)
		return listens ? FDSTORE_LISTENER : FDSTORE_SOCKET;
	if (fcntl(fd, F_GET_SEALS) >= 0)
		return FDSTORE_MEMFD;
	/* For anything else than a pidfd it returns EBADF, before other errors. */
	if (pidfd_send_signal(fd, 0, NULL, 0) == 0 || errno != EBADF)
		return FDSTORE_PIDFD;
	return FDSTORE_OTHER;
}

/* "board", "c12": a letter, and nothing that occurs in the name of a unit. */
static bool fdstore_is_ours(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < n; i++)
		if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]))
			return false;
	return n > 0 && n < FDSTORE_NAME;
}

/* By name, then the oldest first: there may be thousands of them. */
static int fdstore_compare(const void *left, const void *right)
{
	const struct fdstore_inherited *a = left, *b = right;
	int order = strcmp(a->name, b->name);

	return order ? order : (a->fd > b->fd) - (a->fd < b->fd);
}

static int fdstore_inherit(struct store *store)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names);

	if (n > 0)
		store->inherited = calloc((size_t)n, sizeof(*store->inherited));
	for (int i = 0; i < n && store->inherited; i++) {
		struct fdstore_inherited *in = &store->inherited[store->n_inherited++];

		in->fd = SD_LISTEN_FDS_START + i;
		in->kind = fdstore_kind_of(in->fd);
		/* systemd calls a descriptor without a name "unknown". */
		if (in->kind != FDSTORE_LISTENER && fdstore_is_ours(names[i]) &&
		    !streq(names[i], "unknown"))
			(void)snprintf(in->name, sizeof(in->name), "%s", names[i]);
	}
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	if (n > 0 && !store->inherited)
		return -ENOMEM;
	if (store->n_inherited)
		qsort(store->inherited, store->n_inherited, sizeof(*store->inherited),
		      fdstore_compare);
	return min(n, 0);
}

/* Returns the index of the first descriptor of a name. */
static uint32_t fdstore_first(const struct store *store, const char *name)
{
	uint32_t first = 0, end = store->n_inherited;

	while (first < end) {
		uint32_t half = (first + end) / 2;

		if (strcmp(store->inherited[half].name, name) < 0)
			first = half + 1;
		else
			end = half;
	}
	return first;
}

static bool fdstore_is_called(const struct store *store, uint32_t i, const char *name)
{
	return i < store->n_inherited && streq(store->inherited[i].name, name);
}

/* Inherited descriptors are in the store: counts them. */
static int fdstore_count_inherited(struct store *store)
{
	for (uint32_t i = 0; i < store->n_inherited; i++) {
		const char *name = store->inherited[i].name;
		struct fdstore_item *item = list_first(&store->items, struct fdstore_item, link);

		if (!name[0])
			continue;
		if (!item || !streq(item->name, name))
			item = fdstore_item_new(store, name, 0);
		if (!item)
			return -ENOMEM;
		item->n++;
		store->n++;
	}
	return 0;
}

int fdstore_take(struct store *store, const char *name, enum fdstore_kind kind)
{
	if (!fdstore_is_there(store))
		return -1;
	for (uint32_t i = fdstore_first(store, name); fdstore_is_called(store, i, name); i++) {
		struct fdstore_inherited *in = &store->inherited[i];

		if (in->fd >= 0 && !in->gone && in->kind == kind)
			return steal_fd(&in->fd);
	}
	return -1;
}

int fdstore_take_socket(struct store *store, uint32_t *ret_n)
{
	uint32_t n = 0;
	int fd = -1;

	for (uint32_t i = 0; i < store->n_inherited; i++) {
		struct fdstore_inherited *in = &store->inherited[i];

		if (in->fd < 0 || in->name[0])
			continue;
		if (n++ == 0)
			fd = steal_fd(&in->fd);
	}
	*ret_n = n;
	return fd;
}

static bool fdstore_was_taken(const struct store *store, const char *name)
{
	for (uint32_t i = fdstore_first(store, name); fdstore_is_called(store, i, name); i++)
		if (store->inherited[i].fd < 0)
			return true;
	return false;
}

void fdstore_drop_rest(struct store *store, struct socket_closer *closer)
{
	for (uint32_t i = 0; i < store->n_inherited; i++)
		if (store->inherited[i].name[0] &&
		    !fdstore_was_taken(store, store->inherited[i].name))
			fdstore_remove(store, store->inherited[i].name);
	for (uint32_t i = 0; i < store->n_inherited; i++) {
		struct fdstore_inherited *in = &store->inherited[i];

		in->fd = in->kind == FDSTORE_SOCKET ? socket_close(closer, in->fd)
						    : safe_close(in->fd);
	}
	free(store->inherited);
	store->inherited = NULL;
	store->n_inherited = 0;
}

/* ------------------------------------------------------------------------ begin, end */

/* Drops the descriptors of one name that begins with this letter: fdstore_take() does not find them
 * again, and fdstore_drop_rest() closes them. False if there is none. */
static bool fdstore_let_go(struct store *store, enum fdstore_letter letter)
{
	const char *name = NULL;

	for (uint32_t i = 0; i < store->n_inherited; i++) {
		struct fdstore_inherited *in = &store->inherited[i];

		if (!name && !in->gone && in->name[0] == (char)letter && !fdstore_is_own(in->name))
			name = in->name;
		if (name && streq(in->name, name))
			in->gone = true;
	}
	if (name)
		fdstore_remove(store, name);
	return name;
}

/* The limit may be less than the number in the store (I2), or too small for any client. */
static void fdstore_fit(struct store *store)
{
	uint32_t before = store->n, n = 0;

	if (store->max < FDSTORE_LEAST) {
		log_warning("FileDescriptorStoreMax= of forkd's unit is %u, and %u are the least "
			    "that keep clients over a restart of forkd: nothing is kept",
			    store->max, FDSTORE_LEAST);
		store->max = 0;
		return;
	}
	while (!fdstore_has_room(store, "c0", 0) && fdstore_let_go(store, FDSTORE_CLIENT))
		n++;
	/* The clients of these imports and tenants have gone now. */
	while (!fdstore_has_room(store, "c0", 0) && fdstore_let_go(store, FDSTORE_IMPORT))
		;
	while (!fdstore_has_room(store, "c0", 0) && fdstore_let_go(store, FDSTORE_TENANT))
		;
	if (n)
		log_warning(
			"FDSTORE= of forkd's unit is %u, and %u descriptors were kept: %u clients "
			"of the last forkd are disconnected: raise FileDescriptorStoreMax=",
			store->max, before, n);
}

int fdstore_init(struct store *store, struct loop *loop)
{
	const char *size = getenv("FDSTORE"), *rest;
	uint64_t max = 0;
	int r;

	*store = FDSTORE_INIT;
	store->loop = loop;
	store->outgoing.call = fdstore_on_outgoing;
	if (size && number_parse(size, 10, &max, &rest) == 0 && !*rest && max > 0) {
		store->max = (uint32_t)min(max, (uint64_t)FDSTORE_MAX);
		store->fd = max(notify_connect(), -1);
	}
	r = fdstore_inherit(store);
	if (r == 0 && fdstore_is_there(store))
		r = fdstore_count_inherited(store);
	if (r == 0 && fdstore_is_there(store))
		fdstore_fit(store);
	return r;
}

/* Waits until end for these events or a hangup. True: they occurred. */
static bool fdstore_wait_until(int fd, short events, uint64_t end)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now = clock_ns();

	return now < end && poll(&p, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) > 0;
}

/* Waits until a failed send can be tried again. */
static bool fdstore_wait_to_send(const struct store *store, int r, uint64_t end)
{
	static const struct timespec pause = { .tv_nsec = FDSTORE_AGAIN_NS };

	if (r == FDSTORE_FULL)
		return fdstore_wait_until(store->fd, POLLOUT, end);
	(void)nanosleep(&pause, NULL);
	return clock_ns() < end;
}

/* Waits until all messages have been handled, including closed descriptors (I5). */
static void fdstore_barrier(struct store *store, uint64_t end)
{
	_cleanup_close_ int theirs = -1;
	_cleanup_close_ int ours = -1;
	int pair[2], r;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return;
	ours = pair[0];
	theirs = pair[1];
	do {
		r = fdstore_send(store, "BARRIER=1", "", &theirs, 1);
	} while (r > 0 && fdstore_wait_to_send(store, r, end));
	theirs = safe_close(theirs);
	if (r == 0)
		(void)fdstore_wait_until(ours, 0, end);
}

void fdstore_fini(struct store *store)
{
	uint64_t end = clock_ns() + FDSTORE_END_NS;
	struct fdstore_item *item;
	int r = 0;

	loop_forget(store->loop, &store->outgoing);
	while (!list_is_empty(&store->queue) && (r == 0 || fdstore_wait_to_send(store, r, end)))
		r = fdstore_push(store);
	if (store->emptied)
		fdstore_barrier(store, end);
	list_for_each (item, &store->items, link) {
		fdstore_close_fds(item);
		fdstore_item_free(item);
	}
	/* Sockets stay open until the end of the process (socket_close.c, I3). */
	for (uint32_t i = 0; i < store->n_inherited; i++)
		if (store->inherited[i].kind != FDSTORE_SOCKET)
			(void)safe_close(store->inherited[i].fd);
	free(store->inherited);
	store->fd = safe_close(store->fd);
	*store = FDSTORE_INIT;
}
